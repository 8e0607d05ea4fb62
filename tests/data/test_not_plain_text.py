"""Files that are no plain text are refused by name, or by how they begin, before anything is written."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import heedful as package
from heedful.data.text_files import read_lines
from heedful.errors import DataError
from tests import ROOT
from tests.cli.running import Run, one_line
from tests.cli.test_cli import SMALL, TINY
from tests.small_translator import save_translator, small_translator

NAMES = [
    "srt",
    "vtt",
    "ass",
    "ssa",
    "sub",
    "docx",
    "odt",
    "pptx",
    "xlsx",
    "pdf",
    "tmx",
    "xliff",
    "xlf",
    "po",
    "html",
    "htm",
]
SUBTITLES = "1\n00:00:01,000 --> 00:00:04,000\nThe cat sat on the mat.\n"


def zipped() -> bytes:
    """What a .docx is inside."""
    with zipfile.ZipFile(archive := io.BytesIO(), "w") as file:
        file.writestr("word/document.xml", "<w:t>The cat</w:t>")
    return archive.getvalue()


CONTENTS = {
    "SubRip": SUBTITLES.encode(),
    "SubRip with a byte order mark and Windows's line ends": ("\ufeff" + SUBTITLES.replace("\n", "\r\n")).encode(),
    "WebVTT": b"WEBVTT\n\n00:01.000 --> 00:04.000\nThe cat\n",
    "zip": zipped(),
    "PDF": b"%PDF-1.7\n1 0 obj\n",
    "RTF": rb"{\rtf1\ansi The cat}",
    "HTML": b"\n<!DOCTYPE html>\n<html><body>The cat</body></html>",
    "HTML without a doctype": b'<html lang="en"><body>The cat</body></html>',
    "XML": b'<?xml version="1.0"?>\n<tmx version="1.4">',
    "gettext": b'# German\n#, fuzzy\n\nmsgid ""\nmsgstr ""\n',
    "NUL bytes": "The cat\n".encode("utf-16-le"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained one: nothing here is translated by it."""
    return save_translator(small_translator("en", "de"), tmp_path_factory.mktemp("model") / "model")


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    """A text and its translation."""
    source, target = tmp_path / "good.en", tmp_path / "good.de"
    source.write_text("the cat sat on the mat\n" * 20)
    target.write_text("die Katze saß auf der Matte\n" * 20)
    return source, target


@pytest.mark.parametrize("kind", [*NAMES, "SRT", "Docx", "srt.gz", "PO.XZ"])
def test_a_file_that_is_named_as_no_text_is_refused_by_name(
    heedful: Run, model: Path, tmp_path: Path, kind: str
) -> None:
    path, out = tmp_path / f"talk.en.{kind}", tmp_path / "out.txt"
    path.write_text("The cat sat on the mat.\n")
    out.write_text("precious")
    said = one_line(heedful("translate", "-m", model, path, "-o", out))
    suffix = kind.lower().removesuffix(".gz").removesuffix(".xz")
    assert f"{path} is a" in said
    assert f"(.{suffix}), not plain text; save its text as a .txt file in UTF-8, one sentence a line" in said
    assert out.read_text() == "precious"


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize(("suffix", "pack"), [("txt", bytes), ("", bytes), ("en.gz", gzip.compress)])
def test_a_file_that_begins_as_no_text_is_refused_whatever_its_name(
    tmp_path: Path, content: bytes, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"notes.{suffix}".rstrip(".")
    path.write_bytes(pack(content))
    with pytest.raises(DataError, match="not plain text; save its text") as caught:
        next(read_lines(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "1\nThe cat sat on the mat.\n",
        "1\n\n2\n",
        "00:00:01,000 --> 00:00:04,000 is a timecode.\n",
        "<b>The cat</b> sat.\n<html> is a tag.\n",
        "PK is short for Peace Keeping.\n",
        "WEBVTTs are files.\n",
        "# A heading\n\nmsgid is a word.\n",
        "{The cat}\n",
        "",
        "\n\n\n",
    ],
)
@pytest.mark.parametrize("name", ["train.en", "train", "train.txt", "train.en.gz", "a.tsv", "train.pot", "train.md"])
def test_plain_text_is_read_whatever_stands_in_it(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    assert list(read_lines(path)) == content.splitlines()


@pytest.mark.parametrize("place", ["-s", "-t", "--valid-source", "--valid-target"])
@pytest.mark.parametrize("is_named", [True, False], ids=["by its name", "by its content"])
def test_no_run_begins_with_a_file_that_is_no_text(
    heedful: Run, texts: tuple[Path, Path], tmp_path: Path, place: str, is_named: bool
) -> None:
    bad, run = tmp_path / ("bad.tmx" if is_named else "bad.en"), tmp_path / "run"
    bad.write_text(texts[0].read_text() if is_named else '<?xml version="1.0"?>\n' * 20)
    files = dict(zip(("-s", "-t", "--valid-source", "--valid-target"), texts * 2, strict=True)) | {place: bad}
    given = [part for option in files.items() for part in option]
    for more in ([], ["--dry-run"]):
        said = one_line(heedful("train", *given, "-o", run, *TINY, *SMALL, "--steps", 2, *more))
        assert f"{bad} is a" in said
        assert "not plain text" in said
    assert not run.exists()


def test_a_file_without_its_translation_is_refused_as_no_text_first(heedful: Run, tmp_path: Path) -> None:
    (tmp_path / "both.tmx").write_text("<tmx/>")
    said = one_line(heedful("train", "-s", tmp_path / "both.tmx", "-o", tmp_path / "run"))
    assert "both.tmx is a translation memory (.tmx), not plain text" in said


def test_a_recipe_and_python_refuse_what_is_no_text(heedful: Run, texts: tuple[Path, Path], tmp_path: Path) -> None:
    run, recipe = tmp_path / "run", tmp_path / "recipe.toml"
    recipe.write_text(f'preset = "tiny"\n[data]\nsource = ["{tmp_path / "a.docx"}"]\ntarget = ["{texts[1]}"]\n')
    assert "a.docx is a text document (.docx), not plain text" in one_line(heedful("train", recipe, "-o", run))
    with pytest.raises(DataError, match=r"a\.pdf is a PDF document \(\.pdf\), not plain text"):
        package.train(tmp_path / "a.pdf", texts[1], run)
    with pytest.raises(DataError, match=r"a\.po is a message catalogue \(\.po\), not plain text"):
        package.evaluate_files(tmp_path / "a.po", [texts[1]])
    assert not run.exists()


@pytest.mark.parametrize("name", ["bad.srt", "bad.txt"])
def test_every_command_that_reads_lines_refuses_what_is_none(
    heedful: Run, model: Path, texts: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    bad, (source, target) = tmp_path / name, texts
    bad.write_text(SUBTITLES)
    before = sorted(model.iterdir())
    for command in (
        ["translate", "-m", model, bad],
        ["translate", "-m", model, source, "--prefix", bad],
        ["score", "-m", model, "-s", bad, "-t", target],
        ["score", "-m", model, "-s", source, "-t", bad],
        ["evaluate", "-m", model, "-s", bad, "-r", target],
        ["evaluate", "-m", model, "-s", source, "-r", bad],
        ["evaluate", "-m", model, "-s", source, "-r", target, "--contrast", bad],
        ["evaluate", "--hypotheses", bad, "-r", target],
        ["evaluate", "--hypotheses", source, "-r", bad],
        ["doctor", model, "-s", bad, "-t", target],
    ):
        assert f"{bad} is a subtitle file (" in one_line(heedful(*command)), command
    assert sorted(model.iterdir()) == before


@pytest.mark.parametrize("command", [("translate", "-m"), ("evaluate", "--hypotheses", "-", "-r")])
def test_what_comes_by_stdin_is_refused_by_its_content(
    heedful: Run, model: Path, texts: tuple[Path, Path], tmp_path: Path, command: tuple[str, ...]
) -> None:
    given = model if "-m" in command else texts[1]
    result = heedful(*command, given, stdin=SUBTITLES.encode())
    assert "<stdin> is a subtitle file (SubRip), not plain text" in one_line(result)


@pytest.mark.slow
def test_a_file_that_a_shell_puts_on_stdin_is_refused_and_leaves_the_output(model: Path, tmp_path: Path) -> None:
    out, file = tmp_path / "out.txt", tmp_path / "talk.srt"
    out.write_text("precious")
    file.write_text(SUBTITLES)
    command = [sys.executable, "-m", "heedful", "translate", "-m", str(model), "--device", "cpu", "-o", str(out)]
    with file.open("rb") as stdin:
        done = subprocess.run(command, cwd=ROOT, stdin=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "<stdin> is a subtitle file (SubRip), not plain text" in done.stderr
    assert out.read_text() == "precious"
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
def test_a_pipe_loses_nothing_to_the_look_at_its_beginning(model: Path, tmp_path: Path) -> None:
    pipe, out = tmp_path / "lines.txt", tmp_path / "out"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "heedful", "translate", "-m", str(model), "--device", "cpu", "-o", str(out)]
    with subprocess.Popen([*command, str(pipe)], cwd=ROOT, stderr=subprocess.PIPE) as process:
        pipe.write_text("The animal\nthe street\n")
        process.communicate()
    assert process.returncode == 0
    assert out.read_text().count("\n") == 2


@pytest.mark.parametrize("lines", [["a \0 stray one"], [*["the cat sat on the mat"] * 500, *["\0"] * 100]])
def test_a_stray_nul_byte_does_not_make_a_text_binary(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "train.en.xz"
    path.write_bytes(lzma.compress("\n".join(lines).encode()))
    assert list(read_lines(path)) == lines
