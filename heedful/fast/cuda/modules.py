"""The modules of the model with our kernels in them: each replaces a plain one, and is equal to it by test.

A plain module becomes its twin by a change of class: its parameters stay, and whoever holds it need not know.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful.fast.cuda.add_norm import add_norm, seeded_dropout
from heedful.fast.cuda.attention import tiled_cross_attention, tiled_self_attention
from heedful.fast.cuda.feed_forward import feed_forward
from heedful.fast.cuda.tiles import Tiles
from heedful.model.attention import CrossAttention, SelfAttention
from heedful.model.dropout import Dropout
from heedful.model.embedding import Embedding
from heedful.model.feed_forward import FeedForward
from heedful.model.layers import AddAndNorm

TARGET_OFFSET = 1 << 40  # added to the seed of the encoder's input for that of the decoder's


class SeededDropout(Dropout):
    """Dropout whose mask follows from a seed in the device's memory, since a CUDA graph cannot ask the host.

    Whoever trains writes new seeds before each micro-batch.
    """

    seed_1: Tensor  # one int64
    seed_offset = 0  # where two places share a seed

    def forward(self, x_TD: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x_TD
        seed_1 = self.seed_1 + self.seed_offset if self.seed_offset else self.seed_1
        return seeded_dropout(x_TD, seed_1=seed_1, dropout=self.p)


class FusedAddAndNorm(AddAndNorm):
    """Dropout, sum and LayerNorm in one kernel."""

    def forward(self, x_TD: Tensor, sublayer_TD: Tensor) -> Tensor:
        assert isinstance(self.dropout, SeededDropout)
        dropout = self.dropout.p if self.training else 0.0
        scale_D, shift_D, seed_1 = self.norm.weight, self.norm.bias, self.dropout.seed_1
        return add_norm(x_TD, sublayer_TD, scale_D, shift_D, seed_1=seed_1, dropout=dropout)


class FusedFeedForward(FeedForward):
    """Equation 2 with bias and ReLU inside the products' kernels."""

    def forward(self, x_TD: Tensor) -> Tensor:
        return feed_forward(x_TD, self.W_1.weight, self.W_1.bias, self.W_2.weight, self.W_2.bias)


class TiledSelfAttention(SelfAttention):
    """Reads queries, keys and values where one product leaves them."""

    def forward(self, x_TD: Tensor, layout: Tiles) -> Tensor:  # type: ignore[override]
        projected_TE = F.linear(x_TD, torch.cat([self.W_Q.weight, self.W_K.weight, self.W_V.weight]))
        output_TD: Tensor = self.W_O(tiled_self_attention(projected_TE, layout, num_heads=self.num_heads, d_k=self.d_k))
        return output_TD


class TiledCrossAttention(CrossAttention):
    """Reads keys and values where one product leaves them."""

    def forward(self, x_TD: Tensor, memory_SD: Tensor, layout: Tiles) -> Tensor:  # type: ignore[override]
        key_value_SE = F.linear(memory_SD, torch.cat([self.W_K.weight, self.W_V.weight]))
        output_TD: Tensor = self.W_O(
            tiled_cross_attention(self.W_Q(x_TD), key_value_SE, layout, num_heads=self.num_heads)
        )
        return output_TD


TWINS: dict[type[nn.Module], type[nn.Module]] = {
    Dropout: SeededDropout,
    AddAndNorm: FusedAddAndNorm,
    FeedForward: FusedFeedForward,
    SelfAttention: TiledSelfAttention,
    CrossAttention: TiledCrossAttention,
}


def dropout_places(model: nn.Module) -> list[Dropout]:
    """Every place in the model that has a seed of its own, in a fixed order."""
    sharing = [id(module.target_dropout) for module in model.modules() if isinstance(module, Embedding)]
    return [module for module in model.modules() if isinstance(module, Dropout) and id(module) not in sharing]


def use_kernels(model: nn.Module, seeds_P: Tensor) -> None:
    """From now on the model computes with the kernels, on batches whose layouts are `Tiles`.

    The mask of the i-th place that drops numbers follows from what stands in `seeds_P[i]` (int64) at that moment.
    """
    places = dropout_places(model)
    for module in model.modules():
        module.__class__ = TWINS.get(type(module), type(module))
    for place, seed_1 in zip(places, seeds_P.split(1), strict=True):
        place.seed_1 = seed_1
    for module in model.modules():
        if isinstance(module, Embedding):
            assert isinstance(module.dropout, SeededDropout)
            assert isinstance(module.target_dropout, SeededDropout)
            module.target_dropout.seed_1, module.target_dropout.seed_offset = module.dropout.seed_1, TARGET_OFFSET
