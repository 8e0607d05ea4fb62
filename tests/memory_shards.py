"""Shards made in memory, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heedful.data.shards import PairCounts, Shards, Side


def side(sentences: Sequence[Sequence[int]]) -> Side:
    """Sentences without eos → a side."""
    closed = [[*sentence, 0] for sentence in sentences]
    ids = np.array([token for sentence in closed for token in sentence], dtype=np.uint16)
    return Side(ids, np.array([len(sentence) for sentence in closed], dtype=np.int32))


def shards(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Shards:
    """Pairs of sentences without eos → shards."""
    source, target = side([s for s, _ in pairs]), side([t for _, t in pairs])
    counts = PairCounts(len(pairs), len(pairs), 0, 0, len(source.ids), len(target.ids))
    return Shards(source, target, counts)


def random_shards(num_pairs: int, *, seed: int = 0, vocab_size: int = 50, longest: int = 12) -> Shards:
    """Random sentences of random lengths; the target is the source, reversed."""
    rng = np.random.default_rng(seed)
    sentences = [rng.integers(2, vocab_size, rng.integers(1, longest + 1)).tolist() for _ in range(num_pairs)]
    return shards([(sentence, sentence[::-1]) for sentence in sentences])
