"""The result tables say what the cards say, with none, one or several of them."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import msgspec
import pytest

from benchmarks import tables
from heedful.config.setting_layers import to_layer
from heedful.config.settings import Config
from heedful.score.bootstrap import packed_counts
from heedful.score.card import Card, Corpus, Evaluation, TextFile, Training
from heedful.score.evaluation import evaluate
from heedful.score.provenance import Machine

REFERENCES = ["Die Katze saß auf der Matte.", "Der Hund lief in den Wald.", "Das Tier überquerte die Straße nicht."]
MACHINE = Machine(processor="a processor", cores=2, torch="2", python="3", gpu="a GPU", num_gpus=1)
DATE, VERSION, COMMIT = "2026-01-01", "0.1.0", "abc1234"
PEERS = tomllib.loads((tables.RESULTS / "peers.toml").read_text(encoding="utf-8"))["peer"]
PEER_TESTS = {peer["test"]: peer["sha256"] for peer in PEERS if "sha256" in peer}


def evaluation(name: str, hypotheses: list[str], language: str = "de") -> Evaluation:
    return Evaluation(
        date=DATE,
        version=VERSION,
        commit=COMMIT,
        name=name,
        sha256=PEER_TESTS.get(name, name.encode().hex().ljust(64, "0")),
        source=TextFile("test.en", 3, "1" * 64),
        references=(TextFile(name, 3, "2" * 64),),
        machine=MACHINE,
        engine="torch",
        beam_size=4,
        alpha=0.6,
        seconds=1.0,
        report=evaluate(hypotheses, [REFERENCES], language=language),
        sentence_counts=packed_counts(hypotheses, [REFERENCES], tokenizer="13a"),
    )


def card(seed: int, *evaluations: Evaluation, name: str = "multi30k-en-de") -> Card:
    config = to_layer(Config())
    config["train"]["seed"] = seed
    files = (TextFile("train.en", 3, "3" * 64),), (TextFile("train.de", 3, "4" * 64),)
    training = Training(
        date=DATE,
        version=VERSION,
        commit=COMMIT,
        machine=MACHINE,
        precision="bf16",
        seed=seed,
        steps=100,
        target_tokens=1000,
        seconds=10.0 + seed,
        tokens_per_second=100.0,
        gpu_hours=0.003,
        averaged_steps=(90, 100),
        training=Corpus(*files, {"read": 3, "kept": 3}),
        validation=None,
    )
    return Card(
        name=name,
        source_language="en",
        target_language="de",
        weights_sha256=f"{seed:064x}",
        parameters=1,
        vocab_size=8,
        config=config,
        training=training,
        evaluations=evaluations,
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with the documents and peers, and no cards."""
    (tmp_path / "docs").mkdir()
    for name in (*tables.READMES, tables.DOCUMENT):
        (tmp_path / name).write_text(f"before\n{tables.BEGIN}\n{tables.END}\nafter\n", encoding="utf-8")
    (tmp_path / "results").mkdir()
    shutil.copy(tables.RESULTS / "peers.toml", tmp_path / "results")
    return tmp_path


def written(root: Path, *cards: Card) -> dict[str, str]:
    for number, each in enumerate(cards):
        (root / "results" / f"{number}.json").write_text(each.to_json(), encoding="utf-8")
    files = tables.generated(root, root / "results")
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    assert tables.stale(root, root / "results") == []
    return {path.name: text for path, text in files.items()}


def summary(files: dict[str, str]) -> list[str]:
    """The lines of docs/results.md before its first chapter: one for each recipe and test set."""
    return files["results.md"].split("\n## ")[0].splitlines()


def test_the_tables_in_the_repository_are_up_to_date() -> None:
    assert not tables.stale(), "run: make tables"


@pytest.mark.parametrize(
    ("recipe", "test", "said"),
    [
        ("europarl-en-de", "newstest2014", "by {} points on newstest2014"),
        ("europarl-en-de", "test", "by {} on Europarl"),
        ("multi30k-en-de", "test", "by {} on Multi30k's test sets"),
    ],
)
def test_the_kinds_of_bleu_lie_as_far_apart_as_the_document_says(recipe: str, test: str, said: str) -> None:
    """In all recipes of the text, that for CPUs among them."""
    cards = [card for row in tables.read_rows(tables.RESULTS) if row.name.startswith(recipe) for card in row.cards]
    reports = [each.report for card in cards for each in card.evaluations if each.name.startswith(test)]
    apart = {f"{report.paper_bleu.value - report.bleu.value:.1f}" for report in reports if report.paper_bleu}
    text = (tables.ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    assert said.format(" to ".join(sorted({min(apart), max(apart)}))) in " ".join(text.split())


def test_no_card_in_the_repository_holds_text_or_a_path() -> None:
    for path in tables.RESULTS.glob("*.json"):
        one = msgspec.json.decode(path.read_bytes(), type=Card)
        names = [file.name for each in one.evaluations for file in (each.source, *each.references)]
        names += [name for field in ("source", "target", "valid_source") for name in one.config["data"][field]]
        assert not [name for name in names if "/" in name], path.name
        assert one.to_json() == path.read_text(encoding="utf-8"), f"{path.name} holds what no card holds"


def test_without_cards_the_figures_of_others_are_there_and_ours_are_not_claimed(root: Path) -> None:
    files = written(root)
    (line,) = [line for line in summary(files) if "wmt14-en-de-base" in line]
    assert line.startswith(
        "| `wmt14-en-de-base` | newstest2014.de, en-de | not run by us | BLEU, tokenised, compounds split 27.3"
    )
    for name, words in tables.READMES.items():
        assert f"`wmt14-en-de-base`, `wmt14-en-de-big`, `wmt14-en-fr-big` | {words.not_run} |  |" in files[name]
    for text in files.values():
        assert text.startswith("before\n")
        assert text.endswith("after\n")
    assert "There is no card yet." in files["results.md"]


def test_figures_of_others_do_not_stand_beside_another_text_of_that_name(root: Path) -> None:
    scored = evaluation("test_2016_flickr.de", REFERENCES)
    files = written(root, card(1, msgspec.structs.replace(scored, sha256="5" * 64)))
    (line,) = [line for line in summary(files) if "test_2016_flickr" in line]
    assert "BLEU, lower-cased, tokenised 41.0" not in line


def test_a_card_stands_beside_its_peers_under_the_same_metric(root: Path) -> None:
    scored = evaluation("test_2016_flickr.de", [*REFERENCES[:2], "Das Tier ging nicht."])
    files = written(root, card(1, scored))
    ours = scored.report.lowercased_tokenised
    assert ours is not None
    (line,) = [line for line in summary(files) if "test_2016_flickr" in line]
    assert f"sacreBLEU **{scored.report.bleu.value:.2f}**" in line
    assert f"BLEU, lower-cased, tokenised **{ours.value:.2f}**" in line
    assert "BLEU, lower-cased, tokenised 41.0 (text-only Transformer-tiny" in line
    assert "11.0 s; a GPU" in line
    assert f"| test_2016_flickr.de **{scored.report.bleu.value:.2f}** | 11.0 s; a GPU |" in files["README.md"]
    for lines in (summary(files), files["README.md"].splitlines()):
        assert not [line for line in lines if "`multi30k-en-de`" in line and "not run" in line]
    assert f"| BLEU, lower-cased, tokenised | {ours.value:.2f} | 41.0" in files["results.md"]
    assert "3" * 64 in files["results.md"]


def test_figures_side_by_side_say_how_each_was_searched(root: Path) -> None:
    wide = evaluation("valid.de", REFERENCES)
    files = written(root, card(1, wide, msgspec.structs.replace(wide, beam_size=1)))
    lines = [line for line in summary(files) if "valid.de" in line]
    for line, search in zip(lines, ("beam 4", "greedy"), strict=True):
        assert f"sacreBLEU **100.00** ({search}, 2 checkpoints averaged)" in line
        assert "JoeyNMT 2.3 after 7.4 minutes on an H200; greedy)" in line
    alone = "\n".join(summary(written(root, card(1, wide, name="europarl-en-de"))))
    assert "sacreBLEU **100.00** |" in alone, "where nothing stands beside it, its chapter says how"


def test_a_test_set_of_the_same_name_but_of_other_data_gets_no_peers(root: Path) -> None:
    files = written(root, card(1, evaluation("valid.de", REFERENCES), name="europarl-en-de"))
    (line,) = [line for line in summary(files) if "europarl" in line]
    assert "JoeyNMT" not in line


def test_seeds_make_one_line_with_mean_and_spread(root: Path) -> None:
    scored = [evaluation("valid.de", [*REFERENCES[:2], last]) for last in ("Das Tier ging.", "Die Straße.", "Nicht.")]
    files = written(root, *(card(seed, each) for seed, each in enumerate(scored)))
    (line,) = [line for line in summary(files) if "valid.de" in line and "multi30k-en-de`" in line]
    assert "(3 seeds; " in line
    assert "11.0 ± 1.0 s" in line
    assert files["results.md"].count("## multi30k-en-de:") == 1
    assert "| seeds | 0, 1, 2 |" in files["results.md"]


def test_seeds_of_two_machines_name_both(root: Path) -> None:
    other = card(2, evaluation("valid.de", REFERENCES))
    assert other.training is not None
    machine = msgspec.structs.replace(MACHINE, gpu="another GPU")
    other = msgspec.structs.replace(other, training=msgspec.structs.replace(other.training, machine=machine))
    files = written(root, card(1, evaluation("valid.de", REFERENCES)), other)
    (line,) = [line for line in summary(files) if "valid.de" in line and "multi30k-en-de`" in line]
    assert "s; a GPU; another GPU |" in line
    assert "| machine | a GPU, torch 2; another GPU, torch 2 |" in files["results.md"]


def test_a_row_links_to_the_card_of_each_seed(root: Path) -> None:
    files = written(root, *(card(seed, evaluation("valid.de", REFERENCES)) for seed in (4, 7)))
    for name in tables.READMES:
        (line,) = [line for line in files[name].splitlines() if "`multi30k-en-de`" in line]
        assert "[4](results/0.json) [7](results/1.json)" in line
    assert len([line for line in summary(files) if "[4](../results/0.json) [7](../results/1.json)" in line]) == 1


def test_the_readme_has_one_row_for_a_recipe_with_all_its_test_sets(root: Path) -> None:
    wrong = evaluation("test.de", [*REFERENCES[:2], "Das Tier ging nicht."])
    files = written(root, card(1, evaluation("valid.de", REFERENCES), wrong))
    (line,) = [line for line in files["README.md"].splitlines() if "`multi30k-en-de`" in line]
    assert f"| valid.de **100.00**; test.de **{wrong.report.bleu.value:.2f}** |" in line
    assert len([line for line in summary(files) if "`multi30k-en-de` [1]" in line]) == 2


def test_no_english_is_left_in_the_cells_of_the_korean_table() -> None:
    """But names: of recipes, files, machines and metrics."""
    text = (tables.ROOT / "README.ko.md").read_text(encoding="utf-8")
    cells = text[text.index(tables.BEGIN) : text.index(tables.END)].split("\n", 1)[1]
    words = re.findall(r"[A-Za-z][A-Za-z0-9.-]*", re.sub(r"`.+?`|\]\(.+?\)|\w+\.\w\w\b", "", cells))
    assert set(words) <= {"sacreBLEU", "ko-mecab", "AMD", "EPYC", "NVIDIA", "H200"}


def test_other_searches_are_other_lines_and_say_how(root: Path) -> None:
    wide = evaluation("valid.de", REFERENCES)
    narrow = msgspec.structs.replace(evaluation("valid.de", [*REFERENCES[:2], "Nicht."]), beam_size=1)
    files = written(root, card(1, wide, narrow), card(2, wide))
    lines = [line for line in summary(files) if "valid.de, en-de; beam" in line]
    assert ["(2 seeds; " in line for line in lines if "beam 4, α 0.6, torch" in line] == [True]
    assert ["seeds" in line for line in lines if "beam 1, α 0.6, torch" in line] == [False]
    assert "; valid.de (beam 1, α 0.6, torch" in files["README.md"]


def test_a_tokenizer_that_is_not_the_usual_one_is_named(root: Path) -> None:
    scored = evaluation("test.ko", REFERENCES, language="zh")
    files = written(root, card(1, scored))
    assert "sacreBLEU (zh) **100.00**" in files["results.md"]
    assert "| test.ko (zh) **100.00** |" in files["README.md"]


def test_a_new_card_makes_the_tables_stale(root: Path) -> None:
    written(root)
    (root / "results" / "new.json").write_text(card(1, evaluation("valid.de", REFERENCES)).to_json())
    assert {path.name for path in tables.stale(root, root / "results")} == {"README.md", "README.ko.md", "results.md"}


@pytest.mark.parametrize("name", ["README.md", "docs/results.md"])
def test_a_document_without_markers_is_refused(root: Path, name: str) -> None:
    (root / name).write_text("no markers")
    with pytest.raises(AssertionError, match=name):
        tables.generated(root, root / "results")
