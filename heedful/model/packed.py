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

from heedful.fast.cuda.tiles import (
    ALIGNMENT,
    Numbers,
    StaticShape,
    Tiles,
    fill_tiles,
    make_tiles,
    num_numbers,
    view_tiles,
)
from heedful.model.layout import Groups, Lengths, make_groups

Layout: TypeAlias = Groups | Tiles
Ids: TypeAlias = npt.NDArray[np.int64]

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
        return replace(
            self,
            tokens_T=self.tokens_T.to(device),
            positions_T=self.positions_T.to(device),
            self_layout=self.self_layout.to(device),
            cross_layout=None if self.cross_layout is None else self.cross_layout.to(device),
        )


def pack_source(ids_T: Ids, lengths_N: Lengths, shape: StaticShape | None = None) -> Packed:
    """Source sentences: every token may look at its whole sentence. With a shape: padded to it, for CUDA."""
    return Packed(
        tokens_T=_rows(ids_T, shape),
        positions_T=_rows(positions_of(lengths_N), shape),
        longest=_longest(lengths_N, shape),
        self_layout=_layout(lengths_N, lengths_N, False, shape),
    )


def pack_target(ids_T: Ids, lengths_N: Lengths, source_lengths_N: Lengths, shape: StaticShape | None = None) -> Packed:
    """Target sentences: a token may look at itself, at what stands before it, and at its whole source sentence."""
    return Packed(
        tokens_T=_rows(ids_T, shape),
        positions_T=_rows(positions_of(lengths_N), shape),
        longest=_longest(lengths_N, shape),
        self_layout=_layout(lengths_N, lengths_N, True, shape),
        cross_layout=_layout(lengths_N, source_lengths_N, False, shape),
    )


def _rows(ids_T: Ids, shape: StaticShape | None) -> Tensor:
    """Behind the last sentence stand zeros: some token at some position, which nobody looks at."""
    return torch.from_numpy(ids_T if shape is None else np.pad(ids_T, (0, shape.rows - len(ids_T))))


def _longest(lengths_N: Lengths, shape: StaticShape | None) -> int:
    return int(lengths_N.max()) if shape is None else shape.longest


def _layout(query_lengths_N: Lengths, key_lengths_N: Lengths, causal: bool, shape: StaticShape | None) -> Layout:
    if shape is None:
        return make_groups(query_lengths_N, key_lengths_N, causal=causal)
    return make_tiles(query_lengths_N, key_lengths_N, causal=causal, shape=shape)


def num_pair_numbers(shape: StaticShape) -> int:
    """How many numbers `fill_pairs` writes."""
    return 5 * shape.rows + 3 * num_numbers(shape)


def fill_pairs(
    numbers_I: Numbers,
    source_T: Ids,
    source_lengths_N: Lengths,
    target_T: Ids,
    target_lengths_N: Lengths,
    shape: StaticShape,
) -> None:
    """Write a whole batch of sentence pairs into one array of a fixed size, which reaches a GPU in one copy."""
    assert shape.rows % ALIGNMENT == 0, "the tables of tiles begin at multiples of 16 bytes"
    rows = (
        (source_T, 0),
        (positions_of(source_lengths_N), 0),
        (shift_right(target_T), 0),
        (positions_of(target_lengths_N), 0),
        (target_T, NO_TARGET),
    )
    for i, (values, padding) in enumerate(rows):
        begin = i * shape.rows
        numbers_I[begin : begin + len(values)] = values
        numbers_I[begin + len(values) : begin + shape.rows] = padding
    lengths = (
        (source_lengths_N, source_lengths_N, False),
        (target_lengths_N, target_lengths_N, True),
        (target_lengths_N, source_lengths_N, False),
    )
    for i, (queries_N, keys_N, causal) in enumerate(lengths):
        begin, size = 5 * shape.rows + i * num_numbers(shape), num_numbers(shape)
        fill_tiles(numbers_I[begin : begin + size], queries_N, keys_N, causal=causal, shape=shape)


def view_pairs(numbers_I: Tensor, shape: StaticShape) -> tuple[Packed, Packed, Tensor]:
    """What `fill_pairs` wrote, as views: the source, the target shifted right, and the target (`NO_TARGET` behind)."""
    rows, size = shape.rows, num_numbers(shape)
    source_T, source_positions_T, target_in_T, target_positions_T, target_out_T, *tables = numbers_I.split(
        [rows] * 5 + [size] * 3
    )
    source_tiles, target_tiles, cross_tiles = (
        view_tiles(table, causal=causal, shape=shape)
        for table, causal in zip(tables, (False, True, False), strict=True)
    )
    source = Packed(source_T, source_positions_T, shape.longest, source_tiles)
    target_in = Packed(target_in_T, target_positions_T, shape.longest, target_tiles, cross_tiles)
    return source, target_in, target_out_T


def positions_of(lengths_N: Lengths) -> Ids:
    """0, 1, 2, … anew in each sentence."""
    starts_N = np.cumsum(lengths_N) - lengths_N
    return np.arange(int(lengths_N.sum()), dtype=np.int64) - np.repeat(starts_N, lengths_N)


def shift_right(ids_T: Ids) -> Ids:
    """The decoder's input: each token moves one place to the right.

    What lands at the start of a sentence (the eos of the one before it) does not count: the decoder puts the zero
    vector there (§3.1; see `embedding.py`).
    """
    return np.concatenate([np.zeros(1, dtype=ids_T.dtype), ids_T[:-1]])
