"""One experiment from its rows to its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.lab.experiment import Experiment, LabRequest, Say, Stop, named
from heedful.lab.findings import Findings
from heedful.lab.judgement import findings_of
from heedful.lab.report import write_report
from heedful.lab.rows import OnRecord
from heedful.lab.training_rows import forget_all, jobs_of, results_of


@dataclass(frozen=True, slots=True)
class Finished:
    """An experiment's report, or the folder of its rows; it is not whole if the experiment was stopped."""

    findings: Findings
    report: Path
    is_whole: bool


def run_experiment(
    experiment: Experiment, request: LabRequest, *, say: Say, on_record: OnRecord, stop: Stop
) -> Finished:
    """Make what is missing, and write the report of all there is."""
    folder = request.output / experiment.name
    if experiment.measure:
        measured = experiment.measure(request, say, stop)
        if measured is None:
            return Finished(Findings(), folder, is_whole=False)
        findings, is_whole = measured, True
    else:
        jobs = jobs_of(experiment, request)
        results, is_whole = results_of(jobs, say=say, on_record=on_record, stop=stop)
        findings = findings_of(experiment, results, folder, has_verdicts=is_whole and not request.is_quick)
    return Finished(findings, write_report(folder, experiment, findings), is_whole)


def forget_rows(experiments: Sequence[Experiment], request: LabRequest, names: Sequence[str]) -> None:
    """Remove what rows of these names have left, so that the experiments make them again."""
    rows = {row.name: row for experiment in experiments for row in experiment.rows}
    chosen = {named(name, rows, "row").name for name in names}
    trained = [experiment for experiment in experiments if chosen & {row.name for row in experiment.rows}]
    jobs = {job.record: job for experiment in trained for job in jobs_of(experiment, request) if job.row in chosen}
    forget_all([*jobs.values()])
