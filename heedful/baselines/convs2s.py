"""ConvS2S (Gehring 2017): convolutions with gated linear units on both sides, attention in every layer of the decoder.

Sections and names are its paper's: e and g are embeddings of the source and the target, z is the encoder's output, h
a state of the decoder, d a query, c what attention finds, m the number of source tokens. F is the width of e, g, z, d
and c. What the paper leaves open is in docs/baselines.md.

The rows stay packed: a convolution is one product with the windows around all rows. It knows no text and no training.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful.baselines.packed_convolution import Places, centred, masked
from heedful.baselines.padded import PaddedMemory
from heedful.baselines.position_limit import refuse_longer
from heedful.baselines.slot_state import Beginning, SlotState
from heedful.config.baseline_settings import ConvS2SConfig
from heedful.config.settings import FamilyConfig
from heedful.model.attention import Recorder, plain_attention
from heedful.model.dropout import Dropout
from heedful.model.interface import Decoder, Memory, RecordedAttention, TranslationModel
from heedful.model.layout import Layout
from heedful.model.packed import Packed

EMBEDDING_STD = 0.1  # §3.5
GLU_GAIN = 4.0  # §3.5: a gated linear unit puts out a quarter of the variance that it gets

M = TypeVar("M", bound=nn.Module)
Windows: TypeAlias = Callable[[Tensor], Tensor]
"""The inputs of a convolution → for each row the k inputs that it sees, side by side."""


class ConvS2S(TranslationModel):
    """An encoder and a decoder of convolutions."""

    family, settings = "convs2s", ConvS2SConfig

    def __init__(self, config: FamilyConfig, vocab_size: int) -> None:
        assert isinstance(config, ConvS2SConfig), "the settings of this family"
        super().__init__(config, vocab_size)
        self.config: ConvS2SConfig = config
        self.words_VF = new_table(vocab_size, config)
        self.target_words_VF = None if config.tied_embeddings else new_table(vocab_size, config)
        self.source_embedding, self.target_embedding = InputEmbedding(config), InputEmbedding(config)
        self.encoder, self.decoder = ConvEncoder(config), ConvDecoder(config)
        self.W_o = None if config.tied_embeddings else normalized_after_dropout(config, config.d_embedding, vocab_size)

    def encode(self, source: Packed) -> PaddedMemory:
        """Source tokens → keys z and values z + e, side by side."""
        refuse_longer(source, self.config.max_positions)
        e_SF = self.source_embedding(F.embedding(source.tokens_T, self.words_VF), source.positions_T)
        z_SF = self.encoder(e_SF, windows_of(source, centred(self.config.encoder_kernel, 1)))
        if z_SF.requires_grad:
            z_SF.register_hook(lambda grad_SF: grad_SF / self.config.decoder_layers)  # §3.4
        keys_values_SX = torch.cat([z_SF, balanced_sum(z_SF, e_SF)], dim=1)
        return PaddedMemory(keys_values_SX, source.self_layout.query_offsets_N, source.longest)

    def decode(self, target_in: Packed, memory: Memory) -> Tensor:
        """The target shifted right, and the memory → what stands before the logits."""
        assert target_in.cross_layout is not None, "a target is packed with the lengths of its source"
        refuse_longer(target_in, self.config.max_positions)
        g_TF = self.embedded_target(target_in.tokens_T, target_in.positions_T)
        windows = windows_of(target_in, masked(self.config.decoder_kernel, 1))
        source = PackedSource(memory.hidden_SD, target_in.cross_layout)
        hidden_TF: Tensor = self.decoder(g_TF, [windows] * self.config.decoder_layers, source)
        return hidden_TF

    def embedded_target(self, tokens_T: Tensor, positions_T: Tensor) -> Tensor:
        """g, with the zero vector in place of the word before the first."""
        words_VF = self.words_VF if self.target_words_VF is None else self.target_words_VF
        words_TF = F.embedding(tokens_T, words_VF).masked_fill((positions_T == 0)[:, None], 0.0)
        g_TF: Tensor = self.target_embedding(words_TF, positions_T)
        return g_TF

    def logits(self, hidden_TD: Tensor) -> Tensor:
        """W_o h + b_o; tied embeddings are W_o, and have no b_o."""
        return F.linear(hidden_TD, self.projection(), self.projection_bias())

    def projection(self) -> Tensor:
        """W_o, or the tied embeddings."""
        return self.words_VF if self.W_o is None else self.W_o.weight_XD

    def projection_bias(self) -> Tensor | None:
        """b_o, where the embeddings are not tied."""
        return None if self.W_o is None else self.W_o.bias_X

    def new_decoder(self) -> Decoder[Any]:
        """With the last inputs of each convolution for a cache."""
        return ConvStepDecoder(self)

    @contextmanager
    def recorded_attention(self) -> Iterator[RecordedAttention]:
        """That of each layer over the source."""
        attentions = [layer.attention for layer in self.decoder.layers if isinstance(layer, ConvDecoderLayer)]
        for attention in attentions:
            attention.recorder = Recorder()
        try:
            yield {"cross": [attention.recorder for attention in attentions if attention.recorder is not None]}
        finally:
            for attention in attentions:
                attention.recorder = None


# ---------------------------------------------------------------------------------------------------------- the layers


class NormalizedLinear(nn.Module):
    """W x + b, where the rows of W are g v / ‖v‖ (Salimans and Kingma 2016).

    At the beginning W = v, and the output has `gain` times the variance of the input (§3.5).
    """

    def __init__(self, num_inputs: int, num_outputs: int, *, gain: float = 1.0) -> None:
        super().__init__()
        self.v_XD = nn.Parameter(torch.empty(num_outputs, num_inputs).normal_(std=math.sqrt(gain / num_inputs)))
        self.g_X1 = nn.Parameter(torch.linalg.vector_norm(self.v_XD.detach(), dim=1, keepdim=True))
        self.bias_X = nn.Parameter(torch.zeros(num_outputs))
        self.computed_XD: Tensor | None = None

    @property
    def weight_XD(self) -> Tensor:
        """The rows g v / ‖v‖."""
        if self.computed_XD is not None:
            return self.computed_XD
        norm_X1: Tensor = torch.linalg.vector_norm(self.v_XD, dim=1, keepdim=True)
        return self.v_XD * (self.g_X1 / norm_X1)

    def compute_once(self) -> None:
        """From now on W is what it is now."""
        self.computed_XD = self.weight_XD.detach()

    def forward(self, x_TD: Tensor) -> Tensor:
        return F.linear(x_TD, self.weight_XD, self.bias_X)


def balanced_sum(x: Tensor, y: Tensor) -> Tensor:
    """§3.4: the sum of a residual connection, with the variance of one of its parts."""
    return (x + y) * math.sqrt(0.5)


def normalized_after_dropout(config: ConvS2SConfig, num_inputs: int, num_outputs: int) -> NormalizedLinear:
    """A layer that gives an input back the variance that it had before dropout (§3.5)."""
    return NormalizedLinear(num_inputs, num_outputs, gain=1 - config.dropout)


def new_table(num_rows: int, config: ConvS2SConfig) -> nn.Parameter:
    """Vectors of words or positions."""
    return nn.Parameter(torch.empty(num_rows, config.d_embedding).normal_(std=EMBEDDING_STD))


class InputEmbedding(nn.Module):
    """§3.1: dropout(w + p), the vectors of a word and of its position."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.positions_LF = new_table(config.max_positions, config)
        self.dropout = Dropout(config.dropout)

    def forward(self, words_TF: Tensor, positions_T: Tensor) -> Tensor:
        embedded_TF: Tensor = self.dropout(words_TF + F.embedding(positions_T, self.positions_LF))
        return embedded_TF


class GatedConvolution(nn.Module):
    """§3.2: v(W x + b) + x for windows of x, with the gated linear unit v([A B]) = A ⊗ σ(B)."""

    def __init__(self, config: ConvS2SConfig, kernel: int) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        gain = GLU_GAIN * (1 - config.dropout)
        self.W = NormalizedLinear(kernel * config.d_model, 2 * config.d_model, gain=gain)

    def forward(self, x_TD: Tensor, windows: Windows) -> Tensor:
        return balanced_sum(F.glu(self.W(windows(self.dropout(x_TD)))), x_TD)


class ConvEncoder(nn.Module):
    """e → z."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.W_in = normalized_after_dropout(config, config.d_embedding, config.d_model)
        convolutions = (GatedConvolution(config, config.encoder_kernel) for _ in range(config.encoder_layers))
        self.layers = nn.ModuleList(convolutions)
        self.W_out = NormalizedLinear(config.d_model, config.d_embedding)

    def forward(self, e_SF: Tensor, windows: Windows) -> Tensor:
        x_SD = self.W_in(e_SF).to(e_SF.dtype)  # with mixed precision the residual sums stay in float32
        for layer in self.layers:
            x_SD = layer(x_SD, windows)
        z_SF: Tensor = self.W_out(x_SD)
        return z_SF


class ConvDecoderLayer(nn.Module):
    """A convolution over the past, then attention over the source."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.convolution = GatedConvolution(config, config.decoder_kernel)
        self.attention = SourceAttention(config)

    def forward(self, x_TD: Tensor, g_TF: Tensor, windows: Windows, source: EncodedSource) -> Tensor:
        h_TD: Tensor = self.attention(self.convolution(x_TD, windows), g_TF, source)
        return h_TD


class SourceAttention(nn.Module):
    """§3.3: d = √½ (W_d h + b_d + g), a = softmax(d · z), c = √m Σ a √½ (z + e), and h becomes √½ (h + W_c c + b_c).

    Which √½ and what of W_c the paper has is in docs/baselines.md.
    """

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.W_d = NormalizedLinear(config.d_model, config.d_embedding)
        self.W_c = NormalizedLinear(config.d_embedding, config.d_model)
        self.recorder: Recorder | None = None

    def forward(self, h_TD: Tensor, g_TF: Tensor, source: EncodedSource) -> Tensor:
        d_TF = balanced_sum(self.W_d(h_TD), g_TF)
        c_TF = source.attend(d_TF, self.recorder)
        return balanced_sum(h_TD, self.W_c(c_TF))


class ConvDecoder(nn.Module):
    """g, and the source → what stands before the logits."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.W_in = normalized_after_dropout(config, config.d_embedding, config.d_model)
        self.layers = nn.ModuleList(ConvDecoderLayer(config) for _ in range(config.decoder_layers))
        self.W_out = NormalizedLinear(config.d_model, config.d_embedding)
        self.dropout = Dropout(config.dropout)

    def forward(self, g_TF: Tensor, windows: Sequence[Windows], source: EncodedSource) -> Tensor:
        h_TD = self.W_in(g_TF).to(g_TF.dtype)
        for layer, windows_of_layer in zip(self.layers, windows, strict=True):
            h_TD = layer(h_TD, g_TF, windows_of_layer, source)
        hidden_TF: Tensor = self.dropout(self.W_out(h_TD))
        return hidden_TF


# ------------------------------------------------------------------------------------------------------ a packed batch


def windows_of(sentences: Packed, offsets: Sequence[int]) -> Windows:
    """Those of convolutions over packed sentences; where a sentence has no row, there are zeros."""
    places = Places.of(sentences.self_layout.query_offsets_N, len(sentences.tokens_T))
    return partial(places.windows, offsets=offsets)


class EncodedSource(Protocol):
    """Keys z and values z + e of the source, for the rows of a target."""

    def attend(self, d_TF: Tensor, recorder: Recorder | None) -> Tensor:
        """The queries of a layer → Σ a (z + e) √m."""


class PackedSource:
    """The memory of packed sentences, for the packed rows of their targets."""

    def __init__(self, keys_values_SX: Tensor, layout: Layout) -> None:
        self.key_S1F, self.value_S1F = keys_values_SX[:, None].chunk(2, dim=-1)
        self.layout = layout
        lengths_N, m_N = layout.query_offsets_N.diff().long(), layout.key_offsets_N.diff()
        self.root_m_N, self.lengths_N = m_N.to(keys_values_SX.dtype).sqrt(), lengths_N

    def attend(self, d_TF: Tensor, recorder: Recorder | None) -> Tensor:
        """By the layout, which divides the scores by the root of F."""
        query_T1F = d_TF[:, None] * math.sqrt(d_TF.size(1))
        c_T1F = self._recorded(query_T1F, recorder) if recorder else self._plain(query_T1F)
        root_m_T1 = self.root_m_N.repeat_interleave(self.lengths_N, output_size=len(d_TF))[:, None]
        return c_T1F[:, 0] * root_m_T1

    def _plain(self, query_T1F: Tensor) -> Tensor:
        return self.layout.attend(query_T1F, self.key_S1F, self.value_S1F)

    def _recorded(self, query_T1F: Tensor, recorder: Recorder) -> Tensor:
        c_T1F, weights_1TS = plain_attention(query_T1F, self.key_S1F, self.value_S1F, self.layout)
        recorder.weights.append(weights_1TS)
        return c_T1F


# ----------------------------------------------------------------------------------------------------- token by token


class ConvStepDecoder:
    """The decoder one token at a time. It sees the weights as they were when it was made."""

    def __init__(self, model: ConvS2S) -> None:
        assert not model.training, "decoding is for a model in eval mode; dropout is for training"
        self.model, self.config = model, model.config
        self.decoder = with_computed_weights(model.decoder)
        self.logits = model.logits if model.W_o is None else with_computed_weights(model.W_o)

    def empty(self, num_slots: int, num_beams: int, *, source_length: int = 0) -> SlotState:
        """A state with no sentence in it."""
        return SlotState(self._begin, num_slots, num_beams, device=self.model.device)

    def _begin(self, memory: Memory) -> Beginning:
        assert isinstance(memory, PaddedMemory), "what this model's encoder gives"
        keys_values_NMX, is_token_NM = memory.table()
        sizes = self.config.decoder_layers, self.config.decoder_kernel - 1, self.config.d_model
        inputs = keys_values_NMX.new_zeros(len(is_token_NM), *sizes)
        return Beginning({"inputs": inputs}, {"keys_values": keys_values_NMX, "is_token": is_token_NM})

    @torch.no_grad()
    def step(self, ids_R: Tensor, state: SlotState) -> Tensor:
        """The last token of each row → the logits of the next one."""
        # A slot that is done may be past the last position; what it writes there is never read.
        position_N = state.position_N.clamp(max=self.config.max_positions - 1)
        position_R = position_N.repeat_interleave(state.num_beams, output_size=len(ids_R))
        windows = [LastWindow(inputs_RLD) for inputs_RLD in state.hypothesis["inputs"].flatten(0, 1).unbind(1)]
        source = PaddedSource(state.sentence["keys_values"], state.sentence["is_token"])
        hidden_RF = self.decoder(self.model.embedded_target(ids_R, position_R), windows, source)
        inputs = torch.stack([window.before_RLD for window in windows], dim=1)
        state.hypothesis["inputs"] = inputs.unflatten(0, (-1, state.num_beams))
        state.position_N += 1
        return self.logits(hidden_RF)


def with_computed_weights(module: M) -> M:
    """A copy that computes g v / ‖v‖ no more."""
    copied = copy.deepcopy(module)
    for part in copied.modules():
        if isinstance(part, NormalizedLinear):
            part.compute_once()
    return copied


class LastWindow:
    """What a convolution sees from the newest token: that, and the k − 1 inputs before it."""

    def __init__(self, before_RLD: Tensor) -> None:
        self.before_RLD = before_RLD

    def __call__(self, x_RD: Tensor) -> Tensor:
        window_RLD = torch.cat([self.before_RLD, x_RD[:, None]], dim=1)
        self.before_RLD = window_RLD[:, 1:]
        return window_RLD.flatten(1)


class PaddedSource:
    """Serve N slots of M places to W hypotheses each; attention in an empty slot returns zero."""

    def __init__(self, keys_values_NMX: Tensor, is_token_NM: Tensor) -> None:
        self.key_NMF, self.value_NMF = keys_values_NMX.chunk(2, dim=-1)
        self.is_token_N1M = is_token_NM[:, None]
        self.root_m_N11 = is_token_NM.sum(dim=1).to(keys_values_NMX.dtype).sqrt()[:, None, None]

    def attend(self, d_TF: Tensor, recorder: Recorder | None) -> Tensor:
        """All hypotheses of a slot at once."""
        assert recorder is None, "whole sentences are recorded, not steps"
        scores_NWM = d_TF.unflatten(0, (len(self.key_NMF), -1)) @ self.key_NMF.mT
        lowest = torch.finfo(scores_NWM.dtype).min  # not −∞, which has no softmax where there is no token
        weights_NWM = scores_NWM.masked_fill(~self.is_token_N1M, lowest).softmax(dim=-1)
        c_NWF: Tensor = weights_NWM @ self.value_NMF * self.root_m_N11
        return c_NWF.flatten(0, 1)
