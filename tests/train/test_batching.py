"""Batches: a pure function of (seed, step), each pair once an epoch, never more tokens than the budget."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.config.settings import TrainConfig
from heedful.data.shards import Shards
from heedful.fast.cuda.packing import make_numbered_batch, static_shape, view_pairs
from heedful.model.packed import NO_TARGET
from heedful.train.batching import (
    CHUNK_PAIRS,
    Batch,
    derived_seed,
    endless_pairs,
    make_batch,
    micro_batches,
    most_sentences,
    prefetched,
    shuffled,
    step_batches,
)
from heedful.train.processes import World
from tests.memory_shards import random_shards, shards


def steps(
    data: Shards, num_steps: int, *, first_step: int = 1, rank: int = 0, num_ranks: int = 1, num_micro_batches: int = 2
) -> list[list[Batch]]:
    train = TrainConfig(seed=3, batch_tokens=40 * num_micro_batches, micro_batches=num_micro_batches)
    stream = step_batches(data, make_batch, train, first_step=first_step, world=World(rank, num_ranks))
    return list(islice(stream, num_steps))


def tokens(batches: list[list[Batch]]) -> list[list[list[int]]]:
    return [[batch.target_out_T.tolist() for batch in step] for step in batches]


@given(st.integers(1, 5000), st.integers(0, 2**63))
@settings(max_examples=40)
def test_a_shuffle_meets_every_number_once(size: int, seed: int) -> None:
    assert sorted(shuffled(np.arange(size), size, seed).tolist()) == list(range(size))


def test_two_epochs_have_different_orders_and_neighbours_do_not_stay_together() -> None:
    first, second = (shuffled(np.arange(10_000), 10_000, derived_seed(1, epoch)) for epoch in (0, 1))
    assert (first == second).mean() < 0.01
    assert (np.abs(np.diff(first)) == 1).mean() < 0.01
    assert abs(np.corrcoef(first, np.arange(10_000))[0, 1]) < 0.05


@pytest.mark.parametrize("size", [4097, 10_000, 60_000])
@pytest.mark.parametrize("seed", range(5))
def test_pairs_that_come_soon_after_each_other_lie_far_apart_in_the_file(size: int, seed: int) -> None:
    """Two numbers drawn at random are a third of the size apart in the mean."""
    order = shuffled(np.arange(size), size, seed)
    for lag in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        assert np.abs(order[lag:] - order[:-lag]).mean() == pytest.approx(size / 3, rel=0.05)


def test_seeds_of_neighbours_are_unrelated() -> None:
    seeds = {derived_seed(a, b, c) for a in range(10) for b in range(10) for c in range(10)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derived_seed(1, 2) != derived_seed(2, 1)


def test_an_epoch_holds_every_pair_once() -> None:
    data = random_shards(300)
    stream = micro_batches(data, seed=1, rows=64)
    seen: list[int] = []
    while len(seen) < 600:
        seen += next(stream).tolist()
    assert sorted(seen[:300]) == list(range(300))
    assert sorted(seen[300:600]) == list(range(300))
    assert seen[:300] != seen[300:600]


def test_every_epoch_takes_the_next_encoding() -> None:
    chunks = endless_pairs(300, seed=1, num_encodings=3)
    epochs = [next(chunks) for _ in range(5)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(k * 300, (k + 1) * 300)) for k in (0, 1, 2, 0, 1)]
    plain = endless_pairs(300, seed=1)
    assert all((epoch % 300 == next(plain)).all() for epoch in epochs)


@given(st.lists(st.tuples(st.integers(1, 60), st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.5])), min_size=1, max_size=4))
@settings(max_examples=30)
def test_an_epoch_takes_the_pairs_of_each_file_as_often_as_its_weight_says(files: list[tuple[int, float]]) -> None:
    num_pairs, size = sum(size for size, _ in files), sum(max(1, round(size * weight)) for size, weight in files)
    chunks = endless_pairs(num_pairs, seed=1, files=files)
    row = np.concatenate(list(islice(chunks, 8 * (1 + size // CHUNK_PAIRS))))
    begin = 0
    for number, weight in files:
        share = max(1, round(number * weight))
        mine = [epoch[(epoch >= begin) & (epoch < begin + number)] for epoch in np.split(row, 8)]
        assert {len(epoch) for epoch in mine} == {share}
        seen = np.bincount(np.concatenate(mine) - begin, minlength=number)
        assert seen.max() - seen.min() <= 1, "over the epochs each pair of a file comes as often as the others"
        begin += number


def test_weights_of_one_change_nothing_and_each_round_of_a_file_takes_the_next_encoding() -> None:
    plain, ones = endless_pairs(300, 1, 3), endless_pairs(300, 1, 3, [(100, 1.0), (200, 1.0)])
    assert all((next(plain) == next(ones)).all() for _ in range(5))
    row = next(endless_pairs(10, seed=1, num_encodings=3, files=[(4, 1.0), (6, 2.0)]))
    assert sorted(row) == [0, 1, 2, 3, *range(4, 10), *range(14, 20)]


@given(st.integers(13, 200), st.integers(1, 40))
@settings(max_examples=30)
def test_a_micro_batch_is_full_and_within_its_budget(rows: int, num_pairs: int) -> None:
    data, other = (random_shards(num_pairs, seed=num_pairs + n) for n in (0, 100))
    data = replace(data, target=other.target)  # now one side is longer, now the other
    parts = list(islice(micro_batches(data, seed=5, rows=rows), 21))
    for part, following in pairwise(parts):
        source, target = (int(side.lengths[part].sum()) for side in (data.source, data.target))
        assert max(source, target) <= rows
        assert len(part) <= most_sentences(rows)
        next_source, next_target = (int(side.lengths[following[0]]) for side in (data.source, data.target))
        is_full = max(source + next_source, target + next_target) > rows
        assert is_full or len(part) == most_sentences(rows)


def test_a_batch_follows_from_seed_and_step() -> None:
    data = random_shards(100)
    assert tokens(steps(data, 30))[20:] == tokens(steps(data, 10, first_step=21))


def test_ranks_share_the_micro_batches_of_one_step() -> None:
    data = random_shards(100)
    alone = tokens(steps(data, 5, num_micro_batches=4))
    shared = [tokens(steps(data, 5, num_micro_batches=4, rank=rank, num_ranks=2)) for rank in (0, 1)]
    assert alone == [[first[0], second[0], first[1], second[1]] for first, second in zip(*shared, strict=True)]


def test_a_batch_shows_the_shifted_target() -> None:
    batch = make_batch(shards([([5, 6], [7, 8, 9]), ([4], [3])]), np.array([1, 0]))
    assert batch.source.tokens_T.tolist() == [4, 0, 5, 6, 0]
    assert batch.source.positions_T.tolist() == [0, 1, 0, 1, 2]
    assert batch.target_out_T.tolist() == [3, 0, 7, 8, 9, 0]
    assert batch.target_in.tokens_T.tolist() == [0, 3, 0, 7, 8, 9]
    assert batch.target_in.positions_T.tolist() == [0, 1, 0, 1, 2, 3]
    assert batch.num_target_tokens == 6
    assert torch.equal(batch.to(torch.device("cpu")).target_out_T, batch.target_out_T)


def test_a_numbered_batch_says_the_same() -> None:
    data = random_shards(20)
    shape, pairs_N = static_shape(120, 12), np.array([3, 1, 7])
    batch, numbered = make_batch(data, pairs_N), make_numbered_batch(shape, data, pairs_N)
    source, target_in, target_out_T = view_pairs(numbered.numbers_I, shape)
    num_source, num_target = len(batch.source.tokens_T), batch.num_target_tokens
    assert numbered.num_target_tokens == num_target
    assert source.tokens_T[:num_source].tolist() == batch.source.tokens_T.tolist()
    assert target_in.tokens_T[:num_target].tolist() == batch.target_in.tokens_T.tolist()
    assert target_out_T.tolist() == batch.target_out_T.tolist() + [NO_TARGET] * (shape.rows - num_target)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("rows", [4, 7, 8, 11, 40])
def test_a_static_shape_holds_all_copies_however_few_the_tokens(rows: int, copies: int) -> None:
    data, shape = shards([([], []), ([5], [6])]), static_shape(rows, 1, copies=copies)
    make = partial(make_numbered_batch, shape)
    train = TrainConfig(batch_tokens=rows, r_drop=copies - 1.0)
    stream, plain = step_batches(data, make, train), step_batches(data, make_batch, train)
    for (numbered,), (batch,) in islice(zip(stream, plain, strict=True), 20):
        target_T = view_pairs(numbered.numbers_I, shape)[2]
        assert target_T[: batch.num_target_tokens].tolist() == batch.target_out_T.tolist()


def test_prefetching_changes_nothing_but_the_thread() -> None:
    assert list(prefetched(iter(range(50)))) == list(range(50))


def test_a_stream_that_is_closed_leaves_no_thread() -> None:
    """A thread that still packs batches while Python shuts down aborts a process that has done its work."""
    stream = prefetched(iter(range(50)), depth=1)
    assert next(stream) == 0
    stream.close()
    assert "heedful-batches" not in [thread.name for thread in threading.enumerate()]


def test_an_error_while_prefetching_is_raised_where_the_items_are_used() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("no more text")

    stream = prefetched(items())
    assert next(stream) == 1
    with pytest.raises(ValueError, match="no more text"):
        next(stream)
