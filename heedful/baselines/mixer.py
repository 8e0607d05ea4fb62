"""An MLP-Mixer (Tolstikhin 2021) as the encoder, under the Transformer's decoder: positions meet without attention.

A layer mixes positions by one network and channels by another. The weights that mix positions have a fixed number of
rows, so a source sentence cannot be longer. They tell positions apart, so none are added to the source's embeddings.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from heedful.baselines.padded import SentenceTable, table_of_batch
from heedful.baselines.position_limit import refuse_longer
from heedful.config.baseline_settings import USUAL_LENGTH, MixerConfig
from heedful.config.settings import FamilyConfig, ModelConfig
from heedful.model.dropout import Dropout
from heedful.model.interface import Decoder, Memory
from heedful.model.layers import LAYER_NORM_EPS
from heedful.model.packed import Packed
from heedful.model.transformer import Transformer, decoder_of


class Mixer(Transformer):
    """Its decoder, embeddings and search are the Transformer's."""

    family, settings = "mixer", MixerConfig

    def __init__(self, config: FamilyConfig, vocab_size: int) -> None:
        assert isinstance(config, MixerConfig), "the settings of this family"
        super().__init__(config, vocab_size)
        self.config: MixerConfig = config
        self.encoder_norm = nn.LayerNorm(config.d_model, eps=LAYER_NORM_EPS)

    def new_encoder(self, config: ModelConfig) -> nn.ModuleList:
        """Layers that mix."""
        assert isinstance(config, MixerConfig), "the settings of this family"
        return nn.ModuleList(MixerLayer(config) for _ in range(config.encoder_layers))

    def reset_parameters(self) -> None:
        """As in the Transformer, but the first product over positions is drawn for a usual sentence, not for all."""
        super().reset_parameters()
        for module in self.modules():
            if isinstance(module, TokenMixing):
                nn.init.normal_(module.W_1.weight, std=min(USUAL_LENGTH, module.W_1.in_features) ** -0.5)

    def encode(self, source: Packed) -> Memory:
        """Source tokens → memory."""
        refuse_longer(source, self.config.max_positions)
        view = table_of_batch(source)
        x_TD = self.embedding.dropout(self.embedding.scaled(source.tokens_T))
        for layer in self.encoder:
            x_TD = layer(x_TD, view)
        return Memory(self.encoder_norm(x_TD), source.self_layout.query_offsets_N)

    def new_decoder(self) -> Decoder[Any]:
        """With the Transformer's cache."""
        return decoder_of(self, self.config.decoder_config)


class MixerLayer(nn.Module):
    """y = x + TokenMixing(LayerNorm(x)), z = y + ChannelMixing(LayerNorm(y))."""

    def __init__(self, config: MixerConfig) -> None:
        super().__init__()
        self.token_norm = nn.LayerNorm(config.d_model, eps=LAYER_NORM_EPS)
        self.token_mixing = TokenMixing(config.max_positions, config.token_width)
        self.channel_norm = nn.LayerNorm(config.d_model, eps=LAYER_NORM_EPS)
        self.channel_mixing = nn.Sequential(
            nn.Linear(config.d_model, config.d_ff), nn.GELU(), nn.Linear(config.d_ff, config.d_model)
        )
        self.dropout = Dropout(config.dropout)

    def forward(self, x_TD: Tensor, view: SentenceTable) -> Tensor:
        mixed_NLD = self.token_mixing(view.pad(self.token_norm(x_TD)))
        y_TD = x_TD + self.dropout(view.pack(mixed_NLD))
        z_TD: Tensor = y_TD + self.dropout(self.channel_mixing(self.channel_norm(y_TD)))
        return z_TD


class TokenMixing(nn.Module):
    """W_2 GELU(W_1 x + b_1) + b_2 over the positions of a sentence, the same in every channel.

    Cells after the end of a sentence are zero, so products with the first L columns and rows are enough.
    """

    def __init__(self, max_positions: int, width: int) -> None:
        super().__init__()
        self.W_1 = nn.Linear(max_positions, width)
        self.W_2 = nn.Linear(width, max_positions)

    def forward(self, x_NLD: Tensor) -> Tensor:
        length = x_NLD.size(1)
        hidden_NDF = F.gelu(F.linear(x_NLD.mT, self.W_1.weight[:, :length], self.W_1.bias))
        mixed_NDL = F.linear(hidden_NDF, self.W_2.weight[:length], self.W_2.bias[:length])
        return mixed_NDL.mT
