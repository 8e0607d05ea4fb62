"""Micro-batches for CUDA: every one of them in one array of the same size."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.data.shards import Shards
from heedful.fast.cuda.packing import fill_pairs, num_pair_numbers
from heedful.fast.cuda.tiles import StaticShape
from heedful.train.batching import PairNumbers, most_sentences

WHOLE_TILES = 128  # rows are rounded up to this, so that matrix products have whole tiles


@dataclass(frozen=True, slots=True)
class NumberedBatch:
    """The same for a GPU: everything in one array of a fixed size, which `view_pairs` reads."""

    numbers_I: Tensor
    num_target_tokens: int


def make_numbered_batch(shape: StaticShape, shards: Shards, pairs_N: PairNumbers) -> NumberedBatch:
    """The pairs with these numbers, in pinned memory where there is a GPU, so that copying them holds up nobody."""
    numbers_I = torch.empty(num_pair_numbers(shape), dtype=torch.int32, pin_memory=torch.cuda.is_available())
    target_T, target_lengths_N = shards.target.gather(pairs_N)
    fill_pairs(numbers_I.numpy(), *shards.source.gather(pairs_N), target_T, target_lengths_N, shape)
    return NumberedBatch(numbers_I, len(target_T))


def static_shape(rows: int, max_length: int, *, copies: int = 1) -> StaticShape:
    """The shape that holds every micro-batch of at most `rows` tokens a side, where each pair stands `copies` times."""
    aligned = -(-rows // WHOLE_TILES) * WHOLE_TILES
    return StaticShape(rows=aligned, sentences=copies * most_sentences(rows // copies), longest=max_length + 1)
