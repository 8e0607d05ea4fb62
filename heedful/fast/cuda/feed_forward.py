"""Equation 2, FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, with the ReLU inside the matrix products.

Forward, the library's product adds the bias and takes the maximum before it writes. Backward, a kernel multiplies with
W_2, passes on only what the ReLU let through, and sums the columns for the gradient of b_1, before it writes. So the
widest tensor of the model is never read just to be changed.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from heedful.fast.cuda.sums import accumulator, column_sums, sum_rows, wide

BLOCKS = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 8}
LAUNCH = {"num_warps": 4, "num_stages": 3}


@triton.jit
def _product_through_relu(
    grad_ptr, weight_ptr, hidden_ptr, output_ptr, partial_ptr, num_rows, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
    ACCUMULATE: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """A block of dY W where hidden > 0, zero elsewhere; and the sums of its columns."""
    # Neighbouring programs share rows of dY and columns of W, so that they find them in the cache.
    blocks_m, blocks_n = tl.cdiv(num_rows, BLOCK_M), tl.cdiv(WIDTH, BLOCK_N)
    group = tl.program_id(0) // (GROUP * blocks_n)
    group_size = tl.minimum(blocks_m - group * GROUP, GROUP)
    block_m = group * GROUP + (tl.program_id(0) % (GROUP * blocks_n)) % group_size
    block_n = (tl.program_id(0) % (GROUP * blocks_n)) // group_size

    row, column = block_m * BLOCK_M + tl.arange(0, BLOCK_M), block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inside_row, inside_column = (row < num_rows)[:, None], (column < WIDTH)[None, :]
    depth = tl.arange(0, BLOCK_K)
    total = tl.zeros([BLOCK_M, BLOCK_N], dtype=ACCUMULATE)
    for begin in range(0, DEPTH, BLOCK_K):
        k = begin + depth
        a_inside, b_inside = inside_row, inside_column
        if DEPTH % BLOCK_K != 0:
            a_inside, b_inside = a_inside & (k < DEPTH)[None, :], b_inside & (k < DEPTH)[:, None]
        a = tl.load(grad_ptr + row.to(tl.int64)[:, None] * DEPTH + k[None, :], mask=a_inside, other=0.0)
        b = tl.load(weight_ptr + k[:, None] * WIDTH + column[None, :], mask=b_inside, other=0.0)
        total += tl.dot(a, b, input_precision=PRECISION)

    address = row.to(tl.int64)[:, None] * WIDTH + column[None, :]
    inside = inside_row & inside_column
    hidden = tl.load(hidden_ptr + address, mask=inside, other=0.0)
    total = tl.where(hidden > 0.0, total, 0.0)
    tl.store(output_ptr + address, total.to(output_ptr.dtype.element_ty), mask=inside)
    tl.store(partial_ptr + block_m * WIDTH + column, tl.sum(total, axis=0), mask=column < WIDTH)


def _through_relu(grad_TD: Tensor, weight_DF: Tensor, hidden_TF: Tensor) -> tuple[Tensor, Tensor]:
    """dY W_2 behind the ReLU, and its column sums."""
    (rows, depth), width = grad_TD.shape, weight_DF.size(1)
    output_TF = torch.empty_like(hidden_TF)
    exact = grad_TD.dtype in (torch.float32, torch.float64)
    blocks_m = triton.cdiv(rows, BLOCKS["BLOCK_M"])
    partial_PF = grad_TD.new_empty(blocks_m, width, dtype=wide(grad_TD.dtype))
    _product_through_relu[(blocks_m * triton.cdiv(width, BLOCKS["BLOCK_N"]),)](
        grad_TD, weight_DF, hidden_TF, output_TF, partial_PF, rows, WIDTH=width, DEPTH=depth,
        ACCUMULATE=accumulator(grad_TD.dtype), PRECISION="ieee" if exact else "tf32",
        **BLOCKS, **LAUNCH,
    )  # fmt: skip
    return output_TF, sum_rows(partial_PF)


class _FeedForward(torch.autograd.Function):
    """Equation 2; its hidden layer is kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x_TD: Tensor, W_1_FD: Tensor, b_1_F: Tensor, W_2_DF: Tensor, b_2_D: Tensor) -> Tensor:
        hidden_TF = torch._addmm_activation(b_1_F, x_TD, W_1_FD.T)  # the activation is ReLU unless told
        ctx.save_for_backward(x_TD, hidden_TF, W_1_FD, W_2_DF)
        return torch.addmm(b_2_D, hidden_TF, W_2_DF.T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        x_TD, hidden_TF, W_1_FD, W_2_DF = ctx.saved_tensors
        grad_TD = grads[0].contiguous()
        grad_hidden_TF, grad_b_1_F = _through_relu(grad_TD, W_2_DF.contiguous(), hidden_TF)
        return (
            grad_hidden_TF @ W_1_FD,
            grad_hidden_TF.T @ x_TD,
            grad_b_1_F.to(W_1_FD.dtype),
            grad_TD.T @ hidden_TF,
            column_sums(grad_TD).to(W_2_DF.dtype),
        )


def feed_forward(x_TD: Tensor, W_1_FD: Tensor, b_1_F: Tensor, W_2_DF: Tensor, b_2_D: Tensor) -> Tensor:
    """Equation 2 in the type of x; the matrices are those of `nn.Linear`, output × input."""
    weights = (weight.to(x_TD.dtype) for weight in (W_1_FD, b_1_F, W_2_DF, b_2_D))
    output_TD: Tensor = _FeedForward.apply(x_TD, *weights)  # type: ignore[no-untyped-call]
    return output_TD
