"""Conditional computation: a mixture of experts in the place of the feed-forward network (Shazeer et al., 2017).

Not in the paper. Each token goes through the two experts that its gates prefer, of all. An auxiliary loss keeps the
experts equally important. Their noise on the gates, and the loss for the load that needs it, are left out, so that
nothing is drawn. It knows nothing of positions or sentences.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heedful.config.settings import ModelConfig
from heedful.model.feed_forward import FeedForward

CHOSEN = 2  # experts of a token
BALANCE = 0.01  # the weight of the auxiliary loss


class Experts(nn.Module):
    """Σ G(x)_i FFN_i(x), where G(x) = softmax(x W_g) over the two largest, and 0 for the others."""

    def __init__(self, d_model: int, d_ff: int, num_experts: int) -> None:
        super().__init__()
        self.W_g = nn.Linear(d_model, num_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(d_model, d_ff) for _ in range(num_experts))
        self.imbalance: Tensor | None = None  # of the last forward pass in training

    def forward(self, x_TD: Tensor) -> Tensor:
        gates_TG = self.gates(x_TD)
        if self.training:
            self.imbalance = len(x_TD) * squared_variation(gates_TG.sum(dim=0))
        output_TD = torch.zeros_like(x_TD)
        for gate_T, expert in zip(gates_TG.unbind(dim=-1), self.networks, strict=True):
            (row_R,) = gate_T.nonzero(as_tuple=True)  # may be none; then the expert's gradient is zero
            part_RD = gate_T[row_R, None] * expert(x_TD[row_R])
            output_TD = output_TD.index_add(0, row_R, part_RD.to(x_TD.dtype))  # under autocast it has another
        return output_TD

    @property
    def networks(self) -> list[FeedForward]:
        """The experts, each a network of §3.3."""
        return [expert for expert in self.experts if isinstance(expert, FeedForward)]

    def gates(self, x_TD: Tensor) -> Tensor:
        """G(x), in the precision of W_g: under autocast, too, search and training choose the same experts."""
        with torch.autocast(x_TD.device.type, enabled=False):
            scores_TG: Tensor = self.W_g(x_TD.to(self.W_g.weight.dtype))
        largest_T2, number_T2 = scores_TG.topk(CHOSEN, dim=-1)
        gates_T2 = largest_T2.softmax(dim=-1)
        return gates_T2.new_zeros(scores_TG.shape).scatter(-1, number_T2, gates_T2)


def squared_variation(numbers_G: Tensor) -> Tensor:
    """The square of the coefficient of variation: 0 where all are equal."""
    return numbers_G.var(correction=0) / numbers_G.mean().square()


def new_feed_forward(config: ModelConfig) -> FeedForward | Experts:
    """§3.3, or `model.num_experts` of it."""
    if config.num_experts == 1:
        return FeedForward(config.d_model, config.d_ff)
    return Experts(config.d_model, config.d_ff, config.num_experts)


def taken_imbalance(model: nn.Module) -> Tensor | None:
    """What the last forward pass adds to the sum of the loss over its tokens; taking clears it."""
    places = [module for module in model.modules() if isinstance(module, Experts)]
    found = [place.imbalance for place in places if place.imbalance is not None]
    for place in places:
        place.imbalance = None
    return BALANCE * torch.stack(found).sum() if found else None
