"""Packed: the tokens of all sentences of a batch in one row, with no padding between them.

Embedding, feed-forward, LayerNorm, residuals, projection and loss see T rows and need no masks. Only attention knows
where a sentence begins and ends, from the layout that is carried here. Nothing in this file knows the model or the
corpus.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.model.layout import Layout, Lengths, make_groups, moved

TokenIds: TypeAlias = npt.NDArray[np.int64]

NO_TARGET = -100  # a row behind the last sentence, which has no next token


@dataclass(frozen=True, slots=True)
class Packed:
    """T tokens of N sentences: `positions_T` counts from 0 in each sentence."""

    tokens_T: Tensor
    positions_T: Tensor
    longest: int  # every position is below it
    self_layout: Layout
    cross_layout: Layout | None = None  # of a target: which rows of its source its rows may look at

    def to(self, device: torch.device) -> Packed:
        """The same tokens and layouts on `device`."""
        return moved(self, device)


def pack_source(ids_T: TokenIds, lengths_N: Lengths) -> Packed:
    """Source sentences: every token may look at its whole sentence."""
    return _packed(ids_T, lengths_N, causal=False)


def pack_target(ids_T: TokenIds, lengths_N: Lengths, source_lengths_N: Lengths) -> Packed:
    """Target sentences: a token may look at itself, at what stands before it, and at its whole source sentence."""
    cross_layout = make_groups(lengths_N, source_lengths_N, causal=False)
    return replace(_packed(ids_T, lengths_N, causal=True), cross_layout=cross_layout)


def _packed(ids_T: TokenIds, lengths_N: Lengths, *, causal: bool) -> Packed:
    return Packed(
        tokens_T=torch.from_numpy(ids_T),
        positions_T=torch.from_numpy(positions_of(lengths_N)),
        longest=int(lengths_N.max()),
        self_layout=make_groups(lengths_N, lengths_N, causal=causal),
    )


def positions_of(lengths_N: Lengths) -> TokenIds:
    """0, 1, 2, … anew in each sentence."""
    starts_N = np.cumsum(lengths_N) - lengths_N
    return np.arange(int(lengths_N.sum()), dtype=np.int64) - np.repeat(starts_N, lengths_N)


def shift_right(ids_T: TokenIds) -> TokenIds:
    """The decoder's input: each token moves one place to the right.

    What lands at the start of a sentence (the eos of the one before it) does not count: the decoder puts the zero
    vector there (§3.1; see `embedding.py`).
    """
    return np.concatenate([np.zeros(1, dtype=ids_T.dtype), ids_T[:-1]])
