"""Parallel text files → sentence pairs."""

import bz2
import codecs
import gzip
import lzma
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heedful.data.text_files import SentencePair, fingerprint, language_of, languages_of_tsv, read_lines, read_pairs
from heedful.errors import DataError

# Any character but the line end (\r is one of them) and NUL, which a file that is no text is full of. Python's `text`
# leaves surrogates out on request only.
LINE = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]))
WRITE: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def write(path: Path, text: str | bytes) -> Path:
    """The text in a file that is packed as its name says."""
    path.write_bytes(WRITE.get(path.suffix, bytes)(text.encode() if isinstance(text, str) else text))
    return path


def write_lines(path: Path, lines: Sequence[str], end: str = "\n") -> Path:
    """One line of the file for each line."""
    return write(path, "".join(line + end for line in lines))


def message_of(path: Path) -> str:
    """What is said of a file that cannot be read."""
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@given(st.lists(LINE), st.sampled_from(["", ".gz", ".xz"]))
@example(["\x00", "👩‍👩‍👧", "שלום", "a\u2028b\x0b\x0c\x1c\x85c", " ", "", "word " * 5000], ".gz")
def test_lines_come_back_as_they_were_written(lines: list[str], kind: str) -> None:
    with TemporaryDirectory() as folder:
        path = write_lines(Path(folder) / f"text{kind}", lines)
        expected = [line.removesuffix("\r") for line in lines]
        if expected:
            expected[0] = lines[0].removeprefix("\ufeff").removesuffix("\r")
        assert list(read_lines(path)) == expected


@given(st.lists(LINE.filter(lambda line: not line.startswith("\ufeff")), min_size=1))
def test_windows_line_ends_and_a_byte_order_mark_are_no_text(lines: list[str]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_bytes(codecs.BOM_UTF8 + "".join(f"{line}\r\n" for line in lines).encode())
        assert list(read_lines(path)) == lines


def test_a_byte_order_mark_inside_the_text_stays(tmp_path: Path) -> None:
    assert list(read_lines(write(tmp_path / "text", "\ufeff\ufeffa\n\ufeffb"))) == ["\ufeffa", "\ufeffb"]


def test_the_last_line_needs_no_line_end(tmp_path: Path) -> None:
    assert list(read_lines(write(tmp_path / "text", "a\nb"))) == ["a", "b"]
    assert list(read_lines(write(tmp_path / "text", "a\n\n"))) == ["a", ""]


@pytest.mark.parametrize(
    ("wrong", "byte"),
    [
        (b"caf\xe9", "0xe9"),
        (b"\xed\xa0\x80", "0xed"),
        (b"a\xff", "0xff"),
        (b"\xf0\x9f\x98", "0xf0"),
        (b"\xc0\x80", "0xc0"),
    ],
    ids=["latin-1", "lone surrogate", "no start byte", "cut emoji", "overlong NUL"],
)
@pytest.mark.parametrize("kind", ["", ".gz", ".xz"])
def test_invalid_utf8_names_file_and_line(tmp_path: Path, wrong: bytes, byte: str, kind: str) -> None:
    path = write(tmp_path / f"text{kind}", b"good\n\n" + wrong + b"\ngood\n")
    assert message_of(path).startswith(f"{path}:3: not valid UTF-8 (byte {byte}")


@pytest.mark.parametrize("kind", [".bz2", ".zip"])
def test_a_file_that_is_packed_otherwise_is_no_bad_text(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"train.en{kind}", bz2.compress(b"text"))
    assert message_of(path) == f"{path}: {kind} is not read; unpack the file, or pack it as .gz, .xz or .zst"


def test_what_cannot_be_read_is_one_line_that_names_the_file(tmp_path: Path) -> None:
    whole = gzip.compress(os.urandom(5000)), lzma.compress(os.urandom(5000))
    (tmp_path / "folder").mkdir()
    write(tmp_path / "plain", "text")
    for name, content in {
        "cut.gz": whole[0][:900],
        "cut.xz": whole[1][:900],
        "no.gz": b"text",
        "no.xz": b"text",
    }.items():
        (tmp_path / name).write_bytes(content)
        assert f"{tmp_path / name} cannot be read: " in message_of(tmp_path / name)
    assert message_of(tmp_path / "missing") == f"{tmp_path / 'missing'}: no such file"
    assert message_of(tmp_path / "missing.gz") == f"{tmp_path / 'missing.gz'}: no such file"
    assert "is a folder" in message_of(tmp_path / "folder")
    assert "cannot be read: Not a directory" in message_of(tmp_path / "plain" / "text")


def test_a_damaged_gzip_stream_is_an_error_and_not_other_text(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(b"line\n" * 5000 + os.urandom(5000).hex().encode()))
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "text.gz").write_bytes(content)
    assert "cannot be read" in message_of(tmp_path / "text.gz")


@given(st.lists(st.tuples(LINE, LINE), min_size=1), st.integers(1, 3))
def test_pairs_of_several_files_come_in_order(pairs: list[tuple[str, str]], num_files: int) -> None:
    pairs = [(source.strip("\r\ufeff"), target.strip("\r\ufeff")) for source, target in pairs]
    with TemporaryDirectory() as folder:
        sources, targets = (
            [write_lines(Path(folder) / f"{n}.{side}", [pair[side] for pair in pairs]) for n in range(num_files)]
            for side in (0, 1)
        )
        assert list(read_pairs(sources, targets)) == [SentencePair(*pair) for pair in pairs] * num_files


@given(st.integers(0, 9), st.integers(0, 9))
def test_unequal_files_are_an_error_that_counts_both(num_sources: int, num_targets: int) -> None:
    with TemporaryDirectory() as folder:
        source = write_lines(Path(folder) / "a.en", ["x"] * num_sources)
        target = write_lines(Path(folder) / "a.de", ["y"] * num_targets)
        if num_sources == num_targets > 0:
            assert len(list(read_pairs([source], [target]))) == num_sources
            return
        with pytest.raises(DataError) as caught:
            list(read_pairs([source], [target]))
        counts = f"{source} has {num_sources} line{'' if num_sources == 1 else 's'} but {target} has {num_targets}: "
        assert str(caught.value).startswith(
            counts if num_sources or num_targets else f"{source} and {target} are empty"
        )


def test_every_source_file_needs_a_target_file(tmp_path: Path) -> None:
    files = [write(tmp_path / name, "x\n") for name in ("a.en", "b.en", "a.de")]
    with pytest.raises(DataError, match="2 source files but 1 target file:"):
        read_pairs(files[:2], files[2:])
    with pytest.raises(DataError, match="no source file"):
        read_pairs([], files)


@pytest.mark.parametrize("kind", ["", ".gz", ".xz"])
def test_a_tsv_holds_both_sides(tmp_path: Path, kind: str) -> None:
    first = write(tmp_path / f"a.tsv{kind}", "Hello\tHallo\r\n\tleer\n\r\n")
    second = write(tmp_path / f"b.tsv{kind}", "\ufeffyes\tja")
    pairs = [SentencePair(*pair) for pair in (("Hello", "Hallo"), ("", "leer"), ("", ""), ("yes", "ja"))]
    assert list(read_pairs([first, second], [])) == pairs


@pytest.mark.parametrize(("line", "tabs"), [("no tab", 0), (" ", 0), ("a\tb\tc", 2)])
def test_a_tsv_line_without_exactly_one_tab_is_named(tmp_path: Path, line: str, tabs: int) -> None:
    path = write(tmp_path / "a.tsv", f"Hello\tHallo\n{line}\n")
    with pytest.raises(DataError, match=f"a.tsv:2: {tabs} tabs"):
        list(read_pairs([path], []))


def test_a_tsv_must_be_named_so_and_must_not_be_empty(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.en: no target file was given"):
        list(read_pairs([write(tmp_path / "a.en", "x\ty\n")], []))
    with pytest.raises(DataError, match=r"a\.tsv is empty"):
        list(read_pairs([write(tmp_path / "a.tsv", "")], []))


def test_pairs_are_given_before_the_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "x\ty\nbroken")
    pairs = read_pairs([path], [])
    assert next(pairs) == SentencePair("x", "y")
    with pytest.raises(DataError):
        next(pairs)


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("train.en", "en"),
        ("train.en.gz", "en"),
        ("corpus.tok.de.xz", "de"),
        ("europarl-v7.de-en.en", "en"),
        ("news.pt-BR", "pt-BR"),
        ("news.zh_Hans.gz", "zh_Hans"),
        ("news.zh-Hant-TW", "zh-Hant-TW"),
        ("news.gsw", "gsw"),
        ("train.txt", None),
        ("train.txt.gz", None),
        ("train.tsv", None),
        ("train.gz", None),
        ("train", None),
        ("train.src", None),
        ("train.english", None),
        ("train.e1", None),
        (".en", None),
    ],
)
def test_the_language_is_the_extension(name: str, language: str | None) -> None:
    assert language_of(Path("folder.de") / name) == language


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("pairs.en-de.tsv", ("en", "de")),
        ("pairs.en-de.tsv.gz", ("en", "de")),
        ("pairs.pt-BR-zh_Hans.tsv.xz", ("pt-BR", "zh_Hans")),
        ("pairs.tsv", None),
        ("pairs.en.tsv", None),
        ("pairs.en-de.txt", None),
        ("en-de.tsv", None),
    ],
)
def test_the_languages_of_a_tsv_stand_before_its_extension(name: str, languages: tuple[str, str] | None) -> None:
    assert languages_of_tsv(Path(name)) == languages


def test_a_fingerprint_is_of_content_and_order_alone(tmp_path: Path) -> None:
    first, copy = write(tmp_path / "first", "a\n"), write(tmp_path / "copy", "a\n")
    second = write(tmp_path / "second", "b\n")
    assert fingerprint([first, second]) == fingerprint([copy, second])
    assert fingerprint([first, second]) != fingerprint([second, first])
    assert fingerprint([write(tmp_path / "both", "a\nb\n")]) != fingerprint([first, second])
    before = fingerprint([first])
    assert fingerprint([write(first, "c\n")]) != before


def test_only_regular_files_have_a_fingerprint(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        fingerprint([tmp_path / "missing"])
    with pytest.raises(DataError, match="is a folder"):
        fingerprint([tmp_path])
    with pytest.raises(DataError, match="not a regular file"):
        fingerprint([Path("/dev/null")])
