"""The text of an experiment: cut out once, the same each time, and told when it is missing."""

from __future__ import annotations

import dataclasses
import lzma
from pathlib import Path

import pytest

from heedful.data.text_files import SentencePair
from heedful.data.tokenizer import Tokenizer
from heedful.errors import DataError
from heedful.lab import text
from heedful.lab.text import PLAIN, Pairs, Source, Text, find_text, prepare, read_source, usual_sets

WORDS = ["der", "die", "das", "ein", "kein", "Haus", "Hund", "Baum"]
PAIRS = [SentencePair(f"{a} {b}", f"{b} {a}") for a in WORDS for b in WORDS]


def source(num_pairs: int = 40) -> Source:
    return Source("words", PAIRS[:50], PAIRS[50:], num_pairs, 304, 1, {"pronouns.tsv": "a\tb\tc\n"})


def test_the_first_pairs_are_trained_on_and_the_validation_text_is_whole(tmp_path: Path) -> None:
    folder = prepare(PLAIN, source(), tmp_path).folder
    assert (folder / "train.en").read_text(encoding="utf-8").splitlines() == [pair.source for pair in PAIRS[:40]]
    assert (folder / "valid.de").read_text(encoding="utf-8").splitlines() == [pair.target for pair in PAIRS[50:]]
    assert (folder / "pronouns.tsv").read_text(encoding="utf-8") == "a\tb\tc\n"
    assert Tokenizer.load(folder / "tokenizer.model").vocab_size <= 304


def test_text_that_is_there_stays(tmp_path: Path) -> None:
    first = prepare(PLAIN, source(), tmp_path)
    before = (first.folder / "tokenizer.model").stat().st_mtime_ns
    assert prepare(PLAIN, source(), tmp_path) == first
    assert (first.folder / "tokenizer.model").stat().st_mtime_ns == before


def test_other_text_in_the_folder_is_refused_and_the_first_stays(tmp_path: Path) -> None:
    first = prepare(PLAIN, source(), tmp_path)
    before = (first.folder / "train.en").read_bytes()
    with pytest.raises(DataError, match=r"words: the text is \w{8}, was \w{8}; take a new folder \(-o\)"):
        prepare(PLAIN, source(39), tmp_path)
    assert (first.folder / "train.en").read_bytes() == before
    assert prepare(PLAIN, source(), tmp_path) == first


def test_another_text_of_the_same_source_has_a_folder_of_its_own(tmp_path: Path) -> None:
    short = Text("short", lambda source: {**usual_sets(source), "long": source.train[40:]})
    prepared = prepare(short, source(), tmp_path)
    assert prepared.name == "words-short"
    assert len((prepared.folder / "long.en").read_text(encoding="utf-8").splitlines()) == 10


def test_a_text_may_have_the_pieces_of_another(tmp_path: Path) -> None:
    def last_pairs(source: Source) -> dict[str, Pairs]:
        return {**usual_sets(source), "train": source.train[25:]}

    texts = PLAIN, Text("last", last_pairs, vocabulary=usual_sets), Text("own", last_pairs)
    plain, last, own = (prepare(text, source(), tmp_path) for text in texts)
    assert plain.vocabulary == last.vocabulary != own.vocabulary
    assert len({plain.digest, last.digest, own.digest}) == 3


def test_a_carriage_return_within_a_line_does_not_make_it_other_text(tmp_path: Path) -> None:
    odd = dataclasses.replace(source(), train=[SentencePair("der\rdie", "das\r"), *PAIRS[:49]])
    assert prepare(PLAIN, odd, tmp_path) == prepare(PLAIN, odd, tmp_path)


def test_a_vocabulary_of_another_size_is_refused_as_other_text(tmp_path: Path) -> None:
    prepare(PLAIN, source(), tmp_path)
    smaller = dataclasses.replace(source(), num_pieces=296)
    with pytest.raises(DataError, match=r"words: the text is \w{8}, was \w{8}"):
        prepare(PLAIN, smaller, tmp_path)


def test_all_rows_name_the_shared_vocabulary(tmp_path: Path) -> None:
    prepared = prepare(PLAIN, source(), tmp_path)
    assert prepared.layer()["tokenizer"] == {"model": str(prepared.folder / "tokenizer.model")}
    assert prepared.layer()["data"]["valid_target"] == [str(prepared.folder / "valid.de")]
    assert prepared.vocabulary == Tokenizer.load(prepared.folder / "tokenizer.model").fingerprint


def test_packed_files_are_found_and_a_missing_one_is_one_line(tmp_path: Path) -> None:
    for name, lines in {"train": "a\nb\n", "valid": "c\n"}.items():
        for language in ("en", "de"):
            (tmp_path / f"{name}.{language}.xz").write_bytes(lzma.compress(lines.encode()))
    found = read_source(tmp_path)
    assert (found.name, len(found.train), len(found.valid)) == (tmp_path.name, 2, 1)
    with pytest.raises(DataError, match=r"valid\.fr: is not there, nor as \.xz or \.gz; --data names the folder"):
        find_text(tmp_path, "valid.fr")


def test_the_built_in_corpus_comes_with_its_pronouns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BUILT_IN_POOL", text.BUILT_IN_PAIRS + 1)
    found = read_source(None)
    assert found.name == "built-in"
    assert len(found.train) > found.num_pairs
    right, wrong = found.other_files["pronouns.tsv"].splitlines()[0].split("\t")[1:]
    assert right != wrong
    assert not {pair.source for pair in found.train} & {pair.source for pair in found.valid}
