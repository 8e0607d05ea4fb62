"""Parallel text files → sentence pairs (§5.1 of the paper).

Line n of a source file and line n of its target file are one pair; or both stand in one TSV. Files are plain, .gz, .xz
or .zst, and are streamed: memory does not grow with the corpus. Lines end at \\n alone; a \\r before it and a byte
order mark at the start of a file belong to the file and not to its text. This module knows nothing of tokens.
"""

import codecs
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain, zip_longest
from pathlib import Path

from heedful.data.compression import UNREADABLE, open_unpacked
from heedful.data.compression import uncompressed as uncompressed
from heedful.data.not_plain_text import SUFFIXES, refuse_by_content, refuse_by_name
from heedful.errors import DataError, counted

_BLOCK_BYTES = 2**20

# de, pt-BR, zh_Hans, zh-Hant-TW, es-419
_CODE = "[A-Za-z]{2,3}(?:[-_](?:[A-Z]{2}|[A-Z][a-z]{3}|[0-9]{3})){0,2}"
# Endings of two or three letters that tell a file's kind or role, not its language.
_KINDS = re.compile("txt|tsv|csv|xml|sgm|doc|md|dat|raw|src|tgt|trg|ref|hyp|out|tok|bpe|log|tmp|bak|bz|zip|zst", re.I)


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A line of the source language and its translation."""

    source: str
    target: str


def read_pairs(source_files: Sequence[Path], target_files: Sequence[Path]) -> Iterator[SentencePair]:
    """The pairs of aligned files, in order; without target files every source file is a TSV of source and target."""
    if not source_files:
        raise DataError("no source file was given")
    if not target_files:
        return chain.from_iterable(map(_read_tsv, source_files))
    if len(source_files) != len(target_files):
        sources, targets = counted(len(source_files), "source file"), counted(len(target_files), "target file")
        raise DataError(f"{sources} but {targets}: each needs its counterpart")
    for file in (*source_files, *target_files):
        if is_tsv(file):
            raise DataError(f"{file}: a .tsv holds source and target; give it as the source, without a target file")
    return chain.from_iterable(map(_read_aligned, source_files, target_files))


def aligned_pairs(
    sources: Iterator[str], targets: Iterator[str], source_file: Path, target_file: Path
) -> Iterator[SentencePair]:
    """The pairs of two files, whose lines these are."""
    number = 0
    for number, (source, target) in enumerate(zip_longest(sources, targets), start=1):
        if source is None:
            raise _misaligned(source_file, number - 1, target_file, number + _count(targets))
        if target is None:
            raise _misaligned(source_file, number + _count(sources), target_file, number - 1)
        yield SentencePair(source, target)
    if not number:
        raise DataError(f"{source_file} and {target_file} are empty")


def tsv_fields(line: str) -> list[str]:
    """Source and target of a TSV's line. A blank line is a pair of blank lines."""
    return line.split("\t") if line else ["", ""]


def tsv_pairs(lines: Iterable[str], path: Path) -> Iterator[SentencePair]:
    """The pairs of a TSV, whose lines these are."""
    if not is_tsv(path):
        raise DataError(f"{path}: no target file was given, and the name of a file with both sides ends in .tsv")
    number = 0
    for number, line in enumerate(lines, start=1):
        fields = tsv_fields(line)
        if len(fields) != 2:
            raise DataError(
                f"{path}:{number}: {counted(len(fields) - 1, 'tab')}, where one must stand between source and target"
            )
        yield SentencePair(*fields)
    if not number:
        raise DataError(f"{path} is empty")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a plain or compressed file in UTF-8, without their line ends."""
    with open_text(path) as file:
        yield from decode_lines(file, str(path))


@contextmanager
def open_text(path: Path) -> Iterator[BufferedReader]:
    """The bytes of a plain text file, unpacked."""
    refuse_by_name(path, uncompressed(path))
    try:
        with open_unpacked(path) as file:
            refuse_by_content(str(path), file.peek())
            yield file
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def decode_lines(raw_lines: Iterable[bytes], name: str, *, first: int = 1) -> Iterator[str]:
    """Lines as they were read → text without line ends and byte order mark; name and number are for error messages."""
    for number, raw in enumerate(raw_lines, start=first):
        yield _decode(raw if number > 1 else raw.removeprefix(codecs.BOM_UTF8), name, number)


def language_of(path: Path) -> str | None:
    """The language at the end of a file's name (`train.en`, `corpus.tok.de.xz`), if any."""
    if uncompressed(path).suffix.lower() in SUFFIXES:
        return None
    ending = uncompressed(path).suffix.removeprefix(".")
    return ending if re.fullmatch(_CODE, ending) and not _KINDS.fullmatch(ending) else None


def languages_of_tsv(path: Path) -> tuple[str, str] | None:
    """The two languages in a TSV's name (`pairs.en-de.tsv.gz`), if any."""
    pair = re.fullmatch(f"({_CODE})-({_CODE})", uncompressed(path).with_suffix("").suffix.removeprefix("."))
    return (pair[1], pair[2]) if pair and is_tsv(path) else None


def languages_of(source: Sequence[str], target: Sequence[str]) -> tuple[str, str]:
    """The languages in the names of aligned files; empty if they name none."""
    if not target:
        return (languages_of_tsv(Path(source[0])) if source else None) or ("", "")
    return language_of(Path(source[0])) or "", language_of(Path(target[0])) or ""


def fingerprint(files: Sequence[Path]) -> str:
    """A digest of the files' content, whatever their names and dates."""
    return hashlib.sha256("".join(map(_digest, files)).encode()).hexdigest()


def refuse_pipe(path: Path) -> None:
    """Refuse a pipe where the text is read more than once."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path} is not a regular file, and the text must be read more than once; write it to a file")


def refuse_other_than_text(path: Path) -> None:
    """Refuse before any work what reading would refuse. A pipe can be read only once, so only its name is looked at."""
    refuse_by_name(path, uncompressed(path))
    if path.is_file():
        with open_text(path):
            pass


def refuse_tsv(path: Path) -> None:
    """Refuse a TSV where a file must hold one side: its lines would be taken for sentences."""
    if is_tsv(path):
        raise DataError(f"{path}: a .tsv holds source and target; write each to a file of its own (cut -f1, cut -f2)")


def text_digest(path: Path) -> tuple[int, str]:
    """The number of lines and the SHA-256 of the uncompressed text: the same for a.en, a.en.gz and a.en.xz."""
    digest, num_lines, last = hashlib.sha256(), 0, b"\n"
    with open_text(path) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            num_lines, last = num_lines + block.count(b"\n"), block[-1:]
    return num_lines + (last != b"\n"), digest.hexdigest()


def count_lines(path: Path) -> int:
    """How many lines a file has."""
    num_lines, last = 0, b"\n"
    with open_text(path) as file:
        while block := file.read(_BLOCK_BYTES):
            num_lines, last = num_lines + block.count(b"\n"), block[-1:]
    return num_lines + (last != b"\n")


def refuse_odd_names(names: Iterable[str]) -> None:
    """Refuse names that are not UTF-8: config.toml, safetensors and cards cannot hold them."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise DataError(f"{name!r}: the name is not UTF-8; give it another one") from None


def is_tsv(path: Path) -> bool:
    """Whether the name says that a file holds both sides."""
    return uncompressed(path).suffix.lower() == ".tsv"


def _read_aligned(source_file: Path, target_file: Path) -> Iterator[SentencePair]:
    return aligned_pairs(read_lines(source_file), read_lines(target_file), source_file, target_file)


def _read_tsv(path: Path) -> Iterator[SentencePair]:
    return tsv_pairs(read_lines(path), path)


def _decode(raw: bytes, name: str, number: int) -> str:
    try:
        return raw.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        wrong = f"byte 0x{raw[error.start]:02x} at position {error.start + 1} of the line"
        raise DataError(f"{name}:{number}: not valid UTF-8 ({wrong}); convert the file to UTF-8") from error


def _digest(path: Path) -> str:
    refuse_pipe(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: no such file")
    if isinstance(error, IsADirectoryError):
        return DataError(f"{path} is a folder, and a text file is needed")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DataError(f"{path} cannot be read: {' '.join(reason.split())}")


def _misaligned(source_file: Path, num_sources: int, target_file: Path, num_targets: int) -> DataError:
    return DataError(
        f"{source_file} has {counted(num_sources, 'line')} but {target_file} has {num_targets:,}: "
        "line n of the one must be the translation of line n of the other"
    )


def _count(lines: Iterator[str]) -> int:
    return sum(1 for _ in lines)
