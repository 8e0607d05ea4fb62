"""Compressed text: what is written comes back, and half a file is not taken for a whole one."""

import os
from pathlib import Path

import pytest

from heedful.config import optional_packages
from heedful.data import compression
from heedful.data.compression import COMPRESSED
from heedful.data.stdio import output_file
from heedful.data.text_files import read_lines
from heedful.errors import DataError

pytest.importorskip("zstandard", reason="NO test of .zst files: zstandard is not installed")
LINES = [os.urandom(20).hex() for _ in range(8_000)]


def written(path: Path) -> Path:
    with output_file(path) as file:
        file.writelines(f"{line}\n" for line in LINES)
    return path


@pytest.mark.parametrize("kind", ["", *COMPRESSED])
def test_text_that_is_written_compressed_comes_back_and_is_the_same_file_each_time(tmp_path: Path, kind: str) -> None:
    one, other = written(tmp_path / f"one{kind}"), written(tmp_path / f"other{kind}")
    assert list(read_lines(one)) == LINES
    assert one.read_bytes() == other.read_bytes()
    assert kind == "" or one.stat().st_size < 0.7 * sum(len(line) + 1 for line in LINES)


@pytest.mark.parametrize("kind", COMPRESSED)
def test_files_one_after_the_other_are_one_text(tmp_path: Path, kind: str) -> None:
    packed = written(tmp_path / f"one{kind}").read_bytes()
    (tmp_path / f"two{kind}").write_bytes(packed + packed)
    assert list(read_lines(tmp_path / f"two{kind}")) == LINES + LINES


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("size", [-1, -1000, 150_000])
def test_half_a_file_is_an_error(tmp_path: Path, kind: str, size: int) -> None:
    whole = written(tmp_path / f"whole{kind}").read_bytes()
    (tmp_path / f"cut{kind}").write_bytes(whole[:size])
    with pytest.raises(DataError, match="cannot be read"):
        list(read_lines(tmp_path / f"cut{kind}"))


def test_what_is_no_zst_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.zst").write_bytes(b"plain text\n")
    with pytest.raises(DataError, match=r"text\.zst cannot be read"):
        list(read_lines(tmp_path / "text.zst"))


def test_without_its_library_a_zst_file_is_refused_with_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "text.zst")
    monkeypatch.setattr(compression, "find_spec", lambda name: None)
    line = optional_packages.install_line("zstandard")
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    assert line in str(caught.value)
    with pytest.raises(DataError), output_file(tmp_path / "new.zst"):
        pass
    assert not (tmp_path / "new.zst").exists()
