"""What a comparison leaves: a report, a CSV with a line for each run, and curves laid over one another.

Differences are those from the first variant: over seeds, paired where the seeds are the same, and within each seed over
the sentences of the test set (paired bootstrap). The tables of scores are those of `heedful card --seeds`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

import msgspec

from heedful.config.optional_packages import missing
from heedful.data.atomic import explained, write_files
from heedful.errors import DataError
from heedful.lab.charts.canvas import png, svg
from heedful.lab.charts.chart import Curves, draw
from heedful.lab.charts.learning_curves import learning_curves
from heedful.lab.compare.compared_runs import ComparedRun
from heedful.lab.metrics import BLEU, PERPLEXITY, scale
from heedful.score.bootstrap import CHRF
from heedful.score.card_comparison import Row, compare, over_seeds, scored_alike, side_by_side
from heedful.score.report import Report
from heedful.score.t_test import SeedComparison, compare_seeds
from heedful.score.tables import Section, show_markdown, show_text

MARKDOWN, TABLE = "comparison.md", "comparison.csv"
COLUMNS = (
    *("variant", "seed", "parameters", "steps", "target tokens", "seconds", "target tokens/s", "operations"),
    *("perplexity, validation", "BLEU, validation, greedy"),
)
OTHER_PIECES = "other pieces: not comparable"
NOTES = (
    "± after a mean: the standard deviation over seeds. Δ: against the first row, over seeds; that of a perplexity is "
    "one of its logarithm, in percent. Perplexity and greedy BLEU are those of the last step's weights; scores of a "
    "test set are those of the model that a run leaves, which may be an average. Intervals and p are those of each "
    "difference by itself: the more variants, the more p are small by chance. Operations: counted of one batch, times "
    "the target tokens."
)


def write_comparison(folder: Path, runs: Sequence[ComparedRun]) -> Path:
    """Write all files, or none; returns the report."""
    contents = {TABLE: _csv(runs).encode()}
    curves = {name: [run.curve for run in each] for name, each in _by_variant(runs).items()}
    pictures = {metric.lower(): learning_curves("comparison", metric, curves) for metric in (PERPLEXITY, BLEU)}
    pictures = {name: chart for name, chart in pictures.items() if chart.series}
    for name, chart in pictures.items():
        drawing = draw(chart)
        contents[f"{name}.svg"] = svg(drawing).encode()
        if not missing(["matplotlib"]):
            contents[f"{name}.png"] = png(drawing)
    contents[MARKDOWN] = _markdown(runs, pictures).encode()
    with explained(folder, DataError):
        folder.mkdir(parents=True, exist_ok=True)
        write_files({folder / name: content for name, content in contents.items()})
    return folder / MARKDOWN


def _markdown(runs: Sequence[ComparedRun], pictures: dict[str, Curves]) -> str:
    shown = [f"![{chart.title}]({name}.svg)" for name, chart in pictures.items()]
    parts = [*map(show_markdown, sections(runs)), *shown, NOTES, side_by_side(_card_rows(runs), "md", "seeds")]
    return "\n\n".join(["# Comparison", *parts]) + "\n"


def comparison_text(runs: Sequence[ComparedRun]) -> str:
    """What a terminal shows."""
    parts = [*map(show_text, sections(runs)), NOTES, side_by_side(_card_rows(runs), "text", "seeds")]
    return "\n\n".join(parts)


def sections(runs: Sequence[ComparedRun]) -> list[Section]:
    """Cost and validation of each variant; and what the sentences say within a seed."""
    found = [Section("Validation and cost", [*_summary(runs)]), Section("Within a seed", [*_within_seeds(runs)])]
    return [section for section in found if len(section.rows) > 1]


def _by_variant(runs: Sequence[ComparedRun]) -> dict[str, list[ComparedRun]]:
    found: dict[str, list[ComparedRun]] = {}
    for run in runs:
        found.setdefault(run.variant, []).append(run)
    return found


def _card_rows(runs: Sequence[ComparedRun]) -> list[Row]:
    return [Row(name, tuple(run.card for run in each)) for name, each in _by_variant(runs).items()]


# -------------------------------------------------------------------------------------------------------------- tables


def _summary(runs: Sequence[ComparedRun]) -> Iterator[list[str]]:
    yield ["variant", "parameters", "target tokens/s", "operations", PERPLEXITY, "Δ, %", "BLEU, greedy", "Δ BLEU"]
    variants = _by_variant(runs)
    first = next(iter(variants.values()))
    for each in variants.values():
        speeds = [run.card.training.tokens_per_second for run in each if run.card.training]
        yield [
            each[0].variant,
            f"{each[0].card.parameters:,}",
            f"{fmean(speeds):,.0f}" if speeds else "",
            f"{fmean(run.flops for run in each):.2e}",
            *_compared(first, each, PERPLEXITY),
            *_compared(first, each, BLEU),
        ]


def _perplexity(run: ComparedRun) -> float | None:
    return run.curve[-1].perplexity if run.curve else None


def _bleu(run: ComparedRun) -> float | None:
    return run.curve[-1].bleu if run.curve else None


def _compared(first: Sequence[ComparedRun], each: Sequence[ComparedRun], metric: str) -> tuple[str, str]:
    """A mean with its spread, and how it differs from the first variant's."""
    baseline, values = _by_seed(first, metric), _by_seed(each, metric)
    if not values:
        return "–", ""
    spread = f" ± {stdev(values.values()):.2f}" if len(values) > 1 else ""
    mean = f"{fmean(values.values()):.2f}{spread}"
    if metric == PERPLEXITY and len({run.vocabulary for run in (*first, *each)}) > 1:
        return mean, OTHER_PIECES
    return mean, over_seeds(_difference(baseline, values, metric)) if baseline and first is not each else ""


def _by_seed(runs: Sequence[ComparedRun], metric: str) -> dict[str, float]:
    value = _perplexity if metric == PERPLEXITY else _bleu
    return {str(run.seed): found for run in runs if (found := value(run)) is not None}


def _difference(baseline: Mapping[str, float], values: Mapping[str, float], metric: str) -> SeedComparison:
    """Of perplexities, that of their logarithms in percent."""
    found = compare_seeds(
        *({seed: scale(metric, value) for seed, value in each.items()} for each in (baseline, values))
    )
    if metric != PERPLEXITY:
        return found
    interval = found.interval and (_percent(found.interval[0]), _percent(found.interval[1]))
    return msgspec.structs.replace(found, difference=_percent(found.difference), interval=interval)


def _percent(difference: float) -> float:
    return 100 * math.expm1(difference)


def _within_seeds(runs: Sequence[ComparedRun]) -> Iterator[list[str]]:
    """Each variant against the first with the same seed, over the sentences of each test set."""
    yield ["test set", "variant", "seed", "Δ BLEU", "p"]
    first = {run.seed: run for run in runs if run.variant == runs[0].variant}
    for run in runs:
        if run.variant != runs[0].variant and run.seed in first:
            yield from _within_seed(first[run.seed], run)


def _within_seed(first: ComparedRun, run: ComparedRun) -> Iterator[list[str]]:
    baseline, system = (scored_alike(Row(each.variant, (each.card,))) for each in (first, run))
    for conditions, (scored,) in system.items():
        if conditions in baseline and (found := compare(baseline[conditions][0].evaluation, scored.evaluation)):
            bleu = found[BLEU]
            name = scored.evaluation.name
            yield [name, run.variant, str(run.seed), f"{bleu.difference:+.2f}", f"{bleu.p_value:.3f}"]


# ---------------------------------------------------------------------------------------------------------- CSV, curves


def _csv(runs: Sequence[ComparedRun]) -> str:
    """A line for each run; a column for the BLEU and the chrF of each test set."""
    tests = list(dict.fromkeys(each.name for run in runs for each in run.card.evaluations))
    content = io.StringIO()
    table = csv.writer(content, lineterminator="\n")
    table.writerow([*COLUMNS, *(f"{kind} {test}" for test in tests for kind in (BLEU, CHRF))])
    table.writerows(_csv_row(run, tests) for run in runs)
    return content.getvalue()


def _csv_row(run: ComparedRun, tests: Sequence[str]) -> list[object]:
    training, scores = run.card.training, {each.name: each.report for each in run.card.evaluations}
    assert training, "the card of a run"
    pace = training.steps, training.target_tokens, training.seconds, training.tokens_per_second
    figures = (value for test in tests for value in _figures(scores.get(test)))
    return [run.variant, run.seed, run.card.parameters, *pace, run.flops, _perplexity(run), _bleu(run), *figures]


def _figures(report: Report | None) -> tuple[float | None, float | None]:
    return (report.bleu.value, report.chrf.value) if report else (None, None)
