"""Files and folders that are there whole or not at all."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from heedful.data.atomic import explained, new_folder, replaced_folder, unfinished, write_file
from heedful.data.grammar.corpus_files import write_corpus
from heedful.data.stdio import output_file
from heedful.errors import DataError


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


FOLDER_WRITERS = {"new": new_folder, "replaced": replaced_folder}


@pytest.mark.parametrize("writer", FOLDER_WRITERS)
def test_a_folder_that_fails_leaves_nothing(writer: str, tmp_path: Path) -> None:
    def interrupted() -> None:
        with FOLDER_WRITERS[writer](tmp_path / "folder") as folder:
            (folder / "file").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("writer", FOLDER_WRITERS)
def test_what_killed_processes_left_of_a_folder_goes_with_its_next_writing(writer: str, tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    own = unfinished(tmp_path / "folder").name
    left, elsewhere = own.replace(f".{os.getpid()}.", f".{dead.pid}."), f".folder.far-away.{dead.pid}.writing"
    for name in (left, elsewhere):
        (tmp_path / name).mkdir()
    with FOLDER_WRITERS[writer](tmp_path / "folder") as folder:
        (folder / "file").touch()
    assert {path.name for path in tmp_path.iterdir()} == {"folder", elsewhere}


def test_a_new_folder_never_replaces_one_that_was_filled_meanwhile(tmp_path: Path) -> None:
    (filled := tmp_path / "theirs").mkdir()
    (filled / "file").touch()
    with pytest.raises(OSError, match="not empty"), new_folder(tmp_path / "folder"):
        shutil.copytree(filled, tmp_path / "folder")
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "theirs"}
    assert (tmp_path / "folder" / "file").exists()


def test_the_working_folder_itself_is_refused_as_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell in it would be left in a folder without a name."""
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    with pytest.raises(OSError, match="busy"), new_folder(Path()) as folder:
        (folder / "file").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["out"]


def test_an_older_folder_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    for content in ("old", "new"):
        with replaced_folder(tmp_path / "folder") as folder:
            (folder / content).touch()
            assert (tmp_path / "folder" / "old").exists() == (content == "new")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "new"]


def test_a_folder_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    with replaced_folder(tmp_path / "folder") as folder:
        (folder / "file").touch()
    expected = [tmp_path / "folder" / "file", tmp_path / "folder", tmp_path]
    assert flushed == [path.stat().st_ino for path in expected]


def test_an_error_of_the_system_is_one_line_of_ours(tmp_path: Path) -> None:
    line = rf"^{tmp_path}: cannot be written \(No space left on device\)$"
    with pytest.raises(DataError, match=line), explained(tmp_path, DataError):
        raise OSError(28, "No space left on device")
    with pytest.raises(DataError, match="cannot be read"), explained(tmp_path, DataError, "cannot be read"):
        raise OSError("without a number")
