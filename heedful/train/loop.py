"""The training loop (§5): batches in, progress records out, checkpoints on the way. It prints nothing.

It knows validation only as a function from model to scores, and a step only as `Trainer.step`. Which step comes next
follows from the last checkpoint alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import torch

from heedful.config.settings import TrainConfig
from heedful.data.shards import Shards
from heedful.errors import TrainingError
from heedful.model.checkpoint import last_whole, step_folder
from heedful.model.device import explained_out_of_memory
from heedful.model.interface import TranslationModel
from heedful.train.batching import prefetched, step_batches
from heedful.train.checkpoint_writer import CheckpointWriter
from heedful.train.running_sums import PendingSums, Sums
from heedful.train.trainer import Progress, Trainer

LOG_STEPS = 20
QUIET_SECONDS = 10.0  # before the first record of a start: so long nothing is said
# So many steps in a row without a finite gradient end the run.
NON_FINITE_LIMIT = 20


@dataclass(frozen=True, slots=True)
class Scores:
    """What validation measures: loss and perplexity are per target token, without smoothing."""

    loss: float
    perplexity: float
    bleu: float | None = None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The mean over the last steps: smoothed loss, true perplexity; and how fast they went."""

    step: int
    loss: float
    perplexity: float
    learning_rate: float  # of this step
    gradient_norm: float  # of the last step in which it was finite
    target_tokens: int  # since the start of the run
    tokens_per_second: float
    seconds: float  # since the start of the run, interruptions not counted
    skipped_steps: int
    seconds_left: float  # on this machine, at the pace of this start


@dataclass(frozen=True, slots=True)
class PaceRecord:
    """A start is slow: how far it is, before the first StepRecord tells more."""

    step: int
    seconds_per_step: float
    seconds_left: float  # on this machine, at this pace


@dataclass(frozen=True, slots=True)
class ValidationRecord:
    """The scores on the validation text."""

    step: int
    scores: Scores


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """A checkpoint was written."""

    step: int
    path: Path


@dataclass(frozen=True, slots=True)
class EndRecord:
    """The run has ended: `steps` done, `patience` at its end, or `stopped` from outside."""

    step: int
    reason: str


Record: TypeAlias = StepRecord | PaceRecord | ValidationRecord | CheckpointRecord | EndRecord
Validate: TypeAlias = Callable[[TranslationModel], Scores]


class StoppedError(Exception):
    """What a `Validate` raises that was told to stop on its way."""


@dataclass
class Clock:
    """Wall time of this start, and of the stretch since the last record."""

    seconds_before: float
    started: float = field(default_factory=time.monotonic)
    stretch_started: float = field(default_factory=time.monotonic)
    last_checkpoint: float = field(default_factory=time.monotonic)
    first_step: tuple[int, float] | None = None  # of this start, and when it had ended

    @property
    def seconds(self) -> float:
        """Since the start of the run, in which interruptions do not count."""
        return self.seconds_before + time.monotonic() - self.started

    def seconds_left(self, step: int, steps: int) -> float:
        """Until all steps are done, at the pace of this start; its first step is slow, and counts only while alone."""
        now = time.monotonic()
        first, ended = self.first_step or (step, now)
        pace = (now - ended) / (step - first) if step > first else now - self.started
        return (steps - step) * pace

    def stretch(self) -> float:
        """Seconds since this was last asked."""
        now = time.monotonic()
        seconds, self.stretch_started = now - self.stretch_started, now
        return max(seconds, 1e-9)


def train(
    trainer: Trainer, shards: Shards, run: Path, *, validate: Validate | None, stop: Callable[[], bool]
) -> Iterator[Record]:
    """Train until the steps are done, patience ends, or `stop` says so; yields what happens.

    A stop takes effect after one checkpoint, also while a validation is due or under way: that is then done at the
    next start.
    """
    config, clock = trainer.config.train, Clock(trainer.progress.seconds)
    if validate and trainer.progress.validation_is_due:
        stop()  # from here on a signal only sets a flag, also in the processes that wait for the first one
        yield from _validation(trainer, validate, clock)
    reason = _end(trainer, validate)
    writer, pending = CheckpointWriter(run, config), _Pending(trainer, run, clock)
    steps = step_batches(
        shards, trainer.gradients.make, config, first_step=trainer.progress.step + 1, world=trainer.world
    )
    with closing(prefetched(steps)) as batches, closing(writer):
        while not reason:
            with _explained_out_of_memory(config):
                trainer.step(next(batches))
            clock.first_step = clock.first_step or (trainer.progress.step, time.monotonic())
            yield from pending.record()
            step = trainer.progress.step
            is_due = validate is not None and (step % config.validate_steps == 0 or step >= config.steps)
            trainer.progress = replace(trainer.progress, seconds=clock.seconds, validation_is_due=is_due)
            reason, minutes_up = _agreed(trainer, stop(), clock)
            pauses = is_due or minutes_up or step % config.checkpoint_steps == 0 or bool(reason)
            if step % LOG_STEPS == 0 or reason:
                pending.ask()
            if pauses or not pending.can_wait:
                yield from pending.record()
            yield from pending.pace()
            if validate and is_due and reason != "stopped":
                yield from _validation(trainer, validate, clock)
                reason = _end(trainer, validate)
            if reason or minutes_up or step % config.checkpoint_steps == 0:
                with _uncounted(trainer, clock), _explained_out_of_memory(config):
                    _begin_checkpoint(trainer, writer, clock)
            yield from _written(writer)
        writer.wait()
        yield from _written(writer)
    trainer.world.barrier()
    yield EndRecord(trainer.progress.step, reason)


def _begin_checkpoint(trainer: Trainer, writer: CheckpointWriter, clock: Clock) -> None:
    trainer.count_skipped_steps()
    if trainer.world.is_first:
        writer.write(trainer.progress.step, trainer.snapshot)
    clock.last_checkpoint = time.monotonic()


def _written(writer: CheckpointWriter) -> Iterator[CheckpointRecord]:
    return (CheckpointRecord(step, step_folder(writer.run, step)) for step in writer.written())


def _agreed(trainer: Trainer, stop: bool, clock: Clock) -> tuple[str, bool]:
    """Why the run ends here ("" while it goes on), and whether the clock asks for a checkpoint; alike on all ranks."""
    config, world = trainer.config.train, trainer.world
    minutes_up = world.is_first and time.monotonic() - clock.last_checkpoint >= 60 * config.checkpoint_minutes
    stops, checkpoints = world.sum(torch.tensor([int(stop), int(minutes_up)])).tolist()
    end = "steps" if trainer.progress.step >= config.steps else ""
    return "stopped" if stops else end, bool(checkpoints)


class _Pending:
    """The next step record: asked for after one step and read after the next, so that a GPU never waits."""

    def __init__(self, trainer: Trainer, run: Path, clock: Clock) -> None:
        self.trainer, self.run, self.clock = trainer, run, clock
        self.can_wait = trainer.device.type == "cuda"  # elsewhere a step is over when its call is
        self._asked: tuple[Progress, PendingSums] | None = None
        self._step_before, self._last_word, self._has_recorded = trainer.progress.step, clock.started, False

    def ask(self) -> None:
        """Take the sums of the steps so far, in the order of the device's work, and begin new ones."""
        self._asked = self.trainer.progress, self.trainer.totals.take(self.trainer.world)

    def record(self) -> Iterator[StepRecord]:
        """What was asked for, if anything was; it waits until the device is there."""
        if self._asked is None:
            return
        (progress, reading), self._asked = self._asked, None
        sums = reading.wait()
        trainer = self.trainer
        skipped = trainer.progress.skipped_steps + int(sums.skipped_steps)
        trainer.progress = replace(trainer.progress, skipped_steps=skipped, seconds=self.clock.seconds)
        if sums.skipped_in_a_row >= NON_FINITE_LIMIT:
            raise TrainingError(_not_finite(trainer, self.run, int(sums.skipped_in_a_row)))
        self._has_recorded = True
        yield self._step_record(progress, sums)

    def pace(self) -> Iterator[PaceRecord]:
        """A word now and then until the first record; it asks nothing of the device."""
        now, step = time.monotonic(), self.trainer.progress.step
        if not self._has_recorded and now - self._last_word >= QUIET_SECONDS:
            self._last_word = now
            seconds_per_step = (now - self.clock.stretch_started) / (step - self._step_before)
            yield PaceRecord(step, seconds_per_step, self._seconds_left())

    def _step_record(self, progress: Progress, sums: Sums) -> StepRecord:
        tokens = max(sums.tokens, 1.0)
        return StepRecord(
            step=progress.step,
            loss=sums.smoothed / tokens,
            perplexity=math.exp(min(sums.negative_log_likelihood / tokens, 700.0)),
            learning_rate=self.trainer.learning_rate(progress.step),
            gradient_norm=sums.gradient_norm,
            target_tokens=progress.target_tokens,
            tokens_per_second=tokens / self.clock.stretch(),
            seconds=self.trainer.progress.seconds,
            skipped_steps=self.trainer.progress.skipped_steps,
            seconds_left=self._seconds_left(),
        )

    def _seconds_left(self) -> float:
        return self.clock.seconds_left(self.trainer.progress.step, self.trainer.config.train.steps)


def _not_finite(trainer: Trainer, run: Path, steps: int) -> str:
    last = last_whole(run)
    good = f"the last good checkpoint is {last}" if last else "there is no checkpoint yet"
    return (
        f"the gradient was not finite in the last {steps} steps (up to step {trainer.progress.step}); {good}; "
        f"begin anew in another folder (-o), with a lower train.learning_rate_factor or a longer train.warmup_steps"
    )


def _validation(trainer: Trainer, validate: Validate, clock: Clock) -> Iterator[ValidationRecord]:
    """Validate; a validation that is stopped stays due, and gives no record.

    The first rank validates; the others wait, and learn the loss, on which patience depends.
    """
    with _uncounted(trainer, clock):
        scores = _scores(trainer, validate) if trainer.world.is_first else Scores(0.0, 1.0)
        mine_2 = torch.tensor([0.0, 1.0] if scores is None else [scores.loss, 0.0], dtype=torch.float64)
        loss, is_stopped = trainer.world.sum(mine_2).tolist()
    if scores and not is_stopped:
        trainer.progress = validated(trainer.progress, loss)
        yield ValidationRecord(trainer.progress.step, replace(scores, loss=loss))


def _scores(trainer: Trainer, validate: Validate) -> Scores | None:
    """Those of the weights to translate with; none where it was stopped."""
    trainer.model.eval()
    try:
        with torch.no_grad(), trainer.averaged(), _explained_out_of_memory(trainer.config.train):
            return validate(trainer.model)
    except StoppedError:
        return None
    finally:
        trainer.model.train()


def validated(progress: Progress, loss: float) -> Progress:
    """The progress of a run whose validation at this step gave this loss."""
    if _is_better(loss, progress.best_loss):
        return replace(progress, best_loss=loss, validations_without_gain=0, validation_is_due=False)
    return replace(progress, validations_without_gain=progress.validations_without_gain + 1, validation_is_due=False)


def _is_better(loss: float, best: float | None) -> bool:
    """NaN is no gain, and any number is better than NaN (as older checkpoints may remember)."""
    return not math.isnan(loss) and (best is None or math.isnan(best) or loss < best)


def _end(trainer: Trainer, validate: Validate | None) -> str:
    """Why the run ends where it is ("" while it goes on), but for a stop that is asked for after a step."""
    config, progress = trainer.config.train, trainer.progress
    if validate and progress.validation_is_due:
        return "stopped"
    if progress.step >= config.steps:
        return "steps"
    is_patient = not config.patience or progress.validations_without_gain < config.patience
    return "patience" if validate and not is_patient else ""


@contextmanager
def _uncounted(trainer: Trainer, clock: Clock) -> Iterator[None]:
    """What happens in here is no part of the stretch; the steps before it, which the device may still do, are."""
    float(trainer.totals.gradient_norm)
    trainer.progress = replace(trainer.progress, seconds=clock.seconds)
    began = time.monotonic()
    yield
    clock.stretch_started += time.monotonic() - began


def _explained_out_of_memory(config: TrainConfig) -> AbstractContextManager[None]:
    """What a batch takes: which setting to lower."""
    return explained_out_of_memory(
        f"in a new folder (-o), raise train.micro_batches (now {config.micro_batches}; the result stays nearly the "
        f"same) or lower train.batch_tokens (now {config.batch_tokens})"
    )
