"""§3.2.2: "we found it beneficial to linearly project the queries, keys and values h times with different, learned
linear projections". What is lost if queries and keys share one, or if all three do?
"""

from __future__ import annotations

from collections.abc import Iterator

from heedful.lab.experiment import BASE, Claim, Experiment, Row
from heedful.lab.metrics import BLEU, PERPLEXITY

BENEFICIAL = "§3.2.2: different projections are beneficial"


def _worse(row: str) -> Iterator[Claim]:
    yield Claim(row=row, metric=PERPLEXITY, expected="higher", source=BENEFICIAL)
    yield Claim(row=row, metric=BLEU, expected="lower", source=BENEFICIAL)


PROJECTIONS = Experiment(
    name="projections",
    question="Do queries, keys and values need projections of their own, or is one vector for all only worse?",
    section="§3.2.2",
    minutes=12,
    rows=(
        Row(BASE, "three projections"),
        Row("shared_qk", "one for queries and keys", {"model": {"projections": "shared_qk"}}),
        Row("tied_qkv", "one for all three", {"model": {"projections": "tied_qkv"}}),
    ),
    claims=tuple(claim for row in ("shared_qk", "tied_qkv") for claim in _worse(row)),
    quick=(BASE, "tied_qkv"),
)
