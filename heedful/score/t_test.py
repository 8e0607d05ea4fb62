"""Is one recipe better than another, whatever the seed? Student's t-tests on the scores of several seeds.

It knows numbers by seed; no cards, no text. Chance in the sentences of a test set is the subject of `bootstrap.py`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

MIN_SEEDS = 3  # fewer give no p: two runs say next to nothing about the spread between runs
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(100)  # on [-1, 1]


class SeedComparison(Struct, frozen=True):
    """The mean difference from the baseline over seeds, with a two-sided p and a 95 % interval.

    `num_seeds` are the baseline's and the system's. p and interval are None if either has fewer than three.
    """

    difference: float
    test: Literal["paired t", "Welch"]
    num_seeds: tuple[int, int]
    p_value: float | None = None
    interval: tuple[float, float] | None = None


def compare_seeds(baseline: Mapping[str, float], system: Mapping[str, float]) -> SeedComparison:
    """Compare scores by seed: by the paired t-test if the seeds are the same, else by Welch's."""
    is_paired = baseline.keys() == system.keys()
    difference = statistics.fmean(system.values()) - statistics.fmean(baseline.values())
    untested = SeedComparison(difference, "paired t" if is_paired else "Welch", (len(baseline), len(system)))
    if min(untested.num_seeds) < MIN_SEEDS:
        return untested
    if is_paired:
        error, freedom = _paired([system[seed] - baseline[seed] for seed in baseline])
    else:
        error, freedom = _welch([*baseline.values()], [*system.values()])
    margin = t_quantile(freedom) * error
    p_value = two_sided_p(difference / error, freedom) if error else float(difference == 0)
    return SeedComparison(
        difference, untested.test, untested.num_seeds, p_value, (difference - margin, difference + margin)
    )


def _paired(differences: Sequence[float]) -> tuple[float, float]:
    """The standard error of the mean difference, and its degrees of freedom."""
    return statistics.stdev(differences) / math.sqrt(len(differences)), len(differences) - 1


def _welch(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """The same for unpaired samples of different variance (Welch, 1947)."""
    a, b = statistics.variance(one) / len(one), statistics.variance(other) / len(other)
    spread = a**2 / (len(one) - 1) + b**2 / (len(other) - 1)
    return math.sqrt(a + b), (a + b) ** 2 / spread if spread else len(one) + len(other) - 2


def two_sided_p(t: float, freedom: float) -> float:
    """The probability that Student's t is at least this far from 0.

    With t = √ν / tan φ the density becomes sin^(ν-1) φ, which is integrated from 0 to φ by Gauss's rule.
    """
    return _share_below(math.atan2(math.sqrt(freedom), abs(t)), freedom)


def t_quantile(freedom: float, p_value: float = 0.05) -> float:
    """The t that has this two-sided p, by bisection."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _share_below(middle, freedom) < p_value else (low, middle)
    return math.sqrt(freedom) / math.tan(low)


def _share_below(angle: float, freedom: float) -> float:
    """∫ sin^(ν-1) from 0 to this angle, over that from 0 to π/2, which is √π Γ(ν/2) / 2 Γ((ν+1)/2)."""
    below = angle / 2 * float(_WEIGHTS @ np.sin(angle / 2 * (1 + _NODES)) ** (freedom - 1))
    log_whole = math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2) + math.log(math.pi) / 2 - math.log(2)
    return below / math.exp(log_whole)
