"""Attention (§3.2): the only part of the model in which positions meet.

`attention` is equation 1 as the paper writes it, and `plain_attention` the same over a whole packed batch; both give
the weights too. What a model computes with is the `attend` of the batch's layout, which is equal to it by test.
(Translation, a position at a time, has its own in `decoding.py`, with the √d_k in W_Q.) K is d_k; of values and
outputs it is d_v. Which rows may look at which is in the layout; nothing here knows tokens or sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful.config.settings import ModelConfig
from heedful.model.layout import Layout


def attention(query_HLK: Tensor, key_HMK: Tensor, value_HMK: Tensor, mask_LM: Tensor) -> tuple[Tensor, Tensor]:
    """Equation 1: softmax(Q Kᵀ / √d_k) V. Returns the output and the weights.

    Illegal connections get −∞ before the softmax. A row that may attend to nothing comes out as zeros.
    """
    scores_HLM = query_HLK @ key_HMK.mT / math.sqrt(query_HLK.size(-1))
    weights_HLM = scores_HLM.masked_fill(~mask_LM, -math.inf).softmax(dim=-1)
    weights_HLM = weights_HLM.masked_fill(~mask_LM, 0.0)
    return weights_HLM @ value_HMK, weights_HLM


@dataclass(frozen=True)
class Pairs:
    """Where queries and keys stand in their sentences; every position is below `longest`."""

    query_position_L: Tensor
    key_position_M: Tensor
    longest: int

    @cached_property
    def distance_LM(self) -> Tensor:
        """How far after the query the key stands; before it: negative."""
        return self.key_position_M - self.query_position_L[..., None]


def layout_mask(layout: Layout, num_queries: int, num_keys: int) -> Tensor:
    """The layout as a mask over all pairs of rows: True where the query may attend to the key."""
    query_row_L1 = torch.arange(num_queries, device=layout.query_offsets_N.device)[:, None]
    key_row_M = torch.arange(num_keys, device=layout.key_offsets_N.device)
    query_sentence_L1 = torch.bucketize(query_row_L1, layout.query_offsets_N, right=True)
    key_sentence_M = torch.bucketize(key_row_M, layout.key_offsets_N, right=True)
    outside = query_row_L1 >= layout.query_offsets_N[-1]
    mask_LM = (query_sentence_L1 == key_sentence_M) & ~outside
    return mask_LM & (key_row_M <= query_row_L1) if layout.causal else mask_LM


def plain_attention(query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Equation 1 over the whole packed row: the twin of the fast paths, and the one that gives the weights."""
    mask_TS = layout_mask(layout, query_THK.size(0), key_SHK.size(0))
    output_HTK, weights_HTS = attention(
        query_THK.transpose(0, 1), key_SHK.transpose(0, 1), value_SHK.transpose(0, 1), mask_TS
    )
    return output_HTK.transpose(0, 1), weights_HTS


def project(x_TD: Tensor, *matrices: nn.Linear) -> tuple[Tensor, ...]:
    """x W for several matrices W, in one product."""
    product_TX = F.linear(x_TD, torch.cat([matrix.weight for matrix in matrices]))
    parts: tuple[Tensor, ...] = product_TX.split([matrix.out_features for matrix in matrices], dim=-1)
    return parts


class Equation1(nn.Module):
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V, as the layout computes it; `attention_variants.py` has others.

    `divisor`, `turn_`, `scores` and `values` are its parts, for decoding with a cache.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.divisor = math.sqrt(config.head_d_k)

    def attend(self, query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor, layout: Layout) -> Tensor:
        """The output, the fastest way."""
        return layout.attend(query_THK, key_SHK, value_SHK)

    def with_weights(
        self, query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor, layout: Layout
    ) -> tuple[Tensor, Tensor]:
        """The output and the weights."""
        return plain_attention(query_THK, key_SHK, value_SHK, layout)

    def turn_(self, query_HLK: Tensor, key_value_HLC: Tensor, pairs: Pairs) -> None:
        """Change new queries and keys by where they stand, in place; equation 1 does not."""

    def scores(self, query_HLK: Tensor, key_HMK: Tensor, _: Pairs | None) -> Tensor:
        """Q Kᵀ; the queries are divided already. In cross-attention there are no pairs to compare positions of."""
        return query_HLK @ key_HMK.mT

    def values(self, weights_HLM: Tensor, value_HMK: Tensor, _: Pairs | None) -> Tensor:
        """The sum of the values by their weights."""
        return weights_HLM @ value_HMK


class MultiHeadAttention(nn.Module):
    """§3.2.2: MultiHead(Q, K, V) = Concat(head_1, …, head_h) W_O, head_i = Attention(Q W_Q, K W_K, V W_V); no biases.

    The matrices of the h heads lie side by side in one, so `W_Q` maps d_model to h·d_k.
    """

    def __init__(self, config: ModelConfig, equation: Equation1) -> None:
        super().__init__()
        self.num_heads, self.d_k = config.num_heads, config.head_d_k
        width_K, width_V = config.num_heads * config.head_d_k, config.num_heads * config.head_d_v
        self.W_Q = nn.Linear(config.d_model, width_K, bias=False)
        self.W_K = nn.Linear(config.d_model, width_K, bias=False)
        self.W_V = nn.Linear(config.d_model, width_V, bias=False)
        self.W_O = nn.Linear(width_V, config.d_model, bias=False)
        self.equation = equation
        self.recorder: Recorder | None = None

    def heads(self, layout: Layout, *projected: Tensor) -> Tensor:
        """Concat(head_1, …, head_h) of the projected queries, keys and values."""
        query_THK, key_SHK, value_SHK = (x_TX.unflatten(-1, (self.num_heads, -1)) for x_TX in projected)
        if self.recorder is not None:
            return self.recorder.attend(self.equation, query_THK, key_SHK, value_SHK, layout).flatten(-2)
        return self.equation.attend(query_THK, key_SHK, value_SHK, layout).flatten(-2)


class SelfAttention(MultiHeadAttention):
    """Queries, keys and values all come from the same rows (§3.2.3, second and third use)."""

    def forward(self, x_TD: Tensor, layout: Layout) -> Tensor:
        """MultiHead(x, x, x)."""
        output_TD: Tensor = self.W_O(self.heads(layout, *project(x_TD, self.W_Q, self.W_K, self.W_V)))
        return output_TD


class CrossAttention(MultiHeadAttention):
    """Queries come from the decoder, keys and values from the encoder's output (§3.2.3, first use)."""

    def forward(self, x_TD: Tensor, memory_SD: Tensor, layout: Layout) -> Tensor:
        """MultiHead(x, memory, memory)."""
        output_TD: Tensor = self.W_O(self.heads(layout, self.W_Q(x_TD), *project(memory_SD, self.W_K, self.W_V)))
        return output_TD


@dataclass
class Recorder:
    """Keeps the queries, keys and values of an attention and the weights that came out, one entry a call."""

    queries: list[Tensor] = field(default_factory=list)
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)

    def attend(
        self, equation: Equation1, query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor, layout: Layout
    ) -> Tensor:
        """The equation as it is written; the weights of this call are kept."""
        output_THK, weights_HTS = equation.with_weights(query_THK, key_SHK, value_SHK, layout)
        self.queries.append(query_THK)
        self.keys.append(key_SHK)
        self.values.append(value_SHK)
        self.weights.append(weights_HTS)
        return output_THK


@contextmanager
def recorded(places: Sequence[MultiHeadAttention]) -> Iterator[list[Recorder]]:
    """Within this context these places record their attention."""
    recorders = [Recorder() for _ in places]
    for place, recorder in zip(places, recorders, strict=True):
        place.recorder = recorder
    try:
        yield recorders
    finally:
        for place in places:
            place.recorder = None
