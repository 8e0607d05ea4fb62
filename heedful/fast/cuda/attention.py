"""Equation 1 on packed rows (§3.2.1) as operators of PyTorch: what autograd and the compiler see of its kernels.

The projections come in as they leave the matrix product, side by side in one tensor, and so do their gradients. How
they are computed is in `attention_tiles.py`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from heedful.fast.cuda.attention_tiles import Parts, Tables, run_backward, run_forward
from heedful.fast.cuda.sums import wide
from heedful.fast.cuda.tiles import Tiles


def _split(projected_TE: Tensor, widths: list[int]) -> tuple[Tensor, ...]:
    assert projected_TE.stride(1) == 1, "the numbers of a row lie side by side"
    parts: tuple[Tensor, ...] = projected_TE.split(widths, dim=1)
    return parts


def _self_parts(projected_TE: Tensor, num_heads: int, d_k: int) -> Parts:
    width = num_heads * d_k
    return Parts(*_split(projected_TE, [width, width, projected_TE.size(1) - 2 * width]))


def _cross_parts(query_TE: Tensor, key_value_SE: Tensor) -> Parts:
    width = query_TE.size(1)
    key, value = _split(key_value_SE, [width, key_value_SE.size(1) - width])
    return Parts(query_TE, key, value)


@torch.library.custom_op("heedful::self_attention", mutates_args=())
def _self_attention(
    projected_TE: Tensor,
    query_tiles_A4: Tensor,
    key_tiles_A4: Tensor,
    counts_3: Tensor,
    first_key_T: Tensor,
    end_key_T: Tensor,
    num_heads: int,
    d_k: int,
) -> tuple[Tensor, Tensor]:
    tables = Tables(query_tiles_A4, key_tiles_A4, counts_3, first_key_T, end_key_T)
    return run_forward(_self_parts(projected_TE, num_heads, d_k), tables, num_heads)


@torch.library.custom_op("heedful::self_attention_backward", mutates_args=())
def _self_attention_backward(
    grad_TE: Tensor,
    projected_TE: Tensor,
    output_TE: Tensor,
    lse_HT: Tensor,
    query_tiles_A4: Tensor,
    key_tiles_A4: Tensor,
    counts_3: Tensor,
    first_key_T: Tensor,
    end_key_T: Tensor,
    num_heads: int,
    d_k: int,
) -> Tensor:
    tables = Tables(query_tiles_A4, key_tiles_A4, counts_3, first_key_T, end_key_T)
    grad_projected_TE = torch.empty(projected_TE.shape, dtype=projected_TE.dtype, device=projected_TE.device)
    parts, grads = _self_parts(projected_TE, num_heads, d_k), _self_parts(grad_projected_TE, num_heads, d_k)
    run_backward(grad_TE.contiguous(), parts, output_TE, lse_HT, grads, tables, num_heads)
    return grad_projected_TE


@torch.library.custom_op("heedful::cross_attention", mutates_args=())
def _cross_attention(
    query_TE: Tensor,
    key_value_SE: Tensor,
    query_tiles_A4: Tensor,
    key_tiles_A4: Tensor,
    counts_3: Tensor,
    first_key_T: Tensor,
    end_key_T: Tensor,
    num_heads: int,
) -> tuple[Tensor, Tensor]:
    tables = Tables(query_tiles_A4, key_tiles_A4, counts_3, first_key_T, end_key_T)
    return run_forward(_cross_parts(query_TE, key_value_SE), tables, num_heads)


@torch.library.custom_op("heedful::cross_attention_backward", mutates_args=())
def _cross_attention_backward(
    grad_TE: Tensor,
    query_TE: Tensor,
    key_value_SE: Tensor,
    output_TE: Tensor,
    lse_HT: Tensor,
    query_tiles_A4: Tensor,
    key_tiles_A4: Tensor,
    counts_3: Tensor,
    first_key_T: Tensor,
    end_key_T: Tensor,
    num_heads: int,
) -> tuple[Tensor, Tensor]:
    tables = Tables(query_tiles_A4, key_tiles_A4, counts_3, first_key_T, end_key_T)
    grad_query_TE = torch.empty(query_TE.shape, dtype=query_TE.dtype, device=query_TE.device)
    grad_key_value_SE = torch.empty(key_value_SE.shape, dtype=query_TE.dtype, device=query_TE.device)
    parts, grads = _cross_parts(query_TE, key_value_SE), _cross_parts(grad_query_TE, grad_key_value_SE)
    run_backward(grad_TE.contiguous(), parts, output_TE, lse_HT, grads, tables, num_heads)
    return grad_query_TE, grad_key_value_SE


@_self_attention.register_fake
def _(projected_TE: Tensor, *tables_and_heads: Any) -> tuple[Tensor, Tensor]:
    num_heads, d_k = tables_and_heads[-2:]
    rows, width = projected_TE.shape
    return _fake_forward(projected_TE, rows, width - 2 * num_heads * d_k, num_heads)


@_cross_attention.register_fake
def _(query_TE: Tensor, key_value_SE: Tensor, *tables_and_heads: Any) -> tuple[Tensor, Tensor]:
    rows, width = query_TE.shape
    return _fake_forward(query_TE, rows, key_value_SE.size(1) - width, tables_and_heads[-1])


def _fake_forward(like: Tensor, rows: int, width: int, num_heads: int) -> tuple[Tensor, Tensor]:
    return like.new_empty(rows, width), like.new_empty(num_heads, rows, dtype=wide(like.dtype))


@_self_attention_backward.register_fake
def _(grad_TE: Tensor, projected_TE: Tensor, *rest: Any) -> Tensor:
    return projected_TE.new_empty(projected_TE.shape)


@_cross_attention_backward.register_fake
def _(grad_TE: Tensor, query_TE: Tensor, key_value_SE: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return query_TE.new_empty(query_TE.shape), query_TE.new_empty(key_value_SE.shape)


def _keep_for_self(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)  # nobody asks for a gradient through the denominators
    projected_TE, *tables, ctx.num_heads, ctx.d_k = inputs
    ctx.save_for_backward(projected_TE, *output, *tables)


def _grad_of_self(ctx: Any, grad_TE: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    grad_projected_TE = _self_attention_backward(grad_TE, *ctx.saved_tensors, ctx.num_heads, ctx.d_k)
    return grad_projected_TE, None, None, None, None, None, None, None


def _keep_for_cross(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)  # nobody asks for a gradient through the denominators
    query_TE, key_value_SE, *tables, ctx.num_heads = inputs
    ctx.save_for_backward(query_TE, key_value_SE, *output, *tables)


def _grad_of_cross(ctx: Any, grad_TE: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    grads = _cross_attention_backward(grad_TE, *ctx.saved_tensors, ctx.num_heads)
    return *grads, None, None, None, None, None, None


_self_attention.register_autograd(_grad_of_self, setup_context=_keep_for_self)
_cross_attention.register_autograd(_grad_of_cross, setup_context=_keep_for_cross)


def _tables(tiles: Tiles) -> Tables:
    return Tables(tiles.query_tiles_A4, tiles.key_tiles_A4, tiles.counts_3, tiles.first_key_T, tiles.end_key_T)


def tiled_self_attention(projected_TE: Tensor, tiles: Tiles, *, num_heads: int, d_k: int) -> Tensor:
    """Attention of all heads; queries, keys and values lie side by side, and so do the heads within each of them."""
    output_TE: Tensor = _self_attention(projected_TE, *_tables(tiles), num_heads, d_k)[0]
    return output_TE


def tiled_cross_attention(query_TE: Tensor, key_value_SE: Tensor, tiles: Tiles, *, num_heads: int) -> Tensor:
    """Attention of all heads; keys and values lie side by side, and so do the heads within each of them."""
    output_TE: Tensor = _cross_attention(query_TE, key_value_SE, *_tables(tiles), num_heads)[0]
    return output_TE
