"""The settings of the systems that the paper argues against, a struct for each family of `baselines/`.

Nothing here imports torch.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta

from heedful.config.settings import Count, FamilyConfig, Fraction, ModelConfig, Positive
from heedful.errors import ConfigError

USUAL_LENGTH = 25  # tokens of a sentence


class MixerConfig(ModelConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An MLP-Mixer (Tolstikhin 2021) as the encoder; the other settings are the Transformer's, for the decoder."""

    family: str = "mixer"
    max_positions: Positive = 257  # of a source sentence, its eos included: the token weights have this many rows
    token_width: Positive = 256  # of the hidden layer that mixes positions

    @property
    def decoder_config(self) -> ModelConfig:
        """The settings of the Transformer whose decoder this family has."""
        return ModelConfig(**{name: getattr(self, name) for name in ModelConfig.__struct_fields__ if name != "family"})

    @property
    def source_limit(self) -> int:
        """How many tokens a source sentence may have, its eos included; the target's limit is the decoder's."""
        return self.max_positions

    @property
    def kept_by_encoder(self) -> int:
        """Inputs of both sub-layers and of their networks, both sides of each GELU, and masks."""
        positions = 2 * self.token_width * self.d_model // USUAL_LENGTH  # of a token's share in the hidden layer
        return self.encoder_layers * (6 * self.d_model + 2 * self.d_ff + positions)


class ByteNetConfig(FamilyConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """ByteNet (Kalchbrenner 2016): sets of residual blocks, each with the dilations 1, 2, 4, …

    The convolutions have half as many channels as `d_model`, which is 2d in the paper.
    """

    family: str = "bytenet"
    kernel: Positive = 3
    dilations: Annotated[int, Meta(ge=1, le=20)] = 5  # in a set: up to 16
    sets: Positive = 6  # in the encoder, and in the decoder
    dropout: Fraction = 0.1
    length_ratio: Annotated[float, Meta(ge=1.0, le=1e3)] = 1.2  # a: the encoder's output has a |s| + b places
    length_extra: Count = 8  # b

    def __post_init__(self) -> None:
        if self.d_model % 2:
            raise ConfigError(
                f"model.d_model = {self.d_model} is odd, and the convolutions of model.family = bytenet have half as "
                f"many channels; take {self.d_model + 1}"
            )
        if self.kernel % 2 == 0:
            raise ConfigError(
                f"model.kernel = {self.kernel} is even, and the encoder of model.family = bytenet looks as far to one "
                f"side as to the other; take {self.kernel + 1}"
            )


class ConvS2SConfig(FamilyConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Convolutions on both sides (Gehring 2017). The defaults are those of its English-Romanian model."""

    family: str = "convs2s"
    embedding_width: Positive | None = None  # of embeddings, and where decoder and encoder meet; d_model unless told
    num_layers: Positive = 20
    num_encoder_layers: Positive | None = None  # where they differ from num_layers
    num_decoder_layers: Positive | None = None
    encoder_kernel: Positive = 3  # tokens that a convolution sees
    decoder_kernel: Positive = 3
    dropout: Fraction = 0.1
    tied_embeddings: bool = False  # one matrix for source, target and logits, as in the Transformer
    max_positions: Positive = 1024  # of a sentence, its eos included: positions are learned

    @property
    def d_embedding(self) -> int:
        """The width of an embedding."""
        return self.embedding_width or self.d_model

    @property
    def encoder_layers(self) -> int:
        """How many convolutions the encoder has."""
        return self.num_encoder_layers or self.num_layers

    @property
    def decoder_layers(self) -> int:
        """How many convolutions the decoder has, each with its attention."""
        return self.num_decoder_layers or self.num_layers

    @property
    def spelled_out(self) -> Self:
        """The same with every size that follows from others, so that equal sizes compare as equal."""
        return msgspec.structs.replace(
            self,
            embedding_width=self.d_embedding,
            num_encoder_layers=self.encoder_layers,
            num_decoder_layers=self.decoder_layers,
        )

    @property
    def position_limit(self) -> int:
        return self.max_positions

    @property
    def kept_numbers(self) -> int:
        """A convolution's windows, output and mask; an attention's queries, keys, values and output; both ends."""
        d, f = self.d_model, self.d_embedding
        encoder = self.encoder_layers * (self.encoder_kernel + 3) * d
        decoder = self.decoder_layers * ((self.decoder_kernel + 4) * d + 5 * f)
        return encoder + decoder + 2 * d + 6 * f

    def __post_init__(self) -> None:
        if self.encoder_kernel % 2 == 0:
            raise ConfigError(
                f"model.encoder_kernel = {self.encoder_kernel} is even, and a window has its token in the middle; "
                f"take {self.encoder_kernel - 1} or {self.encoder_kernel + 1}"
            )


class RecurrentConfig(FamilyConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Recurrent encoder and decoder. The defaults are those of Bahdanau 2015 but for the width and dropout."""

    family: str = "recurrent"
    cell: Literal["gru", "lstm"] = "gru"
    reset: Literal["before", "after"] = "before"  # a GRU's reset gate: before or after the product with U
    factor_rank: Positive | None = None  # rank of the factorised LSTM matrix; None: a full matrix
    num_layers: Positive = 1  # of the encoder, and of the decoder
    attention: Literal["additive", "dot", "general", "none"] = "additive"
    bidirectional: bool | None = None  # the encoder; unless told: with additive attention
    reverse_source: bool | None = None  # the encoder reads from the end; unless told: without attention
    input_feeding: bool = False  # the readout is an input of the next step
    readout: Literal["maxout", "tanh", "state"] | None = None  # unless told: that of the attention's paper
    dropout: Fraction = 0.1

    @property
    def is_bidirectional(self) -> bool:
        """Whether the encoder reads both ways."""
        return self.attention == "additive" if self.bidirectional is None else self.bidirectional

    @property
    def reverses_source(self) -> bool:
        """Whether the encoder reads from the end alone."""
        return self.attention == "none" if self.reverse_source is None else self.reverse_source

    @property
    def readout_kind(self) -> str:
        """Bahdanau's maxout, Luong's tanh, and without attention the state itself."""
        return self.readout or {"additive": "maxout", "none": "state"}.get(self.attention, "tanh")

    @property
    def annotation_width(self) -> int:
        """Of what the encoder says of each token."""
        return 2 * self.d_model if self.is_bidirectional else self.d_model

    @property
    def context_width(self) -> int:
        """Of what attention gives the decoder in each step."""
        return 0 if self.attention == "none" else self.annotation_width

    @property
    def spelled_out(self) -> Self:
        """The same with every setting that follows from others."""
        return msgspec.structs.replace(
            self,
            bidirectional=self.is_bidirectional,
            reverse_source=self.reverses_source,
            readout=self.readout_kind,
        )

    @property
    def kept_numbers(self) -> int:
        """Roughly: of a cell its input, gates and states; of additive attention a vector for each source token."""
        cells = self.num_layers * (2 + self.is_bidirectional) * (10 if self.cell == "lstm" else 13)
        scores = USUAL_LENGTH if self.attention == "additive" else 0
        return self.d_model * (cells + scores + 8)

    def __post_init__(self) -> None:
        for is_contradiction, problem in self._contradictions():
            if is_contradiction:
                raise ConfigError(problem)

    def _contradictions(self) -> list[tuple[bool, str]]:
        without, both_ways = self.attention == "none", self.is_bidirectional
        return [
            (
                self.factor_rank is not None and self.cell == "gru",
                f"model.factor_rank = {self.factor_rank} takes model.cell = lstm, not gru",
            ),
            (
                self.reset == "after" and self.cell == "lstm",
                "model.reset = after takes model.cell = gru; an LSTM has no reset gate",
            ),
            (
                both_ways and without,
                "model.bidirectional = true takes an attention, not model.attention = none: the decoder would begin "
                "with the state of one direction, and nothing would read the other",
            ),
            (
                both_ways and self.attention == "dot",
                "model.bidirectional = true gives states of 2 · model.d_model, which model.attention = dot cannot "
                "compare with the decoder's; take model.attention = general",
            ),
            (
                both_ways and self.reverses_source,
                "model.reverse_source = true changes nothing where model.bidirectional = true; leave out one of them",
            ),
            (
                self.input_feeding and self.attention in ("additive", "none"),
                f"model.input_feeding = true takes model.attention = dot or general, not {self.attention}",
            ),
            (
                self.readout_kind == "state" and self.attention in ("dot", "general"),
                f"model.readout = state would not see what model.attention = {self.attention} found; take tanh",
            ),
        ]


BASELINES: dict[str, type[FamilyConfig]] = {
    "mixer": MixerConfig,
    "bytenet": ByteNetConfig,
    "convs2s": ConvS2SConfig,
    "recurrent": RecurrentConfig,
}
"""By `model.family`, which is also the name of the module in `baselines/`."""
