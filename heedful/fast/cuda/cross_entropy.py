"""The projection of §3.4 and the label-smoothed loss of §5.4 in one, with their gradients.

A chunk of logits is one matrix product in the type of the hidden states. One kernel then reads each row, takes its
loss, and writes the gradient of that loss over the logits; two more products turn it into the gradients of the hidden
states and of the matrix, the latter summed in float32. So the logits are written twice and read three times, and never
held in float32. The gradients are made in the forward pass, for a loss gradient of 1, and scaled in the backward pass.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
import triton
import triton.language as tl
from torch import Tensor

from heedful.fast.cuda.sums import accumulator, wide

CHUNK_BYTES = 2**31  # of logits; base (25,000 rows of 37,000 words in bf16) is one chunk
BLOCK_COLUMNS = 8192
NUM_WARPS = 8

ComputeRows: TypeAlias = Callable[[slice, Tensor, bool], None]
"""Which rows, their logits, and whether their gradient is to take the logits' place."""

AddUp: TypeAlias = Callable[[], tuple[Tensor, ...]]
"""The sums of what a `ComputeRows` has written."""


@triton.jit
def exp(x):
    """e to the power of x."""
    LOG2E: tl.constexpr = 1.4426950408889634
    return tl.exp2(x * LOG2E)


@triton.jit
def log(x):
    """The natural logarithm."""
    LOG2E: tl.constexpr = 1.4426950408889634
    return tl.log2(x) / LOG2E


@triton.jit
def weigh(score, highest):
    """The highest score so far, what each of these weighs beside it, and by what the weights of earlier ones shrink."""
    higher = tl.maximum(highest, tl.max(score, axis=0))
    return higher, exp(score - higher), exp(highest - higher)


@triton.jit
def smoothed_loss(nll, lse, plain_sum, NUM_COLUMNS: tl.constexpr, SMOOTHING: tl.constexpr):
    """§5.4: the target has 1 − ε of the probability, and all words share ε."""
    return (1.0 - SMOOTHING) * nll + SMOOTHING * (lse - plain_sum / NUM_COLUMNS)


@triton.jit
def clear_row(row_ptr, NUM_COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of a row that has no target."""
    column = tl.arange(0, BLOCK)
    nothing = tl.zeros([BLOCK], dtype=row_ptr.dtype.element_ty)
    for begin in range(0, NUM_COLUMNS, BLOCK):
        tl.store(row_ptr + begin + column, nothing, mask=begin + column < NUM_COLUMNS)


@triton.jit
def _row_sums(
    row_ptr, NUM_COLUMNS: tl.constexpr, SMOOTHING: tl.constexpr, ACCUMULATE: tl.constexpr, BLOCK: tl.constexpr
):
    """The log-sum-exp of the scores of a row, and, where the loss is smoothed, their sum."""
    column = tl.arange(0, BLOCK)
    highest = tl.full([], float("-inf"), dtype=ACCUMULATE)
    total = tl.zeros([], dtype=ACCUMULATE)
    plain_sum = tl.zeros([], dtype=ACCUMULATE)
    for begin in range(0, NUM_COLUMNS, BLOCK):
        inside = begin + column < NUM_COLUMNS
        score = tl.load(row_ptr + begin + column, mask=inside, other=float("-inf")).to(ACCUMULATE)
        highest, weight, shrink = weigh(score, highest)
        total = total * shrink + tl.sum(weight, axis=0)
        if SMOOTHING > 0.0:
            plain_sum += tl.sum(tl.where(inside, score, 0.0), axis=0)
    return highest + log(total), plain_sum


@triton.jit
def _write_gradient(
    row_ptr, target, lse,
    NUM_COLUMNS: tl.constexpr, SMOOTHING: tl.constexpr, ACCUMULATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """p − smoothed target, over the scores of a row."""
    column = tl.arange(0, BLOCK)
    share = tl.full([], SMOOTHING, dtype=ACCUMULATE) / NUM_COLUMNS
    for begin in range(0, NUM_COLUMNS, BLOCK):
        inside = begin + column < NUM_COLUMNS
        score = tl.load(row_ptr + begin + column, mask=inside, other=0.0).to(ACCUMULATE)
        grad = exp(score - lse) - share
        grad = tl.where(begin + column == target, grad - (1.0 - SMOOTHING), grad)
        tl.store(row_ptr + begin + column, grad.to(row_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _loss_row(
    logits_ptr, target_ptr, smoothed_ptr, nll_ptr,
    NUM_COLUMNS: tl.constexpr, SMOOTHING: tl.constexpr, WITH_GRADIENT: tl.constexpr,
    ACCUMULATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The loss of one row of logits; their gradient takes their place."""
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * NUM_COLUMNS
    target = tl.load(target_ptr + row)
    if target < 0:
        tl.store(smoothed_ptr + row, 0.0)
        tl.store(nll_ptr + row, 0.0)
        if WITH_GRADIENT:
            clear_row(row_ptr, NUM_COLUMNS, BLOCK)
        return

    right = tl.load(row_ptr + target).to(ACCUMULATE)
    lse, plain_sum = _row_sums(row_ptr, NUM_COLUMNS, SMOOTHING, ACCUMULATE, BLOCK)
    tl.store(nll_ptr + row, lse - right)
    tl.store(smoothed_ptr + row, smoothed_loss(lse - right, lse, plain_sum, NUM_COLUMNS, SMOOTHING))
    if WITH_GRADIENT:
        _write_gradient(row_ptr, target, lse, NUM_COLUMNS, SMOOTHING, ACCUMULATE, BLOCK)


def product(a: Tensor, b: Tensor, sum_so_far: Tensor | None, dtype: torch.dtype) -> Tensor:
    """a b, added to what is there; kept in `dtype`, which may be wider than that of the factors."""
    if a.dtype == dtype:
        return a @ b if sum_so_far is None else sum_so_far.addmm_(a, b)
    if sum_so_far is None:
        return torch.mm(a, b, out_dtype=dtype)
    return torch.addmm(sum_so_far, a, b, out_dtype=dtype, out=sum_so_far)


class _ProjectedLoss(torch.autograd.Function):
    """What `projected_loss` computes; the gradients are made forward."""

    @staticmethod
    def forward(
        ctx: Any, hidden_TD: Tensor, weight_VD: Tensor, with_gradient: bool, loss_rows: ComputeRows, sums: AddUp
    ) -> tuple[Tensor, ...]:
        num_rows, narrow_VD = hidden_TD.size(0), weight_VD.to(hidden_TD.dtype)
        chunk_rows = max(1, CHUNK_BYTES // (weight_VD.size(0) * hidden_TD.element_size()))
        # Several chunks are summed in float32, also for a matrix of 16-bit numbers.
        sum_dtype = weight_VD.dtype if chunk_rows >= num_rows else wide(weight_VD.dtype)
        grad_hidden_TD, grad_weight_VD = hidden_TD.new_empty(hidden_TD.shape if with_gradient else (0,)), None
        for begin in range(0, num_rows, chunk_rows):
            rows = slice(begin, min(begin + chunk_rows, num_rows))
            logits_TV = hidden_TD[rows] @ narrow_VD.T
            loss_rows(rows, logits_TV, with_gradient)
            if with_gradient:
                torch.mm(logits_TV, narrow_VD, out=grad_hidden_TD[rows])
                grad_weight_VD = product(logits_TV.T, hidden_TD[rows], grad_weight_VD, sum_dtype)
        ctx.weight_dtype = weight_VD.dtype
        ctx.save_for_backward(grad_hidden_TD, grad_weight_VD)
        loss, *others = sums()
        ctx.mark_non_differentiable(*others)
        return loss, *others

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden_TD, grad_weight_VD = ctx.saved_tensors
        scaled_TD = (grad_hidden_TD * grads[0]).to(grad_hidden_TD.dtype)
        return scaled_TD, (grad_weight_VD * grads[0]).to(ctx.weight_dtype), None, None, None


def projected_loss(hidden_TD: Tensor, weight_VD: Tensor, loss_rows: ComputeRows, sums: AddUp) -> tuple[Tensor, ...]:
    """Sums over rows of what `loss_rows` makes of their logits, chunk by chunk.

    If there will be a backward pass, it leaves the loss's gradient in the place of the logits. `sums` adds up what it
    has written; the first sum is the one with the gradient.
    """
    with_gradient = torch.is_grad_enabled() and (hidden_TD.requires_grad or weight_VD.requires_grad)
    found: tuple[Tensor, ...] = _ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        hidden_TD, weight_VD, with_gradient, loss_rows, sums
    )
    return found


def projected_cross_entropy(
    hidden_TD: Tensor, weight_VD: Tensor, target_T: Tensor, *, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """The sums over all rows with a target (≥ 0) of the smoothed loss and of the true negative log-likelihood.

    The second is for the record; no gradient flows through it.
    """
    num_columns = weight_VD.size(0)
    smoothed_T = hidden_TD.new_empty(hidden_TD.size(0), dtype=wide(hidden_TD.dtype))
    nll_T = torch.empty_like(smoothed_T)

    def loss_rows(rows: slice, logits_TV: Tensor, with_gradient: bool) -> None:
        _loss_row[(logits_TV.size(0),)](
            logits_TV, target_T[rows], smoothed_T[rows], nll_T[rows],
            NUM_COLUMNS=num_columns, SMOOTHING=label_smoothing, WITH_GRADIENT=with_gradient,
            ACCUMULATE=accumulator(hidden_TD.dtype),
            BLOCK=min(BLOCK_COLUMNS, triton.next_power_of_2(num_columns)), num_warps=NUM_WARPS,
        )  # fmt: skip

    smoothed, nll = projected_loss(hidden_TD, weight_VD, loss_rows, lambda: (smoothed_T.sum(), nll_T.sum()))
    return smoothed, nll
