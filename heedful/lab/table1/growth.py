"""How fast a curve grows, and where two curves cross; both by logarithms. It knows numbers only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import linear_regression
from typing import TypeAlias

Curve: TypeAlias = Sequence[tuple[float, float]]


def slope(curve: Curve) -> float:
    """The exponent of y in x, by least squares of the logarithms: 2 for y = c·x²."""
    return linear_regression([math.log(x) for x, _ in curve], [math.log(y) for _, y in curve]).slope


def exponents(slopes: Mapping[str, float]) -> str:
    """n^2.00 d^1.00."""
    return " ".join(f"{axis}^{value:.2f}" for axis, value in slopes.items())


def crossing(ours: Curve, theirs: Curve) -> float | None:
    """The first x from which ours is no longer below theirs; None if there is none after a point below."""
    gaps = [(x, math.log(a / b)) for (x, a), (_, b) in zip(ours, theirs, strict=True)]
    for (x, gap), (next_x, next_gap) in pairwise(gaps):
        if gap < 0 <= next_gap:
            return float(x * (next_x / x) ** (gap / (gap - next_gap)))
    return None
