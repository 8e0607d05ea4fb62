"""Text that is encoded in parts: the shards are those of one process, to the last byte."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.data import text_to_ids
from heedful.data.parts import encoding as module
from heedful.data.parts.encoding import PairEncoding, join_shards, plan_encoding
from heedful.data.parts.folder import PartFolder
from heedful.data.parts.plan import raw_text
from heedful.data.parts.work import PATIENCE, work_through
from heedful.data.shards import open_shards, prepare
from heedful.data.text_to_ids import Encoding
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError, DataError

LINES = [f"sentence {number} of the {number % 7} · сова 고양이".strip() for number in range(60)]
TOKENIZER = Tokenizer.learn(LINES, 320, seed=1)
LINE = st.sampled_from(["", " ", "a\r", "a b c", "고양이 сова", "word " * 30, "\u2028"])
PAIRS = st.lists(st.tuples(LINE, LINE), min_size=1, max_size=12)
FILES = ("source.ids", "source.lengths", "target.ids", "target.lengths")
DRAWN = Encoding(TOKENIZER, 25, 0.3, 3, 5, 2.0, True)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_to_ids, "_CHUNK_PAIRS", 4)
    monkeypatch.setattr(text_to_ids, "_CHUNK_CHARACTERS", 60)
    monkeypatch.setattr(module, "PART_CHUNKS", 2)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def write(folder: Path, *files: list[tuple[str, str]]) -> tuple[list[Path], list[Path]]:
    """Aligned files with these pairs: the first source begins with a byte order mark, the second pair is compressed."""
    sides: tuple[list[Path], list[Path]] = ([], [])
    for number, pairs in enumerate(files):
        for side, paths in enumerate(sides):
            paths.append(folder / f"{number}.{side}{'.gz' if number == 1 else ''}")
            text = "".join(f"{pair[side]}\n" for pair in pairs).encode()
            text = b"\xef\xbb\xbf" + text if number == side == 0 else text
            paths[-1].write_bytes(gzip.compress(text) if number == 1 else text)
    return sides


def in_parts(root: Path, sources: list[Path], targets: list[Path], encoding: Encoding) -> PartFolder:
    """All parts, encoded in any order."""
    TOKENIZER.save(root.parent / "tokenizer.model")
    plan_encoding(root, sources, targets, encoding, root.parent / "tokenizer.model", lambda told: None)
    folder = PartFolder.open(root)
    numbers = folder.unfinished()
    random.Random(1).shuffle(numbers)
    work_through(folder, numbers, PairEncoding.of(folder.plan).opening, patience=PATIENCE, done=lambda number: None)
    return folder


def joined(folder: PartFolder, directory: Path, sources: list[Path], targets: list[Path]) -> None:
    join_shards(folder, directory, sources, targets, progress=lambda counts: None)


@settings(max_examples=30)
@given(st.lists(PAIRS, min_size=1, max_size=3), st.sampled_from([Encoding(TOKENIZER, 25), DRAWN]))
def test_shards_in_parts_are_those_of_one_process(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple[str, str]]], encoding: Encoding
) -> None:
    where = tmp_path_factory.mktemp("text")
    sources, targets = write(where, *files, [("a", "b c")])
    prepare(where / "one", sources, targets, encoding, processes=1)
    joined(in_parts(where / "parts", sources, targets, encoding), where / "many", sources, targets)
    for name in FILES:
        assert (where / "one" / name).read_bytes() == (where / "many" / name).read_bytes(), name
    one, many = open_shards(where / "one"), open_shards(where / "many")
    assert (many.counts, many.kept_of_files) == (one.counts, one.kept_of_files)


def test_each_part_has_whole_chunks_and_reads_only_its_own_text(tmp_path: Path) -> None:
    sources, targets = write(tmp_path, [(f"{n}", f"{n} {n}") for n in range(30)], [("x", "y")] * 5)
    folder = in_parts(tmp_path / "parts", sources, targets, DRAWN)
    plan = folder.plan
    assert [part.lines for part in plan.parts] == [8, 8, 8, 8, 3]
    assert [part.first_line for part in plan.parts] == [0, 8, 16, 24, 32]
    assert [len(part.ranges) for part in plan.parts] == [2, 2, 2, 4, 2]
    for number, path in enumerate([*sources, *targets]):
        ranges = [each for part in plan.parts for each in part.ranges if each.input == number]
        whole = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert b"".join(raw_text(folder.root, plan, each) for each in ranges) == whole


def test_a_tsv_may_be_encoded_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"a {n}\tb {n}\n" for n in range(20)) + "\n")
    prepare(tmp_path / "one", [path], [], DRAWN, processes=1)
    joined(in_parts(tmp_path / "parts", [path], [], DRAWN), tmp_path / "many", [path], [])
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes() for name in FILES)


def test_another_text_encoding_or_tokenizer_is_refused(tmp_path: Path) -> None:
    sources, targets = write(tmp_path, [("a", "b")] * 20)
    folder = in_parts(tmp_path / "parts", sources, targets, DRAWN)
    tokenizer = tmp_path / "tokenizer.model"
    with pytest.raises(CheckpointError, match="holds another plan"):
        plan_encoding(folder.root, sources, targets, Encoding(TOKENIZER, 24), tokenizer, print)
    targets[0].write_text("c\n" * 21)
    with pytest.raises(DataError, match=r"has 20 lines but .* has 21"):
        plan_encoding(tmp_path / "new", sources, targets, DRAWN, tokenizer, print)
    Tokenizer.learn(LINES, 328, seed=1).save(tokenizer)
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: has changed since the plan was made"):
        PairEncoding.of(folder.plan).opening()
