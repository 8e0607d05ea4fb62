"""What can be said about a difference between two rows of an experiment, from a few seeds of each.

All rows train with the same seeds. A seed gives every row the same batches in the same order, so part of its luck is
shared: value = row + seed + noise. The noise is estimated from all rows together, which leaves (rows − 1) × (seeds − 1)
degrees of freedom, and a difference is tested by Student's t with them. Two rows alone make it the paired t-test. Where
seeds share nothing the test holds as well. The claims of one family are corrected together (Holm, 1979). This module
knows numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Literal, TypeAlias

from msgspec import Struct

from heedful.score.t_test import t_quantile, two_sided_p

Expected: TypeAlias = Literal["lower", "higher", "same"]
Verdict: TypeAlias = Literal["agrees", "disagrees", "cannot be told"]

ALPHA, POWER = 0.05, 0.8
UNTOLD: Verdict = "cannot be told"
NOISY = 3.0  # times the median: by chance, about one row of three seeds in 500
FEWEST_ROWS = 5  # of fewer rows none is the usual one
ROUNDING = 1e-12  # what is smaller is zero, with a rounding error

Row: TypeAlias = Sequence[float]
"""The values of a row, one for each seed; all rows have the same seeds in the same order."""


class Spread(Struct, frozen=True):
    """The standard deviation of the noise, and its degrees of freedom."""

    deviation: float
    freedom: int


class Difference(Struct, frozen=True):
    """How much higher one row's mean is than another's, with its standard error and degrees of freedom."""

    value: float
    error: float
    freedom: int

    def interval(self, alpha: float = ALPHA) -> tuple[float, float]:
        """The values that these seeds cannot rule out; not corrected for other claims."""
        margin = t_quantile(self.freedom, alpha) * self.error
        return self.value - margin, self.value + margin

    def smallest(self, num_claims: int = 1) -> float:
        """The true difference that these seeds detect with 80 % power, as one of `num_claims` claims.

        It is (t of the level, shared by all claims, plus t of the power) × the standard error.
        """
        return self._detected(num_claims, 1 - POWER)

    def smallest_margin(self, num_claims: int = 1) -> float:
        """The margin within which these seeds confirm two equal rows with 80 % power; either side may fail."""
        return self._detected(num_claims, (1 - POWER) / 2)

    def _detected(self, num_claims: int, missed: float) -> float:
        level = t_quantile(self.freedom, ALPHA / num_claims)
        return (level + t_quantile(self.freedom, 2 * missed)) * self.error


def noise(rows: Sequence[Row]) -> Spread | None:
    """√(Σ (x − mean of its row − mean of its seed + mean of all)² / (R − 1)(S − 1)); None for one row or one seed."""
    if len(rows) < 2 or len(rows[0]) < 2:
        return None
    freedom = (len(rows) - 1) * (len(rows[0]) - 1)
    centred = [_centred(row) for row in rows]
    seeds = [fmean(values) for values in zip(*centred, strict=True)]
    squares = sum((value - seed) ** 2 for row in centred for value, seed in zip(row, seeds, strict=True))
    return Spread(math.sqrt(squares / freedom), freedom)


def deviations(rows: Mapping[str, Row]) -> dict[str, float]:
    """How much each row's seeds scatter, beyond what is shared: around the median row."""
    centred = {name: _centred(row) for name, row in rows.items()}
    shared = [median(values) for values in zip(*centred.values(), strict=True)]
    return {name: stdev(value - seed for value, seed in zip(row, shared, strict=True)) for name, row in centred.items()}


def noisy(rows: Mapping[str, Row]) -> set[str]:
    """Rows that scatter far more than the usual row, and so do not belong in one estimate with the others."""
    if len(rows) < FEWEST_ROWS:
        return set()
    found = deviations(rows)
    usual = median(found.values())
    return {name for name, deviation in found.items() if deviation > NOISY * usual + ROUNDING}


def _centred(row: Row) -> list[float]:
    mean = fmean(row)
    return [value - mean for value in row]


def difference(baseline: Row, system: Row, spread: Spread) -> Difference:
    """Mean of the system minus mean of the baseline; the error is s √(2/S)."""
    return Difference(fmean(system) - fmean(baseline), spread.deviation * math.sqrt(2 / len(system)), spread.freedom)


def chances(found: Difference, expected: Expected, margin: float = 0.0) -> tuple[float, float]:
    """Two one-sided p-values. A small first one supports the prediction, a small second one contradicts it.

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
    if found.error < ROUNDING:
        return 0.5 if abs(distance) < ROUNDING else float(distance < 0)
    half = two_sided_p(distance / found.error, found.freedom) / 2
    return half if distance > 0 else 1 - half


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values. The chance that any p below α is a false alarm is at most α."""
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
