"""LayerNorm(x + Dropout(y)) in one kernel (§3.1, §5.4), its gradient in another, and dropout alone.

A row is read once and written once. What dropout keeps is not stored: 16 random bits for each number follow from a
seed on the device, the row and the column, by the Philox generator, in the forward pass and again in the backward pass.
So a captured CUDA graph draws new masks when the seed changes.

In figure 1 the output of every norm is used twice: by the next sub-layer, and by the residual connection around it. So
it leaves here as two tensors that share their memory, and the backward kernel adds the gradients of both uses as it
reads them; autograd would add them in a pass of its own.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from heedful.fast.cuda.sums import accumulator, sum_rows, wide
from heedful.model.layers import LAYER_NORM_EPS

# Programs of the backward pass; each sums the gradients of scale and shift over its rows, and then the sums are summed.
BACKWARD_PROGRAMS = 1056
BLOCK_NUMBERS = 1024  # numbers of x that a program holds at once
NUMBERS_A_WARP = 512
RESIDUAL = "residual_TD"  # under this name an output carries itself as the next residual connection uses it


@triton.jit
def _keep_mask(seed_ptr, row, THRESHOLD: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """True for the numbers that dropout keeps: those whose 16 bits are at least the threshold."""
    group = tl.arange(0, BLOCK // 8)[None, :] + tl.zeros([ROWS, BLOCK // 8], dtype=tl.int32)
    rows = row.to(tl.int32)[:, None] + tl.zeros([ROWS, BLOCK // 8], dtype=tl.int32)
    zeros = tl.zeros([ROWS, BLOCK // 8], dtype=tl.int32)
    a, b, c, d = tl.philox(tl.load(seed_ptr), group, rows, zeros, zeros, n_rounds=7)
    words = tl.join(tl.join(a, b), tl.join(c, d))
    halves = tl.join(words & 0xFFFF, words >> 16)
    return tl.reshape(halves, [ROWS, BLOCK]) >= THRESHOLD


@triton.jit(do_not_specialize=["seed_ptr"])
def _dropout(
    x_ptr, output_ptr, seed_ptr, num_rows, WIDTH: tl.constexpr,
    THRESHOLD: tl.constexpr, KEPT_SCALE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside = (row < num_rows)[:, None] & (column < WIDTH)[None, :]
    address = row.to(tl.int64)[:, None] * WIDTH + column[None, :]
    x = tl.load(x_ptr + address, mask=inside, other=0.0)
    keep = _keep_mask(seed_ptr, row, THRESHOLD, ROWS, BLOCK)
    tl.store(output_ptr + address, tl.where(keep, x * KEPT_SCALE, 0.0).to(x.dtype), mask=inside)


@triton.jit(do_not_specialize=["seed_ptr"])
def _forward(
    x_ptr, y_ptr, scale_ptr, shift_ptr, output_ptr, mean_ptr, rstd_ptr, seed_ptr, num_rows, WIDTH: tl.constexpr,
    EPS: tl.constexpr, THRESHOLD: tl.constexpr, KEPT_SCALE: tl.constexpr, ACCUMULATE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """LayerNorm(x + Dropout(y)) of a few rows; their means and inverse deviations are kept."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside = (row < num_rows)[:, None] & (column < WIDTH)[None, :]
    address = row.to(tl.int64)[:, None] * WIDTH + column[None, :]
    total = tl.load(x_ptr + address, mask=inside, other=0.0).to(ACCUMULATE)
    y = tl.load(y_ptr + address, mask=inside, other=0.0).to(ACCUMULATE)
    if THRESHOLD > 0:
        y = tl.where(_keep_mask(seed_ptr, row, THRESHOLD, ROWS, BLOCK), y * KEPT_SCALE, 0.0)
    total += y
    mean = tl.sum(total, axis=1) / WIDTH
    centred = total - mean[:, None]
    if WIDTH != BLOCK:
        centred = tl.where((column < WIDTH)[None, :], centred, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / WIDTH + EPS)
    scale = tl.load(scale_ptr + column, mask=column < WIDTH, other=0.0).to(ACCUMULATE)
    shift = tl.load(shift_ptr + column, mask=column < WIDTH, other=0.0).to(ACCUMULATE)
    output = centred * rstd[:, None] * scale[None, :] + shift[None, :]
    tl.store(output_ptr + address, output.to(output_ptr.dtype.element_ty), mask=inside)
    tl.store(mean_ptr + row, mean, mask=row < num_rows)
    tl.store(rstd_ptr + row, rstd, mask=row < num_rows)


@triton.jit(do_not_specialize=["seed_ptr"])
def _backward(
    grad_ptr, other_grad_ptr, x_ptr, y_ptr, scale_ptr, mean_ptr, rstd_ptr, seed_ptr,
    grad_x_ptr, grad_y_ptr, partial_ptr, num_rows, WIDTH: tl.constexpr, TWO_USES: tl.constexpr,
    THRESHOLD: tl.constexpr, KEPT_SCALE: tl.constexpr, ACCUMULATE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx and dy of every P-th block of rows, and the sums over these rows for the gradients of scale and shift."""
    column = tl.arange(0, BLOCK)
    scale = tl.load(scale_ptr + column, mask=column < WIDTH, other=0.0).to(ACCUMULATE)
    grad_scale = tl.zeros([ROWS, BLOCK], dtype=ACCUMULATE)
    grad_shift = tl.zeros([ROWS, BLOCK], dtype=ACCUMULATE)
    for begin in range(tl.program_id(0) * ROWS, num_rows, tl.num_programs(0) * ROWS):
        row = begin + tl.arange(0, ROWS)
        inside = (row < num_rows)[:, None] & (column < WIDTH)[None, :]
        address = row.to(tl.int64)[:, None] * WIDTH + column[None, :]
        grad = tl.load(grad_ptr + address, mask=inside, other=0.0).to(ACCUMULATE)
        if TWO_USES:
            grad += tl.load(other_grad_ptr + address, mask=inside, other=0.0).to(ACCUMULATE)
        total = tl.load(x_ptr + address, mask=inside, other=0.0).to(ACCUMULATE)
        y = tl.load(y_ptr + address, mask=inside, other=0.0).to(ACCUMULATE)
        mean = tl.load(mean_ptr + row, mask=row < num_rows, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < num_rows, other=0.0)
        if THRESHOLD > 0:
            keep = _keep_mask(seed_ptr, row, THRESHOLD, ROWS, BLOCK)
            y = tl.where(keep, y * KEPT_SCALE, 0.0)
        normed = tl.where(inside, (total + y - mean[:, None]) * rstd[:, None], 0.0)
        grad_scale += grad * normed
        grad_shift += grad
        grad = grad * scale[None, :]
        mean_grad = tl.sum(grad, axis=1) / WIDTH
        along = tl.sum(grad * normed, axis=1) / WIDTH
        grad_sum = (grad - mean_grad[:, None] - normed * along[:, None]) * rstd[:, None]
        tl.store(grad_x_ptr + address, grad_sum.to(grad_x_ptr.dtype.element_ty), mask=inside)
        if THRESHOLD > 0:
            grad_sum = tl.where(keep, grad_sum * KEPT_SCALE, 0.0)
        tl.store(grad_y_ptr + address, grad_sum.to(grad_y_ptr.dtype.element_ty), mask=inside)
    partial = partial_ptr + tl.program_id(0) * 2 * WIDTH + column
    tl.store(partial, tl.sum(grad_scale, axis=0), mask=column < WIDTH)
    tl.store(partial + WIDTH, tl.sum(grad_shift, axis=0), mask=column < WIDTH)


def _block(width: int) -> dict[str, Any]:
    block = max(16, triton.next_power_of_2(width))
    rows = max(1, BLOCK_NUMBERS // block)
    return {"WIDTH": width, "BLOCK": block, "ROWS": rows, "num_warps": max(1, min(16, block * rows // NUMBERS_A_WARP))}


def _chances(dropout: float) -> dict[str, Any]:
    """Dropout in steps of 2⁻¹⁶; what is kept is scaled by the inverse of the chance that it is."""
    threshold = round(dropout * 2**16)
    return {"THRESHOLD": threshold, "KEPT_SCALE": 2**16 / (2**16 - threshold)}


def norm_forward(
    x_TD: Tensor, y_TD: Tensor, scale_D: Tensor, shift_D: Tensor, seed_1: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The output, and of each row the mean and the inverse deviation."""
    num_rows, width = y_TD.shape
    output_TD = torch.empty_like(y_TD)
    mean_T = y_TD.new_empty(num_rows, dtype=wide(y_TD.dtype))
    rstd_T = torch.empty_like(mean_T)
    block = _block(width)
    _forward[(triton.cdiv(num_rows, block["ROWS"]),)](
        x_TD, y_TD, scale_D, shift_D, output_TD, mean_T, rstd_T, seed_1, num_rows,
        EPS=LAYER_NORM_EPS, ACCUMULATE=accumulator(y_TD.dtype), **_chances(dropout), **block,
    )  # fmt: skip
    return output_TD, mean_T, rstd_T


def norm_backward(
    grad_TD: Tensor,
    other_grad_TD: Tensor | None,
    x_TD: Tensor,
    y_TD: Tensor,
    scale_D: Tensor,
    mean_T: Tensor,
    rstd_T: Tensor,
    seed_1: Tensor | None,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x and y, and of scale and shift as two rows."""
    num_rows, width = y_TD.shape
    grad_x_TD, grad_y_TD = torch.empty_like(x_TD), torch.empty_like(y_TD)
    block = _block(width)
    programs = min(BACKWARD_PROGRAMS, triton.cdiv(num_rows, block["ROWS"]))
    partial_P2D = mean_T.new_empty(programs, 2, width)
    other_grad_TD = None if other_grad_TD is None else other_grad_TD.contiguous()
    _backward[(programs,)](
        grad_TD.contiguous(), other_grad_TD, x_TD, y_TD, scale_D, mean_T, rstd_T, seed_1,
        grad_x_TD, grad_y_TD, partial_P2D, num_rows, TWO_USES=other_grad_TD is not None,
        ACCUMULATE=accumulator(y_TD.dtype), **_chances(dropout), **block,
    )  # fmt: skip
    return grad_x_TD, grad_y_TD, sum_rows(partial_P2D.flatten(1)).view(2, width)


class _AddNorm(torch.autograd.Function):
    """LayerNorm(x + Dropout(y)), given twice; backward, the gradients of both uses."""

    @staticmethod
    def forward(
        ctx: Any, x_TD: Tensor, y_TD: Tensor, scale_D: Tensor, shift_D: Tensor, seed_1: Tensor | None, dropout: float
    ) -> tuple[Tensor, Tensor]:
        x_TD, y_TD = x_TD.contiguous(), y_TD.contiguous()
        output_TD, *of_rows = norm_forward(x_TD, y_TD, scale_D, shift_D, seed_1, dropout)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x_TD, y_TD, scale_D, *of_rows, seed_1)
        ctx.dropout = dropout
        # The second carries the first, and a view its base: the other way round they would keep each other alive.
        return output_TD, output_TD.view_as(output_TD)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x_TD, y_TD, scale_D, mean_T, rstd_T, seed_1 = ctx.saved_tensors
        used = [grad_TD for grad_TD in grads if grad_TD is not None]
        other_grad_TD = used[1] if len(used) > 1 else None
        grad_x_TD, grad_y_TD, sums_2D = norm_backward(
            used[0], other_grad_TD, x_TD, y_TD, scale_D, mean_T, rstd_T, seed_1, ctx.dropout
        )
        return grad_x_TD, grad_y_TD, *sums_2D.to(scale_D.dtype).unbind(), None, None


class _SeededDropout(torch.autograd.Function):
    """Dropout, and of its gradient the same places."""

    @staticmethod
    def forward(ctx: Any, x_TD: Tensor, seed_1: Tensor, dropout: float) -> Tensor:
        ctx.save_for_backward(seed_1)
        ctx.dropout = dropout
        return _dropped(x_TD, seed_1, dropout)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (seed_1,) = ctx.saved_tensors
        return _dropped(grads[0], seed_1, ctx.dropout), None, None


def _dropped(x_TD: Tensor, seed_1: Tensor, dropout: float) -> Tensor:
    x_TD, block = x_TD.contiguous(), _block(x_TD.size(1))
    output_TD = torch.empty_like(x_TD)
    _dropout[(triton.cdiv(x_TD.size(0), block["ROWS"]),)](
        x_TD, output_TD, seed_1, x_TD.size(0), **_chances(dropout), **block
    )
    return output_TD


def add_norm(
    x_TD: Tensor, y_TD: Tensor, scale_D: Tensor, shift_D: Tensor, *, seed_1: Tensor | None, dropout: float
) -> Tensor:
    """LayerNorm(x + Dropout(y)), in the type of y. Without dropout no seed is needed."""
    x_TD = getattr(x_TD, RESIDUAL, x_TD)
    output_TD: Tensor
    residual_TD, output_TD = _AddNorm.apply(  # type: ignore[no-untyped-call]
        x_TD, y_TD, scale_D, shift_D, seed_1, dropout
    )
    setattr(output_TD, RESIDUAL, residual_TD)
    return output_TD


def seeded_dropout(x_TD: Tensor, *, seed_1: Tensor, dropout: float) -> Tensor:
    """Dropout whose mask follows from the seed."""
    output_TD: Tensor = _SeededDropout.apply(x_TD, seed_1, dropout)  # type: ignore[no-untyped-call]
    return output_TD
