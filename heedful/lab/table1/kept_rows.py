"""Rows of an experiment that measures: each is kept in one JSON as soon as it is made, and not made again.

Figures of one table come from one machine, one version of torch and one way of measuring. Kept rows with another
are refused with the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from heedful.data.atomic import explained, write_file
from heedful.errors import CheckpointError

T = TypeVar("T")

FORMAT = 1


class _Kept(Struct):
    conditions: dict[str, str]
    rows: dict[str, Any]
    format: int = FORMAT


@dataclass(slots=True)
class KeptRows:
    """The file, and what its rows were made with."""

    path: Path
    conditions: dict[str, str]
    _rows: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        kept = _load(self.path)
        self._rows = kept.rows if kept else {}
        for name, before in (kept.conditions if kept else {}).items():
            if before != (now := self.conditions.get(name)):
                raise CheckpointError(
                    f"{self.path}: its rows were measured with {name} {before}, and now it is {now}; "
                    f"remove the file, or name another folder"
                )

    def get(self, name: str, kind: type[T], make: Callable[[], T]) -> T:
        """The row of that name, made if it is not there."""
        if name not in self._rows:
            self._rows[name] = msgspec.to_builtins(make())
            self._save()
        return msgspec.convert(self._rows[name], kind)

    def _save(self) -> None:
        content = msgspec.json.format(msgspec.json.encode(_Kept(self.conditions, self._rows)), indent=1)
        with explained(self.path, CheckpointError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self.path, content + b"\n")


def _load(path: Path) -> _Kept | None:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise CheckpointError(f"{path}: cannot be read as measured rows ({error}); remove it to begin again") from None
    if kept.format != FORMAT:
        raise CheckpointError(f"{path}: rows of format {kept.format}, and this version reads {FORMAT}")
    return kept
