"""§3.2.2: "we found it beneficial to linearly project the queries, keys and values h times with different, learned
linear projections". What is lost if queries and keys share one, or if all three do?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from heedful.lab.experiment import BASE, Claim, Experiment, Results, Row
from heedful.lab.findings import Findings
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.row_result import RowResult

ONE = "tied_qkv"
IMPOSSIBLE = 0.5  # if less of the base's BLEU is left
BENEFICIAL = "§3.2.2: different projections are beneficial"


def _worse(row: str) -> Iterator[Claim]:
    yield Claim(row=row, metric=PERPLEXITY, expected="higher", source=BENEFICIAL)
    yield Claim(row=row, metric=BLEU, expected="lower", source=BENEFICIAL)


def share_left(results: Results, _: Path) -> Findings:
    """How much of the base's BLEU is left with one projection for all, and whether that counts as impossible."""
    base, one = (_bleus(results.get(row, ())) for row in (BASE, ONE))
    if not any(base) or not one:
        return Findings()
    share = fmean(one) / fmean(base)
    verdict = "impossible" if share < IMPOSSIBLE else "not impossible"
    return Findings(
        notes=(f"One projection for all leaves {share:.0%} of the BLEU: {verdict} (under {IMPOSSIBLE:.0%}).",)
    )


def _bleus(results: Sequence[RowResult]) -> list[float]:
    return [value for result in results if (value := result.value(BLEU)) is not None]


PROJECTIONS = Experiment(
    name="projections",
    question="Do queries, keys and values need projections of their own, or is one vector for all only worse?",
    section="§3.2.2",
    minutes=12,
    rows=(
        Row(BASE, "three projections"),
        Row("shared_qk", "one for queries and keys", {"model": {"projections": "shared_qk"}}),
        Row(ONE, "one for all three", {"model": {"projections": "tied_qkv"}}),
    ),
    claims=tuple(claim for row in ("shared_qk", ONE) for claim in _worse(row)),
    more=share_left,
    quick=(BASE, ONE),
)
