"""R-Drop (Wu et al., 2021, arXiv 2106.14448; not in the paper): two passes with other dropout masks should agree.

Every pair stands twice in its micro-batch, all pairs first and then all of them again, and dropout follows the row. So
target row i of the first half has its twin T/2 rows further on. Beside the cross-entropy of all rows,

    α · ½ (KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁))

is trained, summed over pairs of twins. The sum of all is divided by the number of target tokens, copies included: half
of what that paper minimises, which Adam does not notice, with the same α. It knows rows and logits; no model.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from heedful.model.packed import NO_TARGET


def twin_rows(target_T: Tensor) -> Tensor:
    """The row in which each row's token stands again; rows without a target stand behind and are their own twins."""
    counts_T = target_T != NO_TARGET
    num_rows = counts_T.sum()  # stays on the device
    row_T = torch.arange(len(target_T), device=target_T.device)
    return torch.where(counts_T, (row_T + num_rows // 2) % num_rows.clamp(min=1), row_T)


def twin_divergence(logits_TV: Tensor, target_T: Tensor) -> Tensor:
    """½ (KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁)), summed over the pairs of twins."""
    log_probs_TV = F.log_softmax(logits_TV, dim=-1)
    twins_TV: Tensor = _Twins.apply(log_probs_TV, twin_rows(target_T))  # type: ignore[no-untyped-call]
    return 0.5 * (log_probs_TV.exp() * (log_probs_TV - twins_TV)).sum()


class _Twins(torch.autograd.Function):
    """The twin of each row. Twins are twins of one another, so that the gradient takes the same way, without a sum."""

    @staticmethod
    def forward(ctx: Any, x_TV: Tensor, twin_T: Tensor) -> Tensor:
        ctx.save_for_backward(twin_T)
        return x_TV.index_select(0, twin_T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (twin_T,) = ctx.saved_tensors
        return grads[0].index_select(0, twin_T), None
