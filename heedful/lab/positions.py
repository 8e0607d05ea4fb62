"""§3.5: what positions give, and whether sinusoids "extrapolate to sequence lengths longer than the ones encountered".

Rows train on short sentences only. Perplexity and BLEU are then measured by the length of the source: of short
validation sentences, and of longer ones that are held out of the training text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from heedful.lab.chart import Curves, Series
from heedful.lab.experiment import BASE, Claim, Experiment, Results, Row
from heedful.lab.findings import Findings
from heedful.lab.metrics import BLEU, PERPLEXITY, is_perplexity
from heedful.lab.quality import quality
from heedful.lab.row_result import RowResult
from heedful.lab.text import TRAIN, VALID, Pairs, Sets, Source, Text
from heedful.lab.trained import Trained

LONG, NUM_LONG, LONGEST = "long", 1_000, 30
EDGES = (0.75, 1.0, 1.25, 5 / 3)  # of the groups by length, in lengths of the longest sentence in training
FEWEST = 20  # sentences of a group
WORDS, LENGTHS = "words", "lengths"


def _words(pair: Pairs) -> list[int]:
    return [len(each.source.split()) for each in pair]


def short_sets(source: Source) -> Sets:
    """Short pairs to train and to validate on; the last long ones of the training text to measure on."""
    short = [pair for pair, words in zip(source.train, _words(source.train), strict=True) if words <= source.short]
    longer = [
        pair for pair, words in zip(source.train, _words(source.train), strict=True) if source.short < words <= LONGEST
    ]
    valid = [pair for pair, words in zip(source.valid, _words(source.valid), strict=True) if words <= source.short]
    return {TRAIN: short[: source.num_pairs], VALID: valid, LONG: longer[-NUM_LONG:]}


def by_length(trained: Trained) -> dict[str, float]:
    """Perplexity and BLEU of all long sentences, and of each group of sentences of like length."""
    translator, long = trained.translator(), trained.text.pairs(LONG)
    found = quality(translator, long)
    for name, pairs in groups(trained.text.pairs(VALID), long):
        found |= quality(translator, pairs, name) | {f"{WORDS} {name}": fmean(_words(pairs))}
    return found


def groups(short: Pairs, long: Pairs) -> Iterator[tuple[str, Pairs]]:
    """The pairs of every length group that has enough of them, each named by its lengths: `13-15`."""
    longest = max(_words(short))
    edges = [0, *(math.floor(edge * longest) for edge in EDGES), LONGEST]
    for low, high in pairwise(edges):
        pairs = [pair for pair in (*short, *long) if low < len(pair.source.split()) <= high]
        if len(pairs) >= FEWEST:
            yield f"{low + 1}-{high}", pairs


def curves_by_length(results: Results, _: Path) -> Findings:
    """Perplexity and BLEU over the length of the source, a curve for each row."""
    return Findings(charts={f"{metric.lower()}-by-length": _curves(results, metric) for metric in (PERPLEXITY, BLEU)})


def _curves(results: Results, metric: str) -> Curves:
    series = (Series(row, tuple(_points(each, metric))) for row, each in results.items())
    return Curves(
        title=f"positions: {metric} by the length of the source, mean over seeds",
        x="words of the source; training ends where the curves part",
        y=metric,
        series=tuple(each for each in series if each.points),
        has_log_y=is_perplexity(metric),
    )


def _points(results: Sequence[RowResult], metric: str) -> Iterator[tuple[float, float]]:
    found = [result.measured[LENGTHS] for result in results if LENGTHS in result.measured]
    names = [name.removeprefix(f"{WORDS} ") for name in (found[0] if found else ()) if name.startswith(WORDS)]
    for name in names:
        yield found[0][f"{WORDS} {name}"], fmean(each[f"{metric} {name}"] for each in found)


LONG_PERPLEXITY = f"{LENGTHS}.{PERPLEXITY}"

POSITIONS = Experiment(
    name="positions",
    question="What do positions give, and do sinusoids reach sentences longer than any in training?",
    section="§3.5; Table 3, row E",
    minutes=40,
    text=Text("short", short_sets),
    rows=(
        Row(BASE, "sinusoids"),
        *(
            Row(name, change, {"model": {"positions": name}})
            for name, change in {
                "none": "no positions",
                "learned": "a learned table",
                "relative": "relative (Shaw 2018)",
                "rotary": "rotary",
            }.items()
        ),
    ),
    claims=(
        Claim(row="none", metric=PERPLEXITY, expected="higher", source="§3.5: some information must be injected"),
        Claim(row="learned", metric=PERPLEXITY, expected="same", margin=0.05, source="Table 3 E: 4.92, as base"),
        Claim(row="learned", metric=LONG_PERPLEXITY, expected="higher", source="§3.5: sinusoids may extrapolate"),
        Claim(row="relative", metric=LONG_PERPLEXITY, expected="lower", source="Shaw 2018: distances are clipped"),
        Claim(row="rotary", metric=LONG_PERPLEXITY, expected="lower", source="Press 2022, for language models"),
    ),
    measures={LENGTHS: by_length},
    more=curves_by_length,
    quick=(BASE, "none", "learned"),
)
