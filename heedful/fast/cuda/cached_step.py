"""One position of every hypothesis over caches of a fixed size: the parts of a decoder's step that are no products.

A program takes one row (a hypothesis) and one head. It reads as far back as that row reaches, and no further, so that
how much room there is costs memory alone. A row's own key and value it takes from the product that has just made them,
and puts them into the cache for later steps. Earlier positions are read where they were first written: `ancestors`
says by which of the W hypotheses of the slot. Of `ancestors` there are two, for even and for odd positions, since a
step reads the one while it writes the other. The rows of a slot that is done come out as zeros.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from heedful.fast.cuda.sums import accumulator

BLOCK_POSITIONS = 32  # keys that a program reads at once
LAUNCH = {"num_warps": 1}
COPIED = 1024  # numbers that a program copies at once


@triton.jit
def _fold(
    query, rows_ptr, inside, highest, total, output,
    D_K: tl.constexpr, D_V: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, ACCUMULATE: tl.constexpr,
):  # fmt: skip
    """Take the keys and values that begin at these addresses into a running softmax."""
    k, v = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_V)
    keys = tl.load(rows_ptr[:, None] + k[None, :], mask=inside[:, None] & (k < D_K)[None, :], other=0.0)
    values = tl.load(rows_ptr[:, None] + D_K + v[None, :], mask=inside[:, None] & (v < D_V)[None, :], other=0.0)
    score = tl.where(inside, tl.sum(query[None, :] * keys.to(ACCUMULATE), axis=1), float("-inf"))
    higher = tl.maximum(highest, tl.max(score, axis=0))
    weight = tl.exp(score - higher)
    shrink = tl.exp(highest - higher)
    total = total * shrink + tl.sum(weight, axis=0)
    output = output * shrink + tl.sum(weight[:, None] * values.to(ACCUMULATE), axis=0)
    return higher, total, output


@triton.jit
def _own_attention(
    product_ptr, cache_ptr, ancestors_ptr, position_ptr, done_ptr, output_ptr,
    num_slots, capacity, product_stride,
    NUM_BEAMS: tl.constexpr, NUM_HEADS: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_L: tl.constexpr, ACCUMULATE: tl.constexpr,
):  # fmt: skip
    """Self-attention of the newest position of a row over itself and its ancestors; its key and value are kept."""
    row, head = tl.program_id(0), tl.program_id(1)
    slot, beam = row // NUM_BEAMS, row % NUM_BEAMS
    k, v, back = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_V), tl.arange(0, BLOCK_L)
    into_ptr = output_ptr + row.to(tl.int64) * (NUM_HEADS * D_V) + head * D_V + v
    if tl.load(done_ptr + slot) != 0:
        tl.store(into_ptr, tl.zeros([BLOCK_V], dtype=output_ptr.dtype.element_ty), mask=v < D_V)
        return
    position = tl.load(position_ptr + slot)
    D_KV: tl.constexpr = D_K + D_V
    WIDTH: tl.constexpr = NUM_HEADS * D_KV

    mine_ptr = product_ptr + row.to(tl.int64) * product_stride
    query = tl.load(mine_ptr + head * D_K + k, mask=k < D_K, other=0.0).to(ACCUMULATE)
    new_ptr = mine_ptr + NUM_HEADS * D_K + head * D_KV
    key = tl.load(new_ptr + k, mask=k < D_K, other=0.0)
    value = tl.load(new_ptr + D_K + v, mask=v < D_V, other=0.0)
    first_row = slot.to(tl.int64) * capacity * NUM_BEAMS  # of this slot in the cache
    kept_ptr = cache_ptr + (first_row + position * NUM_BEAMS + beam) * WIDTH + head * D_KV
    tl.store(kept_ptr + k, key, mask=k < D_K)
    tl.store(kept_ptr + D_K + v, value, mask=v < D_V)

    highest = tl.sum(query * key.to(ACCUMULATE), axis=0)
    total = tl.full([], 1.0, dtype=ACCUMULATE)
    output = value.to(ACCUMULATE)
    whose_ptr = ancestors_ptr + (((position % 2) * num_slots + slot) * NUM_BEAMS + beam) * capacity
    for begin in range(0, position, BLOCK_L):
        inside = begin + back < position
        whose = tl.load(whose_ptr + begin + back, mask=inside, other=0).to(tl.int32)
        rows_ptr = cache_ptr + (first_row + (begin + back) * NUM_BEAMS + whose) * WIDTH + head * D_KV
        highest, total, output = _fold(
            query, rows_ptr, inside, highest, total, output, D_K, D_V, BLOCK_K, BLOCK_V, ACCUMULATE
        )
    output = (output / total).to(output_ptr.dtype.element_ty)
    tl.store(into_ptr, output, mask=v < D_V)


@triton.jit
def _cross_attention(
    query_ptr, memory_ptr, length_ptr, done_ptr, output_ptr, sources, memory_stride, first_column,
    NUM_BEAMS: tl.constexpr, NUM_HEADS: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_L: tl.constexpr, ACCUMULATE: tl.constexpr,
):  # fmt: skip
    """Attention of a row over the encoder's output for its slot."""
    row, head = tl.program_id(0), tl.program_id(1)
    slot = row // NUM_BEAMS
    k, v, back = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_V), tl.arange(0, BLOCK_L)
    into_ptr = output_ptr + row.to(tl.int64) * (NUM_HEADS * D_V) + head * D_V + v
    if tl.load(done_ptr + slot) != 0:
        tl.store(into_ptr, tl.zeros([BLOCK_V], dtype=output_ptr.dtype.element_ty), mask=v < D_V)
        return
    length = tl.load(length_ptr + slot)
    query = tl.load(query_ptr + row.to(tl.int64) * (NUM_HEADS * D_K) + head * D_K + k, mask=k < D_K, other=0.0)
    query = query.to(ACCUMULATE)
    highest = tl.full([], float("-inf"), dtype=ACCUMULATE)
    total = tl.zeros([], dtype=ACCUMULATE)
    output = tl.zeros([BLOCK_V], dtype=ACCUMULATE)
    slot_ptr = memory_ptr + slot.to(tl.int64) * sources * memory_stride + first_column + head * (D_K + D_V)
    for begin in range(0, length, BLOCK_L):
        inside = begin + back < length
        rows_ptr = slot_ptr + (begin + back).to(tl.int64) * memory_stride
        highest, total, output = _fold(
            query, rows_ptr, inside, highest, total, output, D_K, D_V, BLOCK_K, BLOCK_V, ACCUMULATE
        )
    output = (output / total).to(output_ptr.dtype.element_ty)
    tl.store(into_ptr, output, mask=v < D_V)


@triton.jit
def _embed(
    ids_ptr, position_ptr, done_ptr, weight_ptr, positions_ptr, output_ptr,
    SCALE: tl.constexpr, NUM_BEAMS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ACCUMULATE: tl.constexpr,
):  # fmt: skip
    """§3.4 and §3.5 for the newest token of a row; the zero vector stands before the first one."""
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    slot = row // NUM_BEAMS
    into_ptr = output_ptr + row.to(tl.int64) * WIDTH + column
    if tl.load(done_ptr + slot) != 0:
        tl.store(into_ptr, tl.zeros([BLOCK], dtype=output_ptr.dtype.element_ty), mask=column < WIDTH)
        return
    position = tl.load(position_ptr + slot)
    token = tl.load(ids_ptr + row).to(tl.int64)
    embedding = tl.load(weight_ptr + token * WIDTH + column, mask=column < WIDTH, other=0.0).to(ACCUMULATE)
    embedding = tl.where(position > 0, embedding * SCALE, 0.0)
    place = tl.load(positions_ptr + position.to(tl.int64) * WIDTH + column, mask=column < WIDTH, other=0.0)
    x = (embedding + place.to(ACCUMULATE)).to(output_ptr.dtype.element_ty)
    tl.store(into_ptr, x, mask=column < WIDTH)


@triton.jit
def _place(rows_ptr, where_ptr, output_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Copy a row to its place; one that has none (−1) goes nowhere."""
    row = tl.program_id(0)
    place = tl.load(where_ptr + row)
    if place < 0:
        return
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    numbers = tl.load(rows_ptr + row.to(tl.int64) * WIDTH + column, mask=column < WIDTH)
    tl.store(output_ptr + place.to(tl.int64) * WIDTH + column, numbers, mask=column < WIDTH)


class Heads(NamedTuple):
    """How many heads a layer has, and how wide they are."""

    number: int
    d_k: int
    d_v: int


def _constants(x: Tensor, heads: Heads) -> dict[str, Any]:
    return {
        "NUM_HEADS": heads.number,
        "D_K": heads.d_k,
        "D_V": heads.d_v,
        "BLOCK_K": triton.next_power_of_2(heads.d_k),
        "BLOCK_V": triton.next_power_of_2(heads.d_v),
        "BLOCK_L": BLOCK_POSITIONS,
        "ACCUMULATE": accumulator(x.dtype),
    }


def own_attention(
    product_RX: Tensor, cache_NLWX: Tensor, ancestors_2NWL: Tensor, position_N: Tensor, done_N: Tensor, heads: Heads
) -> Tensor:
    """Masked self-attention, one position of each row; the product holds scaled queries, then a head's key and value.

    Keys and values of the rows go into the cache.
    """
    (num_slots, capacity, num_beams, _), rows = cache_NLWX.shape, product_RX.size(0)
    output_RX = product_RX.new_empty(rows, heads.number * heads.d_v)
    _own_attention[(rows, heads.number)](
        product_RX, cache_NLWX, ancestors_2NWL, position_N, done_N, output_RX,
        num_slots, capacity, product_RX.stride(0),
        NUM_BEAMS=num_beams, **_constants(product_RX, heads), **LAUNCH,
    )  # fmt: skip
    return output_RX


def cross_attention(
    query_RX: Tensor, memory_NSX: Tensor, length_N: Tensor, done_N: Tensor, heads: Heads, *, first_column: int
) -> Tensor:
    """Attention of each row over the memory of its slot, whose keys and values begin at a column of `memory_NSX`."""
    (num_slots, sources, width), rows = memory_NSX.shape, query_RX.size(0)
    output_RX = query_RX.new_empty(rows, heads.number * heads.d_v)
    _cross_attention[(rows, heads.number)](
        query_RX, memory_NSX, length_N, done_N, output_RX, sources, width, first_column,
        NUM_BEAMS=rows // num_slots, **_constants(query_RX, heads), **LAUNCH,
    )  # fmt: skip
    return output_RX


def embed(ids_R: Tensor, position_N: Tensor, done_N: Tensor, weight_VD: Tensor, positions_LD: Tensor) -> Tensor:
    """The decoder's input for the newest token of each row."""
    rows, width = ids_R.numel(), weight_VD.size(1)
    output_RD = weight_VD.new_empty(rows, width)
    _embed[(rows,)](
        ids_R, position_N, done_N, weight_VD, positions_LD, output_RD,
        SCALE=math.sqrt(width), NUM_BEAMS=rows // position_N.numel(), WIDTH=width,
        BLOCK=triton.next_power_of_2(width), ACCUMULATE=accumulator(weight_VD.dtype), **LAUNCH,
    )  # fmt: skip
    return output_RD


def place_rows(rows_TX: Tensor, where_T: Tensor, output_PX: Tensor) -> None:
    """Copy row t to row where[t] of the output; where that is −1, nowhere."""
    rows, width = rows_TX.shape
    _place[(rows, triton.cdiv(width, COPIED))](
        rows_TX.contiguous(), where_T, output_PX, WIDTH=width, BLOCK=COPIED, num_warps=4
    )
