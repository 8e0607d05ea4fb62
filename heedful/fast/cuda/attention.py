"""Equation 1 on packed rows (§3.2.1) as autograd sees it.

The projections come in as they leave the matrix product, side by side in one tensor, and so do their gradients. How
they are computed is in `attention_tiles.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from heedful.fast.cuda.attention_tiles import Parts, run_backward, run_forward
from heedful.fast.cuda.tiles import Tiles

Widths: TypeAlias = Sequence[Sequence[int]]
"""For each projected tensor: how many columns its queries, keys or values take."""


def _parts(projected: Sequence[Tensor], widths: Widths) -> Parts:
    assert all(x_TE.stride(1) == 1 for x_TE in projected), "the numbers of a row lie side by side"
    return Parts(
        *(part for x_TE, columns in zip(projected, widths, strict=True) for part in x_TE.split(columns, dim=1))
    )


class _Attention(torch.autograd.Function):
    """Attention of all heads; the heads lie side by side within queries, keys, values and output."""

    @staticmethod
    def forward(ctx: Any, tiles: Tiles, num_heads: int, widths: Widths, *projected: Tensor) -> Tensor:
        output_TE, lse_HT = run_forward(_parts(projected, widths), tiles, num_heads)
        ctx.save_for_backward(output_TE, lse_HT, *projected)
        ctx.tiles, ctx.num_heads, ctx.widths = tiles, num_heads, widths
        return output_TE

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        output_TE, lse_HT, *projected = ctx.saved_tensors
        grads_of = [torch.empty(x_TE.shape, dtype=x_TE.dtype, device=x_TE.device) for x_TE in projected]
        parts, grad_parts = _parts(projected, ctx.widths), _parts(grads_of, ctx.widths)
        run_backward(grads[0].contiguous(), parts, output_TE, lse_HT, grad_parts, ctx.tiles, ctx.num_heads)
        return None, None, None, *grads_of


def _attention(tiles: Tiles, num_heads: int, widths: Widths, *projected: Tensor) -> Tensor:
    output_TE: Tensor = _Attention.apply(tiles, num_heads, widths, *projected)  # type: ignore[no-untyped-call]
    return output_TE


def tiled_self_attention(projected_TE: Tensor, tiles: Tiles, *, num_heads: int, d_k: int) -> Tensor:
    """Attention of all heads; queries, keys and values lie side by side, and so do the heads within each of them."""
    width = num_heads * d_k
    return _attention(tiles, num_heads, [[width, width, projected_TE.size(1) - 2 * width]], projected_TE)


def tiled_cross_attention(query_TE: Tensor, key_value_SE: Tensor, tiles: Tiles, *, num_heads: int) -> Tensor:
    """Attention of all heads; keys and values lie side by side, and so do the heads within each of them."""
    width = query_TE.size(1)
    return _attention(tiles, num_heads, [[width], [width, key_value_SE.size(1) - width]], query_TE, key_value_SE)
