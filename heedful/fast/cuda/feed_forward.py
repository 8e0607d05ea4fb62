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


@torch.library.custom_op("heedful::feed_forward", mutates_args=())
def _feed_forward(x_TD: Tensor, W_1_FD: Tensor, b_1_F: Tensor, W_2_DF: Tensor, b_2_D: Tensor) -> tuple[Tensor, Tensor]:
    hidden_TF = torch._addmm_activation(b_1_F, x_TD, W_1_FD.T)  # the activation is ReLU unless told
    return torch.addmm(b_2_D, hidden_TF, W_2_DF.T), hidden_TF


@torch.library.custom_op("heedful::feed_forward_backward", mutates_args=())
def _feed_forward_backward(
    grad_TD: Tensor, x_TD: Tensor, hidden_TF: Tensor, W_1_FD: Tensor, W_2_DF: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    grad_TD = grad_TD.contiguous()
    grad_hidden_TF, grad_b_1_F = _through_relu(grad_TD, W_2_DF.contiguous(), hidden_TF)
    return (
        grad_hidden_TF @ W_1_FD,
        grad_hidden_TF.T @ x_TD,
        grad_b_1_F,
        grad_TD.T @ hidden_TF,
        column_sums(grad_TD),
    )


@_feed_forward.register_fake
def _(x_TD: Tensor, W_1_FD: Tensor, b_1_F: Tensor, W_2_DF: Tensor, b_2_D: Tensor) -> tuple[Tensor, Tensor]:
    return x_TD.new_empty(x_TD.size(0), W_2_DF.size(0)), x_TD.new_empty(x_TD.size(0), W_1_FD.size(0))


@_feed_forward_backward.register_fake
def _(
    grad_TD: Tensor, x_TD: Tensor, hidden_TF: Tensor, W_1_FD: Tensor, W_2_DF: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        x_TD.new_empty(x_TD.shape),
        W_1_FD.new_empty(W_1_FD.shape),
        x_TD.new_empty(W_1_FD.size(0), dtype=wide(x_TD.dtype)),
        W_2_DF.new_empty(W_2_DF.shape),
        x_TD.new_empty(W_2_DF.size(0), dtype=wide(x_TD.dtype)),
    )


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)  # zeros for the hidden layer would be the widest tensor of the model
    x_TD, W_1_FD, b_1_F, W_2_DF, _ = inputs
    ctx.bias_dtype = b_1_F.dtype
    ctx.save_for_backward(x_TD, output[1], W_1_FD, W_2_DF)


def _grad(ctx: Any, grad_TD: Tensor, _: Tensor) -> tuple[Tensor, ...]:
    grad_x_TD, grad_W_1, grad_b_1, grad_W_2, grad_b_2 = _feed_forward_backward(grad_TD, *ctx.saved_tensors)
    return grad_x_TD, grad_W_1, grad_b_1.to(ctx.bias_dtype), grad_W_2, grad_b_2.to(ctx.bias_dtype)


_feed_forward.register_autograd(_grad, setup_context=_keep)


def feed_forward(x_TD: Tensor, W_1_FD: Tensor, b_1_F: Tensor, W_2_DF: Tensor, b_2_D: Tensor) -> Tensor:
    """Equation 2 in the type of x; the matrices are those of `nn.Linear`, output × input."""
    weights = (weight.to(x_TD.dtype) for weight in (W_1_FD, b_1_F, W_2_DF, b_2_D))
    output_TD: Tensor = _feed_forward(x_TD, *weights)[0]
    return output_TD
