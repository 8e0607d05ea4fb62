"""The kernels of equation 1 on packed rows (§3.2.1): forward and backward, for many short sentences.

A program takes one tile of query rows and one head. Short sentences share a tile, so that a product of 64 × 64 scores
holds several of them, and everything between loading q, k, v and storing the result stays in registers. A long
sentence has several query tiles, each of which walks over the sentence's keys with a running softmax.

Backward, a tile of whole sentences is done in one go: its queries and keys meet nowhere else. Long sentences are done
twice, once by query tiles (for dQ) and once by key tiles (for dK and dV), so that no two programs write the same row
and nothing depends on their order.

They know nothing of autograd: that is in `attention.py`.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from heedful.fast.cuda.sums import accumulator, wide
from heedful.fast.cuda.tiles import TILE, Tiles

LOG2_E = math.log2(math.e)
# Programs a head that share the tiles of long sentences, half of them for dQ.
LONG_PROGRAMS = 160
LAUNCH = {"num_warps": 4, "num_stages": 1}


@triton.jit
def _load_rows(pointer, begin, end, stride, head, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """The rows begin … end of one head, as a block of ROWS × BLOCK; zeros outside."""
    row = begin + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row < end)[:, None]
    if WIDTH != BLOCK:
        inside = inside & (column < WIDTH)[None, :]
    address = pointer + row.to(tl.int64)[:, None] * stride + head * WIDTH + column[None, :]
    return tl.load(address, mask=inside, other=0.0)


@triton.jit
def _store_rows(pointer, block, begin, end, stride, head, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """The counterpart of `_load_rows`."""
    row = begin + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row < end)[:, None]
    if WIDTH != BLOCK:
        inside = inside & (column < WIDTH)[None, :]
    address = pointer + row.to(tl.int64)[:, None] * stride + head * WIDTH + column[None, :]
    tl.store(address, block.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def _load_tile(tiles_ptr, tile):
    """Begin and end of a tile's rows, and of the rows that they meet."""
    tile_ptr = tiles_ptr + 4 * tile
    return tl.load(tile_ptr), tl.load(tile_ptr + 1), tl.load(tile_ptr + 2), tl.load(tile_ptr + 3)


@triton.jit
def _load_intervals(first_key_ptr, end_key_ptr, begin, end, ROWS: tl.constexpr):
    """The first key that each query may see, and the one behind the last."""
    row = begin + tl.arange(0, ROWS)
    first_key = tl.load(first_key_ptr + row, mask=row < end, other=0)
    return first_key, tl.load(end_key_ptr + row, mask=row < end, other=0)


@triton.jit
def _visible(first_key, end_key, begin, ROWS: tl.constexpr):
    """Which of the keys from `begin` on each query may see."""
    column = begin + tl.arange(0, ROWS)
    return (column[None, :] >= first_key[:, None]) & (column[None, :] < end_key[:, None])


@triton.jit
def _weights(query, key, lse, visible, SCALE: tl.constexpr, PRECISION: tl.constexpr):
    """The softmax once more, from the denominators that the forward pass has kept."""
    score = tl.dot(query, tl.trans(key), input_precision=PRECISION) * SCALE
    return tl.where(visible, tl.exp2(score - lse[:, None]), 0.0)


@triton.jit
def _forward(
    query_ptr, key_ptr, value_ptr, output_ptr, lse_ptr, tiles_ptr, counts_ptr, first_key_ptr, end_key_ptr,
    query_stride, key_stride, value_stride, output_stride, num_rows,
    SCALE: tl.constexpr, ACCUMULATE: tl.constexpr, PRECISION: tl.constexpr,
    D_K: tl.constexpr, D_V: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """softmax(Q Kᵀ / √d_k) V of a head's tiles, and the logarithm (base 2) of the softmax's denominators."""
    head = tl.program_id(0)
    for tile in range(tl.program_id(1), tl.load(counts_ptr + 2), tl.num_programs(1)):
        query_begin, query_end, key_begin, key_end = _load_tile(tiles_ptr, tile)
        row = query_begin + tl.arange(0, ROWS)
        first_key, end_key = _load_intervals(first_key_ptr, end_key_ptr, query_begin, query_end, ROWS)
        query = _load_rows(query_ptr, query_begin, query_end, query_stride, head, D_K, BLOCK_K, ROWS)

        highest = tl.full([ROWS], float("-inf"), dtype=ACCUMULATE)
        total = tl.zeros([ROWS], dtype=ACCUMULATE)
        output = tl.zeros([ROWS, BLOCK_V], dtype=ACCUMULATE)
        for begin in range(key_begin, key_end, ROWS):
            key = _load_rows(key_ptr, begin, key_end, key_stride, head, D_K, BLOCK_K, ROWS)
            value = _load_rows(value_ptr, begin, key_end, value_stride, head, D_V, BLOCK_V, ROWS)
            score = tl.dot(query, tl.trans(key), input_precision=PRECISION) * SCALE
            score = tl.where(_visible(first_key, end_key, begin, ROWS), score, float("-inf"))
            # A row that has seen nothing yet keeps its maximum at −∞; 0 in its place keeps −∞ − (−∞) out.
            higher = tl.maximum(highest, tl.max(score, axis=1))
            shift = tl.where(higher == float("-inf"), 0.0, higher)
            weight = tl.exp2(score - shift[:, None])
            shrink = tl.exp2(highest - shift)
            total = total * shrink + tl.sum(weight, axis=1)
            output = output * shrink[:, None]
            output += tl.dot(weight.to(value.dtype), value, input_precision=PRECISION)
            highest = higher

        total = tl.where(total == 0.0, 1.0, total)  # a row that sees nothing comes out as zeros
        highest = tl.where(highest == float("-inf"), 0.0, highest)
        output = output / total[:, None]
        _store_rows(output_ptr, output, query_begin, query_end, output_stride, head, D_V, BLOCK_V, ROWS)
        tl.store(lse_ptr + head * num_rows + row, highest + tl.log2(total), mask=row < query_end)


@triton.jit
def _backward_whole(
    query_ptr, key_ptr, value_ptr, grad_ptr, lse_ptr, grad_query_ptr, grad_key_ptr, grad_value_ptr,
    tiles_ptr, counts_ptr, first_key_ptr, end_key_ptr,
    query_stride, key_stride, value_stride, grad_stride, grad_query_stride, grad_key_stride, grad_value_stride,
    num_rows,
    SCALE: tl.constexpr, UNSCALED: tl.constexpr, ACCUMULATE: tl.constexpr, PRECISION: tl.constexpr,
    D_K: tl.constexpr, D_V: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """dQ, dK and dV of a tile of whole sentences and a head."""
    head, tile = tl.program_id(0), tl.load(counts_ptr) + tl.program_id(1)
    if tile >= tl.load(counts_ptr + 2):
        return
    query_begin, query_end, key_begin, key_end = _load_tile(tiles_ptr, tile)
    row = query_begin + tl.arange(0, ROWS)
    first_key, end_key = _load_intervals(first_key_ptr, end_key_ptr, query_begin, query_end, ROWS)
    lse = tl.load(lse_ptr + head * num_rows + row, mask=row < query_end, other=0.0)
    key = _load_rows(key_ptr, key_begin, key_end, key_stride, head, D_K, BLOCK_K, ROWS)
    query = _load_rows(query_ptr, query_begin, query_end, query_stride, head, D_K, BLOCK_K, ROWS)
    value = _load_rows(value_ptr, key_begin, key_end, value_stride, head, D_V, BLOCK_V, ROWS)
    grad = _load_rows(grad_ptr, query_begin, query_end, grad_stride, head, D_V, BLOCK_V, ROWS)

    weight = _weights(query, key, lse, _visible(first_key, end_key, key_begin, ROWS), SCALE, PRECISION)
    grad_value = tl.dot(tl.trans(weight.to(grad.dtype)), grad, input_precision=PRECISION)
    _store_rows(grad_value_ptr, grad_value, key_begin, key_end, grad_value_stride, head, D_V, BLOCK_V, ROWS)
    grad_weight = tl.dot(grad, tl.trans(value), input_precision=PRECISION)
    # All keys of a query are in this tile, so the sum over them needs no output of the forward pass.
    along = tl.sum(weight * grad_weight, axis=1)
    grad_score = (weight * (grad_weight - along[:, None]) * UNSCALED).to(query.dtype)
    grad_query = tl.dot(grad_score, key, input_precision=PRECISION)
    _store_rows(grad_query_ptr, grad_query, query_begin, query_end, grad_query_stride, head, D_K, BLOCK_K, ROWS)
    grad_key = tl.dot(tl.trans(grad_score), query, input_precision=PRECISION)
    _store_rows(grad_key_ptr, grad_key, key_begin, key_end, grad_key_stride, head, D_K, BLOCK_K, ROWS)


@triton.jit
def _backward_long(
    query_ptr, key_ptr, value_ptr, output_ptr, grad_ptr, lse_ptr, grad_query_ptr, grad_key_ptr, grad_value_ptr,
    query_tiles_ptr, key_tiles_ptr, counts_ptr, first_key_ptr, end_key_ptr,
    query_stride, key_stride, value_stride, output_stride, grad_stride,
    grad_query_stride, grad_key_stride, grad_value_stride, num_rows,
    SCALE: tl.constexpr, UNSCALED: tl.constexpr, ACCUMULATE: tl.constexpr, PRECISION: tl.constexpr,
    D_K: tl.constexpr, D_V: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Long sentences: half of the programs make dQ by query tiles, the others dK and dV by key tiles."""
    head, half, programs = tl.program_id(0), tl.program_id(1) % 2, tl.num_programs(1) // 2
    num_query_tiles, num_key_tiles = tl.load(counts_ptr) * (half == 0), tl.load(counts_ptr + 1) * (half == 1)
    for tile in range(tl.program_id(1) // 2, num_query_tiles, programs):
        query_begin, query_end, key_begin, key_end = _load_tile(query_tiles_ptr, tile)
        row = query_begin + tl.arange(0, ROWS)
        first_key, end_key = _load_intervals(first_key_ptr, end_key_ptr, query_begin, query_end, ROWS)
        lse = tl.load(lse_ptr + head * num_rows + row, mask=row < query_end, other=0.0)
        query = _load_rows(query_ptr, query_begin, query_end, query_stride, head, D_K, BLOCK_K, ROWS)
        grad = _load_rows(grad_ptr, query_begin, query_end, grad_stride, head, D_V, BLOCK_V, ROWS)
        output = _load_rows(output_ptr, query_begin, query_end, output_stride, head, D_V, BLOCK_V, ROWS)
        along = tl.sum(output.to(ACCUMULATE) * grad.to(ACCUMULATE), axis=1)
        grad_query = tl.zeros([ROWS, BLOCK_K], dtype=ACCUMULATE)
        for begin in range(key_begin, key_end, ROWS):
            key = _load_rows(key_ptr, begin, key_end, key_stride, head, D_K, BLOCK_K, ROWS)
            value = _load_rows(value_ptr, begin, key_end, value_stride, head, D_V, BLOCK_V, ROWS)
            weight = _weights(query, key, lse, _visible(first_key, end_key, begin, ROWS), SCALE, PRECISION)
            grad_weight = tl.dot(grad, tl.trans(value), input_precision=PRECISION)
            grad_score = weight * (grad_weight - along[:, None]) * UNSCALED
            grad_query += tl.dot(grad_score.to(key.dtype), key, input_precision=PRECISION)
        _store_rows(grad_query_ptr, grad_query, query_begin, query_end, grad_query_stride, head, D_K, BLOCK_K, ROWS)

    for tile in range(tl.program_id(1) // 2, num_key_tiles, programs):
        key_begin, key_end, query_begin, query_end = _load_tile(key_tiles_ptr, tile)
        key = _load_rows(key_ptr, key_begin, key_end, key_stride, head, D_K, BLOCK_K, ROWS)
        value = _load_rows(value_ptr, key_begin, key_end, value_stride, head, D_V, BLOCK_V, ROWS)
        grad_key = tl.zeros([ROWS, BLOCK_K], dtype=ACCUMULATE)
        grad_value = tl.zeros([ROWS, BLOCK_V], dtype=ACCUMULATE)
        for begin in range(query_begin, query_end, ROWS):
            row = begin + tl.arange(0, ROWS)
            first_key, end_key = _load_intervals(first_key_ptr, end_key_ptr, begin, query_end, ROWS)
            lse = tl.load(lse_ptr + head * num_rows + row, mask=row < query_end, other=0.0)
            query = _load_rows(query_ptr, begin, query_end, query_stride, head, D_K, BLOCK_K, ROWS)
            grad = _load_rows(grad_ptr, begin, query_end, grad_stride, head, D_V, BLOCK_V, ROWS)
            output = _load_rows(output_ptr, begin, query_end, output_stride, head, D_V, BLOCK_V, ROWS)
            along = tl.sum(output.to(ACCUMULATE) * grad.to(ACCUMULATE), axis=1)
            weight = _weights(query, key, lse, _visible(first_key, end_key, key_begin, ROWS), SCALE, PRECISION)
            grad_value += tl.dot(tl.trans(weight.to(grad.dtype)), grad, input_precision=PRECISION)
            grad_weight = tl.dot(grad, tl.trans(value), input_precision=PRECISION)
            grad_score = weight * (grad_weight - along[:, None]) * UNSCALED
            grad_key += tl.dot(tl.trans(grad_score.to(query.dtype)), query, input_precision=PRECISION)
        _store_rows(grad_key_ptr, grad_key, key_begin, key_end, grad_key_stride, head, D_K, BLOCK_K, ROWS)
        _store_rows(grad_value_ptr, grad_value, key_begin, key_end, grad_value_stride, head, D_V, BLOCK_V, ROWS)


class Parts(NamedTuple):
    """Queries, keys and values: views of T × (h · d), whose rows may lie further apart than that."""

    query: Tensor
    key: Tensor
    value: Tensor


def _constants(parts: Parts, num_heads: int) -> dict[str, Any]:
    d_k, d_v = parts.query.size(1) // num_heads, parts.value.size(1) // num_heads
    exact = parts.query.dtype in (torch.float32, torch.float64)
    return {
        "SCALE": LOG2_E / math.sqrt(d_k),
        "ACCUMULATE": accumulator(parts.query.dtype),
        "PRECISION": "ieee" if exact else "tf32",  # says nothing to 16-bit numbers
        "D_K": d_k,
        "D_V": d_v,
        "BLOCK_K": max(16, triton.next_power_of_2(d_k)),
        "BLOCK_V": max(16, triton.next_power_of_2(d_v)),
        "ROWS": TILE,
    }


def _few_registers(parts: Parts, num_heads: int) -> dict[str, int]:
    """With 128 registers a thread four programs fit on a multiprocessor; heads of 64 need no more."""
    narrow = max(parts.query.size(1), parts.value.size(1)) <= 64 * num_heads and parts.query.element_size() == 2
    return {"maxnreg": 128} if narrow else {}


def run_forward(parts: Parts, tiles: Tiles, num_heads: int) -> tuple[Tensor, Tensor]:
    """The output, and the logarithms of the softmax's denominators, which the backward pass needs.

    There is a program for each tile of whole sentences; some take a long one too.
    """
    query, key, value = parts
    output = query.new_empty(query.size(0), value.size(1))
    lse = output.new_empty(num_heads, query.size(0), dtype=wide(output.dtype))
    _forward[(num_heads, tiles.shape.num_whole_tiles)](
        query, key, value, output, lse, tiles.query_tiles_A4, tiles.counts_3, tiles.first_key_T, tiles.end_key_T,
        query.stride(0), key.stride(0), value.stride(0), output.stride(0), query.size(0),
        **_constants(parts, num_heads), **LAUNCH, **_few_registers(parts, num_heads),
    )  # fmt: skip
    return output, lse


def run_backward(
    grad: Tensor, parts: Parts, output: Tensor, lse: Tensor, grads: Parts, tiles: Tiles, num_heads: int
) -> None:
    """Write the gradients of queries, keys and values into `grads`."""
    constants = _constants(parts, num_heads) | {"UNSCALED": 1 / math.sqrt(parts.query.size(1) // num_heads)}
    strides = [part.stride(0) for part in parts]
    grad_strides = [part.stride(0) for part in grads]
    rows = parts.query.size(0)
    intervals = tiles.first_key_T, tiles.end_key_T
    _backward_whole[(num_heads, tiles.shape.num_whole_tiles)](
        *parts, grad, lse, *grads, tiles.query_tiles_A4, tiles.counts_3, *intervals,
        *strides, grad.stride(0), *grad_strides, rows, **constants, **LAUNCH,
    )  # fmt: skip
    _backward_long[(num_heads, min(LONG_PROGRAMS, 2 * len(tiles.key_tiles_A4)))](
        *parts, output, grad, lse, *grads, tiles.query_tiles_A4, tiles.key_tiles_A4, tiles.counts_3, *intervals,
        *strides, output.stride(0), grad.stride(0), *grad_strides, rows, **constants, **LAUNCH,
    )  # fmt: skip
