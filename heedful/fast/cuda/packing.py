"""A whole batch as one array of numbers of a fixed size: it reaches a GPU in one copy, and a CUDA graph reads it.

The twin of `pack_source` and `pack_target` in `model/packed.py`, with `Tiles` for layouts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.data.shards import Shards
from heedful.fast.cuda.tiles import StaticShape, TileNumbers, aligned, fill_tiles, num_numbers, view_tiles, write_tables
from heedful.model.layout import Lengths
from heedful.model.packed import NO_TARGET, Packed, TokenIds, positions_of, shift_right
from heedful.train.batching import PairNumbers, most_sentences

WHOLE_TILES = 128  # rows are rounded up to this, so that matrix products have whole tiles


def num_pair_numbers(shape: StaticShape) -> int:
    """How many numbers `fill_pairs` writes."""
    return 5 * shape.rows + 3 * num_numbers(shape)


def fill_pairs(
    numbers_I: TileNumbers, source: tuple[TokenIds, Lengths], target: tuple[TokenIds, Lengths], shape: StaticShape
) -> None:
    """Write a whole batch of sentence pairs into one array of a fixed size, which reaches a GPU in one copy."""
    assert shape.rows == aligned(shape.rows), "the tables of tiles begin at multiples of 16 bytes"
    (source_T, source_lengths_N), (target_T, target_lengths_N) = source, target
    rows = (
        (source_T, 0),
        (positions_of(source_lengths_N), 0),
        (shift_right(target_T), 0),
        (positions_of(target_lengths_N), 0),
        (target_T, NO_TARGET),
    )
    of_tiles = write_tables(numbers_I, rows, [shape.rows] * len(rows)).reshape(3, -1)
    fill_tiles(of_tiles[0], source_lengths_N, source_lengths_N, causal=False, shape=shape)
    fill_tiles(of_tiles[1], target_lengths_N, target_lengths_N, causal=True, shape=shape)
    fill_tiles(of_tiles[2], target_lengths_N, source_lengths_N, causal=False, shape=shape)


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


@dataclass(frozen=True, slots=True)
class NumberedBatch:
    """A micro-batch for a GPU: everything in one array of a fixed size, which `view_pairs` reads."""

    numbers_I: Tensor
    num_target_tokens: int


def make_numbered_batch(shape: StaticShape, shards: Shards, pairs_N: PairNumbers) -> NumberedBatch:
    """The pairs with these numbers, in pinned memory where there is a GPU, so that copying them holds up nobody."""
    numbers_I = torch.empty(num_pair_numbers(shape), dtype=torch.int32, pin_memory=torch.cuda.is_available())
    source, target = shards.source.gather(pairs_N), shards.target.gather(pairs_N)
    fill_pairs(numbers_I.numpy(), source, target, shape)
    return NumberedBatch(numbers_I, len(target[0]))


def static_shape(rows: int, max_length: int, *, copies: int = 1) -> StaticShape:
    """The shape that holds every micro-batch of at most `rows` tokens a side, where each pair stands `copies` times."""
    whole = -(-rows // WHOLE_TILES) * WHOLE_TILES
    return StaticShape(rows=whole, sentences=copies * most_sentences(rows // copies), longest=max_length + 1)
