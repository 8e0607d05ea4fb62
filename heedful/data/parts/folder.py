"""The folder of a plan: which parts are finished, which have failed, and who is at work there.

Part 12345 of a text is `parts/0012/0012345.txt`. The file takes this name when all of it is on the disk. The JSON
beside it is written last, and marks the part as finished. A part that fails or ends its process leaves an error file
that counts its strikes; after three strikes the part is set aside. Any process on any machine can read this state from
the folder.
"""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from heedful.data.atomic import explained, held, new_files, refuse_full, tidy, write_file
from heedful.data.parts.plan import PLAN, PartsPlan, read_plan, write_plan
from heedful.errors import CheckpointError, DataError

LOCK, PARTS = ".lock", "parts"
STRIKES = 3
_PER_FOLDER = 1000
_RECORD, _TROUBLE = ".json", ".error.json"

Kind = TypeVar("Kind", bound=msgspec.Struct)


class PartOutput(NamedTuple):
    """Some bytes of a part's output, and what they come from."""

    content: bytes
    source_lines: int
    lines: int  # of the output
    cut_lines: int = 0  # source lines that were too long, and were done in pieces


def line_output(lines: Sequence[str], *, is_cut: bool = False) -> PartOutput:
    """The output of one line."""
    return PartOutput("".join(f"{line}\n" for line in lines).encode(), 1, len(lines), int(is_cut))


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

    def output(self, number: int) -> Path:
        """Where the output of a part lies."""
        return self._path(number, self.plan.ending)

    def _path(self, number: int, ending: str) -> Path:
        return self.root / PARTS / f"{number // _PER_FOLDER:04d}" / f"{number:07d}{ending}"

    # ------------------------------------------------------------------------------------------------ finished parts

    def is_finished(self, number: int) -> bool:
        """Whether both its record and its output exist."""
        return self._path(number, _RECORD).exists() and self.output(number).exists()

    def finished(self) -> set[int]:
        """The numbers of the finished parts."""
        return self._numbers(_RECORD) & self._numbers(self.plan.ending)

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

    def write(self, number: int, outputs: Iterable[PartOutput], *, cpu: str, computed_by: str) -> PartRecord:
        """Write the outputs of a part, then its record."""
        begin, digest, size = time.monotonic(), hashlib.sha256(), 0
        source_lines = lines = cut_lines = 0
        path = self.output(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_files([path]) as (temporary,), temporary.open("wb") as file:
            for each in outputs:
                size += file.write(each.content)
                digest.update(each.content)
                source_lines += each.source_lines
                lines += each.lines
                cut_lines += each.cut_lines
            assert source_lines == self.plan.parts[number].lines, "every line has an output"
        seconds = time.monotonic() - begin
        sizes = source_lines, lines, size, digest.hexdigest(), seconds, time.time()
        record = PartRecord(*sizes, platform.node(), cpu, computed_by, cut_lines)
        write_file(self._path(number, _RECORD), msgspec.json.encode(record) + b"\n")
        return record

    def verified_output(self, number: int) -> Path:
        """Where the output of a finished part lies; an error if it is not what was written."""
        record, path = self.record(number), self.output(number)
        with explained(path, DataError, "cannot be read"), path.open("rb") as file:
            digest, size = hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
        if digest != record.sha256:
            raise DataError(
                f"{path}: has {size:,} bytes, not the {record.size:,} that were written, or other ones; "
                f"remove it, and heedful bulk run {self.root} does the part again"
            )
        return path

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


def new_plan(
    root: Path, files: Sequence[Path], part_lines: int, work: dict[str, Any], make: Callable[[], PartsPlan]
) -> PartsPlan:
    """Write the folder's plan. A plan of the same command stays as it is; another one is refused."""
    with new_plan_folder(root):
        if (root / PLAN).exists():
            there = read_plan(root)
            if there.is_of(files, part_lines, work):
                return there
            raise CheckpointError(
                f"{root}: holds another plan, or its files have changed; heedful bulk run {root} goes on with it; "
                f"for another plan remove it, or name a new folder with -o"
            )
        plan = make()
        write_plan(root, plan)
        return plan


def _read(path: Path, kind: type[Kind]) -> Kind | None:
    """The file's content, or None if the file is missing or damaged."""
    with suppress(FileNotFoundError, msgspec.DecodeError):
        return msgspec.json.decode(path.read_bytes(), type=kind)
    return None
