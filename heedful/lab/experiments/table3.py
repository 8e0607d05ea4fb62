"""Table 3 (§6.2), rows A to E, scaled down: each row changes the tiny model as the paper's changes base.

The paper's base has 8 heads, and ours 4: its single head stands for ours, its 4 heads for our 2, and so on. Widths and
depths are halved and doubled as far as the paper does so.

Predictions are the paper's figures, where these seeds can show a difference of that size: a sign where they are far
apart, "same" where perplexities are nearly equal, and none in between. Label smoothing is judged in `smoothing.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from heedful.config.setting_layers import Layer
from heedful.lab.experiment import BASE, Claim, Experiment, Row
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.statistics import Expected


class Printed(NamedTuple):
    """A row of ours, and the paper's with its perplexity and BLEU on newstest2013."""

    name: str
    change: str
    settings: Layer
    paper: str
    perplexity: float
    bleu: float


PAPER_BASE = (4.92, 25.8)
LEAST = {PERPLEXITY: 0.03, BLEU: 0.5}  # the smallest of the paper's differences that gets a sign; 0.03 is 3 %
SAME = 0.005  # the largest of its differences in perplexity that counts as none
MARGIN = 0.05  # of ours; a pilot's standard error of 0.6 % confirms 3 % (docs/lab.md)
JUDGED_ELSEWHERE = ("smoothing0", "smoothing0.2")


def _model(**settings: object) -> Layer:
    return {"model": dict(settings)}


ROWS = (
    Printed("h1", "1 head", _model(num_heads=1), "A, h 1", 5.29, 24.9),
    Printed("h2", "2 heads", _model(num_heads=2), "A, h 4", 5.00, 25.5),
    Printed("h8", "8 heads", _model(num_heads=8), "A, h 16", 4.91, 25.8),
    Printed("h16", "16 heads", _model(num_heads=16), "A, h 32", 5.01, 25.4),
    Printed("d_k8", "d_k 8", _model(d_k=8), "B, d_k 16", 5.16, 25.1),
    Printed("d_k16", "d_k 16", _model(d_k=16), "B, d_k 32", 5.01, 25.4),
    Printed("N1", "1 layer", _model(num_layers=1), "C, N 2", 6.11, 23.7),
    Printed("N3", "3 layers", _model(num_layers=3), "C, N 8", 4.88, 25.5),
    Printed("d_model64", "d_model 64", _model(d_model=64), "C, d_model 256", 5.75, 24.5),
    Printed("d_model256", "d_model 256", _model(d_model=256), "C, d_model 1024", 4.66, 26.0),
    Printed("d_ff256", "d_ff 256", _model(d_ff=256), "C, d_ff 1024", 5.12, 25.4),
    Printed("d_ff1024", "d_ff 1024", _model(d_ff=1024), "C, d_ff 4096", 4.75, 26.2),
    Printed("dropout0", "no dropout", _model(dropout=0.0), "D, dropout 0.0", 5.77, 24.6),
    Printed("dropout0.4", "twice the dropout", _model(dropout=0.4), "D, dropout 0.2", 4.95, 25.5),
    Printed("smoothing0", "no smoothing", {"train": {"label_smoothing": 0.0}}, "D, ε 0.0", 4.67, 25.3),
    Printed("smoothing0.2", "smoothing 0.2", {"train": {"label_smoothing": 0.2}}, "D, ε 0.2", 5.47, 25.7),
    Printed("learned", "learned positions", _model(positions="learned"), "E", 4.92, 25.7),
)


def claims(printed: Printed) -> Iterator[Claim]:
    """What the paper's figures of a row say, of perplexity and of BLEU."""
    for metric, base, value in zip((PERPLEXITY, BLEU), PAPER_BASE, printed[-2:], strict=True):
        if sign := expected(metric, value, base):
            source = f"{printed.paper}: {value} against {base}"
            yield Claim(row=printed.name, metric=metric, expected=sign, source=source, margin=MARGIN)


def expected(metric: str, value: float, base: float) -> Expected | None:
    """The sign of the paper's difference, if it is large enough; of equal BLEU nothing can be told."""
    change = math.log(value / base) if metric == PERPLEXITY else round(value - base, 2)
    if abs(change) >= LEAST[metric]:
        return "higher" if change > 0 else "lower"
    return "same" if metric == PERPLEXITY and abs(change) <= SAME else None


TABLE3 = Experiment(
    name="table3",
    question="Which parts of the Transformer matter: do the rows of Table 3 keep their signs in a small model?",
    section="§6.2, Table 3",
    minutes=120,
    rows=(Row(BASE, "tiny: 2 layers, 4 heads"), *(Row(each.name, each.change, each.settings) for each in ROWS)),
    claims=tuple(claim for each in ROWS if each.name not in JUDGED_ELSEWHERE for claim in claims(each)),
    quick=(BASE, "h1", "N1", "dropout0"),
)
