"""The starts of a run, for its card: which code trained which part of it, on which machine, in which precision.

`starts.jsonl` in the run folder has one line for each start, with the place where the run stood then. A start removes
those that left no checkpoint, as their steps are done again. `base.json` names the weights that a fine-tuned run began
from.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct

from heedful.data.run_folder import BASE, write_text
from heedful.score.provenance import Machine

STARTS = "starts.jsonl"


class Base(Struct, frozen=True):
    """The model that a run was fine-tuned from."""

    name: str
    weights_sha256: str


class RunPoint(Struct, frozen=True):
    """How far a run has come."""

    step: int = 0
    target_tokens: int = 0
    seconds: float = 0.0


class Circumstances(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When, by which code, where and in which precision something was computed."""

    date: str
    version: str
    commit: str
    machine: Machine
    precision: str


class Start(Circumstances, frozen=True, kw_only=True):
    """One start, and the place of the run at that moment."""

    name: str  # of the recipe; empty: there was none
    place: RunPoint
    planned_steps: int = 0  # all that the run was to have; 0: not known
    cooldown_steps: int = 0  # the last of them


class TrainingPart(Circumstances, frozen=True, kw_only=True):
    """The part of a run that one start trained. Published cards have the fields in this order."""

    steps: int
    target_tokens: int
    seconds: float
    planned_steps: int = 0
    cooldown_steps: int = 0


def begin(run: Path, start: Start) -> None:
    """Record a start; it replaces those that came no further than the place where it begins."""
    before = [each for each in read_starts(run) if each.place.step < start.place.step]
    write_text(run / STARTS, "".join(f"{msgspec.json.encode(each).decode()}\n" for each in (*before, start)))


def keep_base(run: Path, base: Base | None) -> None:
    """Record the model that a run begins from; None for new weights."""
    if base:
        write_text(run / BASE, f"{msgspec.json.encode(base).decode()}\n")
    else:
        (run / BASE).unlink(missing_ok=True)


def read_base(run: Path) -> Base | None:
    """The model that the run began from; None for new weights, or if it is not known."""
    try:
        return msgspec.json.decode((run / BASE).read_bytes(), type=Base)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def read_starts(run: Path) -> list[Start]:
    """All starts, in order; a line that cannot be read is skipped."""
    starts = []
    if (run / STARTS).is_file():
        for line in (run / STARTS).read_bytes().splitlines():
            try:
                starts.append(msgspec.json.decode(line, type=Start))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
    return starts


def training_parts(starts: Sequence[Start], end: RunPoint) -> tuple[TrainingPart, ...]:
    """The part of each start, up to the next start or the end; starts that did no step are left out."""
    places = [*(start.place for start in starts), end]
    return tuple(
        TrainingPart(
            **{name: getattr(start, name) for name in Circumstances.__struct_fields__},
            steps=after.step - here.step,
            target_tokens=after.target_tokens - here.target_tokens,
            seconds=after.seconds - here.seconds,
            planned_steps=start.planned_steps,
            cooldown_steps=start.cooldown_steps,
        )
        for start, (here, after) in zip(starts, pairwise(places), strict=True)
        if after.step > here.step
    )
