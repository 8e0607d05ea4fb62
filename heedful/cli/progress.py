"""How a run looks while it goes on: a live display on a terminal, one plain line now and then elsewhere.

Everything goes to stderr. It knows the records of `train/loop.py` and nothing of how they come about.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from heedful.cli.messages import forgiving_stderr, say
from heedful.config.settings import Config
from heedful.errors import about, counted
from heedful.train.loop import CheckpointRecord, EndRecord, PaceRecord, Record, Scores, StepRecord, ValidationRecord

LIVE_SECONDS, MINUTE = 0.5, 60.0  # between two looks at the pace, on a terminal and elsewhere
PLAIN_STEPS, QUIET_SECONDS = 100, 10.0  # a line after this many steps, or after this time
ENDINGS = {
    "steps": "trained {steps}",
    "patience": "stopped at step {step:,}: the validation loss no longer falls; a larger train.patience, or 0, goes on",
    "stopped": "stopped at step {step:,}; the same command goes on from here, --steps {step} makes a model of it now",
}


def duration(seconds: float) -> str:
    """3725 → 1:02:05, 65 → 1:05; from two days on 2 days."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24:,} days"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def ending(record: EndRecord) -> str:
    """Why a run has ended, as a plain line."""
    return ENDINGS[record.reason].format(step=record.step, steps=counted(record.step, "step"))


def _perplexity(measured: StepRecord | Scores) -> str:
    """12.50; of a run that diverges 2.3e+118."""
    return f"{measured.perplexity:{'.2f' if measured.perplexity < 1e6 else '.1e'}}"


def step_line(record: StepRecord, steps: int) -> str:
    """A record of steps as a plain line."""
    skipped = f"  skipped {record.skipped_steps}" if record.skipped_steps else ""
    return (
        f"step {record.step:>7,}/{steps:,}  loss {record.loss:.3f}  perplexity {_perplexity(record)}  "
        f"{record.tokens_per_second:,.0f} target tokens/s  {duration(record.seconds_left)} left{skipped}"
    )


def validation_line(record: ValidationRecord) -> str:
    """A validation as a plain line. The loss of the steps above it has label smoothing in it, and this one has not."""
    scores = record.scores
    bleu = "" if scores.bleu is None else f"  BLEU {scores.bleu:.1f} (greedy)"
    loss = f"loss {scores.loss:.3f} (not smoothed)"
    return f"step {record.step:>7,}  validation: {loss}  perplexity {_perplexity(scores)}{bleu}"


def pace_line(record: PaceRecord, steps: int) -> str:
    """How far a slow start is."""
    pace, left = f"{record.seconds_per_step:.1f} s a step", duration(record.seconds_left)
    return f"step {record.step:>7,}/{steps:,}  {pace}  {left} left on this machine"


class Pace:
    """Progress of work on many things: a line that changes on a terminal, a line a minute elsewhere."""

    def __init__(self, total: int | None, thing: str) -> None:
        self.total, self.thing, self.done = total, thing, 0
        self.before = 0
        self.begin = self.last = time.monotonic()
        self.is_live = sys.stderr is not None and sys.stderr.isatty()

    def skip(self, count: int) -> None:
        """So many were done before; they do not count for the speed."""
        self.done += count
        self.before += count

    def close(self) -> None:
        """Leave no half line on the terminal."""
        if self.is_live:
            print("\r\x1b[K", end="", file=forgiving_stderr(), flush=True)

    def add(self, count: int) -> None:
        """So many more are done."""
        self.done += count
        now = time.monotonic()
        if now - self.last >= (LIVE_SECONDS if self.is_live else MINUTE):
            self.last = now
            text, end = (f"\r{self.line(now)}\x1b[K", "") if self.is_live else (self.line(now), "\n")
            print(text, end=end, file=forgiving_stderr(), flush=True)

    def line(self, now: float) -> str:
        """How many are done, how fast, and the time left if the total is known."""
        rate = (self.done - self.before) / max(now - self.begin, 1e-3)
        of = f" of {self.total:,}" if self.total is not None else ""
        left = f", {about((self.total - self.done) / rate)} left" if self.total is not None and rate else ""
        return f"{self.done:,}{of} {self.thing}s, {rate:,.1f} {self.thing}s/s{left}"


class PlainDisplay:
    """Lines for logs and pipes."""

    def __init__(self) -> None:
        self.last_step_line, self.has_told_time = time.monotonic(), False

    def show(self, config: Config, record: Record) -> None:
        """Say what a person would want in a log."""
        steps = config.train.steps
        if isinstance(record, StepRecord) and self._is_due(record, steps):
            self.last_step_line = time.monotonic()
            say(step_line(record, steps) + ("" if self.has_told_time else " on this machine"))
            self.has_told_time = True
        elif isinstance(record, PaceRecord):
            self.has_told_time = True
            say(pace_line(record, steps))
        elif isinstance(record, ValidationRecord):
            say(validation_line(record))
        elif isinstance(record, EndRecord):
            say(ending(record))

    def _is_due(self, record: StepRecord, steps: int) -> bool:
        is_round = record.step % PLAIN_STEPS == 0 or record.step == steps
        return is_round or not self.has_told_time or time.monotonic() - self.last_step_line >= QUIET_SECONDS


class _Figures(ProgressColumn):
    """Loss, perplexity, speed and the time that is left."""

    def render(self, task: Task) -> Text:
        record: StepRecord | None = task.fields.get("record")
        if record is None:
            return Text("")
        return Text(
            f"loss {record.loss:.3f} ppl {_perplexity(record)} {record.tokens_per_second:,.0f} tok/s "
            f"{duration(record.seconds_left)} left"
        )


class LiveDisplay(PlainDisplay):
    """A bar that moves while `progress` is entered, with validations printed above it."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(10), _Figures())
        self.progress = Progress(*columns, console=console, transient=True)
        self.task = self.progress.add_task("preparing text and model", total=None)

    def show(self, config: Config, record: Record) -> None:
        """Move the bar; print what should stay."""
        if isinstance(record, StepRecord):
            total, done = config.train.steps, record.step
            name = f"step {done:,}/{total:,}"
            self.progress.update(self.task, total=total, completed=done, record=record, description=name)
        elif isinstance(record, PaceRecord):
            name = pace_line(record, config.train.steps)
            self.progress.update(self.task, total=config.train.steps, completed=record.step, description=name)
        elif isinstance(record, ValidationRecord):
            self.progress.console.print(validation_line(record), highlight=False)
        elif not isinstance(record, CheckpointRecord):
            self.progress.console.print(ending(record), highlight=False)


@contextmanager
def display() -> Iterator[PlainDisplay]:
    """A live display on a terminal, for the first of several processes; plain lines elsewhere."""
    if os.environ.get("RANK", "0") == "0" and sys.stderr.isatty():
        live = LiveDisplay(Console(file=forgiving_stderr()))
        with live.progress:
            yield live
    else:
        yield PlainDisplay()
