"""From the results of rows to findings: a table, charts, and a verdict on each claim."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from heedful.errors import counted
from heedful.lab.chart import Curves, Spreads
from heedful.lab.experiment import Claim, Experiment, Row
from heedful.lab.findings import Findings, Judged
from heedful.lab.learning_curves import learning_curves
from heedful.lab.metrics import BLEU, PERPLEXITY, is_perplexity, scale
from heedful.lab.row_result import RowResult
from heedful.lab.statistics import (
    UNTOLD,
    Difference,
    Spread,
    Verdict,
    chances,
    difference,
    pooled_spread,
    verdicts,
)
from heedful.score.tables import Rows, Section

VALIDATED = (PERPLEXITY, BLEU)
MIN_SEEDS = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of an experiment by row, in the order of its rows."""

    experiment: Experiment
    results: Mapping[str, Sequence[RowResult]]

    @classmethod
    def of(cls, experiment: Experiment, results: Iterable[RowResult]) -> Measured:
        """Sort results into the rows of the experiment."""
        found: dict[str, list[RowResult]] = {row.name: [] for row in experiment.rows}
        for result in sorted(results, key=lambda each: each.seed):
            found[result.row].append(result)
        return cls(experiment, {name: each for name, each in found.items() if each})

    def values(self, row: str, metric: str) -> list[float]:
        """The metric of each seed of a row, but for those that have none."""
        found = (result.value(metric) for result in self.results.get(row, ()))
        return [value for value in found if value is not None]

    def scaled(self, row: str, metric: str) -> list[float]:
        """The same on the scale on which differences are tested."""
        return [scale(metric, value) for value in self.values(row, metric)]

    def has_failed(self, row: str) -> bool:
        """Whether training diverged with every seed."""
        results = self.results.get(row, ())
        return bool(results) and all(result.diverged for result in results)

    def spread(self, metric: str) -> Spread | None:
        """Pooled over all rows."""
        return pooled_spread(self.scaled(row, metric) for row in self.results)

    def difference(self, row: str, baseline: str, metric: str) -> Difference | None:
        """How a row stands to another; None without several seeds of both."""
        ours, theirs, spread = self.scaled(row, metric), self.scaled(baseline, metric), self.spread(metric)
        if spread is None or min(len(ours), len(theirs)) < MIN_SEEDS:
            return None
        return difference(theirs, ours, spread)


def findings_of(
    experiment: Experiment, results: Sequence[RowResult], folder: Path, *, has_verdicts: bool = True
) -> Findings:
    """Table, charts and verdicts; without verdicts the predictions are left out. The report will lie in the folder."""
    measured = Measured.of(experiment, results)
    charts: dict[str, Curves | Spreads] = {}
    for metric in experiment.metrics:
        charts[_file_name(metric)] = _spreads(measured, metric)
    for metric in VALIDATED:
        curves = {row: [result.curve for result in each] for row, each in measured.results.items()}
        charts[f"{metric.lower()}-curves"] = learning_curves(experiment.name, metric, curves)
    more = experiment.more(measured.results, folder) if experiment.more else Findings()
    charts |= more.charts
    return Findings(
        tables=(Section("Rows", list(_table(measured))), *more.tables, Section("Seeds", list(_seeds(measured)))),
        charts={name: chart for name, chart in charts.items() if _has_points(chart)},
        judged=tuple(judged(measured)) if has_verdicts else (),
        notes=(*_notes(measured), *more.notes),
    )


def _file_name(metric: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", metric.lower()).strip("-")


def _has_points(chart: Curves | Spreads) -> bool:
    return bool(chart.series if isinstance(chart, Curves) else chart.rows)


# -------------------------------------------------------------------------------------------------------------- claims


def judged(measured: Measured) -> Iterator[Judged]:
    """Every claim with what was measured, all of them corrected together."""
    claims = measured.experiment.claims
    found = [measured.difference(claim.row, claim.baseline, claim.metric) for claim in claims]
    testable = [(n, each) for n, each in enumerate(found) if each is not None]
    told = verdicts([chances(each, claims[n].expected, claims[n].margin) for n, each in testable])
    said = dict(zip((n for n, _ in testable), told, strict=True))
    for n, claim in enumerate(claims):
        yield Judged(
            claim=f"{_name(measured, claim.row)}: {claim.metric} against {_name(measured, claim.baseline)}",
            predicted=f"{claim.expected} ({claim.source})",
            measured=_shown(measured, claim, found[n], len(testable)),
            verdict=said.get(n) or _of_failure(measured, claim),
        )


def _of_failure(measured: Measured, claim: Claim) -> Verdict:
    """A row that diverges with every seed, beside a baseline that does not, is the worse one."""
    if not measured.has_failed(claim.row) or not measured.values(claim.baseline, claim.metric):
        return UNTOLD
    worse = "higher" if is_perplexity(claim.metric) else "lower"
    return "agrees" if claim.expected == worse else "disagrees"


def _shown(measured: Measured, claim: Claim, found: Difference | None, num_claims: int) -> str:
    """`+12.3 % [+8.1, +16.7]; could have shown 6.0`."""
    if found is None:
        return "diverged with every seed" if measured.has_failed(claim.row) else "too few seeds"
    low, high = found.interval()
    least = found.smallest(num_claims)
    if is_perplexity(claim.metric):
        change, low, high, least = (100 * math.expm1(each) for each in (found.value, low, high, least))
        return f"{change:+.1f} % [{low:+.1f}, {high:+.1f}]; could have shown {least:.1f} %"
    return f"{found.value:+.2f} [{low:+.2f}, {high:+.2f}]; could have shown {least:.2f}"


def _name(measured: Measured, row: str) -> str:
    return measured.experiment.row(row).change or row


# -------------------------------------------------------------------------------------------------------------- tables


def _table(measured: Measured) -> Iterator[list[str]]:
    metrics = measured.experiment.metrics
    yield ["row", "change", "parameters", *metrics, "seconds", "seeds"]
    for row in measured.experiment.rows:
        if results := measured.results.get(row.name):
            yield [
                row.name,
                row.change,
                f"{results[0].parameters:,}",
                *(_mean(measured.values(row.name, metric)) for metric in metrics),
                f"{fmean(result.seconds for result in results):,.0f}",
                ", ".join(f"{result.seed}{' (diverged)' if result.diverged else ''}" for result in results),
            ]


def _mean(values: Sequence[float]) -> str:
    """`20.87 ± 0.51`; a dash where there is nothing."""
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{fmean(values):.2f}{spread}" if values else "–"


def _seeds(measured: Measured) -> Rows:
    """Each run, with where and by which code it was made."""
    metrics = measured.experiment.metrics
    heading = ["row", "seed", *metrics, "machine", "code", "command"]
    found = [result for results in measured.results.values() for result in results]
    return [heading, *(_seed(result, metrics) for result in found)]


def _seed(result: RowResult, metrics: Sequence[str]) -> list[str]:
    values = [result.value(metric) for metric in metrics]
    figures = ["–" if value is None else f"{value:.2f}" for value in values]
    return [result.row, str(result.seed), *figures, result.machine.describe(), result.commit, result.command]


def _notes(measured: Measured) -> tuple[str, ...]:
    results = [result for each in measured.results.values() for result in each]
    if not results:
        return ()
    first = results[0]
    text = f"Text: {first.text} (SHA-256 {first.text_sha256[:8]}); {first.precision}; validation text, greedy search."
    spreads = [
        _spread_note(metric, spread) for metric in measured.experiment.metrics if (spread := measured.spread(metric))
    ]
    return text, *spreads


def _spread_note(metric: str, spread: Spread) -> str:
    size = f"{100 * math.expm1(spread.deviation):.1f} %" if is_perplexity(metric) else f"{spread.deviation:.2f}"
    freedom = counted(spread.freedom, "degree")
    return f"Spread of {metric} between seeds, pooled over all rows: {size} ({freedom} of freedom)."


# -------------------------------------------------------------------------------------------------------------- charts


def _spreads(measured: Measured, metric: str) -> Spreads:
    rows = {_label(row): tuple(measured.values(row.name, metric)) for row in measured.experiment.rows}
    return Spreads(
        title=f"{measured.experiment.name}: {metric} of each row, a dot for each seed",
        x=f"{metric}, validation",
        rows={name: values for name, values in rows.items() if values},
        has_log_x=is_perplexity(metric),
    )


def _label(row: Row) -> str:
    return f"{row.name}: {row.change}" if row.change and row.change != row.name else row.name
