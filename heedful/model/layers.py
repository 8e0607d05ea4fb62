"""The layers of the encoder and of the decoder (§3.1, figure 1). They know no tokens and no vocabulary."""

from __future__ import annotations

from torch import Tensor, nn

from heedful.config.settings import ModelConfig
from heedful.model.attention_variants import new_cross_attention, new_self_attention
from heedful.model.dropout import Dropout
from heedful.model.experts import new_feed_forward
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


class NormAlone(AddAndNorm):
    """Not in the paper: LayerNorm(Dropout(Sublayer(x))), without the residual connection."""

    def forward(self, x_TD: Tensor, sublayer_TD: Tensor) -> Tensor:
        normed_TD: Tensor = self.norm(self.dropout(sublayer_TD))
        return normed_TD


def new_add_and_norm(config: ModelConfig) -> AddAndNorm:
    """What stands around a sub-layer: `model.residuals`."""
    return (AddAndNorm if config.residuals else NormAlone)(config.d_model, config.dropout)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = new_self_attention(config)
        self.self_attention_norm = new_add_and_norm(config)
        self.feed_forward = new_feed_forward(config)
        self.feed_forward_norm = new_add_and_norm(config)

    def forward(self, x_TD: Tensor, layout: Layout) -> Tensor:
        x_TD = self.self_attention_norm(x_TD, self.self_attention(x_TD, layout))
        x_TD = self.feed_forward_norm(x_TD, self.feed_forward(x_TD))
        return x_TD


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, then the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = new_self_attention(config)
        self.self_attention_norm = new_add_and_norm(config)
        self.cross_attention = new_cross_attention(config)
        self.cross_attention_norm = new_add_and_norm(config)
        self.feed_forward = new_feed_forward(config)
        self.feed_forward_norm = new_add_and_norm(config)

    def forward(self, x_TD: Tensor, memory_SD: Tensor, layout: Layout, cross_layout: Layout) -> Tensor:
        x_TD = self.self_attention_norm(x_TD, self.self_attention(x_TD, layout))
        x_TD = self.cross_attention_norm(x_TD, self.cross_attention(x_TD, memory_SD, cross_layout))
        x_TD = self.feed_forward_norm(x_TD, self.feed_forward(x_TD))
        return x_TD
