"""From the results of rows to findings: a table, charts, and a verdict on each claim."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import msgspec

from heedful.errors import counted
from heedful.lab.charts.chart import Curves, Spreads
from heedful.lab.charts.learning_curves import learning_curves
from heedful.lab.experiment import Claim, Experiment, Row
from heedful.lab.findings import Findings, Judged
from heedful.lab.metrics import BLEU, PERPLEXITY, family, is_perplexity, scale
from heedful.lab.row_result import RowResult
from heedful.lab.statistics import (
    UNTOLD,
    Difference,
    Verdict,
    chances,
    deviations,
    difference,
    noise,
    noisy,
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
        """The metric of each seed of a row, except for seeds that have none."""
        found = (result.value(metric) for result in self.results.get(row, ()))
        return [value for value in found if value is not None]

    @property
    def seeds(self) -> set[int]:
        """Those that any row has."""
        return {result.seed for results in self.results.values() for result in results}

    def without(self, row: str, metric: str) -> list[int]:
        """The seeds with which a row has no value of this metric."""
        found = {result.seed for result in self.results.get(row, ()) if result.value(metric) is not None}
        return sorted(self.seeds - found)

    def whole(self, metric: str) -> dict[str, list[float]]:
        """The rows that have this metric with every seed, on the scale on which differences are tested."""
        rows = [row for row in self.results if not self.without(row, metric)]
        return {row: [scale(metric, value) for value in self.values(row, metric)] for row in rows}

    def difference(self, row: str, baseline: str, metric: str) -> Difference | None:
        """How a row compares with another; None unless both have the metric with every one of several seeds."""
        whole = self.whole(metric)
        if len(self.seeds) < MIN_SEEDS or not {row, baseline} <= set(whole):
            return None
        spread = noise([whole[name] for name in self._pooled(row, baseline, metric)])
        return difference(whole[baseline], whole[row], spread) if spread else None

    def _pooled(self, row: str, baseline: str, metric: str) -> set[str]:
        """The rows that tell the noise: all, or only these two if their noise may differ from that of the others."""
        whole, two = self.whole(metric), {row, baseline}
        outliers = noisy(whole)
        return two if metric not in VALIDATED or two & outliers else set(whole) - outliers


def findings_of(
    experiment: Experiment, results: Sequence[RowResult], folder: Path, *, has_verdicts: bool = True
) -> Findings:
    """Table, charts and verdicts; without verdicts, predictions are left out too. The report goes into the folder."""
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
        notes=(*_notes(measured), *more.notes, *(_verdict_notes(experiment) if has_verdicts else ())),
    )


def _file_name(metric: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", metric.lower()).strip("-")


def _has_points(chart: Curves | Spreads) -> bool:
    return bool(chart.series if isinstance(chart, Curves) else chart.rows)


# -------------------------------------------------------------------------------------------------------------- claims


def judged(measured: Measured) -> Iterator[Judged]:
    """Every claim with what was measured; the testable claims of a family are corrected together."""
    claims = measured.experiment.claims
    found = [measured.difference(claim.row, claim.baseline, claim.metric) for claim in claims]
    families: dict[str, list[int]] = {}
    for n, claim in enumerate(claims):
        if found[n]:
            families.setdefault(family(claim.metric), []).append(n)
    said = {n: verdict for members in families.values() for n, verdict in _told(claims, found, members).items()}
    for n, claim in enumerate(claims):
        yield Judged(
            claim=f"{_name(measured, claim.row)}: {claim.metric} against {_name(measured, claim.baseline)}",
            predicted=_predicted(claim),
            measured=_shown(measured, claim, found[n], len(families.get(family(claim.metric), ()))),
            verdict=said.get(n, UNTOLD),
        )


def _told(claims: Sequence[Claim], found: Sequence[Difference | None], members: Sequence[int]) -> dict[int, Verdict]:
    """The verdicts on one family."""
    pairs = [chances(each, claims[n].expected, claims[n].margin) for n in members if (each := found[n])]
    return dict(zip(members, verdicts(pairs), strict=True))


def _predicted(claim: Claim) -> str:
    """`same within 5.0 % (Table 3 E)`."""
    margin = f" within {_size(claim.metric, claim.margin)}" if claim.expected == "same" else ""
    return f"{claim.expected}{margin} ({claim.source})"


def _size(metric: str, value: float) -> str:
    return f"{100 * math.expm1(value):.1f} %" if is_perplexity(metric) else f"{value:.2f}"


def _shown(measured: Measured, claim: Claim, found: Difference | None, num_claims: int) -> str:
    """`+12.3 % [+8.1, +16.7]; could have shown 6.0 %`."""
    if found is None:
        return _untested(measured, claim)
    change, low, high = found.value, *found.interval()
    percent = ""
    if is_perplexity(claim.metric):
        change, low, high, percent = *(100 * math.expm1(each) for each in (change, low, high)), " %"
    digits = 1 if percent else 2
    shown = f"{change:+.{digits}f}{percent} [{low:+.{digits}f}, {high:+.{digits}f}]"
    return f"{shown}; {_could(claim, found, num_claims)}"


def _could(claim: Claim, found: Difference, num_claims: int) -> str:
    """What these seeds can tell at all."""
    if claim.expected == "same":
        return f"could have confirmed ± {_size(claim.metric, found.smallest_margin(num_claims))}"
    return f"could have shown {_size(claim.metric, found.smallest(num_claims))}"


def _untested(measured: Measured, claim: Claim) -> str:
    """Why a claim was not tested. Without its failed seeds a row would look better than it is."""
    lacking = {row: measured.without(row, claim.metric) for row in (claim.row, claim.baseline)}
    if len(measured.seeds) < MIN_SEEDS or not any(lacking.values()):
        return "too few seeds"
    return "; ".join(_failed(measured, row, seeds) for row, seeds in lacking.items() if seeds)


def _failed(measured: Measured, row: str, seeds: Sequence[int]) -> str:
    results = measured.results.get(row, ())
    why = "diverged" if any(result.diverged for result in results) else "no value"
    which = "every seed" if len(seeds) == len(measured.seeds) else f"seed {', '.join(map(str, seeds))}"
    return f"{_name(measured, row)}: {why} with {which}"


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
    return text, *(note for metric in VALIDATED for note in _spread_note(measured, metric))


def _spread_note(measured: Measured, metric: str) -> Iterator[str]:
    """The noise of all rows together, and that of the steadiest and of the noisiest row."""
    rows = measured.whole(metric)
    outliers = noisy(rows) if len(measured.seeds) >= MIN_SEEDS else set()
    found = noise([values for row, values in rows.items() if row not in outliers])
    if found is None:
        return
    each = deviations(rows).values()
    apart = f"; not pooled, as they are noisier: {', '.join(sorted(outliers))}" if outliers else ""
    yield (
        f"Noise of {metric}, beyond what rows and seeds share: {_size(metric, found.deviation)} "
        f"({counted(found.freedom, 'degree')} of freedom; rows from {_size(metric, min(each))} to "
        f"{_size(metric, max(each))}{apart})."
    )


def _verdict_notes(experiment: Experiment) -> tuple[str, ...]:
    if not experiment.claims:
        return ()
    digest = hashlib.sha256(msgspec.json.encode(experiment.claims)).hexdigest()
    return (
        f"Verdicts: 5 % for any false one among the claims about perplexity, and likewise among those about BLEU and "
        f"among all others. Intervals are 95 % for each claim by itself. Claims: SHA-256 {digest[:8]}.",
    )


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
