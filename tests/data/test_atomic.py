"""Files that are there whole or not at all."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from heedful.data.atomic import unfinished, write_file
from heedful.data.grammar.corpus_files import write_corpus
from heedful.data.lines import output_file


def test_a_file_takes_the_place_of_the_one_before_it(tmp_path: Path) -> None:
    for content in (b"old", b"new\r\n"):
        write_file(tmp_path / "file", content)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"new\r\n")]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_what_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace")}[step], full)
    with pytest.raises(OSError, match="No space left"):
        write_file(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def through_output_file(path: Path) -> None:
    with output_file(path) as file:
        file.write("new")


@pytest.mark.parametrize("write", [lambda path: write_file(path, b"new"), through_output_file])
def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object]
) -> None:
    path, sizes = tmp_path / "file", []

    def fsync(descriptor: int) -> None:
        assert not path.exists()
        sizes.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", fsync)
    write(path)
    assert sizes == [path.stat().st_size] == [len("new")]


WRITERS: dict[str, Callable[[Path], object]] = {
    "bytes": lambda path: write_file(path, b"new"),
    "lines": through_output_file,
    "corpus": lambda path: write_corpus(path.parent, "en", "de", train_pairs=2),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_killed_processes_left_of_a_file_goes_with_its_next_writing(writer: str, tmp_path: Path) -> None:
    """And what others are writing stays: those that live, those of another machine, and those of another file."""
    path, code = tmp_path / "train.en", "import sys; sys.stdin.read()"
    own = unfinished(path).name
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as lives:
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        left, written = (own.replace(f".{os.getpid()}.", f".{each.pid}.") for each in (dead, lives))
        elsewhere, other = f".train.en.far-away.{dead.pid}.writing", left.replace("train.en", "train.en.gz")
        for name in (left, written, elsewhere, other):
            (tmp_path / name).write_bytes(b"half")
        WRITERS[writer](path)
    assert path.read_bytes() not in (b"", b"half")
    assert {each.name for each in tmp_path.glob(".*")} == {written, elsewhere, other}
