"""The rows of an experiment, one after another: what is there is used again, what is missing is trained.

The first seed of every row comes first, so that an experiment that is stopped early has something of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from heedful.errors import about, counted
from heedful.lab.experiment import Experiment, LabRequest, Row, Say, merged
from heedful.lab.row_result import RowResult
from heedful.lab.rows import Job, OnRecord, Stop, kept_result, make_row, with_measures
from heedful.lab.text import PreparedText, prepare, read_source

TEXTS = "texts"


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
        layers=(text.layer(has_own_tokenizer="tokenizer" in row.settings), settings),
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
    """The results that there are in the end, and whether they are all; a stop ends it with some."""
    kept = [kept_result(job) for job in jobs]
    results = [with_measures(job, result, say=say) for job, result in zip(jobs, kept, strict=True) if result]
    time_left = TimeLeft()
    for result in results:
        time_left.add(result)
    missing = [job for job, result in zip(jobs, kept, strict=True) if result is None]
    if results:
        say(f"{len(results)} of {counted(len(jobs), 'row')} are there already")
    for n, job in enumerate(missing):
        if stop():
            return results, False
        say(f"row {n + 1} of {len(missing)}: {job.row}, seed {job.seed}; {time_left.of(missing[n:])}")
        made = make_row(job, say=say, on_record=on_record, stop=stop)
        if made is None:
            return results, False
        results.append(with_measures(job, made, say=say))
        time_left.add(made)
    return results, True
