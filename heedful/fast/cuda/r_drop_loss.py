"""Projection, label-smoothed loss (§5.4) and R-Drop's divergence between twin rows in one, with their gradients.

As in `cross_entropy.py`, and for a chunk of rows also the logits of their twins. With z and p of a row, z′ and p′ of
its twin, and k = KL(p ‖ p′), the gradient of the row's logits is

    p − smoothed target + α/2 · (p (log p − log p′ − k) + p − p′)

so that each row needs nothing but itself and its twin. It knows no batches: who is whose twin is given.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from heedful.fast.cuda.cross_entropy import NUM_WARPS, clear_row, exp, log, projected_loss, smoothed_loss, weigh
from heedful.fast.cuda.sums import accumulator, wide

BLOCK_COLUMNS = 4096  # of two rows


@triton.jit
def _twin_sums(row_ptr, twin_ptr, NUM_COLUMNS: tl.constexpr, ACCUMULATE: tl.constexpr, BLOCK: tl.constexpr):
    """The log-sum-exp of the scores of a row and of its twin's, the mean by p of z − z′, and the sum of z."""
    column = tl.arange(0, BLOCK)
    highest = tl.full([], float("-inf"), dtype=ACCUMULATE)
    twin_highest = tl.full([], float("-inf"), dtype=ACCUMULATE)
    total = tl.zeros([], dtype=ACCUMULATE)
    twin_total = tl.zeros([], dtype=ACCUMULATE)
    gap_total = tl.zeros([], dtype=ACCUMULATE)  # of z − z′, weighted as in `total`
    plain_sum = tl.zeros([], dtype=ACCUMULATE)
    for begin in range(0, NUM_COLUMNS, BLOCK):
        inside = begin + column < NUM_COLUMNS
        score = tl.load(row_ptr + begin + column, mask=inside, other=float("-inf")).to(ACCUMULATE)
        twin_score = tl.load(twin_ptr + begin + column, mask=inside, other=float("-inf")).to(ACCUMULATE)
        highest, weight, shrink = weigh(score, highest)
        twin_highest, twin_weight, twin_shrink = weigh(twin_score, twin_highest)
        gap = tl.where(inside, score, 0.0) - tl.where(inside, twin_score, 0.0)
        total = total * shrink + tl.sum(weight, axis=0)
        gap_total = gap_total * shrink + tl.sum(weight * gap, axis=0)
        twin_total = twin_total * twin_shrink + tl.sum(twin_weight, axis=0)
        plain_sum += tl.sum(tl.where(inside, score, 0.0), axis=0)
    return highest + log(total), twin_highest + log(twin_total), gap_total / total, plain_sum


@triton.jit
def _write_gradient(
    row_ptr, twin_ptr, target, lse, twin_lse, divergence,
    NUM_COLUMNS: tl.constexpr, SMOOTHING: tl.constexpr, R_DROP: tl.constexpr,
    ACCUMULATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of the trained loss (see above), over the scores of a row."""
    column = tl.arange(0, BLOCK)
    share = tl.full([], SMOOTHING, dtype=ACCUMULATE) / NUM_COLUMNS
    half = tl.full([], 0.5 * R_DROP, dtype=ACCUMULATE)
    for begin in range(0, NUM_COLUMNS, BLOCK):
        inside = begin + column < NUM_COLUMNS
        log_prob = tl.load(row_ptr + begin + column, mask=inside, other=0.0).to(ACCUMULATE) - lse
        twin_log_prob = tl.load(twin_ptr + begin + column, mask=inside, other=0.0).to(ACCUMULATE) - twin_lse
        prob, twin_prob = exp(log_prob), exp(twin_log_prob)
        grad = prob - share + half * (prob * (log_prob - twin_log_prob - divergence) + prob - twin_prob)
        grad = tl.where(begin + column == target, grad - (1.0 - SMOOTHING), grad)
        tl.store(row_ptr + begin + column, grad.to(row_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _twin_loss_row(
    logits_ptr, twins_ptr, target_ptr, smoothed_ptr, nll_ptr, divergence_ptr,
    NUM_COLUMNS: tl.constexpr, SMOOTHING: tl.constexpr, R_DROP: tl.constexpr, WITH_GRADIENT: tl.constexpr,
    ACCUMULATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The losses of one row of logits, given its twin's; the gradient of the trained one takes the row's place."""
    row = tl.program_id(0).to(tl.int64)
    row_ptr, twin_ptr = logits_ptr + row * NUM_COLUMNS, twins_ptr + row * NUM_COLUMNS
    target = tl.load(target_ptr + row)
    if target < 0:
        tl.store(smoothed_ptr + row, 0.0)
        tl.store(nll_ptr + row, 0.0)
        tl.store(divergence_ptr + row, 0.0)
        if WITH_GRADIENT:
            clear_row(row_ptr, NUM_COLUMNS, BLOCK)
        return

    right = tl.load(row_ptr + target).to(ACCUMULATE)
    lse, twin_lse, mean_gap, plain_sum = _twin_sums(row_ptr, twin_ptr, NUM_COLUMNS, ACCUMULATE, BLOCK)
    divergence = mean_gap - lse + twin_lse
    tl.store(nll_ptr + row, lse - right)
    tl.store(smoothed_ptr + row, smoothed_loss(lse - right, lse, plain_sum, NUM_COLUMNS, SMOOTHING))
    tl.store(divergence_ptr + row, divergence)
    if WITH_GRADIENT:
        _write_gradient(
            row_ptr, twin_ptr, target, lse, twin_lse, divergence, NUM_COLUMNS, SMOOTHING, R_DROP, ACCUMULATE, BLOCK
        )


def projected_twin_loss(
    hidden_TD: Tensor, weight_VD: Tensor, target_T: Tensor, twin_T: Tensor, *, label_smoothing: float, r_drop: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The sums over all rows with a target (≥ 0) of the trained loss (the smoothed one and `r_drop` times half the
    divergence from its twin), of the smoothed loss, and of the negative log-likelihood.

    Twins are twins of one another. No gradient flows through the second and the third.
    """
    num_columns, narrow_VD = weight_VD.size(0), weight_VD.detach().to(hidden_TD.dtype)
    smoothed_T = hidden_TD.new_empty(hidden_TD.size(0), dtype=wide(hidden_TD.dtype))
    nll_T, divergence_T = torch.empty_like(smoothed_T), torch.empty_like(smoothed_T)

    def loss_rows(rows: slice, logits_TV: Tensor, with_gradient: bool) -> None:
        twins_TV = hidden_TD.index_select(0, twin_T[rows]) @ narrow_VD.T
        _twin_loss_row[(logits_TV.size(0),)](
            logits_TV, twins_TV, target_T[rows], smoothed_T[rows], nll_T[rows], divergence_T[rows],
            NUM_COLUMNS=num_columns, SMOOTHING=label_smoothing, R_DROP=r_drop, WITH_GRADIENT=with_gradient,
            ACCUMULATE=accumulator(hidden_TD.dtype),
            BLOCK=min(BLOCK_COLUMNS, triton.next_power_of_2(num_columns)), num_warps=NUM_WARPS,
        )  # fmt: skip

    def sums() -> tuple[Tensor, ...]:
        smoothed = smoothed_T.sum()
        return smoothed + 0.5 * r_drop * divergence_T.sum(), smoothed, nll_T.sum()

    trained, smoothed, nll = projected_loss(hidden_TD, weight_VD, loss_rows, sums)
    return trained, smoothed, nll
