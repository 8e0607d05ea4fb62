"""Table 1 (§4) as predictions: what each layer costs and how long its longest path is, by the paper and exactly.

The formulas know sizes only. `build` makes the layer that they speak of, and `stack` the layers of a path. What is
measured is in `layer_costs.py` and `path_length.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate, count

from msgspec import Struct

from heedful.lab.table1.layers import (
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
from heedful.lab.table1.path_length import Stack, stacked, unrolled

NUM_HEADS = 8
KERNEL, RADIUS = 3, 8


class Size(Struct, frozen=True):
    """n, d, k and r; r counts the positions on each side."""

    n: int
    d: int
    k: int = KERNEL
    r: int = RADIUS

    @property
    def window(self) -> int:
        """What the paper calls r: all positions that one position sees."""
        return 2 * self.r + 1


class Kind(Struct, frozen=True, kw_only=True):
    """One kind of layer. Operations are multiply-adds of one forward pass over one sentence."""

    name: str
    complexity: str  # as Table 1 and §4 write it
    order: Callable[[Size], int]  # the same as a number
    exact: str  # of what Table 1 counts, with the constants
    operations: Callable[[Size], int]  # the same as a number
    projections: Callable[[Size], int] = lambda _: 0  # what it leaves out
    sequential: Callable[[Size], int]  # products in a row, in the whole layer
    build: Callable[[Size], Layer]
    varies: str  # which of n, d, k and r it depends on


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
    exact="2·n²·d",
    operations=lambda size: 2 * size.n**2 * size.d,
    projections=_attention_projections,
    sequential=lambda _: 4,
    build=lambda size: SelfAttentionLayer(size.d, NUM_HEADS),
    varies="nd",
)
WRITTEN_OUT = Kind(
    name="self-attention, written out",
    complexity="n²·d",
    order=SELF_ATTENTION.order,
    exact="2·n²·d",
    operations=SELF_ATTENTION.operations,
    projections=_attention_projections,
    sequential=lambda _: 4,
    build=lambda size: WrittenOutAttentionLayer(size.d, NUM_HEADS),
    varies="nd",
)
RESTRICTED = Kind(
    name="restricted self-attention",
    complexity="r·n·d",
    order=lambda size: size.window * size.n * size.d,
    exact="2·r·n·d",
    operations=lambda size: 2 * size.window * size.n * size.d,
    projections=_attention_projections,
    sequential=lambda _: 4,
    build=lambda size: RestrictedAttentionLayer(size.d, NUM_HEADS, size.r),
    varies="ndr",
)
RECURRENT = Kind(
    name="recurrent",
    complexity="n·d²",
    order=lambda size: size.n * size.d**2,
    exact="2·n·d²",
    operations=lambda size: 2 * size.n * size.d**2,
    sequential=lambda size: size.n,
    build=lambda size: RecurrentLayer(size.d),
    varies="nd",
)
LSTM = Kind(
    name="LSTM",
    complexity="n·d²",
    order=RECURRENT.order,
    exact="8·n·d²",
    operations=lambda size: 8 * size.n * size.d**2,
    sequential=lambda size: size.n,
    build=lambda size: LstmLayer(size.d),
    varies="nd",
)
CONVOLUTIONAL = Kind(
    name="convolutional",
    complexity="k·n·d²",
    order=lambda size: size.k * size.n * size.d**2,
    exact="k·n·d²",
    operations=lambda size: size.k * size.n * size.d**2,
    sequential=lambda _: 1,
    build=lambda size: ConvolutionLayer(size.d, size.k),
    varies="ndk",
)
DILATED = Kind(
    name="convolutional, dilated",
    complexity="k·n·d²",
    order=CONVOLUTIONAL.order,
    exact="k·n·d²",
    operations=CONVOLUTIONAL.operations,
    sequential=lambda _: 1,
    build=lambda size: ConvolutionLayer(size.d, size.k, dilation=dilation_that_joins(size.n, size.k)),
    varies="ndk",
)
SEPARABLE = Kind(
    name="separable convolutional",
    complexity="k·n·d + n·d²",
    order=_separable,
    exact="k·n·d + n·d²",
    operations=_separable,
    sequential=lambda _: 2,
    build=lambda size: SeparableConvolutionLayer(size.d, size.k),
    varies="ndk",
)
KINDS = (SELF_ATTENTION, RESTRICTED, RECURRENT, LSTM, CONVOLUTIONAL, SEPARABLE, WRITTEN_OUT, DILATED)


# -------------------------------------------------------------------------------------------------------- path lengths

PATH_D_MODEL = 2


class PathKind(Struct, frozen=True, kw_only=True):
    """The longest path between two positions: how many layers (recurrent: transitions) join all of them."""

    name: str
    complexity: str  # as Table 1 and §4 write it
    exact: str
    length: Callable[[int], int]  # of n
    stack: Callable[[], Stack]
    is_causal: bool = True


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


def _convolutions(dilation: Callable[[int], int]) -> Stack:
    return stacked(lambda number: ConvolutionLayer(PATH_D_MODEL, KERNEL, dilation=dilation(number)))


SELF_ATTENTION_PATH = PathKind(
    name=SELF_ATTENTION.name,
    complexity="1",
    exact="1",
    length=lambda _: 1,
    stack=lambda: stacked(lambda _: SelfAttentionLayer(PATH_D_MODEL, 1)),
    is_causal=False,
)
RESTRICTED_PATH = PathKind(
    name=RESTRICTED.name,
    complexity="n/r",
    exact="⌈(n − 1)/r⌉",
    length=lambda n: layers_of_window(n, RADIUS),
    stack=lambda: stacked(lambda _: RestrictedAttentionLayer(PATH_D_MODEL, 1, RADIUS)),
    is_causal=False,
)
RECURRENT_PATH = PathKind(
    name=RECURRENT.name,
    complexity="n",
    exact="n − 1",
    length=lambda n: n - 1,
    stack=lambda: unrolled(RecurrentLayer(PATH_D_MODEL, activation="relu")),
)
CONVOLUTIONAL_PATH = PathKind(
    name=CONVOLUTIONAL.name,
    complexity="n/k",
    exact="⌈(n − 1)/(k − 1)⌉",
    length=lambda n: layers_of_window(n, KERNEL - 1),
    stack=lambda: _convolutions(lambda _: 1),
)
DILATED_PATH = PathKind(
    name=DILATED.name,
    complexity="log_k n",
    exact="⌈log_k n⌉",
    length=lambda n: layers_of_dilated(n, KERNEL),
    stack=lambda: _convolutions(lambda number: KERNEL**number),
)
SEPARABLE_PATH = PathKind(
    name=SEPARABLE.name,
    complexity="n/k",
    exact="⌈(n − 1)/(k − 1)⌉",
    length=CONVOLUTIONAL_PATH.length,
    stack=lambda: stacked(lambda _: SeparableConvolutionLayer(PATH_D_MODEL, KERNEL)),
)
BYTENET_PATH = PathKind(
    name="convolutional, ByteNet's dilations",
    complexity="log_k n",
    exact="5 layers for 62 positions",
    length=lambda n: layers_of_bytenet(n, KERNEL),
    stack=lambda: _convolutions(bytenet_dilation),
)
PATHS = (
    SELF_ATTENTION_PATH,
    RESTRICTED_PATH,
    RECURRENT_PATH,
    CONVOLUTIONAL_PATH,
    DILATED_PATH,
    SEPARABLE_PATH,
    BYTENET_PATH,
)
