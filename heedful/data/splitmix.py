"""Numbers without a pattern from numbers that have one: the last part of SplitMix64 (Steele, Lea and Flood, 2014).

Seeds, shuffles and draws follow from it. It computes on int64 of NumPy or of torch, wherever they lie, and gives the
same bits on both; it knows neither library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor

    Words = TypeVar("Words", npt.NDArray[np.int64], Tensor)

GOLDEN_GAMMA = 0x9E3779B97F4A7C15 - 2**64  # what SplitMix64 adds to its state before each number


def mixed(words: Words) -> Words:
    """A bijection of 64-bit words: every bit of the input moves every bit of the output."""
    words = (words ^ shifted(words, 30)) * (0xBF58476D1CE4E5B9 - 2**64)
    words = (words ^ shifted(words, 27)) * (0x94D049BB133111EB - 2**64)
    return words ^ shifted(words, 31)


def shifted(words: Words, by: int) -> Words:
    """words >> by, with zeros coming in from the left."""
    return (words >> by) & ((1 << (64 - by)) - 1)
