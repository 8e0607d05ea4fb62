"""Which rows of a packed batch may look at which, as the CUDA kernels want it: tables of a fixed size.

The counterpart of `Groups` in `model/layout.py`, and like it it knows lengths only. Whole sentences that follow one
another are put into one tile of at most `TILE` query rows and `TILE` key rows; a sentence longer than that is *long*
and takes several tiles. Every size follows from a `StaticShape`, never from the batch, so that the compiler and a CUDA
graph see one shape; what is left over is empty. All tables lie in one int32 array, so that a batch reaches the GPU in
one copy.

Which keys a query may see is one interval of rows, for every kind of attention: its own sentence, its own sentence up
to itself (causal), or its source sentence. A row behind the last sentence sees nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.model.layout import Lengths

TileNumbers: TypeAlias = npt.NDArray[np.int32]
Table: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]

TILE = 64
ALIGNMENT = 4  # tables begin at multiples of 16 bytes, so that a row of a tile table is one load


@dataclass(frozen=True, slots=True)
class StaticShape:
    """The sizes that every batch is padded to, on both sides."""

    rows: int
    sentences: int
    longest: int  # no sentence has more tokens

    @property
    def num_tiles(self) -> int:
        """Never more are needed on one side.

        Two neighbouring tiles overflow a side together, or one of them is long; so a side of R rows closes at most
        2 R / TILE tiles of whole sentences, and the rows of long sentences fill at most 2 R / TILE of theirs.
        """
        return min(5 * _tiles_in(self.rows), self.sentences + 2 * _tiles_in(self.rows)) + 2

    @property
    def num_whole_tiles(self) -> int:
        """Room for tiles of whole sentences, if they are two thirds full. Those beyond it are treated as long tiles."""
        return _tiles_in(3 * self.rows // 2) + 1


@dataclass(frozen=True, slots=True)
class Tiles:
    """The layout for CUDA: views into one int32 array, in their order there; then what is no table."""

    query_offsets_N: Tensor  # sentence n holds the rows offsets[n] to offsets[n + 1]; padded with the last offset
    key_offsets_N: Tensor
    first_key_T: Tensor  # the row may look at the keys first_key <= key < end_key
    end_key_T: Tensor
    query_tiles_A4: Tensor  # begin and end of its query rows, begin and end of its key rows; long ones first
    key_tiles_A4: Tensor  # long ones only: begin and end of its key rows, begin and end of its query rows
    counts_3: Tensor  # how many long query tiles, long key tiles, and query tiles in all
    causal: bool
    numbers_I: Tensor  # all of it
    shape: StaticShape

    def attend(self, query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor) -> Tensor:
        """Equation 1 by the kernel; `modules.py` has the attention that spares joining keys and values."""
        from heedful.fast.cuda.attention import tiled_cross_attention  # needs Triton, which is not everywhere

        key_value_SE = torch.cat([key_SHK.flatten(1), value_SHK.flatten(1)], dim=1)
        num_heads = query_THK.size(1)
        heads_TE: Tensor = tiled_cross_attention(
            query_THK.flatten(1).contiguous(), key_value_SE, self, num_heads=num_heads
        )
        heads_THK: Tensor = heads_TE.unflatten(1, (num_heads, -1))
        return heads_THK

    def to(self, device: torch.device) -> Tiles:
        """The same layout on `device`, in one copy."""
        return view_tiles(self.numbers_I.to(device, non_blocking=True), causal=self.causal, shape=self.shape)


def num_numbers(shape: StaticShape) -> int:
    """How many numbers a layout takes."""
    return sum(aligned(size) for size in _sizes(shape))


def make_tiles(query_lengths_N: Lengths, key_lengths_N: Lengths, *, causal: bool, shape: StaticShape) -> Tiles:
    """The layout of N sentences whose queries and keys have these lengths (for self-attention: the same)."""
    numbers_I = np.zeros(num_numbers(shape), dtype=np.int32)
    fill_tiles(numbers_I, query_lengths_N, key_lengths_N, causal=causal, shape=shape)
    return view_tiles(torch.from_numpy(numbers_I), causal=causal, shape=shape)


def view_tiles(numbers_I: Tensor, *, causal: bool, shape: StaticShape) -> Tiles:
    """The layout that lies in these numbers."""
    parts = numbers_I.split([aligned(size) for size in _sizes(shape)])
    query_offsets_N, key_offsets_N, first_key_T, end_key_T, query_tiles_I, key_tiles_I, counts_3 = (
        part[:size] for part, size in zip(parts, _sizes(shape), strict=True)
    )
    rows = query_offsets_N, key_offsets_N, first_key_T, end_key_T
    return Tiles(*rows, query_tiles_I.view(-1, 4), key_tiles_I.view(-1, 4), counts_3, causal, numbers_I, shape)


def fill_tiles(
    numbers_I: TileNumbers, query_lengths_N: Lengths, key_lengths_N: Lengths, *, causal: bool, shape: StaticShape
) -> None:
    """Write the layout of N sentences into `numbers_I`, every number of it."""
    query_offsets, key_offsets = _offsets(query_lengths_N), _offsets(key_lengths_N)
    _check(query_lengths_N, query_offsets, shape)
    _check(key_lengths_N, key_offsets, shape)
    whole, long = _tiles_of_whole_sentences(query_offsets, key_offsets)
    long_queries = _long_tiles(query_offsets, key_offsets, long)
    long_keys = _long_tiles(key_offsets, query_offsets, long)
    end_key_T = np.repeat(key_offsets[1:], query_lengths_N)
    if causal:
        end_key_T = np.arange(1, int(query_offsets[-1]) + 1)
        long_queries[:, 3] = long_queries[:, 1]  # later keys are out of sight ...
        long_keys[:, 2] = long_keys[:, 0]  # ... and earlier queries do not see this far
    whole = np.concatenate([whole, _tiles_behind(int(query_offsets[-1]), int(key_offsets[-1]), shape.rows)])
    whole, rest = whole[: shape.num_whole_tiles], whole[shape.num_whole_tiles :]
    long_queries, long_keys = np.concatenate([long_queries, rest]), np.concatenate([long_keys, rest[:, [2, 3, 0, 1]]])
    queries = np.concatenate([long_queries, whole])
    tables = (
        (query_offsets, int(query_offsets[-1])),
        (key_offsets, int(key_offsets[-1])),
        (np.repeat(key_offsets[:-1], query_lengths_N), 0),
        (end_key_T, 0),
        (queries.ravel(), 0),
        (long_keys.ravel(), 0),
        (np.array([len(long_queries), len(long_keys), len(queries)]), 0),
    )
    write_tables(numbers_I, tables, _sizes(shape))


def write_tables(numbers_I: TileNumbers, tables: Sequence[tuple[Table, int]], sizes: Sequence[int]) -> TileNumbers:
    """Write tables one after the other, each filled up with a number to its size, aligned; returns what is left."""
    for (table, padding), size in zip(tables, sizes, strict=True):
        assert len(table) <= size, "the bounds on the number of tiles hold for all lengths"
        numbers_I[: len(table)] = table
        numbers_I[len(table) : aligned(size)] = padding
        numbers_I = numbers_I[aligned(size) :]
    return numbers_I


def _sizes(shape: StaticShape) -> tuple[int, ...]:
    offsets = shape.sentences + 1
    return offsets, offsets, shape.rows, shape.rows, 4 * shape.num_tiles, 4 * shape.num_tiles, 3


def aligned(size: int) -> int:
    """The room of a table of this size, so that the next one begins at a multiple of 16 bytes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _tiles_in(rows: int) -> int:
    return -(-rows // TILE)


def _offsets(lengths_N: Lengths) -> Lengths:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths_N)])


def _check(lengths_N: Lengths, offsets_N: Lengths, shape: StaticShape) -> None:
    assert len(lengths_N) <= shape.sentences, f"{len(lengths_N)} sentences in a batch of at most {shape.sentences}"
    assert int(offsets_N[-1]) <= shape.rows, f"{int(offsets_N[-1])} tokens in a batch of at most {shape.rows}"
    assert int(lengths_N.max(initial=0)) <= shape.longest, f"a sentence is longer than {shape.longest} tokens"


def _tiles_of_whole_sentences(query_offsets: Lengths, key_offsets: Lengths) -> tuple[Lengths, Lengths]:
    """Sentences in their order, each put beside the last one where both sides still fit; and which ones are long."""
    long_N = np.maximum(np.diff(query_offsets), np.diff(key_offsets)) > TILE
    next_N = np.minimum(_first_that_overflows(query_offsets), _first_that_overflows(key_offsets))
    next_N = np.maximum(next_N, np.arange(1, len(next_N) + 1))
    firsts = _chain(next_N)
    firsts = firsts[~long_N[firsts]]
    ends = next_N[firsts]
    whole = np.stack([query_offsets[firsts], query_offsets[ends], key_offsets[firsts], key_offsets[ends]], axis=1)
    return whole, np.flatnonzero(long_N)


def _first_that_overflows(offsets: Lengths) -> Lengths:
    """For each sentence: the first one behind it whose end lies more than a tile after its beginning."""
    return np.searchsorted(offsets, offsets[:-1] + TILE, side="right") - 1


def _chain(next_N: Lengths) -> Lengths:
    """0, next[0], next[next[0]], …"""
    following, chain, i = next_N.tolist(), [], 0
    while i < len(following):
        chain.append(i)
        i = following[i]
    return np.array(chain, dtype=np.int64)


def _long_tiles(offsets: Lengths, other_offsets: Lengths, long: Lengths) -> Lengths:
    """The rows of long sentences in steps of a tile, each with all rows of its sentence on the other side."""
    num_tiles = -(-(offsets[long + 1] - offsets[long]) // TILE)
    sentence = np.repeat(long, num_tiles)
    step = np.arange(len(sentence)) - np.repeat(np.cumsum(num_tiles) - num_tiles, num_tiles)
    begin = offsets[sentence] + TILE * step
    end = np.minimum(begin + TILE, offsets[sentence + 1])
    return np.stack([begin, end, other_offsets[sentence], other_offsets[sentence + 1]], axis=1)


def _tiles_behind(num_queries: int, num_keys: int, rows: int) -> Lengths:
    """The rows behind the last sentence, so that zeros are written there."""
    begin_1 = TILE * np.arange(_tiles_in(rows - min(num_queries, num_keys)))
    queries, keys = np.minimum(num_queries + begin_1, rows), np.minimum(num_keys + begin_1, rows)
    return np.stack([queries, np.minimum(queries + TILE, rows), keys, np.minimum(keys + TILE, rows)], axis=1)
