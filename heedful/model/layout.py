"""Which rows of a packed batch may look at which: all that attention must know of a batch.

In the paper every part but attention is position-wise, so a layout is the only thing that knows where a sentence begins
and ends. It is built once per batch, in NumPy, and every layer uses it. It knows lengths only: no tokens, no model.
`groups.py` has the layout of the plain code. A faster way to compute attention brings a layout of its own.
"""

from __future__ import annotations

from typing import Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Lengths: TypeAlias = npt.NDArray[np.int64]


class Layout(Protocol):
    """Query n and key n belong together: a query may look at the keys of its own sentence (causal: up to itself)."""

    @property
    def query_offsets_N(self) -> Tensor:
        """Sentence n holds the query rows offsets[n] to offsets[n + 1]."""

    @property
    def key_offsets_N(self) -> Tensor:
        """The same of the keys."""

    @property
    def causal(self) -> bool:
        """Whether later keys are hidden."""

    def attend(self, query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor) -> Tensor:
        """Equation 1 where this layout allows it; a row that may look at nothing comes out as zeros."""

    def to(self, device: torch.device) -> Self:
        """The same layout with its tensors on `device`."""


def offsets_of(lengths_N: Lengths) -> Tensor:
    """Where each sentence begins, and as the last entry where the last one ends."""
    return torch.from_numpy(np.concatenate([[0], np.cumsum(lengths_N)]).astype(np.int32))
