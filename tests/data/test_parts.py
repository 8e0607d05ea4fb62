"""Work in parts: plan, one process after the other, what was cut or changed, and joining."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.data.parts import folder as folders
from heedful.data.parts.folder import STRIKES, PartFolder, PartOutput, line_output
from heedful.data.parts.join import join_into_file, join_into_folder, refuse_unfinished
from heedful.data.parts.plan import (
    PartsPlan,
    PartText,
    cut,
    part_text,
    read_plan,
    refuse_changed_inputs,
    refuse_inputs,
    write_plan,
)
from heedful.data.parts.status import status_of
from heedful.data.parts.work import PATIENCE, attempt, share_of, work_through
from heedful.data.stdio import output_file
from heedful.data.text_files import read_lines
from heedful.errors import CheckpointError, DataError
from tests import ROOT
from tests.toy_worker import NUM_PARTS, PART_LINES, ToyWorker, expected, found, opening, times, toy_folder

LONG = 300


def work(folder: PartFolder, log: Path, numbers: Sequence[int] | None = None) -> list[int]:
    """Work through the parts; returns those that it was told of."""
    told: list[int] = []
    numbers = folder.unfinished() if numbers is None else numbers
    work_through(folder, numbers, opening(log), patience=PATIENCE, done=told.append)
    return told


def part_lines(root: Path, plan: PartsPlan, number: int) -> list[str]:
    (lines,) = part_text(root, plan, number).texts
    return lines


def plan_of(root: Path, *texts: bytes | Path, lines: int = 3) -> PartsPlan:
    files = []
    for number, text in enumerate(texts):
        files.append(text if isinstance(text, Path) else root.with_name(f"in{number}"))
        if isinstance(text, bytes):
            files[-1].write_bytes(text)
    root.mkdir(exist_ok=True)
    inputs, parts = cut(root, files, lines, print)
    plan = PartsPlan({}, lines, tuple(inputs), tuple(parts))
    write_plan(root, plan)
    return plan


def refuse_and_cut(path: Path) -> None:
    refuse_inputs([path])
    plan_of(path.with_name("out"), path)


# ------------------------------------------------------------------------------------------------------------ planning


@given(st.lists(st.text("ab\r\u2028é ", max_size=5), min_size=1, max_size=20), st.integers(1, 5), st.booleans())
def test_the_parts_of_a_file_are_its_lines_in_order(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], size: int, ends: bool
) -> None:
    root = tmp_path_factory.mktemp("plan") / "out"
    plan = plan_of(root, b"\xef\xbb\xbf" + "\n".join(lines).encode() + b"\n" * ends, b"another\n", lines=size)
    whole = list(read_lines(Path(plan.inputs[0].file.path)))
    parts = [part_lines(root, plan, number) for number in range(len(plan.parts))]
    assert [line for part in parts for line in part] == [*whole, "another"]
    assert all(len(part) <= size for part in parts)
    assert [part.first_line for part in plan.parts] == [sum(map(len, parts[:n])) for n in range(len(parts))]
    assert plan.num_lines == len(whole) + 1
    assert read_plan(root) == plan


@pytest.mark.parametrize("kind", [".gz", ".xz"])
def test_a_compressed_file_is_unpacked_once_and_says_how_much_that_takes(tmp_path: Path, kind: str) -> None:
    with output_file(tmp_path / f"in{kind}") as file:
        file.writelines(f"line {number}\n" for number in range(10))
    said: list[str] = []
    (tmp_path / "out").mkdir()
    inputs, parts = cut(tmp_path / "out", [tmp_path / f"in{kind}"], 4, said.append)
    plan = PartsPlan({}, 4, tuple(inputs), tuple(parts))
    assert "unpacked into" in said[0]
    assert "MB of disk" in said[0]
    (tmp_path / f"in{kind}").unlink()  # nobody needs it any more
    assert part_lines(tmp_path / "out", plan, 1) == ["line 4", "line 5", "line 6", "line 7"]
    refuse_changed_inputs(tmp_path / "out", plan)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("in", b"good\n" * 6 + b"caf\xe9\n", r"in:7: not valid UTF-8"),
        ("in", b"", "no line in it"),
        ("in.tsv", b"a\tb\n", "holds source and target"),
        ("in.docx", b"PK\x03\x04", "is a text document"),
        ("in.zip", b"PK\x03\x04", "is not read; unpack the file"),
        ("missing", None, "no such file"),
    ],
)
def test_what_is_no_text_is_refused_with_its_name_and_line(
    tmp_path: Path, name: str, text: bytes | None, message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_bytes(text)
    with pytest.raises(DataError, match=message):
        refuse_and_cut(tmp_path / name)


def test_an_object_store_and_a_file_that_is_given_twice_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a\n")
    with pytest.raises(DataError, match="object stores are not read; mount the bucket"):
        refuse_inputs([Path("s3://bucket/in")])
    with pytest.raises(DataError, match="given twice"):
        refuse_inputs([tmp_path / "in", tmp_path / "in"])


def test_text_that_changed_is_refused_and_a_file_that_was_only_touched_is_not(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "out", b"one\ntwo\nthree\nfour\n")
    path = tmp_path / "in0"
    os.utime(path, (1, 1))
    refuse_changed_inputs(tmp_path / "out", plan)
    path.write_bytes(b"one\nTWO\nthree\nfour\n")
    with pytest.raises(DataError, match="has changed since the plan was made"):
        refuse_changed_inputs(tmp_path / "out", plan)
    with pytest.raises(DataError, match="in0: the text from line 1 on has changed"):
        part_lines(tmp_path / "out", plan, 0)
    assert part_lines(tmp_path / "out", plan, 1) == ["four"], "this part is as it was"


# -------------------------------------------------------------------------------------------------------- one process


def test_parts_may_be_done_one_by_one_in_any_order_and_twice(tmp_path: Path) -> None:
    folder, log = toy_folder(tmp_path / "out"), tmp_path / "log"
    order = list(range(NUM_PARTS))
    random.Random(1).shuffle(order)
    worker = ToyWorker(log)
    for number in order:
        assert attempt(folder, number, worker, PATIENCE)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/parts").rglob("*.txt")}
    assert work(folder, log, [order[0], order[0]]) == [order[0], order[0]], "a finished part is left alone"
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out/parts").rglob("*.txt")} == before
    assert attempt(folder, 3, worker, PATIENCE), "a second worker that had it in hand, too"
    assert [found(folder, number) for number in range(NUM_PARTS)] == expected(folder)
    assert join_into_file(folder, tmp_path / "joined") == NUM_PARTS * PART_LINES
    assert (tmp_path / "joined").read_text() == "".join(expected(folder))
    names = {path.suffix for path in (tmp_path / "out/parts").rglob("*") if path.is_file()}
    assert names == {".txt", ".json"}, "and nothing is left over"


def test_shares_are_all_parts_and_each_loads_once(tmp_path: Path) -> None:
    folder, log = toy_folder(tmp_path / "out"), tmp_path / "log"
    for share in range(3):
        work(folder, log, share_of(NUM_PARTS, share, 3))
    assert folder.unfinished() == []
    assert times(log, "opened") == 3
    work(folder, log)
    assert times(log, "opened") == 3, "who has nothing to do opens nothing"


def test_a_part_that_fails_three_times_is_set_aside_and_the_others_go_on(tmp_path: Path) -> None:
    folder, log = toy_folder(tmp_path / "out", told={4: "fail"}), tmp_path / "log"
    assert sorted(work(folder, log)) == list(range(NUM_PARTS))
    assert times(log, "begun-4") == STRIKES
    assert folder.set_aside()[4].errors == ("ValueError: this line is hopeless",) * STRIKES
    assert folder.finished() == set(range(NUM_PARTS)) - {4}
    assert folder.unfinished() == []
    with pytest.raises(CheckpointError, match="1 part of 40 not finished"):
        refuse_unfinished(folder)
    folder.forget_trouble(4)
    assert folder.unfinished() == [4]


def in_process(folder: PartFolder, log: Path) -> subprocess.Popen[bytes]:
    """Work through the parts in another process, as a share of an array job does."""
    code = (
        "import sys; from pathlib import Path; from heedful.data.parts.folder import PartFolder;"
        "from tests.data.test_parts import work;"
        "folder = PartFolder.open(Path(sys.argv[1]))\n"
        "with folder.held(shared=True): work(folder, Path(sys.argv[2]))"
    )
    return subprocess.Popen([sys.executable, "-c", code, str(folder.root), str(log)], cwd=ROOT)


@pytest.mark.slow
def test_a_share_that_a_part_kills_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    folder, log = toy_folder(tmp_path / "out", told={1: "poison", 2: "die at the end"}), tmp_path / "log"
    codes = [in_process(folder, log).wait(LONG) for _ in range(5)]
    assert codes == [-signal.SIGKILL] * 4 + [0], "three times by the poison, once just before a part took its name"
    assert list(folder.set_aside()) == [1]
    assert [times(log, f"begun-{number}") for number in (0, 1, 2, 3)] == [1, STRIKES, 2, 1]
    good = [number for number in range(NUM_PARTS) if number != 1]
    assert [found(folder, number) for number in good] == [expected(folder)[number] for number in good]
    with folder.held():
        assert not list(tmp_path.rglob("*.writing")), "whoever holds the folder alone sweeps it"


@pytest.mark.slow
def test_a_process_that_is_killed_repeats_only_what_was_not_finished(tmp_path: Path) -> None:
    folder, log = toy_folder(tmp_path / "out", told=dict.fromkeys(range(3, 8), "slow")), tmp_path / "log"
    process = in_process(folder, log)
    begin = time.monotonic()
    while len(folder.finished()) < 3 and time.monotonic() - begin < LONG:
        time.sleep(0.02)
    process.kill()
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/parts").rglob("0*.json")}
    assert 3 <= len(before) < NUM_PARTS
    finished = folder.finished()
    work(folder, log)
    assert [found(folder, number) for number in range(NUM_PARTS)] == expected(folder)
    assert all(times(log, f"begun-{number}") == 1 for number in finished)
    assert sum(times(log, f"begun-{number}") for number in range(NUM_PARTS)) <= NUM_PARTS + 1


def test_a_full_disk_ends_the_work_and_is_not_the_parts_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, log = toy_folder(tmp_path / "out"), tmp_path / "log"

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as patched:
        patched.setattr("heedful.data.atomic.flush", lambda path: full(path) if ".txt" in path.name else None)
        with pytest.raises(OSError, match="No space left"):
            work(folder, log)
    assert not folder.finished()
    assert folder.trouble(0).strikes == 0
    assert not list((tmp_path / "out/parts").rglob("*.writing"))
    work(folder, log)
    assert folder.unfinished() == []


def test_whoever_interrupts_the_work_is_not_the_parts_fault(tmp_path: Path) -> None:
    folder = toy_folder(tmp_path / "out")

    class Interrupted(ToyWorker):
        def outputs(self, part: PartText) -> Iterator[PartOutput]:
            raise KeyboardInterrupt
            yield line_output([])

    with pytest.raises(KeyboardInterrupt):
        attempt(folder, 0, Interrupted(tmp_path / "log"), PATIENCE)
    assert folder.trouble(0).strikes == 0


@pytest.mark.slow
def test_a_process_that_hangs_ends_and_says_where(tmp_path: Path) -> None:
    folder = toy_folder(tmp_path / "out", told={0: "hang"})
    code = (
        "import sys; from pathlib import Path; from heedful.data.parts.folder import PartFolder;"
        "from heedful.data.parts.work import attempt; from tests.toy_worker import ToyWorker;"
        "attempt(PartFolder.open(Path(sys.argv[1])), 0, ToyWorker(Path(sys.argv[2])), 1.0)"
    )
    command = [sys.executable, "-c", code, str(folder.root), str(tmp_path / "log")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 1
    assert "in obey" in done.stderr
    assert folder.trouble(0).strikes == 1


def test_two_drivers_are_refused_and_two_shares_are_not(tmp_path: Path) -> None:
    folder = toy_folder(tmp_path / "out")
    refused = pytest.raises(CheckpointError, match="another process is at work there")
    with folder.held(shared=True), folder.held(shared=True), refused, folder.held():
        pass
    with folder.held(), refused, folder.held(shared=True):
        pass


# ------------------------------------------------------------------------------------------------- status and joining


def test_a_cut_part_is_not_joined(tmp_path: Path) -> None:
    folder, log = toy_folder(tmp_path / "out"), tmp_path / "log"
    work(folder, log)
    text = folder.output(7)
    text.write_text(text.read_text()[:20])
    with pytest.raises(DataError, match=r"0000007\.txt: has 20 bytes, not the 40 that were written"):
        join_into_file(folder, tmp_path / "joined")
    assert not (tmp_path / "joined").exists()
    text.unlink()  # as the message says
    assert folder.unfinished() == [7]
    work(folder, log)
    join_into_file(folder, tmp_path / "joined")
    assert (tmp_path / "joined").read_text() == "".join(expected(folder))


def test_a_folder_has_one_output_for_each_input(tmp_path: Path) -> None:
    texts = {"a/x.en": "one\ntwo\n", "b/x.en": "three\n", "b/empty.en": ""}
    for name, text in texts.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
    plan_of(tmp_path / "out", *(tmp_path / "in" / name for name in texts), lines=1)
    folder = PartFolder.open(tmp_path / "out")
    work(folder, tmp_path / "log")
    assert join_into_folder(folder, tmp_path / "joined") == 3
    assert {name: (tmp_path / "joined" / name).read_text() for name in texts} == {
        name: text.upper() for name, text in texts.items()
    }
    with pytest.raises(DataError, match="is an input, and would be replaced"):
        join_into_folder(folder, tmp_path / "in")
    with pytest.raises(DataError, match="is an input, and would be replaced"):
        join_into_file(folder, tmp_path / "in/a/x.en")


def test_the_status_counts_parts_and_warns_of_different_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, log = toy_folder(tmp_path / "out", told={4: "fail"}), tmp_path / "log"
    work(folder, log, range(10))
    status = status_of(folder)
    assert (len(status.finished), len(status.set_aside), status.missing) == (9, 1, 30)
    assert (status.finished_lines, status.missing_lines) == (9 * PART_LINES, 30 * PART_LINES)
    assert status.seconds_left == pytest.approx(30 * PART_LINES / status.lines_per_second)
    assert len(status.cpus) == 1
    monkeypatch.setattr("heedful.data.parts.work.cpu_name", lambda: "another CPU")
    work(folder, log, [20])
    assert "another CPU" in status_of(folder).cpus


def test_what_is_no_plan_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no plan\.json; heedful bulk plan"):
        PartFolder.open(tmp_path)
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(CheckpointError, match="damaged, or of another version"):
        PartFolder.open(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letters").touch()
    with pytest.raises(CheckpointError, match="is not an empty folder"), folders.new_plan_folder(tmp_path / "full"):
        pass
