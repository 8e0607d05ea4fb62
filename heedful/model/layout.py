"""Which rows of a packed batch may look at which: all that attention must know of a batch.

In the paper every part but attention is position-wise, so this is the only place (beside `fast/cuda/tiles.py`, which
says the same thing for the CUDA kernel) that knows where a sentence begins and ends. A layout is built once per batch,
in NumPy, and used by every layer. It knows lengths only: no tokens, no model.

`Groups` is the layout for CPUs: sentences of like length are padded together, so that one line of 600 tokens among
short ones does not cost a six-fold step. Padded slots exist inside `grouped_attention` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Lengths: TypeAlias = npt.NDArray[np.int64]

# A group is closed when the next sentence is shorter than this share of its longest one ...
LIKE_LENGTH = 0.75
# ... unless the group is still so small that another call would cost more than the padding.
SMALL_GROUP_SLOTS = 512


@dataclass(frozen=True, slots=True)
class Group:
    """`num_sentences` sentences, padded to `num_queries` and `num_keys` slots each."""

    num_sentences: int
    num_queries: int
    num_keys: int
    key_mask_N11M: Tensor | None  # None: every slot holds a token


@dataclass(frozen=True, slots=True)
class Slots:
    """Where the rows of a packed batch lie in a padded buffer, and back."""

    row_of_slot_P: Tensor  # a padded slot names some row of its own sentence; nobody reads what is computed there
    slot_of_row_T: Tensor


@dataclass(frozen=True, slots=True)
class Groups:
    """The layout for CPUs: queries and keys of the same sentences, padded in groups of like length."""

    query_offsets_N: Tensor  # int32, N + 1 entries: sentence n holds the rows offsets[n] to offsets[n + 1]
    key_offsets_N: Tensor
    causal: bool
    queries: Slots
    keys: Slots
    groups: tuple[Group, ...]

    def to(self, device: torch.device) -> Groups:
        """The same layout with its tensors on `device`."""
        return replace(
            self,
            query_offsets_N=self.query_offsets_N.to(device),
            key_offsets_N=self.key_offsets_N.to(device),
            queries=_slots_to(self.queries, device),
            keys=_slots_to(self.keys, device),
            groups=tuple(_group_to(group, device) for group in self.groups),
        )


def _slots_to(slots: Slots, device: torch.device) -> Slots:
    return Slots(slots.row_of_slot_P.to(device), slots.slot_of_row_T.to(device))


def _group_to(group: Group, device: torch.device) -> Group:
    mask = group.key_mask_N11M
    return group if mask is None else replace(group, key_mask_N11M=mask.to(device))


def make_groups(query_lengths_N: Lengths, key_lengths_N: Lengths, *, causal: bool) -> Groups:
    """The layout of N sentences whose queries and keys have these lengths (for self-attention: the same)."""
    members = _like_lengths(query_lengths_N, key_lengths_N)
    return Groups(
        query_offsets_N=offsets_of(query_lengths_N),
        key_offsets_N=offsets_of(key_lengths_N),
        causal=causal,
        queries=_slots(query_lengths_N, members),
        keys=_slots(key_lengths_N, members),
        groups=tuple(_group(query_lengths_N[m], key_lengths_N[m], causal) for m in members),
    )


def offsets_of(lengths_N: Lengths) -> Tensor:
    """Where each sentence begins, and as the last entry where the last one ends."""
    return torch.from_numpy(np.concatenate([[0], np.cumsum(lengths_N)]).astype(np.int32))


def _like_lengths(query_lengths_N: Lengths, key_lengths_N: Lengths) -> list[Lengths]:
    """Sentence numbers, longest first, cut where the padding would begin to cost more than another group."""
    longest_N = np.maximum(query_lengths_N, key_lengths_N)
    order_N = np.argsort(-longest_N, kind="stable")
    cuts, first, slots = [], 0, 0
    for i, length in enumerate(longest_N[order_N].tolist()):
        longest = int(longest_N[order_N[first]])
        if length < LIKE_LENGTH * longest and slots >= SMALL_GROUP_SLOTS:
            cuts.append(i)
            first, slots, longest = i, 0, length
        slots += longest
    return [part for part in np.split(order_N, cuts) if len(part)]


def _group(query_lengths_N: Lengths, key_lengths_N: Lengths, causal: bool) -> Group:
    num_keys = int(key_lengths_N.max())
    # Behind a causal mask padded keys lie after every real query, so nothing real can see them.
    full = causal or int(key_lengths_N.min()) == num_keys
    mask_NM = torch.from_numpy(np.arange(num_keys) < key_lengths_N[:, None])
    mask_N11M = None if full else mask_NM[:, None, None, :]
    return Group(len(key_lengths_N), int(query_lengths_N.max()), num_keys, mask_N11M)


def _slots(lengths_N: Lengths, members: list[Lengths]) -> Slots:
    starts_N = np.cumsum(lengths_N) - lengths_N
    rows, real = [], []
    for m in members:
        column_1L = np.arange(int(lengths_N[m].max()))[None, :]
        real_NL = column_1L < lengths_N[m][:, None]
        rows.append((starts_N[m][:, None] + column_1L * real_NL).ravel())
        real.append(real_NL.ravel())
    row_of_slot_P, real_P = np.concatenate(rows), np.concatenate(real)
    slot_of_row_T = np.empty(int(lengths_N.sum()), dtype=np.int64)
    slot_of_row_T[row_of_slot_P[real_P]] = np.flatnonzero(real_P)
    return Slots(torch.from_numpy(row_of_slot_P), torch.from_numpy(slot_of_row_T))
