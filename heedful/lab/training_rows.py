"""The rows of an experiment, one after another: what is there is used again, what is missing is trained.

The first seed of every row comes first, so that an experiment that is stopped early has something of each row.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from statistics import fmean

from heedful.data.atomic import held
from heedful.errors import CheckpointError, about, counted
from heedful.lab.experiment import Experiment, LabRequest, Row, Say, Stop, merged
from heedful.lab.row_result import RowResult
from heedful.lab.rows import Job, OnRecord, forget, kept_result, make_row, missing_measures, with_measures
from heedful.lab.text import PreparedText, prepare, read_source

TEXTS = "texts"
POLL_SECONDS = 1.0


def jobs_of(experiment: Experiment, request: LabRequest) -> list[Job]:
    """All rows with all seeds; text is written if it is not there."""
    source, rows = read_source(experiment.text_source(request)), experiment.chosen_rows(request)
    texts = {text.name: text for text in map(experiment.text_of, rows)}
    prepared = {name: prepare(text, source, request.output / TEXTS) for name, text in texts.items()}
    return [
        _job(experiment, row, seed, prepared[experiment.text_of(row).name], request)
        for seed in request.seeds
        for row in rows
    ]


def _job(experiment: Experiment, row: Row, seed: int, text: PreparedText, request: LabRequest) -> Job:
    settings = merged(experiment.settings_of(row, request), {"train": {"seed": seed}})
    return Job(
        row=row.name,
        seed=seed,
        layers=(text.layer(), settings),
        text=text,
        output=request.output,
        device=request.device,
        command=request.command,
        measures=experiment.measures,
    )


@dataclass(slots=True)
class TimeLeft:
    """How long the rows take that are still to be made, from those that were made in this session or before."""

    seconds: dict[str, float] = field(default_factory=dict)  # of a row, by its name

    @classmethod
    def of_results(cls, results: Iterable[RowResult]) -> TimeLeft:
        """What is known from these."""
        return cls({result.row: result.seconds for result in results})

    def add(self, result: RowResult) -> None:
        """Learn from a finished row."""
        self.seconds[result.row] = result.seconds

    def of(self, jobs: Sequence[Job]) -> str:
        """About so many minutes; of a row that no seed was made of yet, the mean of the others."""
        if not self.seconds:
            return "time left: known after the first row"
        usual = fmean(self.seconds.values())
        return f"about {about(sum(self.seconds.get(job.row, usual) for job in jobs))} left"


def results_of(jobs: Sequence[Job], *, say: Say, on_record: OnRecord, stop: Stop) -> tuple[list[RowResult], bool]:
    """The results that there are in the end, and whether they are all; a stop ends it with some.

    A row that another process is making is put off, so that the same command can be started once for each core.
    """
    results, waiting = _finished(jobs, say)
    time_left, num_put_off = TimeLeft.of_results(results), 0
    while waiting and not stop():
        job = waiting.popleft()
        try:
            with _held(job):
                result = kept_result(job) or _made(job, waiting, time_left, say=say, on_record=on_record, stop=stop)
                result = result and with_measures(job, result, say=say, stop=stop)
        except RowInUseError:
            waiting.append(job)
            num_put_off += 1
            _wait_if_all(waiting, num_put_off, say)
            continue
        if result is None:
            return results, False
        num_put_off = 0
        results.append(result)
        time_left.add(result)
    return results, not waiting


def _finished(jobs: Sequence[Job], say: Say) -> tuple[list[RowResult], deque[Job]]:
    """The results that are there with all their measures, and the other rows."""
    kept = [(job, kept_result(job)) for job in jobs]
    finished = {job.name: result for job, result in kept if result and not missing_measures(job, result)}
    if finished:
        say(f"{len(finished)} of {counted(len(jobs), 'row')} are there already")
    return [*finished.values()], deque(job for job in jobs if job.name not in finished)


def _made(
    job: Job, waiting: Sequence[Job], time_left: TimeLeft, *, say: Say, on_record: OnRecord, stop: Stop
) -> RowResult | None:
    left = [job, *waiting]
    say(f"{counted(len(left), 'row')} to make, now {job.row}, seed {job.seed}; {time_left.of(left)}")
    return make_row(job, say=say, on_record=on_record, stop=stop)


class RowInUseError(CheckpointError):
    """Another process is making this row."""


def _held(job: Job) -> AbstractContextManager[None]:
    job.lock.parent.mkdir(parents=True, exist_ok=True)
    return held(job.lock, RowInUseError(f"{job.lock}: another process is making this row; wait for it"))


def forget_all(jobs: Sequence[Job]) -> None:
    """Remove what these rows have left; nothing is removed if another process is making one of them."""
    with ExitStack() as locks:
        for job in jobs:
            locks.enter_context(_held(job))
        for job in jobs:
            forget(job)


def _wait_if_all(waiting: Sequence[Job], num_put_off: int, say: Say) -> None:
    """Wait a little if every row that is left is being made elsewhere."""
    if num_put_off == len(waiting):
        say(f"{counted(len(waiting), 'row')} being made by another process: waiting")
    if num_put_off >= len(waiting):
        time.sleep(POLL_SECONDS)
