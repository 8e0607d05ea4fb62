"""The layers of the encoder and of the decoder (§3.1, figure 1). They know no tokens and no vocabulary."""

from __future__ import annotations

from torch import Tensor, nn

from heedful.config.settings import ModelConfig
from heedful.model.attention import MultiHeadAttention
from heedful.model.dropout import Dropout, seed_dropout
from heedful.model.feed_forward import FeedForward
from heedful.model.packed import Layout

LAYER_NORM_EPS = 1e-5


class AddAndNorm(nn.Module):
    """The residual connection around each sub-layer: LayerNorm(x + Dropout(Sublayer(x)))."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=LAYER_NORM_EPS)
        self.dropout = Dropout(dropout)
        self.fused = False  # see `use_kernels`

    def forward(self, x_TD: Tensor, sublayer_TD: Tensor) -> Tensor:
        if self.fused:
            return self._fused(x_TD, sublayer_TD)
        normed_TD: Tensor = self.norm(x_TD + self.dropout(sublayer_TD))
        return normed_TD

    def _fused(self, x_TD: Tensor, sublayer_TD: Tensor) -> Tensor:
        from heedful.fast.cuda.add_norm import add_norm  # needs Triton, which is not everywhere

        dropout = self.dropout.p if self.training else 0.0
        scale_D, shift_D, seed_1 = self.norm.weight, self.norm.bias, self.dropout.seed_1
        return add_norm(x_TD, sublayer_TD, scale_D, shift_D, seed_1=seed_1, dropout=dropout, eps=self.norm.eps)


def _attention(config: ModelConfig) -> MultiHeadAttention:
    return MultiHeadAttention(config.d_model, config.num_heads, config.head_d_k, config.head_d_v)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.self_attention_norm = AddAndNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_norm = AddAndNorm(config.d_model, config.dropout)

    def forward(self, x_TD: Tensor, layout: Layout) -> Tensor:
        x_TD = self.self_attention_norm(x_TD, self.self_attention(x_TD, x_TD, layout))
        x_TD = self.feed_forward_norm(x_TD, self.feed_forward(x_TD))
        return x_TD


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, then the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.self_attention_norm = AddAndNorm(config.d_model, config.dropout)
        self.cross_attention = _attention(config)
        self.cross_attention_norm = AddAndNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_norm = AddAndNorm(config.d_model, config.dropout)

    def forward(self, x_TD: Tensor, memory_SD: Tensor, layout: Layout, cross_layout: Layout) -> Tensor:
        x_TD = self.self_attention_norm(x_TD, self.self_attention(x_TD, x_TD, layout))
        x_TD = self.cross_attention_norm(x_TD, self.cross_attention(x_TD, memory_SD, cross_layout))
        x_TD = self.feed_forward_norm(x_TD, self.feed_forward(x_TD))
        return x_TD


def use_kernels(model: nn.Module, seeds_P: Tensor) -> None:
    """From now on the model computes with the CUDA kernels of `kernels/`, which are equal to the plain code by test.

    The mask of the i-th place that drops numbers follows from what stands in `seeds_P[i]` (int64) at that moment.
    Attention needs no switch: it follows the layout of the batch.
    """
    seed_dropout(model, seeds_P)
    for module in model.modules():
        if isinstance(module, AddAndNorm | FeedForward):
            module.fused = True
