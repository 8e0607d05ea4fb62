"""What a training run counts between two records: losses, tokens, skipped steps.

The numbers stay on the device, where every step adds to them. To read them is to ask and to wait; asking does not wait,
so that the device can go on with the next step before anybody looks. Nothing here knows what a step does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.train.processes import World


@dataclass(frozen=True, slots=True)
class Sums:
    """The numbers of the steps since the last reading, as the host sees them; losses are of finite steps only."""

    smoothed: float
    negative_log_likelihood: float
    tokens: float
    skipped_steps: float
    skipped_in_a_row: float  # up to the last step
    gradient_norm: float  # of the last finite step


class Totals:
    """The same on the device."""

    def __init__(self, device: torch.device) -> None:
        real = torch.float32 if device.type == "mps" else torch.float64
        self.sums_3 = torch.zeros(3, dtype=real, device=device)  # smoothed loss, negative log-likelihood, tokens
        self.skipped_steps = torch.zeros((), dtype=torch.int64, device=device)
        self.skipped_in_a_row = torch.zeros((), dtype=torch.int64, device=device)
        self.gradient_norm = torch.zeros((), device=device)

    def add(self, sums_2: Tensor, tokens: int, norm: Tensor) -> None:
        """Count a step: its losses, its tokens, and the norm of its gradient, which may be no number."""
        bad = ~norm.isfinite()
        self.sums_3[:2] += torch.where(bad, 0.0, sums_2)
        self.sums_3[2] += ~bad * tokens
        self.gradient_norm = torch.where(bad, self.gradient_norm, norm.to(self.gradient_norm))
        self.skipped_steps += bad
        self.skipped_in_a_row = (self.skipped_in_a_row + 1) * bad

    def take(self, world: World) -> PendingSums:
        """Ask for the sums over all ranks, and begin new ones."""
        others = (self.skipped_steps, self.skipped_in_a_row, self.gradient_norm)
        numbers_6 = torch.cat([world.sum(self.sums_3), torch.stack([number.to(self.sums_3) for number in others])])
        self.sums_3.zero_()
        self.skipped_steps.zero_()
        return PendingSums(numbers_6)


class PendingSums:
    """Numbers on their way to the host."""

    def __init__(self, numbers_6: Tensor) -> None:
        # From a GPU torch copies to pinned memory, without waiting. Elsewhere nothing would say when the copy is done.
        self._numbers_6 = numbers_6.to("cpu", non_blocking=numbers_6.is_cuda)
        self._arrived: torch.cuda.Event | None = None
        if numbers_6.is_cuda:
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def wait(self) -> Sums:
        """The sums, once the device is there."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return Sums(*self._numbers_6.tolist())
