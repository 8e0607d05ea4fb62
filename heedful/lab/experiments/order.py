"""§3.5: "in order for the model to make use of the order of the sequence, we must inject some information". And what
MLP-Mixer claims: one fixed shuffle of its inputs changes nothing.

Rows are trained twice: on the text as it is, and on sources whose words are shuffled within every four, always in the
same way. Pieces of a word stay together, and the last words of a line, fewer than four, stay in place, so that this is
a milder shuffle than that of the Mixer's paper, which moves every position. Both texts have the same pieces.
"""

from __future__ import annotations

from pathlib import Path

from heedful.config.setting_layers import Layer
from heedful.data.text_files import SentencePair
from heedful.lab.charts.chart import Spreads
from heedful.lab.experiment import Claim, Experiment, Results, Row
from heedful.lab.experiments.word_order import CHANGE, WORDS, every_order
from heedful.lab.findings import Findings
from heedful.lab.metrics import PERPLEXITY
from heedful.lab.statistics import Expected
from heedful.lab.text import Pairs, Sets, Source, Text, usual_sets

ORDERS = "orders"
SHUFFLE = (2, 0, 3, 1)
TRANSFORMER, WITHOUT, MIXER = "order-transformer", "order-without-positions", "order-mixer"
CHANGES = f"{ORDERS}.{CHANGE}"
MARGIN = 0.05
SEES_NOTHING = "§3.5: without positions there is no order"
SHUFFLES: dict[str, tuple[Expected, str]] = {
    TRANSFORMER: ("higher", "ours: neighbours are no longer near"),
    WITHOUT: ("same", "§3.5: it sees no order"),
    MIXER: ("same", "Tolstikhin 2021: a fixed shuffle of all positions changes nothing"),
}


def shuffled(line: str) -> str:
    """The words of a line, every full four of them in the order 3, 1, 4, 2."""
    words = line.split()
    full = len(words) - len(words) % len(SHUFFLE)
    places = [first + place for first in range(0, full, len(SHUFFLE)) for place in SHUFFLE]
    return " ".join([*(words[place] for place in places), *words[full:]])


def shuffled_sets(source: Source) -> Sets:
    """The usual pairs with shuffled sources, also those to validate on."""
    return {name: _shuffled(pairs) for name, pairs in usual_sets(source).items()}


def _shuffled(pairs: Pairs) -> Pairs:
    return [SentencePair(shuffled(pair.source), pair.target) for pair in pairs]


SHUFFLED = Text("shuffled", shuffled_sets, vocabulary=usual_sets)


def picture(results: Results, _: Path) -> Findings:
    """How much each word's output changes in each order, a dot for each, with the first seed of each row."""
    rows = {row: each[0].measured.get(ORDERS, {}) for row, each in results.items() if each}
    changes = {row: tuple(value for name, value in found.items() if ": " in name) for row, found in rows.items()}
    chart = Spreads(
        title=f'order: "{" ".join(WORDS)}" in its other orders, a dot for each word',
        x="change of a word's output, in lengths of that in the first order",
        rows={row: values for row, values in changes.items() if values},
    )
    return Findings(charts={"every-order": chart})


def _rows(name: str, change: str, settings: Layer) -> tuple[Row, Row]:
    return Row(name, change, settings), Row(f"{name}-shuffled", f"{change}, shuffled", settings, text=SHUFFLED)


ORDER = Experiment(
    name="order",
    question='"I love you" in every order: who sees it, and what does one fixed shuffle of all sources cost?',
    section="§3.5",
    minutes=12,
    steps=300,
    rows=(
        *_rows(TRANSFORMER, "Transformer", {}),
        *_rows(WITHOUT, "Transformer without positions", {"model": {"positions": "none"}}),
        *_rows(MIXER, "MLP-Mixer", {"model": {"family": "mixer"}}),
    ),
    claims=(
        Claim(row=WITHOUT, baseline=TRANSFORMER, metric=CHANGES, expected="lower", source=SEES_NOTHING),
        Claim(
            row=MIXER,
            baseline=WITHOUT,
            metric=CHANGES,
            expected="higher",
            source="Tolstikhin 2021: rows tell places apart",
        ),
        Claim(row=WITHOUT, baseline=TRANSFORMER, metric=PERPLEXITY, expected="higher", source=SEES_NOTHING),
        *(
            Claim(
                row=f"{name}-shuffled",
                baseline=name,
                metric=PERPLEXITY,
                expected=expected,
                source=source,
                margin=MARGIN,
            )
            for name, (expected, source) in SHUFFLES.items()
        ),
    ),
    measures={ORDERS: every_order},
    more=picture,
    quick=(TRANSFORMER, WITHOUT, MIXER),
)
