"""The exponential moving average of the weights (`train.ema_decay`; not in the paper, which averages checkpoints).

After step t: average ← d · average + (1 − d) · weights, with d = min(decay, (1 + t) / (10 + t)), so that the first
steps, which know little, are soon forgotten. It knows tensors, whatever they hold; no model, no optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class MovingAverage:
    """The average of `weights`, which change where they lie; it begins as they are now."""

    def __init__(self, weights: Sequence[Tensor], decay: float) -> None:
        self.weights, self.decay = [tensor.detach() for tensor in weights], decay
        self.averages = [tensor.clone() for tensor in self.weights]

    @torch.no_grad()
    def update(self, step: int, bad: Tensor) -> None:
        """Take in the weights after a step; after a bad one (a truth on the device) the average stays as it is."""
        share = 1.0 - min(self.decay, (1 + step) / (10 + step))
        for average, weight in zip(self.averages, self.weights, strict=True):
            average.lerp_(weight, (~bad).to(average.dtype) * share)

    @torch.no_grad()
    def begin_here(self) -> None:
        """The average is the weights as they are now."""
        for average, weight in zip(self.averages, self.weights, strict=True):
            average.copy_(weight)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within this context the average stands where the weights are; the weights come back bit for bit."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for average, weight in zip(self.averages, self.weights, strict=True):
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)
