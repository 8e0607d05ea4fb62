"""The plan of a folder: which files, cut into which parts, for which work. It is written once, as plan.json.

A part is a range of bytes of one file, so that no part reads what another has read. A compressed file is unpacked into
the folder first. Parts and lines are numbered from 0. This module does not know what the work is.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

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


class PlannedPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Some lines of one input; `first_line` is the number of the first of them among the lines of all inputs."""

    input: int
    offset: int
    size: int
    first_line: int
    lines: int
    sha256: str


class PartsPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The work, its inputs, and the parts that they are cut into."""

    work: dict[str, Any]
    part_lines: int
    inputs: tuple[InputFile, ...]
    parts: tuple[PlannedPart, ...]
    format: int = FORMAT
    version: str = __version__

    @property
    def num_lines(self) -> int:
        """How many lines all inputs have together."""
        return sum(each.lines for each in self.inputs)

    def line_in_file(self, part: PlannedPart) -> int:
        """The number of the part's first line in its own file."""
        return part.first_line - sum(each.lines for each in self.inputs[: part.input])

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
    """The inputs and their parts. Every file is read once."""
    inputs: list[InputFile] = []
    parts: list[PlannedPart] = []
    for file in files:
        cutter = _Cutter(len(inputs), sum(each.lines for each in inputs), part_lines, str(file))
        if is_compressed(file):
            _unpack(file, text_file(folder, len(inputs)), cutter, say)
        else:
            with open_text(file) as lines:
                for _ in cutter.texts(lines):
                    pass
        parts += cutter.parts
        inputs.append(InputFile(stamp(file, cutter.digest.hexdigest()), cutter.lines, cutter.offset))
    if not parts:
        raise DataError(f"{', '.join(map(str, files))}: no line in {'it' if len(files) == 1 else 'them'}")
    return inputs, parts


class _Cutter:
    """Cuts one file into parts, and refuses text that is not UTF-8."""

    def __init__(self, number: int, first_line: int, part_lines: int, name: str) -> None:
        self.number, self.first_line, self.part_lines, self.name = number, first_line, part_lines, name
        self.lines = self.offset = 0
        self.digest = hashlib.sha256()
        self.parts: list[PlannedPart] = []

    def texts(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The bytes of each part, in order."""
        stream = iter(lines)
        while some := list(islice(stream, self.part_lines)):
            text = b"".join(some)
            self._check(some, text)
            self.digest.update(text)
            digest = hashlib.sha256(text).hexdigest()
            begin = self.first_line + self.lines
            self.parts.append(PlannedPart(self.number, self.offset, len(text), begin, len(some), digest))
            self.lines += len(some)
            self.offset += len(text)
            yield text

    def _check(self, lines: list[bytes], text: bytes) -> None:
        try:
            text.decode()
        except UnicodeDecodeError:
            for _ in decode_lines(lines, self.name, first=self.lines + 1):  # which names the line
                pass


def _unpack(file: Path, place: Path, cutter: _Cutter, say: Callable[[str], None]) -> None:
    with explained(place, DataError):
        place.parent.mkdir(exist_ok=True)
        with new_files([place]) as (temporary,), temporary.open("wb") as unpacked, open_text(file) as lines:
            unpacked.writelines(cutter.texts(lines))
    say(f"{file}: unpacked into {place}, {cutter.offset / 1e6:,.1f} MB of disk")


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


def part_lines(folder: Path, plan: PartsPlan, number: int) -> list[str]:
    """The lines of a part; an error if they are not those that were planned."""
    part = plan.parts[number]
    name, raw = plan.inputs[part.input].file.path, raw_lines(folder, plan, number)
    first = plan.line_in_file(part) + 1
    if hashlib.sha256(raw).hexdigest() != part.sha256:
        raise DataError(
            f"{name}: lines {first:,} to {first + part.lines - 1:,} have changed since the plan was made; "
            f"bring the file back, or plan in a new folder"
        )
    return list(decode_lines(io.BytesIO(raw), name, first=first))


def raw_lines(folder: Path, plan: PartsPlan, number: int) -> bytes:
    """The bytes of a part."""
    part = plan.parts[number]
    name = Path(plan.inputs[part.input].file.path)
    path = text_file(folder, part.input) if is_compressed(name) else name
    with explained(path, DataError, "cannot be read"), path.open("rb") as file:
        file.seek(part.offset)
        return file.read(part.size)


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
    """The number of lines and parts, in words."""
    return f"{counted(plan.num_lines, 'line')} in {counted(len(plan.parts), 'part')}"
