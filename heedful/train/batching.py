"""Batches (§5.1): (seed, step) → about N source and N target tokens, packed.

The paper put sentences of like length together, to save padding. Packed rows have no padding, so ours are random
samples of the corpus (a departure, listed in docs/paper.md). Nothing here is random but through (seed, epoch), so that
a batch is a pure function of (seed, step), and a run that is resumed sees what it would have seen. It knows numbers of
pairs and tokens; no text, no model.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.config.settings import TrainConfig
from heedful.data.shards import Shards
from heedful.data.splitmix import GOLDEN_GAMMA, mixed, shifted
from heedful.model.layout import moved
from heedful.model.packed import Packed, pack_source, pack_target, shift_right
from heedful.train.processes import ALONE, World

PairNumbers: TypeAlias = npt.NDArray[np.int64]
T = TypeVar("T")
B = TypeVar("B")

# How many pairs are looked up at once.
CHUNK_PAIRS = 16_384
FEISTEL_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Batch:
    """Packed sentence pairs: row t of the decoder sees `target_in` up to t and must give `target_out_T[t]`."""

    source: Packed
    target_in: Packed
    target_out_T: Tensor
    num_target_tokens: int

    def to(self, device: torch.device) -> Batch:
        """The same batch on `device`."""
        return moved(self, device)


def make_batch(shards: Shards, pairs_N: PairNumbers) -> Batch:
    """The pairs with these numbers, packed."""
    source_T, source_lengths_N = shards.source.gather(pairs_N)
    target_T, target_lengths_N = shards.target.gather(pairs_N)
    return Batch(
        source=pack_source(source_T, source_lengths_N),
        target_in=pack_target(shift_right(target_T), target_lengths_N, source_lengths_N),
        target_out_T=torch.from_numpy(target_T),
        num_target_tokens=len(target_T),
    )


def most_sentences(rows: int) -> int:
    """A micro-batch holds no more: tables of a fixed size need some bound, and few texts come near this one."""
    return max(1, rows // 4)


def derived_seed(*numbers: int) -> int:
    """One 63-bit seed from several numbers, such as (seed, step, micro-batch); neighbours get unrelated ones."""
    word = np.zeros(1, dtype=np.int64)
    for number in numbers:
        word = mixed(word + number + GOLDEN_GAMMA)
    return int(shifted(word, 1)[0])


def shuffled(numbers: PairNumbers, size: int, seed: int) -> PairNumbers:
    """Where a shuffle of 0 … size−1 puts these numbers, without holding the shuffle in memory.

    A Feistel network permutes the next power of four; what falls outside is sent through again until it is inside.
    """
    half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
    keys = [derived_seed(seed, r) for r in range(FEISTEL_ROUNDS)]
    words = _feistel(numbers, half_bits, keys)
    while (outside := words >= size).any():
        words[outside] = _feistel(words[outside], half_bits, keys)
    return words


def _feistel(words: PairNumbers, half_bits: int, keys: list[int]) -> PairNumbers:
    low = (1 << half_bits) - 1
    left, right = words >> half_bits, words & low
    for key in keys:
        left, right = right, left ^ (mixed(right + key) & low)
    return (left << half_bits) | right


def endless_pairs(
    num_pairs: int, seed: int, num_encodings: int = 1, files: Sequence[tuple[int, float]] = ()
) -> Iterator[PairNumbers]:
    """The endless row of pair numbers, in chunks: epoch after epoch, each in an order of its own.

    Where pairs are encoded several times, each epoch takes the next encoding. `files` are the sizes and weights of the
    files that the pairs come from: with a weight of 3 an epoch takes the pairs of a file three times, with 0.5 the one
    half and then the other.
    """
    sizes_F, shares_F = _shares(files or [(num_pairs, 1.0)])
    begins_F, ends_F, epoch_size = np.cumsum(sizes_F) - sizes_F, np.cumsum(shares_F), int(shares_F.sum())
    position = 0
    while True:
        epoch, first = divmod(position, epoch_size)
        last = min(first + CHUNK_PAIRS, epoch_size)
        places_N = shuffled(np.arange(first, last), epoch_size, derived_seed(seed, epoch))
        file_N = np.searchsorted(ends_F, places_N, side="right")
        turns_N = epoch * shares_F[file_N] + places_N - (ends_F - shares_F)[file_N]  # how many of the file came before
        rounds_N, pairs_N = np.divmod(turns_N, sizes_F[file_N])
        yield begins_F[file_N] + pairs_N + rounds_N % num_encodings * num_pairs
        position += last - first


def _shares(files: Sequence[tuple[int, float]]) -> tuple[PairNumbers, PairNumbers]:
    """How many pairs each file has, and how many of them an epoch takes."""
    sizes_F = np.array([size for size, _ in files], dtype=np.int64)
    shares_F = np.array([max(1, round(size * weight)) if size else 0 for size, weight in files], dtype=np.int64)
    return sizes_F, shares_F


def micro_batches(shards: Shards, *, seed: int, rows: int) -> Iterator[PairNumbers]:
    """The endless row cut into micro-batches: each takes the next pairs while neither side exceeds `rows` tokens.

    (Nor do they exceed `most_sentences`.)
    """
    waiting = np.empty(0, dtype=np.int64)
    files = list(zip(shards.kept_of_files, shards.weights, strict=True)) if shards.weights else []
    pairs, most = endless_pairs(len(shards), seed, shards.num_encodings, files), most_sentences(rows)
    while True:
        while len(waiting) <= most:
            waiting = np.concatenate([waiting, next(pairs)])
        ends_source = np.cumsum(shards.source.lengths[waiting])
        ends_target = np.cumsum(shards.target.lengths[waiting])
        first = 0
        while len(waiting) - first > most:
            used_source = int(ends_source[first - 1]) if first else 0
            used_target = int(ends_target[first - 1]) if first else 0
            fit_source = int(np.searchsorted(ends_source, used_source + rows, side="right"))
            fit_target = int(np.searchsorted(ends_target, used_target + rows, side="right"))
            end = min(fit_source, fit_target, first + most)
            yield waiting[first:end]
            first = end
        waiting = waiting[first:]


def step_batches(
    shards: Shards,
    make: Callable[[Shards, PairNumbers], B],
    train: TrainConfig,
    *,
    first_step: int = 1,
    world: World = ALONE,
) -> Iterator[list[B]]:
    """The micro-batches of one rank in each step from `first_step` on: numbers rank, rank + size, and so on.

    The steps are the same for any number of ranks. With several copies a micro-batch repeats all its pairs.
    """
    parts = micro_batches(shards, seed=train.seed, rows=train.micro_batch_tokens // train.copies)
    for _ in range((first_step - 1) * train.micro_batches):
        next(parts)
    while True:
        step = [next(parts) for _ in range(train.micro_batches)]
        yield [make(shards, np.tile(pairs_N, train.copies)) for pairs_N in step[world.rank :: world.size]]


def prefetched(items: Iterator[T], *, depth: int = 4) -> Generator[T]:
    """The same items, made ahead in a thread of their own; an error there is raised here.

    When this is closed the thread has ended: one that is busy with tensors while Python shuts down aborts the process.
    """
    ready: queue.Queue[T | BaseException | None] = queue.Queue(maxsize=depth)
    stopped = threading.Event()

    def put(item: T | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put(item)
                if stopped.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=work, daemon=True, name="heedful-batches")
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()
