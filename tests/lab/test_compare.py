"""Recipes and variants side by side: trained once, scored once, and each told apart from the first."""

from __future__ import annotations

import csv
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from heedful.cli.main import commands
from heedful.config.setting_layers import resolve
from heedful.data.shards import open_shards
from heedful.errors import ConfigError, DataError
from heedful.lab.compare import compared_runs as compare
from heedful.lab.compare.compared_runs import ComparedRun, CompareRequest, compared_runs
from heedful.lab.compare.comparison_report import comparison_text, sections, write_comparison
from heedful.lab.compare.variants import Variant, variants_of
from heedful.lab.flops import flop_counter, training_flops
from heedful.model.checkpoint import load_config
from heedful.score.card import load_card
from heedful.train.loop import CheckpointRecord

RECIPE = """
preset = "tiny"

[data]
source_language = "en"
target_language = "de"
max_length = 20

[tokenizer]
vocab_size = 304

[model]
d_model = 16
d_ff = 32
num_layers = 1
num_heads = 2

[train]
steps = 8
batch_tokens = 128
validate_steps = 4
checkpoint_steps = 2

[decode]
beam_size = 2
max_extra = 5
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nonsense words, the same in the other order, and what a test set needs."""
    folder, draw = tmp_path_factory.mktemp("nonsense"), random.Random(1)
    words = [a + b for a in "bdgklm" for b in "aeio"]
    lines = [[draw.choice(words) for _ in range(draw.randint(1, 7))] for _ in range(220)]
    for name, part in {"train": lines[:200], "valid": lines[200:210], "test": lines[210:]}.items():
        (folder / f"{name}.en").write_text("".join(f"{' '.join(line)}\n" for line in part), encoding="utf-8")
        (folder / f"{name}.de").write_text("".join(f"{' '.join(line[::-1])}\n" for line in part), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipes") / "mine.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def request_of(recipe: Path, data: Path, output: Path, *, seeds: tuple[int, ...] = (1, 2)) -> CompareRequest:
    return CompareRequest(variants_of([recipe], ["model.num_heads=1"]), data, seeds, output, "cpu", "valid", ["test"])


def run(request: CompareRequest, *, stop_after: int = 10**9) -> tuple[list[ComparedRun], list[str]]:
    said, checkpoints = list[str](), list[object]()

    def hear(_: object, record: object) -> None:
        checkpoints.extend([record] if isinstance(record, CheckpointRecord) else [])

    runs = compared_runs(request, say=said.append, on_record=hear, stop=lambda: len(checkpoints) >= stop_after)
    return runs, said


@pytest.fixture(scope="module")
def done(
    recipe: Path, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[CompareRequest, list[ComparedRun]]:
    request = request_of(recipe, data, tmp_path_factory.mktemp("runs"))
    return request, run(request)[0]


@pytest.mark.slow
def test_each_variant_is_trained_with_each_seed_and_scored_on_the_named_set(
    done: tuple[CompareRequest, list[ComparedRun]],
) -> None:
    request, runs = done
    assert [(run.variant, run.seed) for run in runs] == [
        ("mine", 1),
        ("mine", 2),
        ("mine+num_heads=1", 1),
        ("mine+num_heads=1", 2),
    ]
    for run in runs:
        card = load_card(request.output / f"{run.variant}-{run.seed}")
        assert [each.name for each in card.evaluations] == ["test.de"]
        assert card.config["train"]["seed"] == run.seed
        assert card.config["model"]["num_heads"] == (1 if "+" in run.variant else 2)
        assert [point.step for point in run.curve] == [4, 8]


@pytest.mark.slow
def test_finished_runs_and_their_scores_are_used_again(
    done: tuple[CompareRequest, list[ComparedRun]], monkeypatch: pytest.MonkeyPatch
) -> None:
    request, runs = done
    monkeypatch.setattr(compare, "evaluate_models", lambda *_, **__: pytest.fail("it is scored already"))
    again, said = run(request)
    assert again == runs
    assert sum("going on from step 8" in line for line in said) == 4


@pytest.mark.slow
def test_the_report_has_differences_over_seeds_and_within_a_seed_and_curves(
    done: tuple[CompareRequest, list[ComparedRun]], tmp_path: Path
) -> None:
    _, runs = done
    report = write_comparison(tmp_path, runs).read_text(encoding="utf-8")
    assert re.search(r"\| mine\+num_heads=1 \| .* \(n = 2: too few for a test\) \|", report)
    within = next(section for section in sections(runs) if section.title == "Within a seed")
    assert [row[:3] for row in within.rows[1:]] == [["test.de", "mine+num_heads=1", seed] for seed in ("1", "2")]
    assert "| model.num_heads | 2 | 1 |" in report
    for name in ("perplexity", "bleu"):
        assert f"({name}.svg)" in report
        assert (tmp_path / f"{name}.svg").read_text(encoding="utf-8").count("mine+num_heads=1") > 1
    rows = list(csv.DictReader((tmp_path / "comparison.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["variant"], row["seed"]) for row in rows] == [(run.variant, str(run.seed)) for run in runs]
    assert float(rows[0]["BLEU test.de"]) == runs[0].card.evaluations[0].report.bleu.value
    assert "Within a seed" in comparison_text(runs)


@pytest.mark.slow
def test_perplexities_of_other_pieces_are_not_compared(done: tuple[CompareRequest, list[ComparedRun]]) -> None:
    def deltas(runs: list[ComparedRun]) -> list[str]:
        (summary,) = (section.rows for section in sections(runs) if section.title == "Validation and cost")
        return [row[summary[0].index("Δ, %")] for row in summary[1:]]

    _, runs = done
    assert "not comparable" not in " ".join(deltas(runs))
    others = [replace(run, vocabulary="other") if "+" in run.variant else run for run in runs]
    assert deltas(others) == ["", "other pieces: not comparable"]


@pytest.mark.slow
def test_a_stopped_comparison_goes_on(recipe: Path, data: Path, tmp_path: Path) -> None:
    request = request_of(recipe, data, tmp_path, seeds=(1,))
    runs, _ = run(request, stop_after=5)
    assert [run.variant for run in runs] == ["mine"]
    runs, said = run(request)
    assert len(runs) == 2
    assert any(re.search(r"going on from step [2-7]", line) for line in said)


@pytest.mark.slow
def test_operations_are_those_of_the_products_three_times_over(
    done: tuple[CompareRequest, list[ComparedRun]],
) -> None:
    """By hand: each matrix once for a token of its side. QKᵀ and the weighted sum add little in short sentences."""
    request, runs = done
    folder = request.output / "mine-1"
    config, shards = load_config(folder / "config.toml"), open_shards(folder / "data/train")
    source, target = (int(side.lengths[:64].sum()) for side in (shards.source, shards.target))
    d, f, vocab_size = 16, 32, runs[0].card.vocab_size
    feed_forward, attention = 2 * d * f, 4 * d * d
    encoder, decoder = source * (attention + feed_forward), target * (attention + 2 * d * d + feed_forward)
    by_hand = encoder + decoder + source * 2 * d * d + target * d * vocab_size
    counted = training_flops(folder, config, target) / (2 * 3)
    assert by_hand < counted < 1.2 * by_hand


def test_the_product_of_additive_attention_with_its_vector_is_counted() -> None:
    hidden_NLMD, v_D = torch.randn(2, 3, 4, 5), torch.randn(5)
    with flop_counter() as counter:
        hidden_NLMD.tanh() @ v_D
    assert counter.get_total_flops() == 2 * 2 * 3 * 4 * 5


# ------------------------------------------------------------------------------------------------------------ variants


def test_a_variant_is_named_by_what_it_changes() -> None:
    mine, other = Path("mine.toml"), Path("folder/other.toml")
    variants = variants_of([mine, other], ["model.num_heads=1", "model.d_k=8  train.label_smoothing=0.0"])
    assert [(each.name, each.recipe) for each in variants] == [
        ("mine", mine),
        ("other", other),
        ("mine+num_heads=1", mine),
        ("mine+d_k=8+label_smoothing=0.0", mine),
    ]
    assert variants[-1].changes == {"model": {"d_k": 8}, "train": {"label_smoothing": 0.0}}


def test_a_path_in_a_setting_makes_no_folder() -> None:
    (_, variant) = variants_of([Path("mine.toml")], ["tokenizer.model=runs/a b/tokenizer.model"])
    assert variant.name == "mine+model=runs_a_b_tokenizer.model"
    assert variant.changes == {"tokenizer": {"model": "runs/a b/tokenizer.model"}}


def test_two_recipes_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"b/mine\.toml: is called mine, as a/mine\.toml is"):
        variants_of([Path("a/mine.toml"), Path("b/mine.toml")], [])


def test_languages_come_from_the_recipe_or_from_the_names_of_its_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[data]\nsource = ["corpus/train.ko"]\ntarget = ["corpus/train.en"]\n')
    assert Variant("mine", path, {}).languages(tmp_path) == ("ko", "en")
    path.write_text('[data]\nsource_language = "fr"\ntarget_language = "de"\n')
    assert Variant("mine", path, {}).languages(tmp_path) == ("fr", "de")
    path.write_text("")
    (tmp_path / "train.en").touch()
    with pytest.raises(ConfigError, match=r"names no languages, and .* has training text in en; set data\.source_lang"):
        Variant("mine", path, {}).languages(tmp_path)


def test_a_variant_has_the_settings_of_its_recipe_and_its_own(recipe: Path) -> None:
    _, variant = variants_of([recipe], ["model.d_ff=48"])
    assert (
        resolve({"model": {"d_ff": 48}}, {"model": {"d_model": 16, "num_layers": 1, "num_heads": 2}}).model
        == variant.config.model
    )


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("words", "kind", "problem"),
    [
        (["--set", "model.num_hedas=1"], ConfigError, "there is no setting model.num_hedas; did you mean"),
        (["--set", "num_heads=1"], ConfigError, "--set 'num_heads=1' is not of the form section.field=value"),
        (["--test", "tset"], DataError, "tset.en: is not there, nor as .xz or .gz"),
        (["--test", "uneven"], DataError, "has 1 line but"),
        (["--test", "blank"], DataError, "holds no text to translate"),
        (["--valid", "vaild"], DataError, "vaild.en: is not there"),
        (["--seeds", "1", "4294967296"], SystemExit, "is not in the range"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_trained(
    words: list[str],
    kind: type[BaseException],
    problem: str,
    recipe: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compare, "carry_out", lambda *_, **__: pytest.fail("nothing is to be trained"))
    for name, (source, target) in {"uneven": ("a\n", "a\nb\n"), "blank": ("\n", "\n")}.items():
        (data / f"{name}.en").write_text(source, encoding="utf-8")
        (data / f"{name}.de").write_text(target, encoding="utf-8")
    done = CliRunner().invoke(
        commands, ["compare", str(recipe), "--data", str(data), "-o", str(tmp_path), "--device", "cpu", *words]
    )
    assert isinstance(done.exception, kind)
    assert problem in (done.output if kind is SystemExit else str(done.exception))
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_pronouns_are_scored_where_the_folder_has_them(recipe: Path, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "with pronouns"
    folder.mkdir()
    for path in data.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "pronouns.tsv").write_text("ba de\n", encoding="utf-8")
    request = CompareRequest(variants_of([recipe], []), folder, (1,), tmp_path / "runs", "cpu", "valid", ["valid"])
    with pytest.raises(DataError, match=r"pronouns\.tsv:1: 1 field"):
        run(request)
    (folder / "pronouns.tsv").write_text("ba de\tde ba\tba de\n", encoding="utf-8")
    (found,), _ = run(request)
    assert found.card.evaluations[0].report.contrastive_accuracy in (0.0, 1.0)
