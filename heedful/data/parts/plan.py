"""The plan of a folder: which files, cut into which parts, for which work. It is written once, as plan.json.

A part is a range of bytes of one file, so that no part reads what another has read; a part of a parallel text is ranges
of two files. A compressed file is unpacked into the folder first. Parts and lines are numbered from 0. This module does
not know what the work is.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from heedful import __version__
from heedful.data.atomic import explained, new_files, write_file
from heedful.data.compression import is_compressed
from heedful.data.text_files import decode_lines, open_text, refuse_other_than_text, refuse_pipe, refuse_tsv
from heedful.errors import CheckpointError, DataError, HeedfulError, counted

FORMAT = 1
PLAN, INPUTS = "plan.json", "inputs"


class Stamp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as it was when the plan was made."""

    path: str
    size: int
    modified_ns: int
    sha256: str  # of a text file's text, whether it is compressed or not


class InputFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text file, and how many lines it has."""

    file: Stamp
    lines: int
    text_bytes: int  # unpacked


class ByteRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Some lines of one input; `first_line` is the number of the first of them in its file."""

    input: int
    offset: int
    size: int
    first_line: int
    sha256: str


class PlannedPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A range of one input; of pairs, a range of the source and one of the target, of each file that it has lines of.

    `first_line` is the number of its first line, or pair, among those of all inputs.
    """

    ranges: tuple[ByteRange, ...]
    first_line: int
    lines: int


class PartText(NamedTuple):
    """The text of a part: the lines of each of its ranges."""

    number: int
    first_line: int
    texts: list[list[str]]


class PartsPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The work, its inputs, and the parts that they are cut into."""

    work: dict[str, Any]
    part_lines: int
    inputs: tuple[InputFile, ...]
    parts: tuple[PlannedPart, ...]
    ending: str = ".txt"  # of the parts' outputs
    format: int = FORMAT
    version: str = __version__

    @property
    def kind(self) -> str:
        """The kind of work, such as translate; empty if it says none."""
        return str(self.work.get("kind", ""))

    @property
    def thing(self) -> str:
        """What the parts consist of."""
        return "pair" if self.kind == "encode" else "line"

    @property
    def num_lines(self) -> int:
        """How many lines, or pairs, all parts have together."""
        return sum(part.lines for part in self.parts)

    def is_of(self, files: Sequence[Path], part_lines: int, work: dict[str, Any]) -> bool:
        """Whether the same command made it, from files that have not changed since."""
        paths = [str(file.absolute()) for file in files]
        same_files = paths == [each.file.path for each in self.inputs] and all(map(is_unchanged, self.stamps))
        return same_files and self.part_lines == part_lines and self.work == work

    @property
    def stamps(self) -> list[Stamp]:
        """The stamps of the inputs."""
        return [each.file for each in self.inputs]


def read_plan(folder: Path) -> PartsPlan:
    """The plan that lies in this folder."""
    try:
        text = (folder / PLAN).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(
            f"{folder}: holds no {PLAN}; heedful bulk plan FILES -m MODEL -o {folder} makes one"
        ) from None
    try:
        plan = msgspec.json.decode(text, type=PartsPlan)
    except msgspec.DecodeError as error:
        raise CheckpointError(
            f"{folder / PLAN}: damaged, or of another version ({error}); plan in a new folder"
        ) from None
    if plan.format != FORMAT:
        raise CheckpointError(f"{folder / PLAN}: format {plan.format}, which heedful {__version__} cannot read")
    return plan


def write_plan(folder: Path, plan: PartsPlan) -> None:
    """Write plan.json, whole or not at all."""
    with explained(folder / PLAN, CheckpointError):
        write_file(folder / PLAN, msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")


# ------------------------------------------------------------------------------------------------------------- cutting


def refuse_inputs(files: Sequence[Path]) -> None:
    """Refuse what cannot be cut into parts, before any work."""
    for number, file in enumerate(files):
        _refuse_object_store(file)
        refuse_pipe(file)
        refuse_tsv(file)
        refuse_other_than_text(file)
        if file.absolute() in [each.absolute() for each in files[:number]]:
            raise DataError(f"{file} is given twice; leave it out once")


def cut(
    folder: Path, files: Sequence[Path], part_lines: int, say: Callable[[str], None]
) -> tuple[list[InputFile], list[PlannedPart]]:
    """The inputs and their parts."""
    inputs: list[InputFile] = []
    parts: list[PlannedPart] = []
    before = 0
    for number, file in enumerate(files):
        with open_input(folder, number, file, say) as reader:
            while count := sum(1 for _ in islice(reader.lines, part_lines)):
                parts.append(PlannedPart((reader.taken(),), before, count))
                before += count
        inputs.append(reader.input_file())
    if not parts:
        raise DataError(f"{', '.join(map(str, files))}: no line in {'it' if len(files) == 1 else 'them'}")
    return inputs, parts


class InputReader:
    """The lines of an input; says which bytes were read since it was last asked, and refuses what is not UTF-8."""

    def __init__(self, number: int, path: Path, file: Iterable[bytes]) -> None:
        self.number, self.path = number, path
        self.lines = self._read(file)
        self.num_lines = self.size = 0
        self._begin = (0, 0)
        self._raw: list[bytes] = []
        self._digest = hashlib.sha256()

    def _read(self, file: Iterable[bytes]) -> Iterator[bytes]:
        for line in file:
            self._raw.append(line)
            self.num_lines += 1
            self.size += len(line)
            yield line

    def taken(self) -> ByteRange:
        """The bytes that were read since the last call."""
        (offset, first), text = self._begin, b"".join(self._raw)
        self._check(text, first + 1)
        self._digest.update(text)
        self._begin, self._raw = (self.size, self.num_lines), []
        return ByteRange(self.number, offset, len(text), first, hashlib.sha256(text).hexdigest())

    def _check(self, text: bytes, first: int) -> None:
        try:
            text.decode()
        except UnicodeDecodeError:
            for _ in decode_lines(self._raw, str(self.path), first=first):  # which names the line
                pass

    def input_file(self) -> InputFile:
        """What the plan records of the input."""
        return InputFile(stamp(self.path, self._digest.hexdigest()), self.num_lines, self.size)


@contextmanager
def open_input(folder: Path, number: int, file: Path, say: Callable[[str], None]) -> Iterator[InputReader]:
    """A reader of a file; a compressed one is unpacked into the folder first."""
    if is_compressed(file):
        _unpack(file, text_file(folder, number), say)
    with open_text(text_file(folder, number) if is_compressed(file) else file) as lines:
        yield InputReader(number, file, lines)


def _unpack(file: Path, place: Path, say: Callable[[str], None]) -> None:
    with explained(place, DataError):
        place.parent.mkdir(exist_ok=True)
        with new_files([place]) as (temporary,), temporary.open("wb") as unpacked, open_text(file) as text:
            shutil.copyfileobj(text, unpacked)
    say(f"{file}: unpacked into {place}, {place.stat().st_size / 1e6:,.1f} MB of disk")


def stamp(file: Path, sha256: str) -> Stamp:
    """The file as it is now."""
    found = file.stat()
    return Stamp(str(file.absolute()), found.st_size, found.st_mtime_ns, sha256)


def _refuse_object_store(file: Path) -> None:
    scheme, colon, _ = str(file).partition(":/")
    if colon and scheme.isalnum() and len(scheme) > 1 and not file.exists():
        raise DataError(
            f"{file}: object stores are not read; mount the bucket, or copy the file to a folder that all machines see"
        )


# ------------------------------------------------------------------------------------------------------------- reading


def text_file(folder: Path, number: int) -> Path:
    """Where the text of a compressed input lies, unpacked."""
    return folder / INPUTS / f"{number:05d}.txt"


def part_text(folder: Path, plan: PartsPlan, number: int) -> PartText:
    """The text of a part; an error if it is not what was planned."""
    part = plan.parts[number]
    return PartText(number, part.first_line, [_checked_lines(folder, plan, each) for each in part.ranges])


def _checked_lines(folder: Path, plan: PartsPlan, wanted: ByteRange) -> list[str]:
    raw, name, first = raw_text(folder, plan, wanted), plan.inputs[wanted.input].file.path, wanted.first_line + 1
    if hashlib.sha256(raw).hexdigest() != wanted.sha256:
        raise DataError(
            f"{name}: the text from line {first:,} on has changed since the plan was made; "
            f"bring the file back, or plan in a new folder"
        )
    return list(decode_lines(io.BytesIO(raw), name, first=first))


def raw_text(folder: Path, plan: PartsPlan, wanted: ByteRange) -> bytes:
    """The bytes of a range."""
    name = Path(plan.inputs[wanted.input].file.path)
    path = text_file(folder, wanted.input) if is_compressed(name) else name
    with explained(path, DataError, "cannot be read"), path.open("rb") as file:
        file.seek(wanted.offset)
        return file.read(wanted.size)


# ------------------------------------------------------------------------------------------------------------ changes


def is_unchanged(stamp: Stamp) -> bool:
    """Whether the file still has the size and the time of its stamp."""
    try:
        found = Path(stamp.path).stat()
    except OSError:
        return False
    return (found.st_size, found.st_mtime_ns) == (stamp.size, stamp.modified_ns)


def refuse_changes(stamps: Iterable[Stamp], digest: Callable[[Path], str], kind: type[HeedfulError]) -> None:
    """Refuse files that have changed. If only the time differs, the digest decides."""
    for stamp in stamps:
        path = Path(stamp.path)
        with explained(path, kind, "cannot be read"):
            same = is_unchanged(stamp) or (path.stat().st_size == stamp.size and digest(path) == stamp.sha256)
        if not same:
            raise kind(f"{path}: has changed since the plan was made; bring it back, or plan in a new folder")


def refuse_changed_inputs(folder: Path, plan: PartsPlan) -> None:
    """Refuse inputs that have changed. The text of a compressed input lies in the folder."""
    for number, each in enumerate(plan.inputs):
        if is_compressed(Path(each.file.path)):
            place = text_file(folder, number)
            if not place.is_file() or place.stat().st_size != each.text_bytes:
                raise DataError(f"{place}: missing or cut; plan in a new folder")
        else:
            refuse_changes([each.file], _text_sha256, DataError)


def _text_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(plan: PartsPlan) -> str:
    """The number of lines (or pairs) and parts, in words."""
    return f"{counted(plan.num_lines, plan.thing)} in {counted(len(plan.parts), 'part')}"
