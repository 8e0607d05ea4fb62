"""What a run wrote down on its way, read back: all of it, or only what is new.

`metrics.jsonl` holds a record a line: `step` (loss, learning rate …), `validation` (loss, BLEU) and, where a start is
slow, `pace` (seconds a step, seconds left) before its first `step`; pace is not read here. A run that goes on
from a checkpoint takes the lines behind it back, so that the file may become shorter. Nothing here knows a model.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from heedful.data.run_folder import METRICS
from heedful.errors import CheckpointError

Records: TypeAlias = dict[str, list[dict[str, Any]]]
"""Those of each kind."""


def run_metrics(run: str | PathLike[str]) -> Records:
    """All records of a run, by kind."""
    return Tail(Path(run) / METRICS).more()


@dataclass(slots=True)
class Tail:
    """A file that grows, read from where it was left."""

    path: Path
    position: int = field(default=0, init=False)  # bytes that were read
    lines: int = field(default=0, init=False)
    file_number: int = field(default=0, init=False)
    last: bytes = field(default=b"", init=False)  # the line before the position
    is_anew: bool = field(default=True, init=False)  # did the last reading begin at the beginning?

    def more(self) -> Records:
        """The records that were added; after a cut, all of them. A line that is being written waits until it is."""
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
        """Is all there that was read? It may have been taken back, in the same file or in another of its name."""
        number, self.file_number = self.file_number, os.fstat(file.fileno()).st_ino
        file.seek(self.position - len(self.last))
        return self.position > 0 and number == self.file_number and file.read(len(self.last)) == self.last


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
        return record if isinstance(record, dict) else {}
    except ValueError:
        raise CheckpointError(f"{where}: is no JSON; the file was damaged") from None


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
