"""Dropout (§5.4) whose masks follow from a seed on the device, where one is given.

On CPUs dropout draws from torch's generator, 16 bits for each number: torch's own dropout draws more, and takes twice
the time. A captured CUDA graph cannot ask a generator on the host, so there each place in the model that drops numbers
has a seed of its own in the device's memory; who trains writes new seeds before each micro-batch. It knows nothing of
steps, nor of what is dropped.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

CHANCES = 2**16  # of a draw on a CPU: the share that is dropped is a multiple of 1 / CHANCES


class Dropout(nn.Dropout):
    """Dropout by torch's generator, or, once it has a seed, by that."""

    seed_1: Tensor | None = None  # one int64

    def forward(self, x_TD: Tensor, stream: int = 0) -> Tensor:
        """Dropout; what passes here twice in a step takes another stream the second time, or masks would be equal."""
        if not self.training or self.p == 0:
            return x_TD
        if self.seed_1 is None:
            return drawn_dropout(x_TD, self.p) if x_TD.device.type == "cpu" else super().forward(x_TD)
        from heedful.fast.cuda.add_norm import seeded_dropout  # needs Triton, which is not everywhere

        seed_1 = self.seed_1 + (stream << 40) if stream else self.seed_1
        return seeded_dropout(x_TD, seed_1=seed_1, dropout=self.p)


def drawn_dropout(x_TD: Tensor, p: float) -> Tensor:
    """Dropout by draws of torch's generator for the CPU, four of them from each number of 64 bits."""
    words = torch.empty(-(-x_TD.numel() // 4), dtype=torch.int64, device=x_TD.device).random_(-(2**63), None)
    draws_TD = words.view(torch.int16)[: x_TD.numel()].view(x_TD.shape)
    dropped = max(1, round(p * CHANCES))  # the draws are −CHANCES/2 … CHANCES/2 − 1
    kept_TD = (draws_TD > dropped - CHANCES // 2 - 1).to(x_TD.dtype)
    return x_TD * kept_TD.mul_(CHANCES / max(1, CHANCES - dropped))


def seeded_places(model: nn.Module) -> list[Dropout]:
    """Every place in the model that drops numbers, in a fixed order."""
    return [module for module in model.modules() if isinstance(module, Dropout)]


def seed_dropout(model: nn.Module, seeds_P: Tensor) -> None:
    """From now on place i draws its mask from what stands in `seeds_P[i]` (int64) at that moment."""
    for place, seed_1 in zip(seeded_places(model), seeds_P.split(1), strict=True):
        place.seed_1 = seed_1
