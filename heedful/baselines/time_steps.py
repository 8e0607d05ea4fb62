"""Packed sentences in the order of time: the first tokens of all, then the second ones, and so on.

The longest sentence comes first, so that the sentences that go on are the first rows of each step, and no row is
computed for one that has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TimeSteps:
    """The T rows of N packed sentences, step by step."""

    offsets_N: Tensor  # where the sentences begin in the packed batch
    sizes: list[int]  # the number of rows of each step
    row_T: Tensor  # of the packed batch, for each row in the order of time
    place_T: Tensor  # and back
    sentence_N: Tensor  # which sentence comes first, second, ...
    rank_N: Tensor  # and back

    def by_time(self, x_TD: Tensor) -> Tensor:
        """Packed rows → rows in the order of time."""
        return x_TD.index_select(0, self.row_T)

    def packed(self, x_TD: Tensor) -> Tensor:
        """Rows in the order of time → packed rows."""
        return x_TD.index_select(0, self.place_T)


def time_steps(offsets_N: Tensor, *, from_the_end: bool = False) -> TimeSteps:
    """The steps of sentences that begin at these rows, each read from its beginning or from its end."""
    (steps,) = directions(offsets_N, [from_the_end])
    return steps


def directions(offsets_N: Tensor, from_the_end: Sequence[bool]) -> list[TimeSteps]:
    """The same sentences in several directions; the host waits for the device once."""
    offsets = offsets_N.cpu().numpy().astype(np.int64)
    return [_steps(offsets_N, offsets, each) for each in from_the_end]


def _steps(offsets_N: Tensor, offsets: npt.NDArray[np.int64], from_the_end: bool) -> TimeSteps:
    lengths_N = np.diff(offsets)
    sentence_N = np.argsort(-lengths_N, kind="stable")
    is_row_LN = np.arange(lengths_N.max())[:, None] < lengths_N[sentence_N]
    step_T, rank_T = np.nonzero(is_row_LN)
    number_T = sentence_N[rank_T]
    row_T = offsets[number_T + 1] - 1 - step_T if from_the_end else offsets[number_T] + step_T
    tables = (row_T, np.argsort(row_T), sentence_N, np.argsort(sentence_N))
    return TimeSteps(
        offsets_N, is_row_LN.sum(axis=1).tolist(), *(torch.from_numpy(t).to(offsets_N.device) for t in tables)
    )
