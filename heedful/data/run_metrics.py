"""The metrics of a run: written, cut after a step, and read, all of them or only new ones.

`metrics.jsonl` has one record on each line: `step` (loss, learning rate …), `validation` (loss, BLEU) and, in a slow
start, `pace` (seconds a step, seconds left) before its first `step`; pace is not read here. A run that resumes from a
checkpoint removes the lines of later steps, so the file may shrink. Nothing here knows a model.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from heedful.data.atomic import explained
from heedful.data.run_folder import METRICS, write_text
from heedful.errors import CheckpointError

Records: TypeAlias = dict[str, list[dict[str, Any]]]
"""Those of each kind."""


def run_metrics(run: str | PathLike[str]) -> Records:
    """All records of a run, by kind."""
    return Tail(Path(run) / METRICS).more()


@dataclass(slots=True)
class Tail:
    """Reads a growing file from where it stopped the last time."""

    path: Path
    position: int = field(default=0, init=False)  # bytes that were read
    lines: int = field(default=0, init=False)
    file_number: int = field(default=0, init=False)
    last: bytes = field(default=b"", init=False)  # the line before the position
    is_anew: bool = field(default=True, init=False)  # whether the last reading began at the start of the file

    def more(self) -> Records:
        """The new records, or all of them after the file was cut. An unfinished line is left for later."""
        records: Records = {"step": [], "validation": []}
        for line in self._new_lines():
            self.lines += 1
            record = _record(line, f"{self.path}:{self.lines}")
            if record.get("kind") in records:
                records[record["kind"]].append({name: _finite(value) for name, value in record.items()})
        return records

    def _new_lines(self) -> list[bytes]:
        try:
            with self.path.open("rb") as file:
                self.is_anew = not self._goes_on(file)
                if self.is_anew:
                    self.position, self.lines, self.last = 0, 0, b""
                file.seek(self.position)
                whole, end, _ = file.read().rpartition(b"\n")
        except OSError:
            raise CheckpointError(f"{self.path}: cannot be read; name a run folder, which holds {METRICS}") from None
        self.position += len(whole) + len(end)
        found = whole.split(b"\n") if end else []
        self.last = found[-1] + end if found else self.last
        return found

    def _goes_on(self, file: BinaryIO) -> bool:
        """Whether all that was read is still there: the file may have been cut, or replaced."""
        number, self.file_number = self.file_number, os.fstat(file.fileno()).st_ino
        file.seek(self.position - len(self.last))
        return self.position > 0 and number == self.file_number and file.read(len(self.last)) == self.last


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
        return record if isinstance(record, dict) else {}
    except ValueError:
        raise CheckpointError(f"{where}: is not JSON; the file was damaged") from None


def _finite(value: Any) -> Any:
    """None for NaN and infinity, which JSON lacks."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cut_metrics(run: Path, step: int) -> None:
    """Remove the lines of all steps after the checkpoint that the run goes on from."""
    path = run / METRICS
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    kept = [line for line in lines if _step_of(line) <= step]
    write_text(path, "".join(f"{line}\n" for line in kept))


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # the line that was being written when the machine died


def append_metrics(run: Path, record: Mapping[str, Any]) -> None:
    """Add a line to metrics.jsonl. JSON has no NaN or infinity: such a value becomes null."""
    numbers = {name: _finite(value) for name, value in record.items()}
    with explained(run / METRICS, CheckpointError), open(run / METRICS, "a", encoding="utf-8") as file:
        file.write(json.dumps(numbers, ensure_ascii=False, allow_nan=False) + "\n")
