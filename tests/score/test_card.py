"""The reproduction card: what it says is so, it is written whole or not at all, and cards can be compared."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import math
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from heedful import __version__
from heedful.api import evaluate_saved, train
from heedful.cli.main import commands
from heedful.data.atomic import held_in_turn
from heedful.data.text_files import read_pairs, text_digest
from heedful.errors import CheckpointError, ConfigError, DataError, HeedfulError
from heedful.model import checkpoint
from heedful.model.checkpoint import FORMAT, find_model, load_model, weights_digest
from heedful.model.packed import pack_source, pack_target, shift_right
from heedful.score import model_evaluation, provenance
from heedful.score.card import Card, identify, load_card, text_file, write_card
from heedful.score.card_comparison import (
    Cell,
    Row,
    cell,
    rows_by_recipe,
    rows_of,
    side_by_side,
    to_builtins,
    told_apart,
)
from heedful.score.card_tables import to_markdown, to_text
from heedful.score.evaluation import evaluate, evaluate_files
from heedful.score.model_evaluation import contrast_cases, evaluate_models, evaluate_translator, keep_on_card
from heedful.score.new_card import new_card
from heedful.score.provenance import Machine
from heedful.score.report import Report
from heedful.score.run_history import (
    Base,
    RunPoint,
    Start,
    TrainingPart,
    begin,
    keep_base,
    read_base,
    read_starts,
    training_parts,
)
from heedful.train.run import start as start_of_run
from heedful.translate.translation import ScoredPair, Translator
from tests.small_models import TEXT, small_model

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "train.batch_tokens": 256,
    "train.checkpoint_steps": 2,
    "data.max_length": 120,
    "model.d_model": 16,
    "model.d_ff": 32,
    "model.num_layers": 1,
}


ONE_MACHINE = Machine(processor="one", cores=2, gpu="a GPU", num_gpus=8, torch="2", python="3")
OTHER_MACHINE = Machine(processor="other", cores=4, gpu="another GPU", num_gpus=2, torch="2", python="3")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    lines = [f"the cat number {n} sat on the mat" for n in range(200)]
    (folder / "train.en").write_text("\n".join(lines) + "\n")
    with gzip.open(folder / "train.de.gz", "wt") as file:
        file.write("\n".join(line.replace("the", "die") for line in lines) + "\n")
    (folder / "test.en").write_text("\n".join(TEXT[0::2]) + "\n")
    (folder / "test.de").write_text("\n".join(TEXT[1::2]) + "\n")
    (folder / "pronouns.tsv").write_text("it ran\tes lief\tsie lief\nit sat\tsie saß\tes saß\n")
    return folder


def trained(text: Path, run: Path, **more: Any) -> Path:
    settings = SETTINGS | {"train.steps": 4, "train.validate_steps": 4} | more
    train(
        text / "train.en",
        text / "train.de.gz",
        run,
        valid_source=text / "test.en",
        valid_target=text / "test.de",
        preset="tiny",
        device="cpu",
        settings=settings,
    )
    return run


@pytest.fixture(scope="module")
def run(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(text, tmp_path_factory.mktemp("runs") / "mine", **{"train.seed": 7})


def call(*arguments: object) -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


def evaluated(model: Path, text: Path, *more: object) -> Result:
    done = call("evaluate", "-m", model, "-s", text / "test.en", "-r", text / "test.de", "--device", "cpu", *more)
    assert done.exit_code == 0, done.output
    return done


# ---------------------------------------------------------------------------------------------------- after training


def test_a_card_counts_the_weights_that_lie_in_the_folder(tmp_path: Path) -> None:
    folder = small_model(tmp_path / "model")
    weights = load_file(folder / "model.safetensors") | {"embedding.positions.slope_D": torch.zeros(16)}
    save_file(weights, folder / "model.safetensors", metadata=FORMAT)
    assert new_card(find_model(folder)).parameters == sum(map(torch.numel, weights.values()))


def test_training_leaves_a_card_that_names_its_data_code_machine_and_settings(run: Path, text: Path) -> None:
    card = load_card(run)
    training = card.training
    assert training is not None
    assert (card.name, card.source_language, card.target_language) == ("mine", "en", "de")
    assert (training.seed, training.steps, training.averaged_steps) == (7, 4, (2, 4))
    assert (training.version, training.precision, training.gpu_hours) == (__version__, "fp32", None)
    assert training.machine.cores == os.cpu_count()
    assert training.tokens_per_second == pytest.approx(training.target_tokens / training.seconds)
    assert card.config["train"]["seed"] == 7
    assert card.config["data"]["source"] == ["train.en"], "a card says nothing of the folders of this machine"


def test_the_digest_of_weights_tells_numbers_names_and_shapes_apart_and_nothing_else(tmp_path: Path) -> None:
    row, column = torch.arange(4.0), torch.arange(4.0).reshape(2, 2)
    files = [
        {"a": row, "b": column},
        {"a": row, "b": column + 1},
        {"a": row, "c": column},
        {"a": row.reshape(2, 2), "b": column},
    ]
    digests = []
    for number, tensors in enumerate([*files, files[0]]):
        save_file(tensors, tmp_path / f"{number}", metadata={"number": str(number)})
        digests.append(weights_digest(tmp_path / f"{number}"))
    assert len(set(digests)) == 4
    assert digests[0] == digests[4]


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\xff" * 100, b"\x02" + b"\0" * 7 + b"[]"])
def test_a_file_that_holds_no_weights_has_no_digest(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="no safetensors file"):
        weights_digest(tmp_path / "model.safetensors")


def test_the_digests_of_the_data_are_those_of_the_uncompressed_text(run: Path, text: Path) -> None:
    training = load_card(run).training
    assert training is not None
    (source,), (target,) = training.training.source, training.training.target
    assert source.sha256 == hashlib.sha256((text / "train.en").read_bytes()).hexdigest()
    assert target.sha256 == hashlib.sha256(gzip.decompress((text / "train.de.gz").read_bytes())).hexdigest()
    assert (source.lines, target.lines, training.training.counts["kept"]) == (200, 200, 200)
    assert training.validation is not None
    assert [file.name for file in training.validation.source] == ["test.en"]


@pytest.mark.parametrize("content", [b"", b"a", b"a\n", b"a\nb", b"a\n\n"])
def test_lines_and_digest_do_not_depend_on_compression(content: bytes, tmp_path: Path) -> None:
    files = {"a.en": content, "a.en.gz": gzip.compress(content), "a.en.xz": lzma.compress(content)}
    found = set()
    for name, written in files.items():
        (tmp_path / name).write_bytes(written)
        found.add(text_digest(tmp_path / name))
    assert found == {(len(content.splitlines()), hashlib.sha256(content).hexdigest())}


def test_data_that_changed_since_is_not_vouched_for(text: Path, tmp_path: Path) -> None:
    for name in ("train.en", "train.de.gz", "test.en", "test.de"):
        (tmp_path / name).write_bytes((text / name).read_bytes())
    trained(tmp_path, tmp_path / "run")
    (tmp_path / "train.en").unlink()
    trained(tmp_path, tmp_path / "run", **{"train.steps": 6})
    training = load_card(tmp_path / "run").training
    assert training is not None
    assert training.steps == 6
    assert training.training.source[0].sha256 is None
    assert training.training.counts["kept"] == 200
    assert "no longer there" in (tmp_path / "run" / "model" / "card.md").read_text()


def test_the_recipe_gives_the_card_its_name(text: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "cats-en-de.toml"
    recipe.write_text('preset = "tiny"\n')
    settings = SETTINGS | {"train.steps": 1}
    train(text / "train.en", text / "train.de.gz", tmp_path / "run", recipe=recipe, device="cpu", settings=settings)
    assert load_card(tmp_path / "run").name == "cats-en-de"


def test_starting_a_finished_run_again_changes_nothing_that_its_card_says(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tmp_path / "cats-en-de.toml"
    recipe.write_text('preset = "tiny"\n')
    monkeypatch.setenv("HEEDFUL_COMMIT", "the-code")
    files, settings = (text / "train.en", text / "train.de.gz", tmp_path / "run"), SETTINGS | {"train.steps": 2}
    train(*files, recipe=recipe, device="cpu", settings=settings)
    before = (tmp_path / "run" / "model" / "card.json").read_bytes()
    monkeypatch.setenv("HEEDFUL_COMMIT", "other-code")
    monkeypatch.setattr("heedful.score.new_card.machine", lambda *_, **__: OTHER_MACHINE)
    monkeypatch.setattr("heedful.score.new_card.now", lambda: "another day")
    train(*files, device="cpu", settings=settings)
    assert (tmp_path / "run" / "model" / "card.json").read_bytes() == before
    (tmp_path / "run" / "model" / "card.json").unlink()
    train(*files, device="cpu", settings=settings)
    card = load_card(tmp_path / "run")
    assert card.training is not None
    assert (card.name, card.training.commit) == ("cats-en-de", "the-code"), "a start that trained nothing made nothing"


def test_a_card_says_which_start_did_what(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for commit, machine, steps in (("first", ONE_MACHINE, 2), ("second", OTHER_MACHINE, 6)):
        monkeypatch.setenv("HEEDFUL_COMMIT", commit)
        monkeypatch.setattr("heedful.score.new_card.machine", lambda *_, chosen=machine, **__: chosen)
        trained(text, tmp_path / "run", **{"train.steps": steps})
    training = load_card(tmp_path / "run").training
    assert training is not None
    one, other = training.shares
    assert (one.commit, one.machine, one.steps) == ("first", ONE_MACHINE, 2)
    assert (other.commit, other.machine, other.steps) == ("second", OTHER_MACHINE, 4)
    assert one.target_tokens + other.target_tokens == training.target_tokens
    assert one.seconds + other.seconds == pytest.approx(training.seconds)
    assert training.gpu_hours == pytest.approx((8 * one.seconds + 2 * other.seconds) / 3600)
    markdown = (tmp_path / "run" / "model" / "card.md").read_text(encoding="utf-8")
    assert "| machine | 8 × a GPU, torch 2; 2 × another GPU, torch 2 |" in markdown
    assert f"commit first; heedful {__version__}, commit second |" in markdown
    assert "## Starts" in markdown


def test_gpu_hours_are_not_told_where_a_start_is_not_known(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.score.new_card.machine", lambda *_, **__: ONE_MACHINE)
    trained(text, tmp_path / "run", **{"train.steps": 2})
    (tmp_path / "run" / "starts.jsonl").unlink()
    training = load_card(trained(text, tmp_path / "run", **{"train.steps": 6})).training
    assert training is not None
    assert (training.steps, [share.steps for share in training.shares]) == (6, [4])
    assert training.gpu_hours is None


def test_a_run_is_of_the_code_that_it_began_with(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_COMMIT", "began-with")
    train(
        text / "train.en",
        text / "train.de.gz",
        tmp_path / "run",
        preset="tiny",
        device="cpu",
        settings=SETTINGS | {"train.steps": 2},
        on_record=lambda _: monkeypatch.setenv("HEEDFUL_COMMIT", "the checkout has moved on"),
    )
    training = load_card(tmp_path / "run").training
    assert training is not None
    assert training.commit == "began-with"


def start_at(step: int, commit: str) -> Start:
    place = RunPoint(step, 10 * step, 0.5 * step)
    return Start(name="", date="", version="", commit=commit, machine=ONE_MACHINE, precision="fp32", place=place)


def test_a_start_that_left_no_checkpoint_is_taken_back(tmp_path: Path) -> None:
    for step, commit in ((0, "killed at once"), (0, "a"), (20, "killed"), (20, "b"), (50, "started when it was done")):
        begin(tmp_path, start_at(step, commit))
    done = training_parts(read_starts(tmp_path), RunPoint(50, 500, 25.0))
    assert [(share.commit, share.steps, share.target_tokens, share.seconds) for share in done] == [
        ("a", 20, 200, 10.0),
        ("b", 30, 300, 15.0),
    ]


# ---------------------------------------------------------------------------------------------------- after evaluating


def test_a_name_that_no_card_can_hold_is_refused_before_anything_is_translated(text: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9.en")
    try:
        shutil.copy(text / "test.en", odd)
    except OSError:
        pytest.skip("no such name on this disk")
    model = small_model(tmp_path / "model")
    with pytest.raises(DataError, match=r"the name is not UTF-8; give it another one"):
        evaluate_models([model], odd, [text / "test.de"], device="cpu")


def test_a_language_without_spaces_has_no_perplexity_of_words(text: Path, tmp_path: Path) -> None:
    chinese = small_model(tmp_path / "zh", data={"target_language": "zho_Hans"})
    for model, has_one in ((chinese, False), (small_model(tmp_path / "de"), True)):
        evaluated = evaluate_models([model], text / "test.en", [text / "test.de"], device="cpu")
        perplexity = evaluated.evaluation.report.perplexity
        assert perplexity is not None
        assert (perplexity.per_word is not None) == has_one


def test_words_are_counted_as_the_language_has_them_that_was_named(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "unnamed", data={"target_language": ""})
    for language, has_one in (("zh", False), ("", True)):
        files = text / "test.en", text / "test.de"
        perplexity = evaluate_saved(model, *files, language=language, device="cpu").perplexity
        assert perplexity is not None
        assert (perplexity.per_word is not None) == has_one


def test_the_perplexities_are_those_of_the_first_reference_each_eos_counted(text: Path, tmp_path: Path) -> None:
    (tmp_path / "other.de").write_text("eins\nzwei\n")
    model = small_model(tmp_path / "small")
    evaluated = evaluate_models([model], text / "test.en", [text / "test.de", tmp_path / "other.de"], device="cpu")
    loaded, loss, num_pieces = load_model(model, device=torch.device("cpu")), 0.0, 0
    for pair in read_pairs([text / "test.en"], [text / "test.de"]):
        source_T, target_T = (np.array([*loaded.tokenizer.encode(side), 0]) for side in (pair.source, pair.target))
        lengths, target_lengths = np.array([len(source_T)]), np.array([len(target_T)])
        target_in = pack_target(shift_right(target_T), target_lengths, lengths)
        logits_TV = loaded.model(pack_source(source_T, lengths), target_in)
        loss += F.cross_entropy(logits_TV, torch.from_numpy(target_T), reduction="sum").item()
        num_pieces += len(target_T)
    found, num_words = evaluated.evaluation.report.perplexity, len(" ".join(TEXT[1::2]).split())
    assert found is not None
    assert (found.num_pieces, found.num_words) == (num_pieces, num_words)
    assert found.per_piece == pytest.approx(math.exp(loss / num_pieces), rel=1e-5)
    assert found.per_word == pytest.approx(math.exp(loss / num_words), rel=1e-5)


@pytest.mark.parametrize("long_side", ["test.en", "test.de"])
def test_a_line_behind_the_last_position_costs_the_perplexity_and_no_other_score(
    long_side: str, tmp_path: Path
) -> None:
    model = small_model(tmp_path / "model", data={"max_length": 63}, positions="learned", max_positions=64)
    for side in ("test.en", "test.de"):
        (tmp_path / side).write_text(" ".join(4 * TEXT) if side == long_side else "short")
    report = evaluate_saved(model, tmp_path / "test.en", tmp_path / "test.de", device="cpu")
    assert (report.num_lines, report.perplexity) == (1, None)
    assert any("no perplexity" in note and "64 learned positions" in note for note in report.notes)
    assert load_card(model).evaluations[0].report == report


def test_a_test_set_is_all_that_its_source_and_its_references_hold(text: Path) -> None:
    source, reference, other = (text_file(text / name) for name in ("test.en", "test.de", "train.en"))
    sets = [(source, [reference]), (other, [reference]), (source, [other]), (source, [reference, other])]
    names, digests = zip(*(identify(one, references) for one, references in sets), strict=True)
    assert names == ("test.de", "test.de", "train.en", "test.de")
    assert len(set(digests)) == 4


def test_a_test_set_from_a_pipe_is_refused_as_the_card_could_not_say_what_it_was(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "small")
    os.mkfifo(tmp_path / "pipe.de")
    for files in (("-s", text / "test.en", "-r", tmp_path / "pipe.de"), ("-s", tmp_path / "pipe.de", "-r", text)):
        done = call("evaluate", "-m", model, *files, "--device", "cpu")
        assert isinstance(done.exception, DataError)
        assert "pipe.de is not a regular file" in str(done.exception)
    assert not (model / "card.json").exists()


def test_the_card_names_the_text_that_was_scored_whatever_its_file_holds_since(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(tmp_path / "small")
    for name in ("test.en", "test.de"):
        shutil.copy(text / name, tmp_path / name)

    def changing(*arguments: Any, **settings: Any) -> Report:
        (tmp_path / "test.de").write_text("other text\n")
        return evaluate(*arguments, **settings)

    monkeypatch.setattr(model_evaluation, "evaluate", changing)
    evaluated(model, tmp_path)
    (evaluation,) = load_card(model).evaluations
    assert evaluation.references[0] == text_file(text / "test.de")


def test_test_files_of_other_languages_are_told_by_their_names(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "small")
    assert "warning" not in evaluated(model, text).stderr
    swapped = call("evaluate", "-m", model, "-s", text / "test.de", "-r", text / "test.en", "--device", "cpu")
    assert "test.en say de to en, the model translates en to de" in swapped.stderr


def test_evaluating_adds_the_scores_and_the_translations(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "small")
    shown = evaluated(model, text, "--format", "json", "-b", 2, "--contrast", text / "pronouns.tsv").stdout
    card = load_card(model)
    (evaluation,) = card.evaluations
    assert evaluation.report.to_json() == shown.rstrip()
    assert (evaluation.name, evaluation.beam_size, card.training) == ("test.de", 2, None)
    assert evaluation.report.contrastive_accuracy in (0.0, 0.5, 1.0)
    assert evaluation.references[0] == text_file(text / "test.de")
    (translations,) = (model / "evaluations").iterdir()
    assert translations.name == f"test.de.{evaluation.sha256[:8]}.beam2-alpha0.6-torch-float32.txt"
    assert len(translations.read_text(encoding="utf-8").splitlines()) == 2
    markdown = (model / "card.md").read_text(encoding="utf-8")
    assert markdown == to_markdown(card)
    for metric in ("BLEU", "chrF2", "TER", "compounds split", "lower-cased", "perplexity per word", "contrastive"):
        assert metric in markdown


def test_the_function_does_what_the_command_does(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "small")
    report = evaluate_saved(model, text / "test.en", text / "test.de", beam_size=2, device="cpu")
    (by_function,) = load_card(model).evaluations
    evaluated(model, text, "-b", 2)
    (by_command,) = load_card(model).evaluations
    assert by_function.report == by_command.report == report
    assert by_function.beam_size == 2


@pytest.mark.parametrize("engine", ["torch", "auto", "ctranslate2"])
def test_the_card_names_what_computed_and_not_what_was_asked_for(engine: str, text: Path, tmp_path: Path) -> None:
    if engine != "torch":
        pytest.importorskip("ctranslate2")
    model = small_model(tmp_path / "small")
    evaluated(model, text, "--engine", engine)
    (evaluation,) = load_card(model).evaluations
    assert evaluation.engine.startswith("torch float32" if engine == "torch" else "ctranslate2 int8")


def test_an_evaluation_is_of_the_code_that_it_began_with(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_COMMIT", "began-with")
    translate = Translator.translate

    def moving_on(*arguments: Any, **settings: Any) -> Any:
        monkeypatch.setenv("HEEDFUL_COMMIT", "the checkout has moved on")
        return translate(*arguments, **settings)

    monkeypatch.setattr(Translator, "translate", moving_on)
    evaluate_saved(small_model(tmp_path / "small"), text / "test.en", text / "test.de", device="cpu")
    assert load_card(tmp_path / "small").evaluations[0].commit == "began-with"


def test_a_checkpoint_is_refused_before_anything_is_translated(
    run: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "translate", lambda *_: pytest.fail("too late"))
    with pytest.raises(CheckpointError, match="is a checkpoint, and a card belongs to a model folder"):
        evaluate_saved(next((run / "checkpoints").iterdir()), text / "test.en", text / "test.de", device="cpu")


def test_a_tsv_is_not_translated_as_if_it_were_one_side(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "translate", lambda *_: pytest.fail("too late"))
    (tmp_path / "test.tsv").write_text("a cat\teine Katze\na dog\tein Hund\n")
    model = small_model(tmp_path / "small")
    for files in ((tmp_path / "test.tsv", text / "test.de"), (text / "test.en", tmp_path / "test.tsv")):
        with pytest.raises(DataError, match=r"test\.tsv: a \.tsv holds source and target"):
            evaluate_saved(model, *files, device="cpu")


def test_files_are_anything_that_has_a_path(text: Path, tmp_path: Path) -> None:
    (hypotheses,), (source,) = ([e for e in os.scandir(text) if e.name == name] for name in ("test.de", "test.en"))
    assert evaluate_files(hypotheses, [hypotheses]).bleu.value == pytest.approx(100)
    assert evaluate_files(str(text / "test.de"), [str(text / "test.de")]).bleu.value == pytest.approx(100)
    with pytest.raises(TypeError, match="put the path in brackets"):
        evaluate_files(hypotheses, hypotheses)  # type: ignore[arg-type]
    settings = {"train.steps": 1, "train.batch_tokens": 512, "tokenizer.vocab_size": 304, "data.max_length": 60}
    train(iter([source]), text.glob("test.de"), tmp_path / "run", preset="tiny", settings=settings, device="cpu")
    assert load_card(tmp_path / "run" / "model").training.seed == 1  # type: ignore[union-attr]


def test_a_second_evaluation_takes_the_place_of_the_first_of_its_kind(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "small")
    (tmp_path / "test.de").write_text("\n".join(TEXT[1::2]) + "!\n")
    evaluated(model, text)
    evaluated(model, text)
    assert len(load_card(model).evaluations) == 1
    assert call("evaluate", "-m", model, "-s", text / "test.en", "-r", tmp_path / "test.de").exit_code == 0
    assert len(load_card(model).evaluations) == 2, "a file of the same name with other text is another test set"


def test_a_contrastive_accuracy_stays_until_another_is_measured(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "small")
    evaluated(model, text, "--contrast", text / "pronouns.tsv")
    (before,) = load_card(model).evaluations
    assert json.loads(evaluated(model, text, "--format", "json").stdout)["contrastive_accuracy"] is None
    (after,) = load_card(model).evaluations
    assert after.date >= before.date
    assert after.contrast == before.contrast == text_file(text / "pronouns.tsv")
    assert after.report == before.report
    evaluated(model, text, "-b", 2)
    assert [each.contrast is None for each in load_card(model).evaluations] == [True, False]
    (tmp_path / "other.tsv").write_text("it ran\tes lief\tsie lief\nit ran\tsie lief\tes lief\n", encoding="utf-8")
    evaluated(model, text, "--contrast", tmp_path / "other.tsv")
    last = load_card(model).evaluations[-1]
    assert last.contrast == text_file(tmp_path / "other.tsv")
    assert last.report.contrastive_accuracy == 0.5


def test_another_beam_alpha_or_engine_makes_another_score(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "small")
    evaluated(model, text)
    for more in (["-b", 1], ["--alpha", 0], ["-b", 1]):
        evaluated(model, text, *more)
    searches = [(each.beam_size, each.alpha) for each in load_card(model).evaluations]
    assert searches == [(1, 0.6), (4, 0.0), (4, 0.6)]
    assert len(list((model / "evaluations").iterdir())) == 3, "each with its own translations"


def test_another_language_makes_another_score_of_the_same_translations(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "small")
    for more in ([], ["--language", "zh"], ["--language", "de"]):
        evaluated(model, text, *more)
    reports = [each.report for each in load_card(model).evaluations]
    assert [(report.language, report.tokenizer.name) for report in reports] == [("de", "13a"), ("zh", "zh")]
    assert len(list((model / "evaluations").iterdir())) == 1


def test_a_compressed_test_set_is_the_same_test_set(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "small")
    evaluated(model, text)
    for name in ("test.en", "test.de"):
        with lzma.open(tmp_path / f"{name}.xz", "wb") as file:
            file.write((text / name).read_bytes())
    assert call("evaluate", "-m", model, "-s", tmp_path / "test.en.xz", "-r", tmp_path / "test.de.xz").exit_code == 0
    assert len(load_card(model).evaluations) == 1


def test_starting_a_finished_run_again_keeps_the_scores_and_new_weights_drop_them(text: Path, tmp_path: Path) -> None:
    run = trained(text, tmp_path / "run")
    evaluated(run, text)
    before = load_card(run).evaluations
    translations = [file.read_bytes() for file in (run / "model" / "evaluations").iterdir()]
    trained(text, run)
    assert load_card(run).evaluations == before
    assert [file.read_bytes() for file in (run / "model" / "evaluations").iterdir()] == translations
    trained(text, run, **{"train.steps": 6})
    assert load_card(run).evaluations == ()
    assert not (run / "model" / "evaluations").exists()


def test_a_run_that_is_killed_while_it_renews_its_model_keeps_the_scores(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(text, tmp_path / "run")
    evaluated(run, text)
    before = {path: path.read_bytes() for path in (run / "model").rglob("*") if path.is_file()}

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("heedful.data.language_detection.fit", killed)
    with pytest.raises(KeyboardInterrupt):
        trained(text, run)
    assert {path: path.read_bytes() for path in (run / "model").rglob("*") if path.is_file()} == before


def test_training_does_not_write_over_a_card_that_it_cannot_read(text: Path, tmp_path: Path) -> None:
    run = trained(text, tmp_path / "run", **{"train.steps": 2})
    (run / "model" / "card.json").write_text('{"format": 2}')
    weights = (run / "model" / "model.safetensors").read_bytes()
    with pytest.raises(CheckpointError, match=r"card\.json: cannot be read as a card"):
        trained(text, run)
    assert (run / "model" / "card.json").read_text() == '{"format": 2}'
    assert (run / "model" / "model.safetensors").read_bytes() == weights
    assert not (run / "checkpoints" / "step-00000004").exists(), "it is said before the work, not behind it"


def test_scores_of_other_weights_do_not_stay_on_the_card(text: Path, tmp_path: Path) -> None:
    model, other = small_model(tmp_path / "small"), small_model(tmp_path / "other", seed=2)
    evaluated(model, text)
    (model / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    (text / "more.de").write_bytes((text / "test.de").read_bytes())
    assert call("evaluate", "-m", model, "-s", text / "test.en", "-r", text / "more.de").exit_code == 0
    assert [each.name for each in load_card(model).evaluations] == ["more.de"]


def test_a_card_is_on_the_disk_before_it_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card, there = new_card(find_model(small_model(tmp_path / "small"))), list[list[str]]()
    monkeypatch.setattr(os, "fsync", lambda _: there.append(sorted(path.name for path in tmp_path.glob("card.*"))))
    write_card(tmp_path, card, to_markdown(card))
    assert there == [[], []]


def test_a_disk_that_is_full_for_one_file_of_a_card_leaves_both_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, room = new_card(find_model(small_model(tmp_path / "small"))), iter([True, False])

    def fill(_: int) -> None:
        if not next(room):
            raise OSError(28, "No space left on device")

    for name in ("card.json", "card.md"):
        (tmp_path / name).write_text("old")
    monkeypatch.setattr(os, "fsync", fill)
    with pytest.raises(DataError, match=r"card\.json: cannot be written \(No space left on device\)"):
        write_card(tmp_path, card, to_markdown(card))
    assert {path.name: path.read_text() for path in tmp_path.glob("*card*")} == {"card.json": "old", "card.md": "old"}


def test_a_card_that_cannot_be_read_is_not_written_over(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "small")
    (model / "card.json").write_text('{"format": 2}')
    assert "cannot be read as a card" in evaluated(model, text).stderr
    assert (model / "card.json").read_text() == '{"format": 2}'


def test_a_perplexity_beyond_all_numbers_leaves_a_card_that_can_be_read(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScoredPair, "log_prob", property(lambda pair: -800.0 * len(pair.target.split())))
    model = small_model(tmp_path / "small")
    evaluated(model, text)
    perplexity = load_card(model).evaluations[0].report.perplexity
    assert perplexity is not None
    assert perplexity.per_word is None


def test_many_evaluations_at_once_lose_nothing(text: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path / "small")
    evaluation = evaluate_translator(Translator.load(model, device="cpu"), text / "test.en", [text / "test.de"])
    many = [msgspec.structs.replace(evaluation.evaluation, name=f"test{n}.de", sha256=f"{n:064x}") for n in range(8)]
    results = [type(evaluation)(each, evaluation.translations) for each in many]
    threads = [threading.Thread(target=keep_on_card, args=(model, result)) for result in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.name for each in load_card(model).evaluations} == {each.name for each in many}
    assert not list(model.rglob(".*.writing"))


def test_scores_of_weights_that_gave_way_meanwhile_are_kept_on_no_card(text: Path, tmp_path: Path) -> None:
    run = trained(text, tmp_path / "run", **{"train.steps": 2})
    scores = evaluate_models([run], text / "test.en", [text / "test.de"], device="cpu")
    trained(text, run, **{"train.steps": 4})
    with pytest.raises(CheckpointError, match="other weights than those that were scored"):
        keep_on_card(run, scores)
    assert load_card(run).evaluations == ()


def test_who_waits_for_a_folder_holds_the_one_that_took_its_place(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    folder, held, done = tmp_path / "model", threading.Event(), threading.Event()
    folder.mkdir()

    def wait() -> None:
        with held_in_turn(folder):
            held.set()
            done.wait(10)

    with held_in_turn(folder):
        thread = threading.Thread(target=wait)
        thread.start()
        assert not held.wait(0.2)
        folder.rename(tmp_path / "old")
        folder.mkdir()
    assert held.wait(10)
    descriptor = os.open(folder, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    done.set()
    thread.join()


@pytest.mark.parametrize("broken", ["card.json", "evaluations"])
def test_a_folder_that_cannot_be_written_costs_the_card_and_not_the_scores(
    broken: str, text: Path, tmp_path: Path
) -> None:
    model = small_model(tmp_path / "small")
    if broken == "evaluations":
        (model / "evaluations").write_text("a file where a folder should be")
    else:
        (model / "card.json").mkdir()
    done = evaluated(model, text)
    assert "BLEU" in done.stdout
    assert done.stderr.count("\n") == 1
    assert "printed only" in done.stderr
    assert "cannot be written" in done.stderr


def test_checkpoints_and_ensembles_have_no_card(run: Path, text: Path) -> None:
    before = (run / "model" / "card.json").read_bytes()
    assert "is a checkpoint" in evaluated(run / "checkpoints" / "step-00000002", text).stderr
    assert "an ensemble has no card" in evaluated(run, text, "-m", run).stderr
    assert (run / "model" / "card.json").read_bytes() == before


def test_a_contrast_that_is_no_contrast_names_the_line(text: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("a\tb\tc\na\tb\n")
    model = small_model(tmp_path / "small")
    files = ["-s", text / "test.en", "-r", text / "test.de", "--contrast", tmp_path / "bad.tsv"]
    done = call("evaluate", "-m", model, *files)
    assert isinstance(done.exception, HeedfulError)
    assert "bad.tsv:2: 2 fields" in str(done.exception)


def test_a_contrast_is_cut_at_tabs_and_nowhere_else(tmp_path: Path) -> None:
    case = ['a "quote', "a\rb", "c" * 200_000]
    (tmp_path / "cases.tsv").write_bytes("\t".join(case).encode() + b"\r\n")
    assert contrast_cases(tmp_path / "cases.tsv") == [case]


# ------------------------------------------------------------------------------------------------------- `heedful card`


def card_with(card: Card, seed: int, bleu: float) -> Card:
    """A card as another seed might have left it."""
    (evaluation,) = card.evaluations
    report = msgspec.structs.replace(
        evaluation.report, bleu=msgspec.structs.replace(evaluation.report.bleu, value=bleu)
    )
    config = card.config | {"train": card.config["train"] | {"seed": seed}}
    return msgspec.structs.replace(
        card,
        config=config,
        weights_sha256=str(seed),
        evaluations=(msgspec.structs.replace(evaluation, report=report),),
    )


@pytest.fixture(scope="module")
def scored(text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("scored")
    models = [small_model(folder / "one"), small_model(folder / "two", seed=2)]
    for model in models:
        evaluated(model, text)
    return models[0], models[1]


def test_one_card_is_printed_as_text_markdown_or_json(scored: tuple[Path, Path]) -> None:
    model, _ = scored
    text, markdown, as_json = (call("card", model, "--format", form).stdout for form in ("text", "md", "json"))
    assert "Scores on test.de" in text
    assert markdown == (model / "card.md").read_text(encoding="utf-8")
    assert as_json == (model / "card.json").read_text(encoding="utf-8")
    assert call("card", model / "card.json").stdout == text


def test_several_cards_are_compared_with_the_first(scored: tuple[Path, Path]) -> None:
    (block,) = json.loads(call("card", *scored, "--format", "json").stdout)
    first, second = block["lines"]
    assert first["comparisons"] == {}
    assert set(second["comparisons"]) == {"BLEU", "chrF2"}
    difference = second["cells"]["BLEU"]["mean"] - first["cells"]["BLEU"]["mean"]
    assert second["comparisons"]["BLEU"]["difference"] == pytest.approx(difference, abs=1e-9)
    assert "Δ BLEU (p)" in call("card", *scored).stdout
    assert "| two | ?" in call("card", *scored, "--format", "md").stdout


def test_models_of_two_vocabularies_can_be_compared_by_the_perplexity_of_words(text: Path, tmp_path: Path) -> None:
    models = [small_model(tmp_path / f"of {size}", vocab_size=size) for size in (320, 400)]
    found = [evaluate_saved(model, text / "test.en", text / "test.de", device="cpu").perplexity for model in models]
    (block,) = json.loads(call("card", *models, "--format", "json").stdout)
    for line, perplexity in zip(block["lines"], found, strict=True):
        assert perplexity is not None
        assert line["cells"]["perplexity, piece"]["mean"] == pytest.approx(perplexity.per_piece)
        assert line["cells"]["perplexity, word"]["mean"] == pytest.approx(perplexity.per_word)


def test_accuracies_on_two_lists_of_pairs_stand_in_two_columns(text: Path, tmp_path: Path) -> None:
    (tmp_path / "pronouns.tsv").write_text("it sat\tsie saß\tes saß\n")
    models = [small_model(tmp_path / name) for name in ("one", "two", "three")]
    for model, folder in zip(models, (text, tmp_path, text), strict=True):
        evaluated(model, text, "--contrast", folder / "pronouns.tsv")
    (block,) = json.loads(call("card", *models, "--format", "json").stdout)
    columns = [{name for name in line["cells"] if "contrast" in name} for line in block["lines"]]
    names = [f"contrast, % ({text_digest(folder / 'pronouns.tsv')[1][:8]})" for folder in (text, tmp_path, text)]
    assert columns == [{name} for name in names]
    shown = call("card", *models).stdout
    assert all(name in shown for name in names)
    assert any("contrast" in name for name in to_builtins([row_of(models[0], models[2])])[0]["lines"][0]["cells"])
    mixed = to_builtins([row_of(models[0], models[1])])[0]["lines"][0]["cells"]
    assert not any("contrast" in name for name in mixed), "there is no mean of what is not alike"


def row_of(*models: Path) -> Row:
    return Row("both", tuple(map(load_card, models)))


def test_a_mean_is_of_all_seeds_or_there_is_none() -> None:
    assert cell([41.0, 43.0, 42.0]) == Cell(42.0, 1.0)
    assert cell([41.0]) == Cell(41.0)
    assert cell([41.0, None, 43.0]) is None
    assert cell([]) is None


def test_seeds_of_one_recipe_make_one_row_with_mean_and_spread(scored: tuple[Path, Path]) -> None:
    card = load_card(scored[0])
    cards = [card_with(card, seed, bleu) for seed, bleu in ((1, 40.0), (2, 41.0), (3, 42.0))]
    other = msgspec.structs.replace(cards[0], config=card.config | {"decode": card.config["decode"] | {"alpha": 1.0}})
    assert [len(row.cards) for row in rows_by_recipe([*cards, other])] == [3, 1]
    (block,) = to_builtins(rows_by_recipe([*cards, other]))
    assert block["lines"][0]["cells"]["BLEU"] == {"mean": 41.0, "spread": 1.0}
    assert "41.00 ± 1.00" in side_by_side(rows_by_recipe(cards), "md")
    assert "±" not in side_by_side(rows_of(cards), "text").rsplit("\n", 1)[0]


def with_evaluation(card: Card, **changes: Any) -> Card:
    """The card with a second evaluation that differs in this."""
    (evaluation,) = card.evaluations
    return card.with_evaluation(msgspec.structs.replace(evaluation, **changes))


def test_only_what_was_searched_alike_is_compared(scored: tuple[Path, Path]) -> None:
    one, two = map(load_card, scored)
    narrow = msgspec.structs.replace(two.evaluations[0], beam_size=1)
    (block,) = to_builtins(rows_of([one, msgspec.structs.replace(two, evaluations=(narrow,))]))
    assert [line["search"] for line in block["lines"]] == [
        "beam 4, α 0.6, torch float32",
        "beam 1, α 0.6, torch float32",
    ]
    assert [line["comparisons"] for line in block["lines"]] == [{}, {}]
    (block,) = to_builtins(rows_of([one, with_evaluation(two, beam_size=1)]))
    compared = {line["search"][:6]: bool(line["comparisons"]) for line in block["lines"] if line["name"] == "two"}
    assert compared == {"beam 1": False, "beam 4": True}
    assert "| card | seed | search | BLEU" in side_by_side(rows_of([one, two]), "md")


def test_side_by_side_says_how_to_compare_what_was_searched_otherwise(scored: tuple[Path, Path]) -> None:
    one, two = map(load_card, scored)
    narrow = msgspec.structs.replace(two.evaluations[0], beam_size=1)
    remedy = "with the same -b, --alpha and --precision"
    assert remedy in side_by_side(rows_of([one, msgspec.structs.replace(two, evaluations=(narrow,))]), "text")
    assert remedy not in side_by_side(rows_of([one, two]), "text")


def test_side_by_side_names_the_settings_that_differ_and_no_others(run: Path) -> None:
    card = load_card(run)
    config = card.config | {"model": card.config["model"] | {"dropout": 0.7}}
    config |= {"train": config["train"] | {"seed": 9}}
    other = msgspec.structs.replace(card, name="other", config=config)
    shown = side_by_side(rows_of([card, other]), "md").partition("## Settings that differ")[2].split("\n\n")[1]
    assert shown.splitlines()[2:] == [f"| model.dropout | {card.config['model']['dropout']} | 0.7 |"]
    assert "Settings that differ" not in side_by_side(rows_of([card, card]), "md")


def test_side_by_side_gives_another_family_none_of_the_transformers_settings(run: Path) -> None:
    card = load_card(run)
    bag = {"family": "bag", "d_model": card.config["model"]["d_model"], "slopes": [1, 2]}
    other = msgspec.structs.replace(card, name="other", config=card.config | {"model": bag})
    shown = side_by_side(rows_of([card, other]), "md").partition("## Settings that differ")[2].split("\n\n")[1]
    rows = {name: values for name, *values in (line.strip("| ").split(" | ") for line in shown.splitlines()[2:])}
    assert rows["model.family"] == ["transformer", "bag"]
    assert rows["model.num_heads"] == [str(card.config["model"]["num_heads"])], "bags have no heads"
    assert rows["model.slopes"][-1] == "1 2"
    assert "model.d_model" not in rows


def test_a_card_names_a_family_that_is_not_the_transformer(run: Path) -> None:
    card = load_card(run)
    mixer = msgspec.structs.replace(card, config=card.config | {"model": {"family": "mixer"}})
    assert f"mixer, {card.parameters:,} parameters" in to_text(mixer)
    assert f"  {card.parameters:,} parameters" in to_text(card)


def test_a_card_from_before_a_setting_is_of_the_same_recipe(run: Path) -> None:
    card = load_card(run)
    older = {name: value for name, value in card.config["train"].items() if name != "r_drop"}
    old = msgspec.structs.replace(card, weights_sha256="older", config=card.config | {"train": older | {"seed": 8}})
    assert len(rows_by_recipe([card, old])) == 1
    assert "train.r_drop" not in side_by_side(rows_of([card, old]), "md")
    newer = card.config | {"train": card.config["train"] | {"r_drop": 5.0}}
    shown = side_by_side(rows_of([old, msgspec.structs.replace(card, config=newer)]), "md")
    assert "| train.r_drop | 0.0 | 5.0 |" in shown


def changed(card: Card, seed: int | None = None, **training: Any) -> Card:
    """A card of other weights, whose training differs in this."""
    assert card.training is not None
    config = card.config | {"train": card.config["train"] | ({} if seed is None else {"seed": seed})}
    weights = f"{card.weights_sha256}{seed}{training}"
    made = msgspec.structs.replace(card.training, **training)
    return msgspec.structs.replace(card, config=config, weights_sha256=weights, training=made)


def test_one_seed_counts_once_and_of_another_machine_has_a_row_of_its_own(run: Path) -> None:
    card = load_card(run)
    cards = [card, changed(card, machine=OTHER_MACHINE), changed(card, 8), changed(card, 9)]
    assert [[each.config["train"]["seed"] for each in row.cards] for row in rows_by_recipe(cards)] == [[7, 8, 9], [7]]


def test_rows_of_several_seeds_have_no_p(scored: tuple[Path, Path]) -> None:
    """Which of their seeds it would be of, nobody could tell."""
    card = load_card(scored[0])
    one, two, three = (card_with(card, seed, 40.0 + seed) for seed in (1, 2, 3))
    for rows in ([Row("a", (one, two)), Row("b", (three,))], [Row("a", (one,)), Row("b", (two, three))]):
        (block,) = to_builtins(rows)
        assert [line["comparisons"] for line in block["lines"]] == [{}, {}]
    (block,) = to_builtins([Row("a", (one,)), Row("b", (two,))])
    assert [list(line["comparisons"]) for line in block["lines"]] == [[], ["BLEU", "chrF2"]]


def test_of_several_cards_of_one_model_the_one_with_the_most_scores_counts(scored: tuple[Path, Path]) -> None:
    whole = card_with(load_card(scored[0]), 1, 40.0)
    bare = msgspec.structs.replace(whole, evaluations=())
    for cards in ([bare, whole], [whole, bare]):
        assert [row.cards for row in rows_by_recipe(cards)] == [(whole,)]


def test_packed_text_is_the_same_text(run: Path) -> None:
    card = load_card(run)
    packed = {name: [f"{file}.xz" for file in card.config["data"][name]] for name in ("source", "valid_target")}
    other = changed(card, 8)
    other = msgspec.structs.replace(other, config=other.config | {"data": other.config["data"] | packed})
    assert len(rows_by_recipe([card, other])) == 1
    assert "Settings that differ" not in side_by_side(rows_of([card, other]), "md")


@pytest.mark.parametrize(
    "difference",
    [{"precision": "bf16", "shares": ()}, {"base": Base("a model", "abc")}, {"validation": None}],
    ids=["other numbers", "fine-tuned", "not validated"],
)
def test_what_differs_in_more_than_the_seed_is_another_row(run: Path, difference: dict[str, Any]) -> None:
    card = load_card(run)
    assert len(rows_by_recipe([card, changed(card, 8)])) == 1
    assert len(rows_by_recipe([card, changed(card, 8, **difference)])) == 2
    assert "Settings that differ" in side_by_side(rows_of([card, changed(card, 8, **difference)]), "md")


def test_two_bases_of_one_name_are_two(run: Path) -> None:
    card = load_card(run)
    cards = [
        changed(card, seed, base=Base("a model", weights)) for seed, weights in ((1, "abc"), (2, "abd"), (3, "abc"))
    ]
    assert [len(row.cards) for row in rows_by_recipe(cards)] == [2, 1]


def test_other_text_under_the_same_name_is_another_row(run: Path) -> None:
    card = load_card(run)
    assert card.training is not None
    (file,) = card.training.training.target
    text = msgspec.structs.replace(card.training.training, target=(msgspec.structs.replace(file, sha256="f" * 64),))
    assert len(rows_by_recipe([card, changed(card, 8, training=text)])) == 2


def test_a_row_of_several_seeds_names_all_their_machines_and_their_code(run: Path) -> None:
    card = load_card(run)
    assert card.training is not None
    cards = [card, changed(card, 8, machine=OTHER_MACHINE, commit="another-one", shares=())]
    shown = side_by_side(rows_by_recipe(cards), "md")
    assert f"{card.training.machine.describe()}; {OTHER_MACHINE.describe()} |" in shown
    assert f"; heedful {__version__}, commit another-one |" in shown


def test_the_gpu_hours_of_a_row_are_those_of_all_seeds_or_none(run: Path) -> None:
    card = load_card(run)
    on_gpus = [changed(card, seed, gpu_hours=hours) for seed, hours in ((8, 1.0), (9, 2.0))]
    assert "| 1.500 |" in side_by_side(rows_by_recipe(on_gpus), "md")
    assert "| 1.500 |" not in side_by_side(rows_by_recipe([card, *on_gpus]), "md")


def share_of(steps: int, planned: int, cooldown: int) -> TrainingPart:
    return TrainingPart(
        date="",
        version="",
        commit="",
        machine=ONE_MACHINE,
        precision="fp32",
        steps=steps,
        target_tokens=0,
        seconds=0.0,
        planned_steps=planned,
        cooldown_steps=cooldown,
    )


@pytest.mark.parametrize(
    ("history", "is_alike"),
    [
        ([(10, 10, 3)], True),
        ([(7, 7, 0), (3, 10, 3)], True),
        ([(7, 100, 3), (3, 10, 3)], True),
        ([(4, 6, 3), (6, 10, 3)], True),  # the first step of a cooldown has the whole rate
        ([(5, 6, 3), (5, 10, 3)], False),
        ([(5, 6, 3), (1, 6, 3), (4, 10, 3)], False),
        ([(9, 9, 0), (1, 10, 3)], False),  # it should have begun before
        ([(10, 10, 0)], False),  # told so when all was done
        ([(4, 0, 0), (6, 10, 3)], False),  # not known
        ([(2, 8, 3), (4, 10, 3)], True),  # of a run whose first four steps are not known
        ([(3, 8, 3), (3, 10, 3)], False),
    ],
)
def test_runs_are_seeds_of_one_recipe_whose_rate_went_the_same_way(
    run: Path, history: list[tuple[int, int, int]], is_alike: bool
) -> None:
    card = load_card(run)
    config = card.config | {"train": card.config["train"] | {"steps": 10, "cooldown_steps": 3}}
    whole = changed(msgspec.structs.replace(card, config=config), steps=10, shares=(share_of(10, 10, 3),))
    other = changed(whole, 8, shares=tuple(share_of(*each) for each in history))
    assert len(rows_by_recipe([whole, other])) == (1 if is_alike else 2)
    assert ("| planned before |" in side_by_side(rows_of([whole, other]), "md")) != is_alike


def test_two_runs_of_each_seed_are_two_rows(run: Path) -> None:
    card = load_card(run)
    cards = [changed(card, seed, commit=commit) for commit in ("a", "b", "c") for seed in (1, 2)]
    assert [len(row.cards) for row in rows_by_recipe(cards)] == [2, 2, 2]


def test_a_run_that_had_cooled_down_for_another_end_is_no_seed_of_one_that_had_not(text: Path, tmp_path: Path) -> None:
    cooled, long = {"train.cooldown_steps": 2}, {"train.steps": 6}
    whole = load_card(trained(text, tmp_path / "whole", **long, **cooled, **{"train.seed": 2}))
    trained(text, tmp_path / "on", **cooled)
    on = load_card(trained(text, tmp_path / "on", **long, **cooled))
    assert len(rows_by_recipe([whole, on])) == 2
    assert "| 4, the last 2 cool down |" in (tmp_path / "on" / "model" / "card.md").read_text(encoding="utf-8")
    trained(text, tmp_path / "later")
    later = load_card(trained(text, tmp_path / "later", **long, **cooled))
    assert len(rows_by_recipe([whole, later])) == 1, "it had not cooled down before"


def test_side_by_side_says_what_p_is_where_there_is_one(scored: tuple[Path, Path]) -> None:
    one, two = map(load_card, scored)
    assert "p: paired bootstrap" in side_by_side(rows_of([one, two]), "text")
    seeds = side_by_side(rows_by_recipe([card_with(one, 1, 40.0), card_with(one, 2, 41.0)]), "text", "seeds")
    assert "p: paired bootstrap" not in seeds
    bare = side_by_side(rows_of([msgspec.structs.replace(card, evaluations=()) for card in (one, two)]), "text")
    assert bare == bare.rstrip()
    assert "±" not in bare


def recipe_with(card: Card, alpha: float, scores: dict[int, float]) -> list[Card]:
    """Cards of one recipe, by seed and BLEU."""
    config = card.config | {"decode": card.config["decode"] | {"alpha": alpha}}
    cards = [card_with(card, seed, bleu) for seed, bleu in scores.items()]
    return [
        msgspec.structs.replace(
            each,
            config=each.config | {"decode": config["decode"]},
            weights_sha256=f"{alpha} {each.weights_sha256}",
        )
        for each in cards
    ]


def written(cards: list[Card], folder: Path) -> list[Path]:
    for number, card in enumerate(cards):
        (folder / f"{number}.json").write_text(card.to_json(), encoding="utf-8")
    return [folder / f"{number}.json" for number in range(len(cards))]


def test_single_seeds_that_are_compared_get_a_caution(scored: tuple[Path, Path]) -> None:
    caution = "a p-value over test sentences says nothing about other seeds"
    for form in ("text", "md"):
        assert f"Caution: each row is one seed, and {caution}" in call("card", *scored, "--format", form).stdout
    (block,) = json.loads(call("card", *scored, "--format", "json").stdout)
    assert [caution in line["caution"] for line in block["lines"]] == [False, True]


def test_recipes_are_tested_over_their_seeds(scored: tuple[Path, Path], tmp_path: Path) -> None:
    card = load_card(scored[0])
    first = recipe_with(card, 0.6, {1: 7.4, 2: 7.85, 3: 8.3})
    second = recipe_with(card, 1.0, {1: 8.0, 2: 21.24, 3: 34.0})
    files = written([*first, *second], tmp_path)
    (block,) = json.loads(call("card", *files, "--seeds", "--format", "json").stdout)
    (baseline, system) = block["lines"]
    assert (baseline["seed_comparisons"], baseline["comparisons"], system["comparisons"]) == ({}, {}, {})
    found = system["seed_comparisons"]["BLEU"]
    assert (found["test"], found["num_seeds"], found["p_value"]) == (
        "paired t",
        [3, 3],
        pytest.approx(0.2094, abs=1e-4),
    )
    # differences 0.6, 13.39 and 25.7: mean 13.23, standard error 7.246; 4.303 of them on both sides
    assert found["interval"] == pytest.approx([-17.95, 44.41], abs=1e-2)
    shown = call("card", *files, "--seeds").stdout
    assert "+13.23 [-17.95, +44.41]" in shown
    assert "p 0.209 (paired t, n = 3)" in shown
    assert "Caution" not in shown


def test_recipes_of_other_seeds_are_compared_by_welchs_test(scored: tuple[Path, Path]) -> None:
    card = load_card(scored[0])
    cards = recipe_with(card, 0.6, {1: 40, 2: 41, 3: 42}) + recipe_with(card, 1.0, {2: 43, 3: 44, 4: 45, 5: 46})
    assert "(Welch, n = 4 against 3)" in side_by_side(rows_by_recipe(cards), "md", "seeds")


@pytest.mark.parametrize("seeds", [(1,), (1, 2)])
def test_below_three_seeds_there_is_no_p(seeds: tuple[int, ...], scored: tuple[Path, Path], tmp_path: Path) -> None:
    card = load_card(scored[0])
    cards = [*recipe_with(card, 0.6, dict.fromkeys(seeds, 40.0)), *recipe_with(card, 1.0, dict.fromkeys(seeds, 43.0))]
    files = written(cards, tmp_path)
    (block,) = json.loads(call("card", *files, "--seeds", "--format", "json").stdout)
    found = block["lines"][1]["seed_comparisons"]["BLEU"]
    assert (found["difference"], found["p_value"], found["interval"]) == (3.0, None, None)
    assert f"+3.00 (n = {len(seeds)}: too few for a test)" in call("card", *files, "--seeds").stdout


def fine_tuned(
    model: Path | None, text: Path, run: Path, *, steps: int, say: Callable[[str], None] | None = None
) -> Path:
    settings = {name: value for name, value in SETTINGS.items() if not name.startswith("model.")}
    train(
        text / "train.en",
        text / "train.de.gz",
        run,
        device="cpu",
        settings=settings | {"train.steps": steps},
        from_model=model,
        say=say,
    )
    return run


def test_the_card_of_a_fine_tuned_model_names_the_one_it_began_from(run: Path, text: Path, tmp_path: Path) -> None:
    base = load_card(run)
    tuned = fine_tuned(run, text, tmp_path / "tuned", steps=2)
    training = load_card(tuned).training
    assert training is not None
    assert training.base == Base(base.name, base.weights_sha256)
    markdown = (tuned / "model" / "card.md").read_text(encoding="utf-8")
    assert f"| fine-tuned from | {base.name}, weights {base.weights_sha256[:8]} |" in markdown
    gone_on = load_card(fine_tuned(None, text, tuned, steps=4)).training
    assert gone_on is not None
    assert gone_on.base == training.base, "whoever goes on with the run"
    assert "| fine-tuned from |" in side_by_side(rows_of([base, load_card(tuned)]), "md")


@pytest.mark.parametrize(("module", "name"), [(start_of_run, "make_trainer"), (checkpoint, "save_checkpoint")])
def test_a_run_without_a_checkpoint_is_to_be_told_again_what_it_begins_from(
    run: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, name, killed)
        with pytest.raises(KeyboardInterrupt):
            fine_tuned(run, text, tmp_path / "tuned", steps=2)
    with pytest.raises(
        ConfigError, match=r"tuned was to begin from mine, and has no checkpoint yet; name it with --from"
    ):
        fine_tuned(None, text, tmp_path / "tuned", steps=2)
    training = load_card(fine_tuned(run, text, tmp_path / "tuned", steps=2)).training
    assert training is not None
    assert training.base is not None


def test_before_its_text_is_encoded_a_run_may_begin_otherwise(
    run: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(start_of_run, "prepare_text", killed)
        with pytest.raises(KeyboardInterrupt):
            fine_tuned(run, text, tmp_path / "new", steps=2)
    training = load_card(trained(text, tmp_path / "new")).training
    assert training is not None
    assert training.base is None


def test_a_base_is_named_by_its_folder_where_its_card_cannot_be_read(run: Path, text: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "base")
    (tmp_path / "base" / "model" / "card.json").write_text('{"format": 1')
    training = load_card(fine_tuned(tmp_path / "base", text, tmp_path / "tuned", steps=2)).training
    assert training is not None
    assert training.base == Base("base", load_card(run).weights_sha256)


def test_what_a_damaged_file_says_of_the_base_is_not_known(tmp_path: Path) -> None:
    keep_base(tmp_path, Base("a", "b"))
    assert read_base(tmp_path) == Base("a", "b")
    (tmp_path / "base.json").write_text("{")
    assert read_base(tmp_path) is None
    assert read_base(tmp_path / "base.json") is None, "a file is no run"


def test_a_run_that_goes_on_says_that_it_does_not_read_another_model(run: Path, text: Path, tmp_path: Path) -> None:
    said: list[str] = []
    fine_tuned(run, text, tmp_path / "tuned", steps=2)
    fine_tuned(run, text, tmp_path / "tuned", steps=3, say=said.append)
    assert not [line for line in said if "--from" in line]
    other = tmp_path / "other"
    shutil.copytree(run / "model", other)
    weights = load_file(other / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in weights.items()}, other / "model.safetensors", FORMAT)
    fine_tuned(other, text, tmp_path / "tuned", steps=4, say=said.append)
    assert [line for line in said if line.startswith(f"warning: --from {other} is not read: ")]
    said.clear()
    trained(text, tmp_path / "own")
    fine_tuned(run, text, tmp_path / "own", steps=5, say=said.append)
    assert [line for line in said if line.startswith(f"warning: --from {run} is not read: ")]


def test_side_by_side_tells_that_the_training_text_differs(run: Path) -> None:
    card = load_card(run)
    assert card.training is not None
    (file,) = card.training.training.source
    text = msgspec.structs.replace(card.training.training, source=(msgspec.structs.replace(file, sha256="f" * 64),))
    other = msgspec.structs.replace(card, training=msgspec.structs.replace(card.training, training=text))
    assert "| training text, SHA-256 |" in side_by_side(rows_of([card, other]), "md")


def test_cards_of_one_name_and_seed_are_told_apart_by_where_they_lie(run: Path) -> None:
    card = load_card(run)
    assert card.training is not None
    seeded = msgspec.structs.replace(card, training=msgspec.structs.replace(card.training, seed=9))
    names = [each.name for each in told_apart([card, card, seeded], ["runs/a", "runs/b", "runs/c"])]
    assert names == [f"{card.name} (runs/a)", f"{card.name} (runs/b)", card.name]
    assert f"{card.name} ({run / 'model'})" in call("card", run, run / "model").stdout


def test_the_card_repeats_the_notes_of_its_report(scored: tuple[Path, Path]) -> None:
    card = load_card(scored[0])
    (evaluation,) = card.evaluations
    report = msgspec.structs.replace(evaluation.report, notes=("3 of 4 hypotheses are empty",))
    noted = msgspec.structs.replace(card, evaluations=(msgspec.structs.replace(evaluation, report=report),))
    assert "| note |  |  | 3 of 4 hypotheses are empty |" in to_markdown(noted)
    assert "| note |  |  | 2 lines: of fewer than 50 the intervals are too narrow |" in to_markdown(noted)


def test_the_card_says_how_tokens_were_counted_with_r_drop(run: Path) -> None:
    card = load_card(run)
    config = card.config | {"train": card.config["train"] | {"r_drop": 5.0}}
    assert "R-Drop computes each sentence twice; both count" not in to_markdown(card)
    assert "R-Drop computes each sentence twice; both count" in to_markdown(
        msgspec.structs.replace(card, config=config)
    )


def test_scores_of_other_tokenizers_stand_in_other_tables(scored: tuple[Path, Path]) -> None:
    one, two = map(load_card, scored)
    (evaluation,) = two.evaluations
    bleu = msgspec.structs.replace(evaluation.report.bleu, signature="tok:zh")
    changed = msgspec.structs.replace(evaluation, report=msgspec.structs.replace(evaluation.report, bleu=bleu))
    found = to_builtins(rows_of([one, msgspec.structs.replace(two, evaluations=(changed,))]))
    assert [[line["name"] for line in block["lines"]] for block in found] == [["one"], ["two"]]
    assert found[1]["signature"] == "tok:zh"


def test_seeds_are_those_that_were_scored_and_a_model_counts_once(run: Path, scored: tuple[Path, Path]) -> None:
    evaluation, card = load_card(scored[0]).evaluations, load_card(run)
    assert card.training is not None
    cards = [
        msgspec.structs.replace(
            card,
            weights_sha256=str(seed),
            training=msgspec.structs.replace(card.training, seed=seed),
            config=card.config | {"train": card.config["train"] | {"seed": seed}},
            evaluations=evaluation if is_scored else (),
        )
        for seed, is_scored in ((1, True), (2, False), (3, True), (3, False), (1, True))
    ]
    (row,) = rows_by_recipe(cards)
    assert [each.weights_sha256 for each in row.cards] == ["1", "2", "3"]
    (block,) = to_builtins([row])
    assert block["lines"][0]["seeds"] == (1, 3)
    unscored = msgspec.structs.replace(cards[1], name="not scored")
    assert to_builtins(rows_by_recipe([unscored, *cards]))[0]["lines"][0]["name"] == card.name


def test_a_test_set_under_two_names_counts_once(scored: tuple[Path, Path]) -> None:
    (block,) = to_builtins(rows_of([with_evaluation(load_card(scored[0]), name="the same.de")]))
    assert [line["cells"]["BLEU"]["spread"] for line in block["lines"]] == [None]


def test_a_seed_of_another_section_is_a_setting_like_others(scored: tuple[Path, Path]) -> None:
    card = load_card(scored[0])
    others = [msgspec.structs.replace(card, config=card.config | {"data": {"seed": seed}}) for seed in (1, 2)]
    assert [len(row.cards) for row in rows_by_recipe(others)] == [1, 1]


def test_a_card_without_the_usual_counts_is_shown(run: Path) -> None:
    card = load_card(run)
    assert card.training is not None
    bare = msgspec.structs.replace(card.training.training, counts={})
    training = msgspec.structs.replace(card.training, training=bare)
    assert "| training | pairs kept | not known |" in to_markdown(msgspec.structs.replace(card, training=training))


def test_what_is_no_card_gets_one_line(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text('{"format": 99, "name": "x"}')
    for path, problem in ((tmp_path / "nowhere", "no such file"), (tmp_path, "cannot be read as a card")):
        with pytest.raises(CheckpointError, match=problem):
            load_card(path)
    (tmp_path / "card.json").unlink()
    with pytest.raises(CheckpointError, match=r"holds no card\.json, and is no run or model folder"):
        load_card(tmp_path)
    (tmp_path / "config.toml").touch()
    with pytest.raises(CheckpointError, match=r"holds no card\.json; heedful evaluate"):
        load_card(tmp_path)
    (tmp_path / "starts.jsonl").touch()
    with pytest.raises(CheckpointError, match="is not finished, and its card is written with its model, at the end"):
        load_card(tmp_path)


# ---------------------------------------------------------------------------------------------------------- which code


def test_the_commit_is_told_or_gits_and_a_change_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HEEDFUL_COMMIT", raising=False)
    assert provenance.commit(tmp_path) == "", "an installed package knows its version only"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run([*git, *command], check=True)
    name = provenance.commit(tmp_path)
    assert len(name) >= 7
    (tmp_path / "new").write_text("")
    subprocess.run([*git, "add", "new"], check=True)
    assert provenance.commit(tmp_path) == f"{name}+"
    monkeypatch.setenv("HEEDFUL_COMMIT", "abc1234")
    assert provenance.commit(tmp_path) == "abc1234"
