"""The folder of a plan: which parts are finished, which have failed, and who is at work there.

Part 12345 is `parts/0012/0012345.txt`. The file takes this name when all of it is on the disk. The JSON beside it is
written last, and marks the part as finished. A part that fails or ends its process leaves an error file that counts its
strikes; after three strikes the part is set aside. Any process on any machine can read this state from the folder.
"""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from heedful.data.atomic import explained, held, new_files, refuse_full, tidy, write_file
from heedful.data.parts.plan import PLAN, PartsPlan, read_plan
from heedful.errors import CheckpointError, DataError, counted

LOCK, PARTS = ".lock", "parts"
STRIKES = 3
_PER_FOLDER = 1000
_TEXT, _RECORD, _TROUBLE = ".txt", ".json", ".error.json"

Kind = TypeVar("Kind", bound=msgspec.Struct)


class LineOutput(NamedTuple):
    """The output of one line."""

    lines: Sequence[str]
    is_cut: bool = False  # the line was too long, and was done in pieces


class PartRecord(msgspec.Struct, frozen=True):
    """What is known of a finished part."""

    source_lines: int
    lines: int  # of the output; an n-best list has several for each source line
    size: int
    sha256: str
    seconds: float
    finished: float  # seconds since 1970
    host: str
    cpu: str
    computed_by: str
    cut_lines: int = 0  # source lines that were too long for the model


class PartTrouble(msgspec.Struct, frozen=True):
    """How often a part has failed, or its process has ended, and why."""

    strikes: int = 0
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartFolder:
    """A folder with a plan."""

    root: Path
    plan: PartsPlan

    @classmethod
    def open(cls, root: Path) -> PartFolder:
        """The folder of a plan that was made."""
        return cls(root, read_plan(root))

    def text(self, number: int) -> Path:
        """Where the output of a part lies."""
        return self._path(number, _TEXT)

    def _path(self, number: int, ending: str) -> Path:
        return self.root / PARTS / f"{number // _PER_FOLDER:04d}" / f"{number:07d}{ending}"

    # ------------------------------------------------------------------------------------------------ finished parts

    def is_finished(self, number: int) -> bool:
        """Whether both its record and its text exist."""
        return self._path(number, _RECORD).exists() and self.text(number).exists()

    def finished(self) -> set[int]:
        """The numbers of the finished parts."""
        return self._numbers(_RECORD) & self._numbers(_TEXT)

    def unfinished(self, among: Iterable[int] | None = None) -> list[int]:
        """The parts that are still to be done, in order, without those that are set aside."""
        done = self.finished() | set(self.set_aside())
        return [number for number in (range(len(self.plan.parts)) if among is None else among) if number not in done]

    def record(self, number: int) -> PartRecord:
        """The record of a finished part."""
        found = _read(self._path(number, _RECORD), PartRecord)
        if found is None:
            raise CheckpointError(f"{self._path(number, _RECORD)}: missing; heedful bulk run {self.root} does the part")
        return found

    def records(self) -> dict[int, PartRecord]:
        """The records of all finished parts."""
        return {number: self.record(number) for number in sorted(self.finished())}

    def write(self, number: int, outputs: Iterable[LineOutput], *, cpu: str, computed_by: str) -> PartRecord:
        """Write the outputs of a part's lines, then its record."""
        begin, digest, source_lines, lines, size, cut_lines = time.monotonic(), hashlib.sha256(), 0, 0, 0, 0
        path = self.text(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_files([path]) as (temporary,), temporary.open("wb") as file:
            for output in outputs:
                text = [f"{line}\n".encode() for line in output.lines]
                source_lines, lines, cut_lines = source_lines + 1, lines + len(text), cut_lines + output.is_cut
                for line in text:
                    size += file.write(line)
                    digest.update(line)
            assert source_lines == self.plan.parts[number].lines, "every line has an output"
        seconds = time.monotonic() - begin
        sizes = source_lines, lines, size, digest.hexdigest(), seconds, time.time()
        record = PartRecord(*sizes, platform.node(), cpu, computed_by, cut_lines)
        write_file(self._path(number, _RECORD), msgspec.json.encode(record) + b"\n")
        return record

    def checked_text(self, number: int) -> Iterator[bytes]:
        """The lines of a finished part; raises if the file was changed after it was written."""
        record, path = self.record(number), self.text(number)
        digest, lines = hashlib.sha256(), 0
        with explained(path, DataError, "cannot be read"), path.open("rb") as file:
            for line in file:
                digest.update(line)
                lines += 1
                yield line
        if (lines, digest.hexdigest()) != (record.lines, record.sha256):
            raise DataError(
                f"{path}: has {counted(lines, 'line')}, not the {record.lines:,} that were written, or other ones; "
                f"remove it, and heedful bulk run {self.root} does the part again"
            )

    # ----------------------------------------------------------------------------------------------------- strikes

    def trouble(self, number: int) -> PartTrouble:
        """What has gone wrong with a part so far."""
        return _read(self._path(number, _TROUBLE), PartTrouble) or PartTrouble()

    def strike(self, number: int, error: str) -> PartTrouble:
        """Add a strike."""
        before = self.trouble(number)
        return self._put(number, PartTrouble(before.strikes + 1, (*before.errors, error)))

    def forgive(self, number: int) -> None:
        """Take the last strike back."""
        before = self.trouble(number)
        if before.strikes > 1:
            self._put(number, PartTrouble(before.strikes - 1, before.errors[:-1]))
        else:
            self._path(number, _TROUBLE).unlink(missing_ok=True)

    def forget_trouble(self, number: int) -> None:
        """Take all strikes of a part back."""
        self._path(number, _TROUBLE).unlink(missing_ok=True)

    def set_aside(self) -> dict[int, PartTrouble]:
        """The parts that have failed too often, and why."""
        troubles = {number: self.trouble(number) for number in sorted(self._numbers(_TROUBLE))}
        return {number: each for number, each in troubles.items() if each.strikes >= STRIKES}

    def _put(self, number: int, trouble: PartTrouble) -> PartTrouble:
        path = self._path(number, _TROUBLE)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, msgspec.json.encode(trouble) + b"\n")
        return trouble

    def _numbers(self, ending: str) -> set[int]:
        names = (path.name for path in (self.root / PARTS).glob(f"*/*{ending}"))
        return {int(name.removesuffix(ending)) for name in names if name.removesuffix(ending).isdecimal()}

    # ------------------------------------------------------------------------------------------------------ the lock

    @contextmanager
    def held(self, *, shared: bool = False) -> Iterator[None]:
        """Lock the folder, alone or together with other shares.

        A process that is alone removes the temporary files of dead ones.
        """
        in_use = CheckpointError(f"{self.root}: another process is at work there; wait for it, or end it")
        with explained(self.root / LOCK, CheckpointError), held(self.root / LOCK, in_use, shared=shared):
            if not shared:
                self._tidy()
            yield

    def _tidy(self) -> None:
        tidy(self.root)
        for folder in (self.root / PARTS).glob("*"):
            tidy(folder)


@contextmanager
def new_plan_folder(root: Path) -> Iterator[None]:
    """Lock a folder for a new plan. It must be empty, or hold a plan or the beginning of one."""
    if not (root / PLAN).exists() and not (root / LOCK).exists():
        refuse_full(root)
    in_use = CheckpointError(f"{root}: another process is at work there; wait for it, or name another folder")
    with explained(root, CheckpointError):
        root.mkdir(parents=True, exist_ok=True)
        with held(root / LOCK, in_use):
            yield


def _read(path: Path, kind: type[Kind]) -> Kind | None:
    """The file's content, or None if the file is missing or damaged."""
    with suppress(FileNotFoundError, msgspec.DecodeError):
        return msgspec.json.decode(path.read_bytes(), type=kind)
    return None
