"""The Transformer (§3): encoder, decoder and projection, on packed batches.

It knows configuration and packed tokens; no text, no files, no optimizer, no search. Decoding with a cache, one token
at a time, is in `decoding.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from heedful.config.settings import FamilyConfig, ModelConfig
from heedful.model.attention import CrossAttention, MultiHeadAttention, SelfAttention, recorded
from heedful.model.attention_variants import VariedAttention
from heedful.model.decoding import CACHED, CachedDecoder
from heedful.model.embedding import Embedding, LearnedPositions, new_embedding
from heedful.model.experts import taken_imbalance
from heedful.model.interface import Decoder, Memory, RecordedAttention, ReplayDecoder, TranslationModel
from heedful.model.layers import DecoderLayer, EncoderLayer
from heedful.model.packed import Packed


class Transformer(TranslationModel):
    """An encoder and a decoder of N layers each, and one matrix for both embeddings and the projection."""

    family, settings = "transformer", ModelConfig
    config: ModelConfig

    def __init__(self, config: FamilyConfig, vocab_size: int) -> None:
        assert isinstance(config, ModelConfig), "the settings of this family"
        super().__init__(config, vocab_size)
        self.embedding = new_embedding(config, vocab_size)
        self.encoder = self.new_encoder(config)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        if not self.embedding.weight_VD.is_meta:  # else weights are to be loaded; and to draw none takes torch a second
            self.reset_parameters()

    def new_encoder(self, config: ModelConfig) -> nn.ModuleList:
        """N layers; a family with another encoder overrides this."""
        return nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))

    def reset_parameters(self) -> None:
        """Linears Xavier-uniform, biases zero, embeddings and learned positions normal with deviation d_model^-½.

        What `attention_variants.py` learns has vectors of width d_k, and deviation d_k^-½.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, Embedding | LearnedPositions | VariedAttention):
                for parameter in module.parameters(recurse=False):
                    nn.init.normal_(parameter, std=parameter.size(-1) ** -0.5)

    @torch.no_grad()
    def scale_by_depth(self) -> None:
        """Divide the linears of layer l, counted from 1, by √l: `train.depth_scaled_init`, not in the paper."""
        for stack in (self.encoder, self.decoder):
            for depth, layer in enumerate(stack, 1):
                for module in layer.modules():
                    if isinstance(module, nn.Linear):
                        module.weight.div_(depth**0.5)

    def encode(self, source: Packed) -> Memory:
        """Figure 1, left: source tokens → memory."""
        x_TD = self.embedding.source(source.tokens_T, source.positions_T, source.longest)
        for layer in self.encoder:
            x_TD = layer(x_TD, source.self_layout)
        return Memory(x_TD, source.self_layout.query_offsets_N)

    def decode(self, target_in: Packed, memory: Memory) -> Tensor:
        """Figure 1, right: the target shifted right, and the memory → the decoder's last hidden states."""
        assert target_in.cross_layout is not None, "a target is packed with the lengths of its source"
        x_TD = self.embedding.target(target_in.tokens_T, target_in.positions_T, target_in.longest)
        for layer in self.decoder:
            x_TD = layer(x_TD, memory.hidden_SD, target_in.self_layout, target_in.cross_layout)
        return x_TD

    def logits(self, hidden_TD: Tensor) -> Tensor:
        """The scores of all V next tokens, before the softmax."""
        return self.embedding.logits(hidden_TD)

    def projection(self) -> Tensor:
        """E, which by default is the matrix of both embeddings too."""
        return self.embedding.weight_VD

    def auxiliary_loss(self) -> Tensor | None:
        """The imbalance of the experts, where there are several."""
        return taken_imbalance(self)

    def new_decoder(self) -> Decoder[Any]:
        """With a cache, wherever that can be done."""
        return decoder_of(self, self.config)

    @contextmanager
    def recorded_attention(self) -> Iterator[RecordedAttention]:
        """The three uses of attention (§3.2.3), each a recorder for every layer."""
        uses = {
            "encoder": attentions(self.encoder, SelfAttention),
            "decoder": attentions(self.decoder, SelfAttention),
            "cross": attentions(self.decoder, CrossAttention),
        }
        with ExitStack() as stack:
            yield {use: stack.enter_context(recorded(places)) for use, places in uses.items()}


def decoder_of(model: Transformer, config: ModelConfig) -> Decoder[Any]:
    """The decoder of a model whose decoder has these settings."""
    if CACHED.unsupported(config) is not None:
        return ReplayDecoder(model)
    layers = [layer for layer in model.decoder if isinstance(layer, DecoderLayer)]
    return CachedDecoder(model.embedding, layers, position_limit=model.position_limit)


def attentions(layers: nn.ModuleList, kind: type[MultiHeadAttention]) -> list[MultiHeadAttention]:
    """Those of one kind, layer by layer."""
    return [module for module in layers.modules() if isinstance(module, kind)]
