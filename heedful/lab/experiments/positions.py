"""§3.5: what positions give, and whether sinusoids "extrapolate to sequence lengths longer than the ones encountered".

Rows train on short sentences only, but for one that shows what training on all lengths gives. Perplexity and BLEU are
then measured by the length of the source: of short validation sentences, and of longer ones that are held out of the
training text.
"""

from __future__ import annotations

import math
from pathlib import Path

from heedful.lab.experiment import BASE, Claim, Experiment, Results, Row
from heedful.lab.experiments.by_length import LENGTHS, curves_by_length, of_length, quality_by_length, words
from heedful.lab.findings import Findings
from heedful.lab.metrics import PERPLEXITY
from heedful.lab.quality import quality
from heedful.lab.text import TRAIN, VALID, Pairs, Sets, Source, Text
from heedful.lab.trained import Trained

LONG, NUM_LONG, LONGEST = "long", 1_000, 30
EDGES = (0.75, 1.0, 1.25, 5 / 3)  # of the groups by length, in lengths of the longest sentence in training


def short_sets(source: Source) -> Sets:
    """Short pairs to train and to validate on; the last long ones of the training text to measure on."""
    return {
        TRAIN: of_length(source.train, 0, source.short)[: source.num_pairs],
        VALID: of_length(source.valid, 0, source.short),
        LONG: of_length(source.train, source.short, LONGEST)[-NUM_LONG:],
    }


def mixed_sets(source: Source) -> Sets:
    """As many pairs of all lengths to train on, and the same text to measure on, which is held out."""
    sets = short_sets(source)
    held_out = {pair.source for pair in sets[LONG]}
    train = [pair for pair in of_length(source.train, 0, LONGEST) if pair.source not in held_out]
    return {**sets, TRAIN: train[: source.num_pairs]}


def measured_by_length(trained: Trained) -> dict[str, float]:
    """Perplexity and BLEU of all long sentences, and of each group of sentences of like length."""
    translator, short, long = trained.translator(), trained.text.pairs(VALID), trained.text.pairs(LONG)
    return quality(translator, long) | quality_by_length(translator, [*short, *long], edges(short))


def edges(short: Pairs) -> list[int]:
    """Of groups within what was trained on, and beyond it."""
    longest = max(words(pair.source) for pair in short)
    return [0, *(math.floor(edge * longest) for edge in EDGES), LONGEST]


def findings(results: Results, _: Path) -> Findings:
    """The curves by length."""
    return Findings(charts=curves_by_length("positions", results))


MIXED = Text("all-lengths", mixed_sets, vocabulary=short_sets)
LONG_PERPLEXITY = f"{LENGTHS}.{PERPLEXITY}"

POSITIONS = Experiment(
    name="positions",
    question="What do positions give, and do sinusoids reach sentences longer than any in training?",
    section="§3.5; Table 3, row E",
    minutes=48,
    text=Text("short", short_sets),
    rows=(
        Row(BASE, "sinusoids"),
        Row("all-lengths", "sinusoids, trained on all lengths", text=MIXED),
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
        Claim(
            row=BASE,
            baseline="all-lengths",
            metric=LONG_PERPLEXITY,
            expected="same",
            margin=0.05,
            source="§3.5: sinusoids may extrapolate",
        ),
        Claim(row="learned", metric=LONG_PERPLEXITY, expected="higher", source="§3.5: sinusoids may extrapolate"),
        Claim(row="relative", metric=LONG_PERPLEXITY, expected="lower", source="Shaw 2018: distances are clipped"),
        Claim(row="rotary", metric=LONG_PERPLEXITY, expected="lower", source="Press 2022, for language models"),
    ),
    measures={LENGTHS: measured_by_length},
    more=findings,
    quick=(BASE, "none", "learned"),
)
