"""The loss on a CPU: the same sums and gradients as the plain ones, of some rows at a time.

The logits of a whole batch fill no cache, and memory that large is fetched from the system anew in every step. So
projection, loss and their gradients are computed for a part of the rows, and the next part takes the same place. The
gradients are at hand before the backward pass begins, and wait for it. What is summed over the rows it is told; it
knows hidden states, the projection and the right tokens, no model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from heedful.train.gradients import Objective
from heedful.train.memory_estimate import ROWS_AT_ONCE

# logits_TV, target_T → sums over rows, of which the first one is trained.
RowSums: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class ObjectiveByRows(Objective):
    """The same sums and gradients, with no more than some rows of the logits in memory."""

    def sums(self, hidden_TD: Tensor, target_T: Tensor) -> Tensor:
        weight_VD = self.model.projection()
        assert weight_VD is not None, "for models whose logits are one product"
        copies = 2 if self.r_drop else 1
        bias_V = self.model.projection_bias()
        return sums_by_rows(self.row_sums, hidden_TD, weight_VD, target_T, bias_V, rows=ROWS_AT_ONCE, copies=copies)


def sums_by_rows(
    row_sums: RowSums,
    hidden_TD: Tensor,
    weight_VD: Tensor,
    target_T: Tensor,
    bias_V: Tensor | None = None,
    *,
    rows: int,
    copies: int = 1,
) -> Tensor:
    """`row_sums(hidden_TD @ weight_VD.T + bias_V, target_T)`, at most so many rows at a time.

    If the batch repeats its rows `copies` times, each row is computed together with its repeats.
    """
    assert (target_T.unflatten(0, (copies, -1)) == target_T[: len(target_T) // copies]).all(), "copies are alike"
    sums: Tensor = _SumsByRows.apply(row_sums, hidden_TD, weight_VD, bias_V, target_T, rows, copies)  # type: ignore[no-untyped-call]
    return sums


class _SumsByRows(torch.autograd.Function):
    """Of a part T is the rows, and G the copies that they stand in."""

    @staticmethod
    def forward(
        ctx: Any,
        row_sums: RowSums,
        hidden_TD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        target_T: Tensor,
        rows: int,
        copies: int,
    ) -> Tensor:
        grad_hidden_TD, grad_weight_VD = torch.empty_like(hidden_TD), torch.zeros_like(weight_VD)
        grad_bias_V = None if bias_V is None else torch.zeros_like(bias_V)
        sums = []
        all_rows = (hidden_TD, target_T, grad_hidden_TD)
        parts = (x.unflatten(0, (copies, -1)).split(max(1, rows // copies), dim=1) for x in all_rows)
        for hidden_GTD, target_GT, grad_hidden_GTD in zip(*parts, strict=True):
            part_TD = hidden_GTD.flatten(0, 1)
            part_sums, grad_TV = _with_gradient(row_sums, F.linear(part_TD, weight_VD, bias_V), target_GT.flatten())
            sums.append(part_sums)
            grad_hidden_GTD.copy_((grad_TV @ weight_VD).view_as(hidden_GTD))
            grad_weight_VD.addmm_(grad_TV.T, part_TD)
            if grad_bias_V is not None:
                grad_bias_V += grad_TV.sum(dim=0)
        ctx.save_for_backward(grad_hidden_TD, grad_weight_VD, grad_bias_V)
        return torch.stack(sums).sum(dim=0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        of_sums = [None if grad is None else grad * grads[0][0] for grad in ctx.saved_tensors]
        return None, *of_sums, None, None, None


@torch.enable_grad()
def _with_gradient(row_sums: RowSums, logits_TV: Tensor, target_T: Tensor) -> tuple[Tensor, Tensor]:
    """The sums, and the gradient of the first one."""
    sums = row_sums(logits_TV.requires_grad_(), target_T)
    (grad_TV,) = torch.autograd.grad(sums[0], logits_TV)
    return sums.detach(), grad_TV
