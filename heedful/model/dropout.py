"""Dropout (§5.4). It knows nothing of steps, nor of what is dropped.

On CPUs it draws from torch's generator, 16 bits for each number: torch's own dropout draws more, and takes twice the
time.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

CHANCES = 2**16  # of a draw on a CPU: the share that is dropped is a multiple of 1 / CHANCES


class Dropout(nn.Dropout):
    """Dropout by torch's generator."""

    def forward(self, x_TD: Tensor) -> Tensor:
        """Drops numbers in training, and nothing in evaluation."""
        is_drawn = self.training and self.p > 0 and x_TD.device.type == "cpu"
        return drawn_dropout(x_TD, self.p) if is_drawn else super().forward(x_TD)


def drawn_dropout(x_TD: Tensor, p: float) -> Tensor:
    """Dropout by draws of torch's generator for the CPU, four of them from each number of 64 bits."""
    words = torch.empty(-(-x_TD.numel() // 4), dtype=torch.int64, device=x_TD.device).random_(-(2**63), None)
    draws_TD = words.view(torch.int16)[: x_TD.numel()].view(x_TD.shape)
    dropped = max(1, round(p * CHANCES))  # the draws are −CHANCES/2 … CHANCES/2 − 1
    kept_TD = (draws_TD > dropped - CHANCES // 2 - 1).to(x_TD.dtype)
    return x_TD * kept_TD.mul_(CHANCES / max(1, CHANCES - dropped))
