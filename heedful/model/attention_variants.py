"""Attention as a layer has it: equation 1, or what experiments put in its place; docs/paper.md lists it.

The settings `compatibility`, `positions`, `projections`, `attention_radius` and `attention_dropout` choose. Every
variant stores all attention weights; torch's kernel for equation 1 does not. Nothing here knows tokens.
"""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor, nn

from heedful.config.settings import ModelConfig
from heedful.model.attention import CrossAttention, Equation1, MultiHeadAttention, Pairs, SelfAttention, layout_mask
from heedful.model.dropout import Dropout
from heedful.model.embedding import SinusoidalPositions
from heedful.model.layout import Groups, Layout, grouped_attention

A = TypeVar("A", bound=MultiHeadAttention)

FARTHEST = 16  # relative positions: greater distances count as this one, as in the base model of Shaw et al.
SHARED = {"separate": (), "shared_qk": ("W_K",), "tied_qkv": ("W_K", "W_V")}  # whose matrix is W_Q


def new_self_attention(config: ModelConfig) -> SelfAttention:
    """Self-attention, where positions may be compared."""
    return _with_shared_matrices(SelfAttention(config, _equation_with_positions(config)), config)


def new_cross_attention(config: ModelConfig) -> CrossAttention:
    """Attention over the encoder's output, whose positions are those of another sentence."""
    return _with_shared_matrices(CrossAttention(config, _equation(config, radius=0)), config)


def _equation_with_positions(config: ModelConfig) -> Equation1:
    match config.positions:
        case "relative":
            return RelativePositions(config, config.attention_radius)
        case "rotary":
            return RotaryPositions(config, config.attention_radius)
        case _:
            return _equation(config, config.attention_radius)


def _equation(config: ModelConfig, radius: int) -> Equation1:
    match config.compatibility:
        case "additive":
            return AdditiveAttention(config, radius)
        case "scaled" if not radius and not config.attention_dropout:
            return Equation1(config)
        case _:
            return VariedAttention(config, radius)


def _with_shared_matrices(attention: A, config: ModelConfig) -> A:
    """`model.projections`: W_Q under other names too. Only as W_Q it is in the model's weights."""
    for name in SHARED[config.projections]:
        delattr(attention, name)
        attention.__dict__[name] = attention.W_Q
    return attention


class VariedAttention(Equation1):
    """Equation 1 with what settings change: without √d_k, with some weights dropped, of near keys alone.

    With `model.attention_radius` = r a query sees the keys from r positions before it to r after it (§4).
    """

    def __init__(self, config: ModelConfig, radius: int = 0) -> None:
        super().__init__(config)
        self.divisor = math.sqrt(config.head_d_k) if config.compatibility == "scaled" else 1.0
        self.radius, self.dropout = radius, Dropout(config.attention_dropout)

    def attend(self, query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor, layout: Layout) -> Tensor:
        assert isinstance(layout, Groups), "other layouts belong to kernels, which know equation 1 alone"
        return grouped_attention(query_THK, key_SHK, value_SHK, layout, self._attend_group)

    def with_weights(
        self, query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor, layout: Layout
    ) -> tuple[Tensor, Tensor]:
        num_queries, num_keys = query_THK.size(0), key_SHK.size(0)
        output_HTK, weights_HTS = self.attention(
            query_THK.transpose(0, 1),
            key_SHK.transpose(0, 1),
            value_SHK.transpose(0, 1),
            layout_mask(layout, num_queries, num_keys),
            _pairs(layout, num_queries, num_keys),
        )
        return output_HTK.transpose(0, 1), weights_HTS

    def _attend_group(
        self, query_NHLK: Tensor, key_NHMK: Tensor, value_NHMK: Tensor, key_mask_N11M: Tensor | None, causal: bool
    ) -> Tensor:
        num_queries, num_keys, device = query_NHLK.size(-2), key_NHMK.size(-2), query_NHLK.device
        positions = torch.arange(max(num_queries, num_keys), device=device)
        pairs = Pairs(positions[:num_queries], positions[:num_keys], longest=len(positions))
        mask_LM = pairs.distance_LM <= 0 if causal else torch.ones_like(pairs.distance_LM, dtype=torch.bool)
        mask_NHLM = mask_LM if key_mask_N11M is None else mask_LM & key_mask_N11M
        return self.attention(query_NHLK, key_NHMK, value_NHMK, mask_NHLM, pairs)[0]

    def attention(
        self, query_HLK: Tensor, key_HMK: Tensor, value_HMK: Tensor, mask_LM: Tensor, pairs: Pairs
    ) -> tuple[Tensor, Tensor]:
        """As `attention` has it, with the scores and values of this variant."""
        query_HLK = self.turned(query_HLK, pairs.query_position_L, pairs.longest) / self.divisor
        key_HMK = self.turned(key_HMK, pairs.key_position_M, pairs.longest)
        scores_HLM = self.scores(query_HLK, key_HMK, pairs).masked_fill(~mask_LM, -math.inf)
        weights_HLM = scores_HLM.softmax(dim=-1).masked_fill(scores_HLM == -math.inf, 0.0)
        return self.values(self.dropout(weights_HLM), value_HMK, pairs), weights_HLM

    def turned(self, x_HLK: Tensor, position_L: Tensor, longest: int) -> Tensor:
        """Encode positions into queries or keys; by default do nothing."""
        return x_HLK

    def scores(self, query_HLK: Tensor, key_HMK: Tensor, pairs: Pairs | None) -> Tensor:
        scores_HLM = self.compatibility(query_HLK, key_HMK, pairs)
        if not self.radius:
            return scores_HLM
        return scores_HLM.masked_fill(_distances(pairs).abs() > self.radius, -math.inf)

    def compatibility(self, query_HLK: Tensor, key_HMK: Tensor, _: Pairs | None) -> Tensor:
        """How well queries and keys go together."""
        return query_HLK @ key_HMK.mT


class AdditiveAttention(VariedAttention):
    """§3.2.1, v · tanh(W q + U k): a network with a single hidden layer (Bahdanau et al., 2015), of width d_k.

    W and U are the matrices W_Q and W_K, and each head has a v of its own.
    """

    def __init__(self, config: ModelConfig, radius: int = 0) -> None:
        super().__init__(config, radius)
        self.v_HK = nn.Parameter(torch.empty(config.num_heads, config.head_d_k))

    def compatibility(self, query_HLK: Tensor, key_HMK: Tensor, _: Pairs | None) -> Tensor:
        hidden_HLMK = (query_HLK.unsqueeze(-2) + key_HMK.unsqueeze(-3)).tanh()
        return (hidden_HLMK @ self.v_HK[:, None, :, None]).squeeze(-1)


class RelativePositions(VariedAttention):
    """Shaw et al. (2018): a learned vector for each distance is added to the keys, and another to the values.

    Score: q · (k + a_K[distance]) / √d_k. Output: Σ weight · (v + a_V[distance]). Each head has vectors of its own.
    """

    def __init__(self, config: ModelConfig, radius: int = 0) -> None:
        super().__init__(config, radius)
        num_distances = 2 * FARTHEST + 1
        self.key_HBK = nn.Parameter(torch.empty(config.num_heads, num_distances, config.head_d_k))
        self.value_HBK = nn.Parameter(torch.empty(config.num_heads, num_distances, config.head_d_v))

    def compatibility(self, query_HLK: Tensor, key_HMK: Tensor, pairs: Pairs | None) -> Tensor:
        scores_HLM = query_HLK @ key_HMK.mT
        of_distances_HLB = query_HLK @ self.key_HBK.mT
        return scores_HLM + of_distances_HLB.gather(-1, _distance_numbers(pairs, scores_HLM))

    def values(self, weights_HLM: Tensor, value_HMK: Tensor, pairs: Pairs | None) -> Tensor:
        of_distances_HLB = weights_HLM.new_zeros(*weights_HLM.shape[:-1], self.value_HBK.size(1))
        of_distances_HLB = of_distances_HLB.scatter_add(-1, _distance_numbers(pairs, weights_HLM), weights_HLM)
        return weights_HLM @ value_HMK + of_distances_HLB @ self.value_HBK


class RotaryPositions(VariedAttention):
    """Su et al. (2021): queries and keys are turned by angles that grow with the position.

    Columns 2i and 2i + 1 are turned by pos / 10000^(2i/d_k), so that a score depends on positions by their distance.
    """

    def __init__(self, config: ModelConfig, radius: int = 0) -> None:
        super().__init__(config, radius)
        self.angles = SinusoidalPositions(config.head_d_k)

    def turned(self, x_HLK: Tensor, position_L: Tensor, longest: int) -> Tensor:
        wide_HLK = x_HLK.to(torch.promote_types(x_HLK.dtype, torch.float32))  # 16 bits would blur far positions
        table_LK: Tensor = self.angles(position_L, longest, wide_HLK)
        sine_LI, cosine_LI = table_LK.unflatten(-1, (-1, 2)).unbind(-1)
        even_HLI, odd_HLI = wide_HLK.unflatten(-1, (-1, 2)).unbind(-1)
        turned_HLI2 = (even_HLI * cosine_LI - odd_HLI * sine_LI, even_HLI * sine_LI + odd_HLI * cosine_LI)
        return torch.stack(turned_HLI2, dim=-1).flatten(-2).to(x_HLK.dtype)

    def turn_(self, query_HLK: Tensor, key_value_HLC: Tensor, pairs: Pairs) -> None:
        for x_HLK in (query_HLK, key_value_HLC[..., : query_HLK.size(-1)]):
            x_HLK.copy_(self.turned(x_HLK, pairs.query_position_L, pairs.longest))


def _pairs(layout: Layout, num_queries: int, num_keys: int) -> Pairs:
    """Where all rows stand in their sentences."""
    return Pairs(
        _positions(layout.query_offsets_N, num_queries),
        _positions(layout.key_offsets_N, num_keys),
        longest=max(num_queries, num_keys),
    )


def _positions(offsets_N: Tensor, num_rows: int) -> Tensor:
    row_T = torch.arange(num_rows, device=offsets_N.device)
    return row_T - offsets_N[torch.bucketize(row_T, offsets_N, right=True) - 1]


def _distance_numbers(pairs: Pairs | None, like_HLM: Tensor) -> Tensor:
    return (_distances(pairs).clamp(-FARTHEST, FARTHEST) + FARTHEST).expand_as(like_HLM)


def _distances(pairs: Pairs | None) -> Tensor:
    assert pairs is not None, "positions are compared within a sentence"
    return pairs.distance_LM
