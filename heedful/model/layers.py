"""The layers of the encoder and of the decoder (§3.1, figure 1). They know no tokens and no vocabulary."""

from __future__ import annotations

from torch import Tensor, nn

from heedful.config.settings import ModelConfig
from heedful.model.attention import CrossAttention, SelfAttention
from heedful.model.attention_variants import equation_of_cross_attention, equation_of_self_attention
from heedful.model.dropout import Dropout
from heedful.model.feed_forward import FeedForward
from heedful.model.layout import Layout

LAYER_NORM_EPS = 1e-5


class AddAndNorm(nn.Module):
    """The residual connection around each sub-layer: LayerNorm(x + Dropout(Sublayer(x)))."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=LAYER_NORM_EPS)
        self.dropout = Dropout(dropout)

    def forward(self, x_TD: Tensor, sublayer_TD: Tensor) -> Tensor:
        normed_TD: Tensor = self.norm(x_TD + self.dropout(sublayer_TD))
        return normed_TD


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config, equation_of_self_attention(config))
        self.self_attention_norm = AddAndNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_norm = AddAndNorm(config.d_model, config.dropout)

    def forward(self, x_TD: Tensor, layout: Layout) -> Tensor:
        x_TD = self.self_attention_norm(x_TD, self.self_attention(x_TD, layout))
        x_TD = self.feed_forward_norm(x_TD, self.feed_forward(x_TD))
        return x_TD


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, then the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config, equation_of_self_attention(config))
        self.self_attention_norm = AddAndNorm(config.d_model, config.dropout)
        self.cross_attention = CrossAttention(config, equation_of_cross_attention(config))
        self.cross_attention_norm = AddAndNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_norm = AddAndNorm(config.d_model, config.dropout)

    def forward(self, x_TD: Tensor, memory_SD: Tensor, layout: Layout, cross_layout: Layout) -> Tensor:
        x_TD = self.self_attention_norm(x_TD, self.self_attention(x_TD, layout))
        x_TD = self.cross_attention_norm(x_TD, self.cross_attention(x_TD, memory_SD, cross_layout))
        x_TD = self.feed_forward_norm(x_TD, self.feed_forward(x_TD))
        return x_TD
