"""Dilated convolutions over packed rows: a sentence's neighbours lie beside it, and must not be seen.

It knows rows and sentences; no model. C are the channels of a convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Places:
    """Where each of T packed rows stands: in which sentence, and at which place of it."""

    sentence_T: Tensor
    place_T: Tensor
    offsets_N: Tensor  # sentence n holds the rows offsets[n] to offsets[n + 1]

    @classmethod
    def of(cls, offsets_N: Tensor, num_rows: int) -> Places:
        """Locate `num_rows` rows in sentences that begin at `offsets_N`."""
        row_T, offsets_N = torch.arange(num_rows, device=offsets_N.device), offsets_N.long()
        sentence_T = torch.bucketize(row_T, offsets_N[1:], right=True)
        return cls(sentence_T, row_T - offsets_N[sentence_T], offsets_N)

    def look_up(self, x_SD: Tensor, offsets_N: Tensor) -> Tensor:
        """Return, for each row, the row at the same place in the other packed batch; zero past that sentence's end."""
        row_T, end_T = offsets_N[self.sentence_T] + self.place_T, offsets_N[self.sentence_T + 1]
        return x_SD.index_select(0, torch.minimum(row_T, end_T - 1)).masked_fill((row_T >= end_T)[:, None], 0.0)

    def shifted(self, x_TC: Tensor, offset: int) -> Tensor:
        """Return, for each row, the row `offset` places further on in its sentence; zero outside the sentence."""
        if offset == 0:
            return x_TC
        place_T = self.place_T + offset
        is_outside_T = (place_T < 0) | (place_T >= self.offsets_N.diff()[self.sentence_T])
        return x_TC.roll(-offset, 0).masked_fill(is_outside_T[:, None], 0.0)

    def windows(self, x_TC: Tensor, offsets: Sequence[int]) -> Tensor:
        """Concatenate, for each row, the rows at these offsets."""
        return torch.cat([self.shifted(x_TC, offset) for offset in offsets], dim=-1)


class DilatedConvolution(nn.Module):
    """y_t = b + Σ_j W_j x_{t + o_j}, the same number of channels in and out; `offsets` are the o_j."""

    def __init__(self, channels: int, offsets: Sequence[int]) -> None:
        super().__init__()
        self.offsets = tuple(offsets)
        self.product = nn.Linear(len(self.offsets) * channels, channels)

    def forward(self, x_TC: Tensor, places: Places) -> Tensor:
        """Over the rows of all sentences at once."""
        y_TC: Tensor = self.product(places.windows(x_TC, self.offsets))
        return y_TC


def centred(kernel: int, dilation: int) -> list[int]:
    """The offsets of a convolution that looks to both sides."""
    return [dilation * (j - kernel // 2) for j in range(kernel)]


def masked(kernel: int, dilation: int) -> list[int]:
    """The offsets of a convolution that looks back only."""
    return [dilation * (j - kernel + 1) for j in range(kernel)]
