"""Table 1 (§4) as predictions: what each layer costs by the paper's formula, and exactly, with the constants.

The formulas know sizes only; `build` makes the layer that they speak of. What is measured is in `layer_costs.py` and
`path_length.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate, count

from msgspec import Struct

from heedful.lab.layers import (
    BYTENET_SET,
    ConvolutionLayer,
    Layer,
    LstmLayer,
    RecurrentLayer,
    RestrictedAttentionLayer,
    SelfAttentionLayer,
    SeparableConvolutionLayer,
    WrittenOutAttentionLayer,
)

NUM_HEADS = 8


class Size(Struct, frozen=True):
    """n, d, k and r; r counts the positions on each side."""

    n: int
    d: int
    k: int = 3
    r: int = 8

    @property
    def window(self) -> int:
        """What the paper calls r: all positions that one position sees."""
        return 2 * self.r + 1


class Kind(Struct, frozen=True, kw_only=True):
    """One kind of layer. Operations are multiply-adds of one forward pass over one sentence."""

    name: str
    complexity: str  # as Table 1 and §4 write it
    order: Callable[[Size], int]  # the same as a number
    operations: Callable[[Size], int]  # exactly, of what Table 1 counts
    projections: Callable[[Size], int] = lambda _: 0  # what it leaves out
    sequential: Callable[[Size], int]  # products in a row, in the whole layer
    build: Callable[[Size], Layer]
    width: str = ""  # which of k and r it depends on


def _attention_projections(size: Size) -> int:
    """x W_Q, x W_K, x W_V and the product with W_O."""
    return 4 * size.n * size.d**2


def _separable(size: Size) -> int:
    return size.k * size.n * size.d + size.n * size.d**2


def dilation_that_joins(length: int, kernel: int) -> int:
    """The largest dilation of the shortest stack with dilations 1, k, k², … that joins so many positions."""
    dilation: int = kernel ** (layers_of_dilated(length, kernel) - 1)
    return dilation


SELF_ATTENTION = Kind(
    name="self-attention",
    complexity="n²·d",
    order=lambda size: size.n**2 * size.d,
    operations=lambda size: 2 * size.n**2 * size.d,
    projections=_attention_projections,
    sequential=lambda _: 4,
    build=lambda size: SelfAttentionLayer(size.d, NUM_HEADS),
)
WRITTEN_OUT = Kind(
    name="self-attention, written out",
    complexity="n²·d",
    order=SELF_ATTENTION.order,
    operations=SELF_ATTENTION.operations,
    projections=_attention_projections,
    sequential=lambda _: 4,
    build=lambda size: WrittenOutAttentionLayer(size.d, NUM_HEADS),
)
RESTRICTED = Kind(
    name="restricted self-attention",
    complexity="r·n·d",
    order=lambda size: size.window * size.n * size.d,
    operations=lambda size: 2 * size.window * size.n * size.d,
    projections=_attention_projections,
    sequential=lambda _: 4,
    build=lambda size: RestrictedAttentionLayer(size.d, NUM_HEADS, size.r),
    width="r",
)
RECURRENT = Kind(
    name="recurrent",
    complexity="n·d²",
    order=lambda size: size.n * size.d**2,
    operations=lambda size: 2 * size.n * size.d**2,
    sequential=lambda size: size.n,
    build=lambda size: RecurrentLayer(size.d),
)
LSTM = Kind(
    name="recurrent, LSTM",
    complexity="n·d²",
    order=RECURRENT.order,
    operations=lambda size: 8 * size.n * size.d**2,
    sequential=lambda size: size.n,
    build=lambda size: LstmLayer(size.d),
)
CONVOLUTIONAL = Kind(
    name="convolutional",
    complexity="k·n·d²",
    order=lambda size: size.k * size.n * size.d**2,
    operations=lambda size: size.k * size.n * size.d**2,
    sequential=lambda _: 1,
    build=lambda size: ConvolutionLayer(size.d, size.k),
    width="k",
)
DILATED = Kind(
    name="convolutional, dilated",
    complexity="k·n·d²",
    order=CONVOLUTIONAL.order,
    operations=CONVOLUTIONAL.operations,
    sequential=lambda _: 1,
    build=lambda size: ConvolutionLayer(size.d, size.k, dilation=dilation_that_joins(size.n, size.k)),
    width="k",
)
SEPARABLE = Kind(
    name="separable convolutional",
    complexity="k·n·d + n·d²",
    order=_separable,
    operations=_separable,
    sequential=lambda _: 2,
    build=lambda size: SeparableConvolutionLayer(size.d, size.k),
    width="k",
)
KINDS = (SELF_ATTENTION, WRITTEN_OUT, RESTRICTED, RECURRENT, LSTM, CONVOLUTIONAL, DILATED, SEPARABLE)


# -------------------------------------------------------------------------------------------------------- path lengths


def layers_of_window(length: int, reach: int) -> int:
    """⌈(n − 1) / reach⌉: each layer carries what it knows that many positions further."""
    return math.ceil((length - 1) / reach)


def layers_of_dilated(length: int, kernel: int) -> int:
    """⌈log_k n⌉ with dilations 1, k, k², …, whose m layers see k^m positions; without a logarithm's rounding."""
    return next(number for number in count(1) if kernel**number >= length)


def bytenet_dilation(number: int) -> int:
    """1, 2, 4, 8, 16, and again from 1."""
    return 1 << number % BYTENET_SET


def layers_of_bytenet(length: int, kernel: int) -> int:
    """As many as it takes until (k − 1) · (1 + 2 + 4 + 8 + 16 + 1 + …) reaches n − 1."""
    reaches = accumulate((kernel - 1) * bytenet_dilation(number) for number in count())
    return next(number for number, reach in enumerate(reaches, start=1) if reach >= length - 1)
