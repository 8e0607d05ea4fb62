"""Which rows of a packed batch may look at which: all that attention must know of a batch.

In the paper every part but attention is position-wise, so a layout is the only thing that knows where a sentence begins
and ends. It is built once per batch, in NumPy, and every layer uses it. It knows lengths only: no tokens, no model.

`Groups` is the layout of the plain code. It pads sentences of like length together, so that one matrix product serves
many and a line of 600 tokens among short ones does not cost a six-fold step. There is no padding outside
`grouped_attention`, which is equation 1 by torch's own kernel and equal to `plain_attention` by test. A faster way to
compute attention brings a layout of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

Lengths: TypeAlias = npt.NDArray[np.int64]
T = TypeVar("T")

# Queries, keys and values of a group, its `key_mask_N11M`, and whether later keys are hidden → the output.
GroupAttention: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor | None, bool], Tensor]

# A group is closed when the next sentence is shorter than this share of its longest one ...
LIKE_LENGTH = 0.75
# ... unless the group is still so small that another call would cost more than the padding.
SMALL_GROUP_CELLS = 512


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


@dataclass(frozen=True, slots=True)
class Group:
    """`num_sentences` sentences, padded to `num_queries` and `num_keys` cells each."""

    num_sentences: int
    num_queries: int
    num_keys: int
    key_mask_N11M: Tensor | None  # None: every cell holds a token


@dataclass(frozen=True, slots=True)
class Padding:
    """Where the rows of a packed batch lie in a padded buffer, and back."""

    row_of_cell_P: Tensor  # a padded cell names some row of its own sentence; nobody reads what is computed there
    cell_of_row_T: Tensor


@dataclass(frozen=True, slots=True)
class Groups:
    """Queries and keys of the same sentences, padded in groups of like length."""

    query_offsets_N: Tensor  # int32, N + 1 entries: sentence n holds the rows offsets[n] to offsets[n + 1]
    key_offsets_N: Tensor
    causal: bool
    queries: Padding
    keys: Padding
    groups: tuple[Group, ...]

    def attend(self, query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor) -> Tensor:
        """Equation 1, one group after the other."""
        return grouped_attention(query_THK, key_SHK, value_SHK, self)

    def to(self, device: torch.device) -> Groups:
        """The same layout with its tensors on `device`."""
        return moved(self, device)


def moved(value: T, device: torch.device) -> T:
    """A dataclass with every tensor in it on `device`."""
    whole: Any = value
    found: T = replace(whole, **{each.name: _moved(getattr(whole, each.name), device) for each in fields(whole)})
    return found


def _moved(value: Any, device: torch.device) -> Any:
    if hasattr(value, "to"):  # a tensor, or what moves itself
        return value.to(device)
    if isinstance(value, tuple):
        return tuple(_moved(each, device) for each in value)
    return moved(value, device) if is_dataclass(value) else value


def make_groups(query_lengths_N: Lengths, key_lengths_N: Lengths, *, causal: bool) -> Groups:
    """The layout of N sentences whose queries and keys have these lengths (for self-attention: the same)."""
    members = _like_lengths(query_lengths_N, key_lengths_N)
    return Groups(
        query_offsets_N=offsets_of(query_lengths_N),
        key_offsets_N=offsets_of(key_lengths_N),
        causal=causal,
        queries=_padding(query_lengths_N, members),
        keys=_padding(key_lengths_N, members),
        groups=tuple(_group(query_lengths_N[m], key_lengths_N[m], causal) for m in members),
    )


def _like_lengths(query_lengths_N: Lengths, key_lengths_N: Lengths) -> list[Lengths]:
    """Sentence numbers, longest first, cut where the padding would begin to cost more than another group."""
    longest_N = np.maximum(query_lengths_N, key_lengths_N)
    order_N = np.argsort(-longest_N, kind="stable")
    cuts, first, cells = [], 0, 0
    for i, length in enumerate(longest_N[order_N].tolist()):
        longest = int(longest_N[order_N[first]])
        if length < LIKE_LENGTH * longest and cells >= SMALL_GROUP_CELLS:
            cuts.append(i)
            first, cells, longest = i, 0, length
        cells += longest
    return [part for part in np.split(order_N, cuts) if len(part)]


def _group(query_lengths_N: Lengths, key_lengths_N: Lengths, causal: bool) -> Group:
    num_keys = int(key_lengths_N.max())
    # Behind a causal mask padded keys lie after every real query, so nothing real can see them.
    full = causal or int(key_lengths_N.min()) == num_keys
    mask_NM = torch.from_numpy(np.arange(num_keys) < key_lengths_N[:, None])
    mask_N11M = None if full else mask_NM[:, None, None, :]
    return Group(len(key_lengths_N), int(query_lengths_N.max()), num_keys, mask_N11M)


def _padding(lengths_N: Lengths, members: list[Lengths]) -> Padding:
    starts_N = np.cumsum(lengths_N) - lengths_N
    rows, real = [], []
    for m in members:
        column_1L = np.arange(int(lengths_N[m].max()))[None, :]
        real_NL = column_1L < lengths_N[m][:, None]
        rows.append((starts_N[m][:, None] + column_1L * real_NL).ravel())
        real.append(real_NL.ravel())
    row_of_cell_P, real_P = np.concatenate(rows), np.concatenate(real)
    cell_of_row_T = np.empty(int(lengths_N.sum()), dtype=np.int64)
    cell_of_row_T[row_of_cell_P[real_P]] = np.flatnonzero(real_P)
    return Padding(torch.from_numpy(row_of_cell_P), torch.from_numpy(cell_of_row_T))


def equation_1(
    query_NHLK: Tensor, key_NHMK: Tensor, value_NHMK: Tensor, key_mask_N11M: Tensor | None, causal: bool
) -> Tensor:
    """Equation 1 on a group, by torch's own kernel."""
    return F.scaled_dot_product_attention(query_NHLK, key_NHMK, value_NHMK, attn_mask=key_mask_N11M, is_causal=causal)


def grouped_attention(
    query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor, layout: Groups, attend: GroupAttention = equation_1
) -> Tensor:
    """Attention on groups of sentences of like length; rows behind the last sentence come out as zeros."""
    query_PHK = _pad(query_THK, layout.queries)
    key_PHK, value_PHK = _pad(key_SHK, layout.keys), _pad(value_SHK, layout.keys)
    query_sizes = [group.num_sentences * group.num_queries for group in layout.groups]
    key_sizes = [group.num_sentences * group.num_keys for group in layout.groups]
    parts = zip(
        layout.groups, query_PHK.split(query_sizes), key_PHK.split(key_sizes), value_PHK.split(key_sizes), strict=True
    )
    outputs = [_attend_group(group, query, key, value, layout.causal, attend) for group, query, key, value in parts]
    output_THK = _unpad(torch.cat(outputs), layout.queries)
    return F.pad(output_THK, (0, 0, 0, 0, 0, query_THK.size(0) - output_THK.size(0)))


def _attend_group(
    group: Group, query_PHK: Tensor, key_PHK: Tensor, value_PHK: Tensor, causal: bool, attend: GroupAttention
) -> Tensor:
    query_NHLK = query_PHK.unflatten(0, (group.num_sentences, group.num_queries)).transpose(1, 2)
    key_NHMK = key_PHK.unflatten(0, (group.num_sentences, group.num_keys)).transpose(1, 2)
    value_NHMK = value_PHK.unflatten(0, (group.num_sentences, group.num_keys)).transpose(1, 2)
    output_NHLK = attend(query_NHLK, key_NHMK, value_NHMK, group.key_mask_N11M, causal)
    return output_NHLK.transpose(1, 2).flatten(0, 1)


def _pad(x_THK: Tensor, padding: Padding) -> Tensor:
    padded_PHK: Tensor = _Pad.apply(x_THK, padding.row_of_cell_P, padding.cell_of_row_T)  # type: ignore[no-untyped-call]
    return padded_PHK


def _unpad(y_PHK: Tensor, padding: Padding) -> Tensor:
    rows_THK: Tensor = _Unpad.apply(y_PHK, padding.cell_of_row_T)  # type: ignore[no-untyped-call]
    return rows_THK


class _Pad(torch.autograd.Function):
    """Packed rows → padded cells. The gradient of a row is that of its one real cell, so no sum is needed."""

    @staticmethod
    def forward(ctx: Any, x_THK: Tensor, row_of_cell_P: Tensor, cell_of_row_T: Tensor) -> Tensor:
        ctx.save_for_backward(cell_of_row_T)
        ctx.num_rows = x_THK.size(0)
        return x_THK.index_select(0, row_of_cell_P)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (cell_of_row_T,) = ctx.saved_tensors
        grad_THK = grads[0].index_select(0, cell_of_row_T)
        return F.pad(grad_THK, (0, 0, 0, 0, 0, ctx.num_rows - grad_THK.size(0))), None, None


class _Unpad(torch.autograd.Function):
    """Padded cells → packed rows. Padded cells get a gradient of zero."""

    @staticmethod
    def forward(ctx: Any, y_PHK: Tensor, cell_of_row_T: Tensor) -> Tensor:
        ctx.save_for_backward(cell_of_row_T)
        ctx.num_cells = y_PHK.size(0)
        return y_PHK.index_select(0, cell_of_row_T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (cell_of_row_T,) = ctx.saved_tensors
        grad_PHK = grads[0].new_zeros((ctx.num_cells, *grads[0].shape[1:]))
        return grad_PHK.index_copy_(0, cell_of_row_T, grads[0]), None
