"""The tile tables name every row once, hold every pair that may attend, and never grow with the batch."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.fast.cuda.tiles import TILE, StaticShape, Tiles, make_tiles, num_numbers
from heedful.model.attention import layout_mask
from heedful.model.layout import Lengths

ROWS = 600
SHAPE = StaticShape(rows=ROWS, sentences=40, longest=300)


def _lengths(values: list[int]) -> Lengths:
    return np.array(values, dtype=np.int64)


def _fitting(values: list[int]) -> Lengths:
    """As many of the lengths as there is room for."""
    lengths = _lengths(values)
    return lengths[np.cumsum(lengths) <= ROWS]


@st.composite
def pairs_of_lengths(draw: st.DrawFn) -> tuple[Lengths, Lengths]:
    length = st.one_of(st.integers(1, 12), st.integers(28, 70), st.integers(1, 300))
    pairs = draw(st.lists(st.tuples(length, length), min_size=1, max_size=SHAPE.sentences))
    queries, keys = _fitting([q for q, _ in pairs]), _fitting([k for _, k in pairs])
    num_sentences = min(len(queries), len(keys))
    return queries[:num_sentences], keys[:num_sentences]


def _intervals_mask(tiles: Tiles) -> torch.Tensor:
    key = torch.arange(ROWS)
    return (key >= tiles.first_key_T[:, None]) & (key < tiles.end_key_T[:, None])


def _rows(tiles: torch.Tensor) -> list[int]:
    return [row for begin, end in tiles[:, :2].tolist() for row in range(begin, end)]


@settings(max_examples=60)
@given(pairs_of_lengths())
def test_the_intervals_say_the_same_as_the_offsets(pair: tuple[Lengths, Lengths]) -> None:
    queries, keys = pair
    for tiles in (
        make_tiles(queries, keys, causal=False, shape=SHAPE),
        make_tiles(queries, queries, causal=True, shape=SHAPE),
    ):
        assert torch.equal(_intervals_mask(tiles), layout_mask(tiles, ROWS, ROWS))


@settings(max_examples=60)
@given(pairs_of_lengths(), st.booleans())
def test_every_row_is_in_one_tile_and_every_pair_in_a_common_one(pair: tuple[Lengths, Lengths], causal: bool) -> None:
    queries, keys = (pair[0], pair[0]) if causal else pair
    tiles = make_tiles(queries, keys, causal=causal, shape=SHAPE)
    num_long_queries, num_long_keys, num_queries = tiles.counts_3.tolist()
    whole = tiles.query_tiles_A4[num_long_queries:]
    assert sorted(_rows(tiles.query_tiles_A4)) == list(range(ROWS))
    assert not bool(tiles.query_tiles_A4[num_queries:].any())
    assert sorted(_rows(whole[:, 2:]) + _rows(tiles.key_tiles_A4)) == list(range(ROWS))
    assert int((tiles.query_tiles_A4[:, 1] - tiles.query_tiles_A4[:, 0]).max()) <= TILE
    assert int((whole[:, 3] - whole[:, 2]).max()) <= TILE
    assert num_queries - num_long_queries <= SHAPE.num_whole_tiles

    by_query, by_key = torch.zeros(ROWS, ROWS, dtype=torch.bool), torch.zeros(ROWS, ROWS, dtype=torch.bool)
    for first, end, first_key, end_key in tiles.query_tiles_A4.tolist():
        by_query[first:end, first_key:end_key] = True
    for first, end, first_key, end_key in whole.tolist():
        by_key[first:end, first_key:end_key] = True
    for first_key, end_key, first, end in tiles.key_tiles_A4.tolist()[:num_long_keys]:
        by_key[first:end, first_key:end_key] = True
    mask = _intervals_mask(tiles)
    assert not bool((mask & ~by_query).any())
    assert not bool((mask & ~by_key).any())


@pytest.mark.parametrize(
    ("queries", "keys"),
    [
        ([65] * 9, [1] * 9),  # all long, by the queries alone
        ([1] * 9, [65] * 9),
        ([65, 1] * 9, [65, 1] * 9),  # no two short ones meet
        ([33] * 18, [33] * 18),  # tiles hardly more than half full
        ([33, 1, 1] * 13, [1, 1, 33] * 13),  # one side closes one tile, the other the next
        ([1], [1]),
        ([300, 300], [300, 300]),  # no row is left over
        ([64] * 9, [64] * 9),
    ],
)
def test_the_bounds_hold_for_awkward_lengths(queries: list[int], keys: list[int]) -> None:
    sizes = {
        len(make_tiles(_lengths(queries), _lengths(keys), causal=False, shape=SHAPE).numbers_I),
        len(make_tiles(_lengths(queries), _lengths(queries), causal=True, shape=SHAPE).numbers_I),
    }
    assert sizes == {num_numbers(SHAPE)}


def test_offsets_are_padded_with_the_last_one() -> None:
    tiles = make_tiles(_lengths([3, 70]), _lengths([5, 2]), causal=False, shape=SHAPE)
    assert tiles.query_offsets_N.tolist() == [0, 3] + [73] * (SHAPE.sentences - 1)
    assert tiles.key_offsets_N.tolist() == [0, 5] + [7] * (SHAPE.sentences - 1)


def test_a_copy_to_a_device_keeps_every_table() -> None:
    tiles = make_tiles(_lengths([3, 70]), _lengths([5, 2]), causal=False, shape=SHAPE)
    moved = tiles.to(torch.device("cpu"))
    assert torch.equal(moved.numbers_I, tiles.numbers_I)
    assert moved.query_tiles_A4.untyped_storage().data_ptr() == moved.end_key_T.untyped_storage().data_ptr()


def test_a_batch_that_does_not_fit_is_refused() -> None:
    with pytest.raises(AssertionError, match="tokens in a batch of at most 600"):
        make_tiles(_lengths([300, 299, 2]), _lengths([1, 1, 1]), causal=False, shape=SHAPE)
    with pytest.raises(AssertionError, match="longer than 300"):
        make_tiles(_lengths([301]), _lengths([1]), causal=False, shape=SHAPE)


def test_three_layouts_of_a_batch_take_a_small_share_of_its_step() -> None:
    """Packing must feed 3 million tokens a second: 17 ms for 25,000 + 25,000 tokens, of which this is one part."""
    lengths = np.random.default_rng(0).lognormal(np.log(28) - 0.18, 0.6, 3000).round().clip(1, 256).astype(np.int64)
    lengths = lengths[np.cumsum(lengths) <= 25_000]
    shape = StaticShape(rows=25_088, sentences=2048, longest=257)
    times = []
    for _ in range(5):
        begin = time.process_time()
        for causal in (False, True, False):
            make_tiles(lengths, lengths, causal=causal, shape=shape)
        times.append(time.process_time() - begin)
    assert min(times) < 0.010
