"""What `heedful translate` and `heedful export` write besides text; and what bad input gets: one line, exit code 2."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from heedful.data.words import words_of
from heedful.translate.alignment import Aligner
from heedful.translate.engine import SearchOptions
from heedful.translate.json_records import Details
from heedful.translate.translation import Translation, Translator
from tests.cli.running import Run, one_line
from tests.small_models import TEXT, small_model
from tests.small_translator import family_translator, save_translator

ENGINES = ["torch", pytest.param("ctranslate2", marks=pytest.mark.skipif("not has_ctranslate2()"))]


NOT_ALIGNED = "words cannot be aligned by model.family = 'bag': its decoder has no attention\n"


def has_ctranslate2() -> bool:
    from importlib.util import find_spec

    return find_spec("ctranslate2") is not None


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("details") / "model", data={"max_length": 30})


@pytest.mark.slow
def test_a_record_has_alignment_confidence_and_alternatives(model: Path) -> None:
    translator = Translator.load(model, device="cpu", engine="torch")
    details = Details(translator, Aligner.load(model, device="cpu"), num_alternatives=2)
    full, blank = (details.record(translation) for translation in translator.translate([TEXT[0], ""]))
    (hypothesis,) = full["hypotheses"]
    words = hypothesis["words"]
    assert " ".join(full["source_words"]) == full["source"]
    assert blank["source_words"] == []
    assert all(0 < word["probability"] <= 1 for word in words)
    assert all(len(word["alternatives"]) == 2 for word in words)
    assert {int(link.split("-")[1]) for link in hypothesis["alignment"].split()} == set(range(len(words)))
    assert blank["hypotheses"] == []
    assert details.alignment(translator.translate([""])[0]) == ""


@pytest.mark.slow
def test_alternatives_are_finished_by_the_search_that_made_the_translation(model: Path) -> None:
    translator, aligner = Translator.load(model, device="cpu", engine="torch"), Aligner.load(model, device="cpu")
    for extra in (0, 9):
        options = SearchOptions(beam_size=1, max_extra=extra)
        (translation,) = translator.translate([TEXT[0]], options=options)
        record = Details(translator, aligner, 1, options).record(translation)
        last = record["hypotheses"][0]["words"][-1]
        assert [other["text"] for other in last["alternatives"]] == [translation.text]


@pytest.mark.parametrize("engine", ENGINES)
def test_jsonl_has_them_and_each_hypothesis_its_own(heedful: Run, model: Path, engine: str) -> None:
    arguments = ["translate", "-m", model, "--engine", engine, "--device", "cpu", "--format", "jsonl", "--n-best", 2]
    result = heedful(*arguments, stdin=TEXT[0].encode())
    assert result.code == 0, result.err
    hypotheses = json.loads(result.out)["hypotheses"]
    assert len(hypotheses) == 2
    for hypothesis in hypotheses:
        assert len(hypothesis["tokens"]) == len(hypothesis["token_log_probs"])
        assert hypothesis["words"]
        assert hypothesis["alignment"]


@pytest.mark.parametrize("form", ["text", "nbest", "jsonl"])
def test_a_line_of_two_sentences_is_translated_as_each_alone(heedful: Run, model: Path, form: str) -> None:
    def translated(*arguments: str, lines: str) -> list[str]:
        given = ("translate", "-m", model, "--engine", "torch", "--device", "cpu", "--format", form, *arguments)
        result = heedful(*given, stdin=lines.encode())
        assert (result.code, result.err) == (0, "")
        return [_text_of(line, form) for line in result.out.splitlines()]

    one, two = "The animal was tired.", "It was the road."
    (together,), (whole,) = (translated(*more, lines=f"{one} {two}\n") for more in ([], ["--no-split"]))
    assert together == " ".join(translated(lines=f"{one}\n{two}\n")) != whole


def _text_of(line: str, form: str) -> str:
    return json.loads(line)["translation"] if form == "jsonl" else line.split(" ||| ")[form == "nbest"]


def test_alignments_count_the_words_of_the_whole_line(model: Path) -> None:
    translator, aligner = Translator.load(model, device="cpu", engine="torch"), Aligner.load(model, device="cpu")
    line = " ".join(TEXT[:2])
    whole, *alone = translator.translate([line, *TEXT[:2]])
    record = Details(translator, aligner).record(whole)
    assert record["parts"] == 2
    assert " ".join(record["source_words"]) == line
    assert whole.text == " ".join(each.text for each in alone)
    first, second = map(aligner.align_translation, alone)
    sources, targets = (len(words_of(translator.tokenizer, ids, "")) for ids in (whole.source_ids[0], _ids(alone[0])))
    assert aligner.align_translation(whole) == (*first, *((sources + i, targets + j) for i, j in second))
    assert sources == len(TEXT[0].split())


def _ids(translation: Translation) -> tuple[int, ...]:
    return translation.hypotheses[0].parts[0].ids


@pytest.mark.parametrize("engine", ENGINES)
def test_paragraphs_blank_lines_and_order_survive(heedful: Run, model: Path, tmp_path: Path, engine: str) -> None:
    lines = [TEXT[0], "", "", TEXT[1], " ".join(TEXT), "  ", TEXT[2], ""]
    links = tmp_path / "links"
    arguments = ["translate", "-m", model, "--engine", engine, "--device", "cpu", "--alignments", links]
    result = heedful(*arguments, stdin="\n".join(lines).encode() + b"\n")
    out, alignments = result.out.split("\n")[:-1], links.read_text().split("\n")[:-1]
    assert [bool(line) for line in out] == [bool(line.strip()) for line in lines]
    assert [bool(line) for line in alignments] == [bool(line.strip()) for line in lines]
    alone = heedful(*arguments[:-2], stdin=TEXT[2].encode())
    assert alone.out == out[6] + "\n"


def test_an_engine_that_is_not_installed_is_one_line(
    heedful: Run,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    result = heedful("translate", "-m", model, "--engine", "ctranslate2", stdin=b"the cat\n")
    assert "-m pip install ctranslate2\n" in one_line(result)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_prefix_longer_than_the_limit_is_one_line(heedful: Run, model: Path, tmp_path: Path, engine: str) -> None:
    (tmp_path / "prefix").write_text(TEXT[1] * 3 + "\n")
    arguments = ["--prefix", tmp_path / "prefix", "--max-extra", 1, "--engine", engine, "--device", "cpu"]
    assert "a prefix of" in one_line(heedful("translate", "-m", model, *arguments, stdin=b"the cat\n"))


def test_an_ensemble_of_different_vocabularies_is_one_line(heedful: Run, model: Path, tmp_path: Path) -> None:
    other = small_model(tmp_path / "other", vocab_size=360)
    result = heedful("translate", "-m", model, "-m", other, "--device", "cpu", stdin=b"the cat\n")
    assert "has another vocabulary" in one_line(result)


def test_alternatives_go_with_jsonl(heedful: Run, model: Path) -> None:
    result = heedful("translate", "-m", model, "--alternatives", 2, stdin=b"the cat\n")
    assert "--alternatives goes with --format jsonl" in one_line(result)
    assert "--format jsonl" in result.err


def test_export_writes_once(heedful: Run, model: Path, tmp_path: Path) -> None:
    arguments = ["export", "-m", model, "--to", "huggingface", "-o", tmp_path / "out"]
    assert heedful(*arguments).code == 0
    assert "is there already" in one_line(heedful(*arguments))
    wide = small_model(tmp_path / "wide", d_k=12)
    refused = heedful("export", "-m", wide, "--to", "huggingface", "-o", tmp_path / "wide-out")
    assert "model.d_k = 12 cannot be exported" in one_line(refused)


@pytest.mark.usefixtures("families_of_others")
def test_records_of_a_model_with_cross_attention_alone_have_its_alignment(heedful: Run, tmp_path: Path) -> None:
    glance = save_translator(family_translator({"family": "glance"}, "en", "de"), tmp_path / "glance")
    links = tmp_path / "links"
    words = ("--format", "jsonl", "--alignments", links)
    result = heedful("translate", "-m", glance, "--device", "cpu", *words, stdin=TEXT[0].encode())
    assert result.code == 0, result.err
    (hypothesis,) = json.loads(result.out)["hypotheses"]
    assert hypothesis["alignment"] == links.read_text(encoding="utf-8").strip()
    aligned = {int(link.split("-")[1]) for link in hypothesis["alignment"].split()}
    assert aligned == set(range(len(hypothesis["words"])))


@pytest.mark.usefixtures("families_of_others")
def test_records_of_a_model_without_attention_have_no_alignment_and_alignments_are_refused(
    heedful: Run, tmp_path: Path
) -> None:
    bag = save_translator(family_translator({"family": "bag"}, "en", "de"), tmp_path / "bag")
    arguments = ("translate", "-m", bag, "--engine", "torch", "--device", "cpu")
    result = heedful(*arguments, "--format", "jsonl", "--alternatives", 1, stdin=TEXT[0].encode())
    (hypothesis,) = json.loads(result.out)["hypotheses"]
    assert "alignment" not in hypothesis
    assert hypothesis["words"][0]["alternatives"]
    assert result.err == "the records have no alignment: " + NOT_ALIGNED
    refused = heedful(*arguments, "--alignments", tmp_path / "links", stdin=TEXT[0].encode())
    assert one_line(refused) == "heedful: " + NOT_ALIGNED
    (tmp_path / "text").write_text(TEXT[0] + "\n")
    plan = ("bulk", "plan", tmp_path / "text", "-o", tmp_path / "out", "--format", "jsonl", *arguments[1:])
    assert "the records have no alignment: " + NOT_ALIGNED in heedful(*plan).err
    assert heedful("bulk", "run", tmp_path / "out").code == 0
