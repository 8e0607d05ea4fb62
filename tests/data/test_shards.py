"""Token ids on disk: made once from text, the same in any number of processes."""

import itertools
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.data import shards as module
from heedful.data import text_to_ids
from heedful.data.shards import PairCounts, Shards, Side, is_current, open_shards, prepare
from heedful.data.text_to_ids import Encoding
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError, ConfigError, DataError, DeviceError
from tests import ROOT

LONG = 300  # seconds in which a busy machine, too, has started and ended processes
LINES = [f"sentence {number} of the {number % 7} · сова 고양이 ".strip() for number in range(60)]
TOKENIZER = Tokenizer.learn(LINES, 320, seed=1)
OTHER_TOKENIZER = Tokenizer.learn(LINES, 328, seed=1)
FILES = ("source.ids", "source.lengths", "target.ids", "target.lengths")

SENTENCE = st.lists(st.integers(1, 2**16 - 1), max_size=40).map(lambda ids: [*ids, 0])
LINE = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", " ", "\t", "\u2581", "\u3000", "a", "👩‍👩‍👧", "שלום", "word " * 30]
)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few lines are many chunks, and other processes start for them."""
    monkeypatch.setattr(text_to_ids, "_CHUNK_PAIRS", 7)
    monkeypatch.setattr(text_to_ids, "_FEW_CHUNKS", 2)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # the tests' own time


class Text:
    """Two aligned files, and the shards that are made from them."""

    def __init__(self, folder: Path, sources: Sequence[str] = LINES, targets: Sequence[str] = LINES[::-1]) -> None:
        self.directory, self.source, self.target = folder / "data" / "train", folder / "a.en", folder / "a.de"
        self.write(sources, targets)

    def write(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        for path, lines in ((self.source, sources), (self.target, targets)):
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")

    def prepare(
        self,
        *,
        tokenizer: Tokenizer = TOKENIZER,
        max_length: int = 100,
        drawn: tuple[float, int, int] = (0.0, 1, 0),
        cleaned: tuple[float, bool] = (0.0, False),
        processes: int = 1,
        progress: Callable[[PairCounts], None] = lambda _: None,
    ) -> Shards:
        files = [self.source], [self.target]
        how = Encoding(tokenizer, max_length, *drawn, *cleaned)
        return prepare(self.directory, *files, how, processes=processes, progress=progress)

    def is_current(self) -> bool:
        return is_current(self.directory, [self.source], [self.target], Encoding(TOKENIZER, 100))

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in self.directory.parent.iterdir())


@pytest.fixture
def text(tmp_path: Path) -> Text:
    return Text(tmp_path)


def sentences(side: Side) -> list[list[int]]:
    """What a side holds, by plain slicing."""
    ends = np.cumsum(side.lengths)
    return [side.ids[end - length : end].tolist() for end, length in zip(ends, side.lengths, strict=True)]


def in_memory(rows: Sequence[Sequence[int]]) -> Side:
    lengths = np.array([len(row) for row in rows], np.int32)
    return Side(np.fromiter(itertools.chain.from_iterable(rows), np.uint16), lengths)


def contents(directory: Path) -> list[bytes]:
    return [(directory / name).read_bytes() for name in FILES]


def no_encoding(*_: object, **__: object) -> Iterator[None]:
    raise AssertionError("the text was encoded again")


# --------------------------------------------------------------------------------------------------------------- gather


@given(st.lists(SENTENCE, min_size=1), st.data())
def test_gather_is_slicing(rows: list[list[int]], data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1)))
    ids_T, lengths_N = in_memory(rows).gather(np.array(indices, np.int64))
    assert ids_T.tolist() == [index for row in indices for index in rows[row]]
    assert lengths_N.tolist() == [len(rows[row]) for row in indices]
    assert ids_T.dtype == lengths_N.dtype == np.dtype(np.int64)


def test_a_large_corpus_is_gathered_alike(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    indices = np.random.default_rng(1).integers(0, 60, 500)
    small = text.prepare().source.gather(indices)
    monkeypatch.setattr(module, "_MAPPED_BYTES", 0)
    side = open_shards(text.directory).source
    assert side.reader is not None
    assert all(np.array_equal(*arrays) for arrays in zip(small, side.gather(indices), strict=True))
    assert [len(part) for part in side.gather(indices[:0])] == [0, 0]
    os.truncate(text.directory / "source.ids", 10)
    with pytest.raises(CheckpointError, match="damaged"):
        side.gather(indices)


def test_a_large_corpus_does_not_stay_in_memory(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    num_sentences, length = 2_000, 8_000
    text.prepare()
    record = msgspec.json.decode((text.directory / "record.json").read_bytes())
    record["counts"] |= dict.fromkeys(("source_tokens", "target_tokens"), num_sentences * length)
    record["counts"]["kept"] = num_sentences
    (text.directory / "record.json").write_bytes(msgspec.json.encode(record))
    for name in ("source", "target"):
        (text.directory / f"{name}.ids").write_bytes(bytes(2 * num_sentences * length))
        np.full(num_sentences, length, "<i4").tofile(text.directory / f"{name}.lengths")
    growth = []
    for limit in (0, 2**40):
        monkeypatch.setattr(module, "_MAPPED_BYTES", limit)
        side = open_shards(text.directory).source
        before = resident_bytes()
        for sentence in range(num_sentences):
            side.gather(np.array([sentence]))
        growth.append(resident_bytes() - before)
    assert growth[0] < 8e6 < 24e6 < growth[1]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ----------------------------------------------------------------------------------------------------------------- make


@settings(max_examples=50)
@given(st.lists(st.tuples(LINE, LINE), min_size=1), st.integers(1, 40))
def test_shards_hold_the_ids_of_every_pair_that_is_kept(pairs: list[tuple[str, str]], max_length: int) -> None:
    pairs = [(source.strip("\r\ufeff"), target.strip("\r\ufeff")) for source, target in pairs]
    ids = [(TOKENIZER.encode(source), TOKENIZER.encode(target)) for source, target in pairs]
    full = [bool(a.strip() and b.strip() and x and y) for (a, b), (x, y) in zip(pairs, ids, strict=True)]
    kept = [pair for pair, is_full in zip(ids, full, strict=True) if is_full and max(map(len, pair)) <= max_length]
    with TemporaryDirectory() as folder:
        text = Text(Path(folder), *zip(*pairs, strict=True))
        if not kept:
            with pytest.raises(DataError, match=f"no sentence pair is left of {len(pairs)}"):
                text.prepare(max_length=max_length)
            return
        made = text.prepare(max_length=max_length)
        assert sentences(made.source) == [[*source, 0] for source, _ in kept]
        assert sentences(made.target) == [[*target, 0] for _, target in kept]
        tokens = len(made.source.ids), len(made.target.ids)
        assert made.counts == PairCounts(
            len(pairs), len(kept), full.count(False), full.count(True) - len(kept), *tokens
        )
        assert len(made) == len(kept)


def test_the_limit_does_not_count_eos(text: Text) -> None:
    length = len(TOKENIZER.encode("a long line"))
    text.write(["a long line", "short"], ["short", "a long line"])
    assert text.prepare(max_length=length).counts.kept == 2
    with pytest.raises(DataError, match=f"0 are empty on a side, 2 are longer than data.max_length = {length - 1}"):
        text.prepare(max_length=length - 1)


def test_a_line_of_5000_tokens_is_a_line_like_others(text: Text) -> None:
    text.write(["a", "b c " * 2500, "d"], ["x", "y", "z"])
    assert text.prepare(max_length=20_000).source.lengths[1] > 5_000
    assert text.prepare(max_length=4_000).counts.too_long == 1


def test_tsv_and_packed_files_give_the_same_shards(text: Text, tmp_path: Path) -> None:
    text.prepare()
    tsv = tmp_path / "a.tsv"
    tsv.write_text("".join(f"{a}\t{b}\r\n" for a, b in zip(LINES, LINES[::-1], strict=True)), encoding="utf-8-sig")
    prepare(tmp_path / "tsv", [tsv], [], Encoding(TOKENIZER, 100))
    assert contents(tmp_path / "tsv") == contents(text.directory)


@pytest.mark.parametrize("processes", [2, 3])
def test_the_files_do_not_depend_on_the_processes(text: Text, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text.write([*LINES, "", "x" * 200], [*LINES, "a", "a"])
    alone = text.prepare()
    expected = contents(text.directory)
    shutil.rmtree(text.directory)
    monkeypatch.setattr(text_to_ids, "BulkEncoder", no_encoding)
    together = text.prepare(processes=processes)
    assert contents(text.directory) == expected
    assert together.counts == alone.counts


def test_chunks_are_bounded_in_characters_too(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = sentences(text.prepare().source)
    shutil.rmtree(text.directory)
    seen: list[PairCounts] = []
    monkeypatch.setattr(text_to_ids, "_CHUNK_PAIRS", 1000)
    monkeypatch.setattr(text_to_ids, "_CHUNK_CHARACTERS", 100)
    assert sentences(text.prepare(progress=seen.append).source) == expected
    assert len(seen) > 10
    assert [counts.read for counts in seen] == sorted(counts.read for counts in seen)


@pytest.mark.parametrize("processes", [1, 2])
def test_how_many_pairs_are_kept_of_each_file_is_known(tmp_path: Path, processes: int) -> None:
    sizes, blank = (3, 25, 1, 40), {"1": 4, "3": 10}
    for number, size in enumerate(sizes):
        num_blank = blank.get(str(number), 0)
        lines = ["" if line < num_blank else f"sentence {line}" for line in range(size)]
        (tmp_path / f"{number}.en").write_text("".join(f"{line}\n" for line in lines))
    files = [tmp_path / f"{number}.en" for number in range(len(sizes))]
    shards = prepare(tmp_path / "shards", files, files, Encoding(TOKENIZER, 100), processes=processes)
    assert shards.kept_of_files == (3, 21, 1, 30)
    assert open_shards(tmp_path / "shards").kept_of_files == (3, 21, 1, 30)
    with pytest.raises(ConfigError, match=r"data\.weights has 2 weights, and the encoded text knows of 4 files"):
        shards.weighted([1.0, 2.0])


def test_few_lines_start_no_process(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_to_ids, "_FEW_CHUNKS", 50)
    monkeypatch.setattr(subprocess, "Popen", no_encoding)
    assert len(text.prepare(processes=2)) == 60


def test_ids_take_four_bytes_where_two_are_too_few(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    assert text.prepare().source.ids.dtype == np.uint16
    monkeypatch.setattr(Tokenizer, "vocab_size", 2**16 + 8)
    assert text.prepare(max_length=99).source.ids.dtype == np.uint32


# ------------------------------------------------------------------------------------------------------------- cleaning


def test_uneven_pairs_and_copies_are_left_out_and_counted_where_that_is_wished(text: Text) -> None:
    sources = ["sentence 1 of the", "sentence", " same 2 ", "sentence 3", ""]
    targets = ["sentence 2 of the", "sentence 1 of the 1 of the", "same 2", "sentence 4", "sentence"]
    text.write(sources, targets)
    plain = text.prepare()
    assert (plain.counts.kept, plain.counts.empty, plain.counts.uneven, plain.counts.copies) == (4, 1, 0, 0)
    cleaned = text.prepare(cleaned=(2.0, True))
    assert (cleaned.counts.kept, cleaned.counts.empty, cleaned.counts.uneven, cleaned.counts.copies) == (2, 1, 1, 1)
    assert [TOKENIZER.decode(ids) for ids in sentences(cleaned.source)] == [sources[0], sources[3]]
    assert [TOKENIZER.decode(ids) for ids in sentences(cleaned.target)] == [targets[0], targets[3]]
    assert cleaned.counts.left_out == "left out: 1 empty, 0 too long, 1 uneven, 1 copied"
    assert plain.counts.left_out == "left out: 1 empty, 0 too long"
    assert not text.is_current()


def test_a_pair_at_the_ratio_itself_is_kept_and_more_than_that_is_not(text: Text) -> None:
    text.write(["sentence"], ["sentence sentence sentence"])
    assert text.prepare(cleaned=(3.0, False)).counts.kept == 1
    with pytest.raises(DataError, match="1 have sides of too different lengths and 0 are copies"):
        text.prepare(cleaned=(2.9, False))


# --------------------------------------------------------------------------------------------------------- BPE-dropout


def test_every_encoding_is_of_the_same_text_and_the_first_is_the_plain_one(text: Text) -> None:
    plain = sentences(text.prepare().source)
    made = text.prepare(drawn=(0.3, 4, 1))
    drawn = sentences(made.source)
    assert (len(made), made.num_encodings, len(drawn)) == (60, 4, 240)
    assert drawn[:60] == plain
    assert [TOKENIZER.decode(ids) for ids in drawn] == 4 * LINES
    parts = [drawn[60 * k : 60 * (k + 1)] for k in range(4)]
    differ = [sum(a != b for a, b in zip(one, other, strict=True)) for one, other in itertools.combinations(parts, 2)]
    assert min(differ) > 40
    assert made.counts == text.prepare().counts


@pytest.mark.parametrize("processes", [2, 3])
def test_draws_follow_from_the_seed_and_not_from_the_processes(text: Text, processes: int) -> None:
    text.write([*LINES, *[""] * 14, *LINES], [*LINES[::-1], *["a"] * 14, *LINES])  # chunks of which nothing is kept
    text.prepare(drawn=(0.2, 3, 5))
    expected = contents(text.directory)
    shutil.rmtree(text.directory)
    text.prepare(drawn=(0.2, 3, 5), processes=processes)
    assert contents(text.directory) == expected
    text.prepare(drawn=(0.2, 3, 6))
    assert contents(text.directory) != expected


def test_a_draw_that_comes_out_too_long_gives_way_to_the_plain_encoding(text: Text) -> None:
    plain = sentences(text.prepare().source)
    free = sentences(text.prepare(drawn=(0.5, 3, 1)).source)[60:]
    made = sentences(text.prepare(max_length=20, drawn=(0.5, 3, 1)).source)[60:]
    fits = [len(ids) <= 21 for ids in free]
    assert {True, False} <= set(fits)
    assert made == [ids if fit else own for ids, fit, own in zip(free, fits, 2 * plain, strict=True)]


def test_other_draws_are_made_anew_and_no_draws_leave_no_trace(text: Text) -> None:
    text.prepare()
    assert b"num_encodings" not in (text.directory / "record.json").read_bytes()
    before = contents(text.directory)
    text.prepare(drawn=(0.2, 3, 5))
    assert not text.is_current()
    assert sorted(path.name for path in text.directory.iterdir()) == ["record.json", *FILES]
    assert open_shards(text.directory).num_encodings == 3
    text.prepare()
    assert contents(text.directory) == before


def test_drawn_encodings_that_are_cut_off_are_found(text: Text) -> None:
    text.prepare(drawn=(0.2, 3, 5))
    ids = (text.directory / "target.ids").read_bytes()
    (text.directory / "target.ids").write_bytes(ids[:-2])
    with pytest.raises(CheckpointError, match="damaged"):
        open_shards(text.directory)


# ---------------------------------------------------------------------------------------------------------------- reuse


def test_what_is_made_is_used_again(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    made = text.prepare()
    monkeypatch.setattr(text_to_ids.Encoding, "encode", no_encoding)
    again = text.prepare(processes=2)
    assert again.counts == made.counts
    assert sentences(again.source) == sentences(made.source)
    assert text.is_current()


def test_content_decides_and_not_the_clock(text: Text, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text.prepare()
    monkeypatch.setattr(text_to_ids.Encoding, "encode", no_encoding)
    os.utime(text.source, (1, 1))
    text.target = text.target.rename(tmp_path / "renamed.de")
    assert len(text.prepare()) == 60


def change_text(text: Text) -> None:
    status = text.source.stat()
    text.write([LINES[0].replace("0", "1"), *LINES[1:]], LINES[::-1])
    os.utime(text.source, ns=(status.st_atime_ns, status.st_mtime_ns))


def swap_sides(text: Text) -> None:
    text.source, text.target = text.target, text.source


@pytest.mark.parametrize("change", [change_text, swap_sides])
def test_other_text_is_encoded_anew(text: Text, change: Callable[[Text], None]) -> None:
    before = sentences(text.prepare().source)
    change(text)
    assert not text.is_current()
    assert sentences(text.prepare().source) != before
    assert text.is_current()
    assert text.left == ["train"]


def test_other_settings_encode_anew(text: Text) -> None:
    before = sentences(text.prepare().source)
    assert sentences(text.prepare(tokenizer=OTHER_TOKENIZER).source) != before
    assert not text.is_current()
    assert sentences(text.prepare(max_length=99).source) == before
    assert not text.is_current()


def test_the_same_files_in_another_role_are_other_text(tmp_path: Path) -> None:
    first, second = tmp_path / "a.tsv", tmp_path / "b.tsv"
    for path in (first, second):
        path.write_text("x\ty\n", encoding="utf-8")
    how = Encoding(TOKENIZER, 9)
    prepare(tmp_path / "data", [first, second], [], how)
    assert is_current(tmp_path / "data", [first, first], [], how)
    assert not is_current(tmp_path / "data", [first], [second], how)
    assert not is_current(tmp_path / "data", [first], [], how)


def test_a_file_that_held_still_is_not_read_again(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 10**10)
    text.prepare()
    monkeypatch.setattr(module, "fingerprint", no_encoding)
    assert text.is_current()
    assert len(text.prepare()) == 60


def test_a_file_that_just_changed_is_read_again(text: Text) -> None:
    text.prepare()
    record = msgspec.json.decode((text.directory / "record.json").read_bytes())
    change_text(text)
    status = text.source.stat()
    # As if the change had come within the same tick of the clock.
    record["files"][0] |= {"mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns, "size": status.st_size}
    (text.directory / "record.json").write_bytes(msgspec.json.encode(record))
    assert not text.is_current()


# ---------------------------------------------------------------------------------------------------- what can go wrong


def interrupt(counts: PairCounts) -> None:
    if counts.read > 20:
        raise KeyboardInterrupt


@pytest.mark.parametrize("processes", [1, 2])
def test_an_interruption_leaves_nothing(text: Text, processes: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        text.prepare(processes=processes, progress=interrupt)
    assert text.left == []


def test_an_interruption_leaves_what_was_there(text: Text) -> None:
    before = text.prepare().counts
    text.write(LINES * 2, LINES * 2)
    with pytest.raises(KeyboardInterrupt):
        text.prepare(progress=interrupt)
    assert text.left == ["train"]
    assert open_shards(text.directory).counts == before


@pytest.mark.slow
def test_what_a_killed_process_left_is_cleared_away(text: Text) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    for name in (f".train.{platform.node()}.{dead.pid}.writing", ".train.old"):
        (text.directory.parent / name).mkdir(parents=True)
        (text.directory.parent / name / "source.ids").write_bytes(b"half")
    assert len(text.prepare()) == 60
    assert text.left == ["train"]


@pytest.mark.parametrize("processes", [1, 2])
def test_bad_text_leaves_nothing(text: Text, processes: int) -> None:
    text.write(LINES, LINES[:-1])
    with pytest.raises(DataError, match=r"a\.en has 60 lines but .*a\.de has 59"):
        text.prepare(processes=processes)
    assert text.left == []
    text.source.write_bytes("\n".join(LINES[:40]).encode() + b"\n\xed\xa0\x80\n")
    with pytest.raises(DataError, match=r"a\.en:41: not valid UTF-8"):
        text.prepare(processes=processes)
    text.source.unlink()
    with pytest.raises(DataError, match=r"a\.en: no such file"):
        text.prepare(processes=processes)


def test_a_full_disk_is_one_line(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"train: cannot be written \(No space left on device\)"):
        text.prepare()
    assert text.left == []


def test_what_is_not_ours_is_not_touched(text: Text) -> None:
    text.directory.mkdir(parents=True)
    assert len(text.prepare()) == 60
    shutil.rmtree(text.directory)
    for thesis in (text.directory / "thesis.tex", text.directory):
        shutil.rmtree(text.directory, ignore_errors=True)
        thesis.parent.mkdir(exist_ok=True)
        thesis.write_text("dear")
        with pytest.raises(CheckpointError, match="holds something other than shards"):
            text.prepare()
        assert thesis.read_text() == "dear"


def cut_ids(directory: Path) -> None:
    os.truncate(directory / "source.ids", 30)


def cut_record(directory: Path) -> None:
    os.truncate(directory / "record.json", 30)


def age_record(directory: Path) -> None:
    record = msgspec.json.decode((directory / "record.json").read_bytes())
    (directory / "record.json").write_bytes(msgspec.json.encode(record | {"format": 0}))


def lose_file(directory: Path) -> None:
    (directory / "target.lengths").unlink()


def empty_a_sentence(directory: Path) -> None:
    lengths = np.memmap(directory / "target.lengths", "<i4", mode="r+")
    lengths[1], lengths[0] = lengths[1] + lengths[0], 0


def prolong_a_sentence(directory: Path) -> None:
    np.memmap(directory / "target.lengths", "<i4", mode="r+")[3] += 1000


@pytest.mark.parametrize("damage", [cut_ids, cut_record, age_record, lose_file, empty_a_sentence, prolong_a_sentence])
def test_damaged_shards_are_refused_and_made_anew(text: Text, damage: Callable[[Path], None]) -> None:
    expected = sentences(text.prepare().target)
    damage(text.directory)
    with pytest.raises(CheckpointError, match="data/train"):
        open_shards(text.directory)
    assert sentences(text.prepare().target) == expected


def test_missing_shards_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no shards are here"):
        open_shards(tmp_path / "nowhere")


# ------------------------------------------------------------------------------------------------------------ processes


def test_a_process_that_dies_is_an_error_of_ours(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(DeviceError, match="a process that encoded text ended with exit code 1"):
        text.prepare(processes=2)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(DeviceError, match="no process could be started"):
        text.prepare(processes=2)
    assert text.left == []


# A script without `if __name__ == "__main__"`, as people write them; `forever` never comes to an end.
SCRIPT = """
import itertools, signal, sys
from pathlib import Path
from heedful.data import text_files, text_to_ids, shards
from heedful.data.tokenizer import Tokenizer
print("started", flush=True)
text_to_ids._CHUNK_PAIRS, text_to_ids._FEW_CHUNKS = 7, 2
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests in the background ignores it
folder, forever = Path(sys.argv[1]), sys.argv[2:] == ["forever"]
if forever:
    shards.read_pairs = lambda *files: itertools.cycle(list(text_files.read_pairs(*files)))
try:
    made = shards.prepare(folder / "data" / "train", [folder / "a.en"], [folder / "a.de"],
        text_to_ids.Encoding(Tokenizer.load(folder / "tokenizer.model"), 100), processes=2,
        progress=lambda counts: print("encoding", flush=True) if counts.read < 8 else None)
    print(len(made), "torch" in sys.modules, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@contextmanager
def script(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    TOKENIZER.save(folder / "tokenizer.model")
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, folder / "script.py", folder, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_script_without_a_guard_runs_once(text: Text, tmp_path: Path) -> None:
    with script(tmp_path) as process:
        assert process.communicate(timeout=LONG) == ("started\nencoding\n60 False\n", "")
    assert text.left == ["train"]


@pytest.mark.slow
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL])
def test_workers_leave_quietly_with_the_process_that_started_them(text: Text, tmp_path: Path, way: int) -> None:
    with script(tmp_path, "forever") as process:
        assert process.stdout is not None
        assert process.stdout.readline() + process.stdout.readline() == "started\nencoding\n"
        workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(workers) == 2
        assert process.pid not in [os.getpgid(int(worker)) for worker in workers], "Ctrl-C would reach the workers"
        os.killpg(process.pid, way)
        assert process.communicate(timeout=LONG) == ("interrupted\n" if way == signal.SIGINT else "", "")
    deadline = time.monotonic() + LONG
    while any(Path("/proc", worker).exists() for worker in workers):
        assert time.monotonic() < deadline, "a worker outlives the process that started it"
        time.sleep(0.05)
    killed = f".train.{platform.node()}.{process.pid}.writing"
    assert text.left == ([] if way == signal.SIGINT else [killed])
    assert len(text.prepare()) == 60
    assert text.left == ["train"]
