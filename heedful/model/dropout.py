"""Dropout (§5.4) whose masks follow from a seed on the device, where one is given.

On CPUs dropout is torch's, and draws from torch's generator. A captured CUDA graph cannot ask a generator on the host,
so there each place in the model that drops numbers has a seed of its own in the device's memory; who trains writes new
seeds before each micro-batch. It knows nothing of steps, nor of what is dropped.
"""

from __future__ import annotations

from torch import Tensor, nn


class Dropout(nn.Dropout):
    """Dropout by torch's generator, or, once it has a seed, by that."""

    seed_1: Tensor | None = None  # one int64

    def forward(self, x_TD: Tensor, stream: int = 0) -> Tensor:
        """Dropout; what passes here twice in a step takes another stream the second time, or masks would be equal."""
        if self.seed_1 is None or not self.training or self.p == 0:
            return super().forward(x_TD)
        from heedful.model.kernels.add_norm import seeded_dropout  # needs Triton, which is not everywhere

        seed_1 = self.seed_1 + (stream << 40) if stream else self.seed_1
        return seeded_dropout(x_TD, seed_1=seed_1, dropout=self.p)


def seeded_places(model: nn.Module) -> list[Dropout]:
    """Every place in the model that drops numbers, in a fixed order."""
    return [module for module in model.modules() if isinstance(module, Dropout)]


def seed_dropout(model: nn.Module, seeds_P: Tensor) -> None:
    """From now on place i draws its mask from what stands in `seeds_P[i]` (int64) at that moment."""
    for place, seed_1 in zip(seeded_places(model), seeds_P.split(1), strict=True):
        place.seed_1 = seed_1
