"""What can be said about a difference between two rows of an experiment, from a few seeds of each.

Three seeds say little about one row's spread, so the spread is pooled: every row of the experiment contributes its
seeds' deviations from its own mean. A difference is then tested by Student's t with all those degrees of freedom, and
the claims of one experiment are corrected together (Holm, 1979). This module knows numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal, TypeAlias

from msgspec import Struct

from heedful.score.t_test import t_quantile, two_sided_p

Expected: TypeAlias = Literal["lower", "higher", "same"]
Verdict: TypeAlias = Literal["agrees", "disagrees", "cannot be told"]

ALPHA, POWER = 0.05, 0.8
UNTOLD: Verdict = "cannot be told"


class Spread(Struct, frozen=True):
    """The standard deviation between the seeds of a row, and its degrees of freedom."""

    deviation: float
    freedom: int


class Difference(Struct, frozen=True):
    """How much higher one row's mean is than another's, with its standard error and degrees of freedom."""

    value: float
    error: float
    freedom: int

    def interval(self, alpha: float = ALPHA) -> tuple[float, float]:
        """The values that these seeds cannot rule out."""
        margin = t_quantile(self.freedom, alpha) * self.error
        return self.value - margin, self.value + margin

    def smallest(self, num_claims: int = 1) -> float:
        """The true difference that such seeds would show in four cases of five, as one of so many claims.

        It is (t of the level, shared by all claims, plus t of the power) × the standard error.
        """
        level = t_quantile(self.freedom, ALPHA / num_claims)
        return (level + t_quantile(self.freedom, 2 * (1 - POWER))) * self.error


def pooled_spread(rows: Iterable[Sequence[float]]) -> Spread | None:
    """√(Σ (x − mean of its row)² / Σ (n − 1)); None if no row has two seeds."""
    repeated = [row for row in rows if len(row) > 1]
    freedom = sum(len(row) - 1 for row in repeated)
    if not freedom:
        return None
    squares = sum((value - fmean(row)) ** 2 for row in repeated for value in row)
    return Spread(math.sqrt(squares / freedom), freedom)


def difference(baseline: Sequence[float], system: Sequence[float], spread: Spread) -> Difference:
    """Mean of the system minus mean of the baseline; the error is s √(1/n + 1/m)."""
    error = spread.deviation * math.sqrt(1 / len(baseline) + 1 / len(system))
    return Difference(fmean(system) - fmean(baseline), error, spread.freedom)


def chances(found: Difference, expected: Expected, margin: float = 0.0) -> tuple[float, float]:
    """One-sided p-values against a prediction's opposite, and against the prediction: a small one decides.

    "lower" and "higher" are about the sign of the true difference. "same" says that it lies within ± margin: two
    one-sided tests (Schuirmann, 1987).
    """
    if expected == "same":
        outside = [_above(found, margin), _above(_mirrored(found), margin)]
        inside = max(1 - p for p in outside)
        return inside, min(outside)
    towards = found if expected == "higher" else _mirrored(found)
    return _above(towards, 0.0), _above(_mirrored(towards), 0.0)


def _mirrored(found: Difference) -> Difference:
    return Difference(-found.value, found.error, found.freedom)


def _above(found: Difference, bound: float) -> float:
    """The chance of a value this high if the true difference is the bound."""
    distance = found.value - bound
    if not found.error:
        return 0.5 if not distance else float(distance < 0)
    half = two_sided_p(distance / found.error, found.freedom) / 2
    return half if distance > 0 else 1 - half


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: all those below α may be believed, with one chance in 1/α that any of them is false."""
    order = sorted(range(len(p_values)), key=lambda n: p_values[n])
    adjusted, highest = [1.0] * len(p_values), 0.0
    for rank, n in enumerate(order):
        highest = max(highest, (len(order) - rank) * p_values[n])
        adjusted[n] = min(1.0, highest)
    return adjusted


def verdicts(found: Sequence[tuple[float, float]]) -> list[Verdict]:
    """For each claim's `chances`, corrected together: what these seeds say."""
    adjusted = holm([min(1.0, 2 * min(pair)) for pair in found])
    return [_verdict(p, *pair) for p, pair in zip(adjusted, found, strict=True)]


def _verdict(p_value: float, agreeing: float, disagreeing: float) -> Verdict:
    if p_value >= ALPHA:
        return UNTOLD
    return "agrees" if agreeing < disagreeing else "disagrees"
