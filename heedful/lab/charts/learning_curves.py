"""The curves of perplexity and BLEU while training, one for each row: the mean over its seeds at each validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TypeAlias

from heedful.lab.charts.chart import Curves, Series
from heedful.lab.metrics import PERPLEXITY
from heedful.lab.row_result import Point

Curve: TypeAlias = Sequence[Point]


def learning_curves(name: str, metric: str, curves: Mapping[str, Iterable[Curve]]) -> Curves:
    """A chart of several rows, each with the curves of its seeds."""
    series = (Series(row, tuple(_mean(each, metric))) for row, each in curves.items())
    return Curves(
        title=f"{name}: {metric} while training, mean over seeds",
        x="step",
        y=f"{metric}, validation",
        series=tuple(each for each in series if each.points),
        has_log_y=metric == PERPLEXITY,
    )


def _mean(curves: Iterable[Curve], metric: str) -> Iterator[tuple[float, float]]:
    found: dict[int, list[float]] = {}
    for point in (point for curve in curves for point in curve):
        value = point.perplexity if metric == PERPLEXITY else point.bleu
        if value is not None:
            found.setdefault(point.step, []).append(value)
    yield from ((float(step), fmean(values)) for step, values in sorted(found.items()))
