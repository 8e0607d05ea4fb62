"""A whole batch as one array of numbers of a fixed size: it reaches a GPU in one copy, and a CUDA graph reads it.

The twin of `pack_source` and `pack_target` in `model/packed.py`, with `Tiles` for layouts.
"""

from __future__ import annotations

from torch import Tensor

from heedful.fast.cuda.tiles import ALIGNMENT, StaticShape, TileNumbers, fill_tiles, num_numbers, view_tiles
from heedful.model.layout import Lengths
from heedful.model.packed import NO_TARGET, Packed, TokenIds, positions_of, shift_right


def num_pair_numbers(shape: StaticShape) -> int:
    """How many numbers `fill_pairs` writes."""
    return 5 * shape.rows + 3 * num_numbers(shape)


def fill_pairs(
    numbers_I: TileNumbers,
    source_T: TokenIds,
    source_lengths_N: Lengths,
    target_T: TokenIds,
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
