"""Files that are there whole or not at all."""

import os
from pathlib import Path

import pytest

from heedful.whole import write_whole


def test_a_file_takes_the_place_of_the_one_before_it(tmp_path: Path) -> None:
    for content in (b"old", b"new\r\n"):
        write_whole(tmp_path / "file", content)
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
        write_whole(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flush, path = os.fsync, tmp_path / "file"

    def fsync(descriptor: int) -> None:
        assert os.fstat(descriptor).st_size == len(b"content")
        assert not path.exists()
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(path, b"content")
    assert path.exists()
