"""Perplexity and BLEU by the length of the source: measured in groups, drawn as a curve for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from heedful.lab.charts.chart import Curves, Series, Spreads
from heedful.lab.experiment import Results
from heedful.lab.metrics import BLEU, PERPLEXITY, is_perplexity
from heedful.lab.quality import quality
from heedful.lab.row_result import RowResult
from heedful.lab.text import Pairs
from heedful.translate.translation import Translator

WORDS, LENGTHS = "words", "lengths"
FEWEST = 20  # sentences of a group


def words(line: str) -> int:
    """How long a line is."""
    return len(line.split())


def of_length(pairs: Pairs, low: int, high: int) -> Pairs:
    """Those whose sources have more than `low` words and at most `high`."""
    return [pair for pair in pairs if low < words(pair.source) <= high]


def groups(pairs: Pairs, edges: Sequence[int]) -> Iterator[tuple[str, Pairs]]:
    """The pairs of each length group that has enough of them, each named by its lengths: `13-15`."""
    for low, high in pairwise(edges):
        group = of_length(pairs, low, high)
        if len(group) >= FEWEST:
            yield f"{low + 1}-{high}", group


def quality_by_length(translator: Translator, pairs: Pairs, edges: Sequence[int]) -> dict[str, float]:
    """Perplexity, BLEU and the mean length of each group."""
    found: dict[str, float] = {}
    for name, group in groups(pairs, edges):
        found |= quality(translator, group, name)
        found[f"{WORDS} {name}"] = fmean(words(pair.source) for pair in group)
    return found


def curves_by_length(experiment: str, results: Results) -> dict[str, Curves | Spreads]:
    """A chart of perplexity and one of BLEU, over the words of the source."""
    return {f"{metric.lower()}-by-length": _chart(experiment, results, metric) for metric in (PERPLEXITY, BLEU)}


def _chart(experiment: str, results: Results, metric: str) -> Curves:
    series = (Series(row, tuple(_points(each, metric))) for row, each in results.items())
    return Curves(
        title=f"{experiment}: {metric} by the length of the source, mean over seeds",
        x="words of the source",
        y=metric,
        series=tuple(each for each in series if each.points),
        has_log_y=is_perplexity(metric),
    )


def _points(results: Sequence[RowResult], metric: str) -> Iterator[tuple[float, float]]:
    found = [result.measured[LENGTHS] for result in results if LENGTHS in result.measured]
    names = [name.removeprefix(f"{WORDS} ") for name in (found[0] if found else ()) if name.startswith(WORDS)]
    for name in names:
        if values := [each[f"{metric} {name}"] for each in found if f"{metric} {name}" in each]:
            yield found[0][f"{WORDS} {name}"], fmean(values)
