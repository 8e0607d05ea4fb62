"""The settings: frozen, typed structs that check themselves (Table 3 of the paper is configuration).

The settings of other families of models are in `baseline_settings.py`. How settings are found by their names is in
`setting_names.py`, how presets, files and flags are merged into a `Config` in `setting_layers.py`. Nothing here imports
torch.
"""

from __future__ import annotations

import sys
from typing import Annotated, Literal, Self, TypeAlias

import msgspec
from msgspec import Meta, Struct

from heedful.errors import ConfigError

Positive: TypeAlias = Annotated[int, Meta(ge=1, le=10**9)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**9)]
Weight: TypeAlias = Annotated[float, Meta(gt=0.0, le=1e6)]
Fraction: TypeAlias = Annotated[float, Meta(ge=0.0, lt=1.0)]

TEXT_FILES = ("source", "target", "valid_source", "valid_target")  # of `data`
DEFAULT_FAMILY = "transformer"
POSITIONS_OF_ATTENTION = ("relative", "rotary")  # kinds that nothing is added to the embeddings for


class DataConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The text: aligned files, or TSV files in `source` alone."""

    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    valid_source: tuple[str, ...] = ()
    valid_target: tuple[str, ...] = ()
    source_language: str = ""  # empty: from the files' extensions
    target_language: str = ""
    max_length: Positive = 256  # pieces; longer pairs are left out, and counted
    # In training text, left out and counted too:
    max_length_ratio: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.0  # of pieces, the longer side to the shorter; 0: any
    drop_copies: bool = False  # pairs whose target is their source
    weights: tuple[Weight, ...] = ()  # how often an epoch takes the pairs of each source file; empty: once

    def __post_init__(self) -> None:
        if self.weights and len(self.weights) != len(self.source):
            raise ConfigError(
                f"data.weights has {len(self.weights)} weights for {len(self.source)} files of data.source; "
                f"give one for each, 1 where pairs are taken once an epoch"
            )
        if 0 < self.max_length_ratio < 1:
            raise ConfigError(
                f"data.max_length_ratio = {self.max_length_ratio} would leave out every pair: the longer side has at "
                f"least as many pieces as the shorter; 2 or 3 is usual, and 0 is any"
            )


class TokenizerConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One vocabulary for both languages (§5.1)."""

    kind: Literal["bpe", "char"] = "bpe"  # char: a piece for each character; vocab_size then is a limit
    vocab_size: Positive = 37_000
    model: str = ""  # a tokenizer.model to reuse
    dropout: Fraction = 0.0  # of merges, in training text (BPE-dropout); 0: none
    encodings: Positive = 8  # with dropout: of each pair, the first one without it; an epoch takes one after the other

    def __post_init__(self) -> None:
        if self.dropout and self.kind == "char":
            raise ConfigError(
                f"tokenizer.dropout = {self.dropout} leaves out merges, and tokenizer.kind = char has none; "
                f"leave it out, or take tokenizer.kind = bpe"
            )
        if self.dropout and self.encodings == 1:
            raise ConfigError(
                f"tokenizer.dropout = {self.dropout} needs tokenizer.encodings of at least 2, "
                f"as the first one is without dropout"
            )


class FamilyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the settings of every family of models have; each family adds its own."""

    family: str = DEFAULT_FAMILY
    d_model: Positive = 512

    @property
    def spelled_out(self) -> Self:
        """The same with every size that follows from others, so that equal sizes compare as equal."""
        return self

    @property
    def position_limit(self) -> int:
        """How many tokens a target sentence may have, its eos included."""
        return sys.maxsize

    @property
    def source_limit(self) -> int:
        """How many tokens a source sentence may have, its eos included: as many as the target, unless told."""
        return self.position_limit

    @property
    def kept_numbers(self) -> int | None:
        """How many numbers autograd keeps for a source and a target token, if somebody has counted them."""
        return None


class ModelConfig(FamilyConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The sizes of §3, in the paper's names. The defaults are base."""

    d_ff: Positive = 2048
    num_layers: Positive = 6
    num_encoder_layers: Positive | None = None  # where they differ from num_layers
    num_decoder_layers: Positive | None = None
    num_heads: Positive = 8
    d_k: Positive | None = None  # d_model / num_heads unless told
    d_v: Positive | None = None
    dropout: Fraction = 0.1
    positions: Literal["sinusoidal", "learned", "relative", "rotary", "none"] = "sinusoidal"
    max_positions: Positive = 1024  # of learned positions; the others have no end
    compatibility: Literal["scaled", "unscaled", "additive"] = "scaled"  # of queries with keys, before the softmax
    projections: Literal["separate", "shared_qk", "tied_qkv"] = "separate"  # W_Q, W_K, W_V: three matrices, two or one
    attention_radius: Count = 0  # self-attention sees so many positions on each side; 0: all
    attention_dropout: Fraction = 0.0  # of attention's weights
    num_experts: Positive = 1  # in the place of each feed-forward network, each with d_ff; a token goes through two
    tied_embeddings: bool = True  # of source and target, and the projection before the softmax: one matrix
    scaled_embeddings: bool = True  # by √d_model
    residuals: bool = True  # around each sub-layer

    @property
    def encoder_layers(self) -> int:
        """N of the encoder."""
        return self.num_encoder_layers or self.num_layers

    @property
    def decoder_layers(self) -> int:
        """N of the decoder."""
        return self.num_decoder_layers or self.num_layers

    @property
    def head_d_k(self) -> int:
        """The width of one head's queries and keys."""
        return self.d_k or self.d_model // self.num_heads

    @property
    def head_d_v(self) -> int:
        """The width of one head's values."""
        return self.d_v or self.d_model // self.num_heads

    @property
    def spelled_out(self) -> Self:
        """The same with every size that follows from others, so that equal sizes compare as equal."""
        return msgspec.structs.replace(
            self,
            num_encoder_layers=self.encoder_layers,
            num_decoder_layers=self.decoder_layers,
            d_k=self.head_d_k,
            d_v=self.head_d_v,
        )

    @property
    def position_limit(self) -> int:
        """How many tokens a target sentence may have, its eos included: sinusoids have no end."""
        return self.max_positions if self.positions == "learned" else sys.maxsize

    @property
    def kept_numbers(self) -> int | None:
        """Inputs and outputs of every sub-layer, and its masks; None for variants, which keep others too."""
        if self.compatibility != "scaled" or self.positions in POSITIONS_OF_ATTENTION:
            return None
        if self.attention_radius or self.attention_dropout or self.num_experts > 1:
            return None
        return self.kept_by_encoder + self.decoder_layers * (2 * self._kept_by_attention + self._kept_by_feed_forward)

    @property
    def kept_by_encoder(self) -> int:
        """How many of them the encoder keeps for a source token."""
        return self.encoder_layers * (self._kept_by_attention + self._kept_by_feed_forward)

    @property
    def _kept_by_attention(self) -> int:
        return self.num_heads * (2 * self.head_d_k + 2 * self.head_d_v) + 5 * self.d_model

    @property
    def _kept_by_feed_forward(self) -> int:
        return 2 * self.d_ff + 4 * self.d_model

    def __post_init__(self) -> None:
        if (self.d_k is None or self.d_v is None) and self.d_model % self.num_heads:
            raise ConfigError(
                f"model.d_model = {self.d_model} does not divide into model.num_heads = {self.num_heads} equal heads; "
                f"change one of them, or set model.d_k and model.d_v"
            )
        self._check_positions()
        if self.projections == "tied_qkv" and self.head_d_k != self.head_d_v:
            raise ConfigError(
                f"model.projections = tied_qkv has one matrix for keys and values, and model.d_k = {self.head_d_k} "
                f"is not model.d_v = {self.head_d_v}; make them equal"
            )

    def _check_positions(self) -> None:
        if self.positions in POSITIONS_OF_ATTENTION and self.compatibility == "additive":
            raise ConfigError(
                f"model.positions = {self.positions} is made for dot products, not for model.compatibility = additive; "
                f"change one of them"
            )
        if self.positions == "rotary" and self.head_d_k % 2:
            raise ConfigError(
                f"model.positions = rotary turns pairs of columns, and model.d_k = {self.head_d_k} is odd; "
                f"set an even model.d_k"
            )


class TrainConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Training as in §5. The defaults are base."""

    steps: Positive = 100_000
    batch_tokens: Positive = 25_000  # what one optimizer step sees, on each side
    micro_batches: Positive = 1  # parts of a batch; a multiple of the number of processes
    warmup_steps: Positive = 4000
    learning_rate_factor: Annotated[float, Meta(gt=0.0, le=1e6)] = 1.0
    cooldown_steps: Count = 0  # the last steps, which take the rate down; 0: none
    label_smoothing: Fraction = 0.1
    r_drop: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.0  # α of R-Drop: each pair stands twice in a batch; 0: none
    weight_decay: Annotated[float, Meta(ge=0.0, le=1e3)] = 0.0  # of the matrices, times the rate, a step; 0: none
    depth_scaled_init: bool = False  # weights of the linears in layer l begin divided by √l, for deep stacks
    checkpoint_steps: Positive = 1250
    checkpoint_minutes: Annotated[float, Meta(gt=0.0, le=1e6)] = 10.0
    keep_checkpoints: Positive = 2  # whole ones, to resume from; of older ones the weights alone are kept to average
    average_last: Positive = 5
    ema_decay: Fraction = 0.0  # of a moving average of the weights, which then is the model; 0: none
    validate_steps: Positive = 1250
    patience: Count = 0  # validations without a better loss before the run ends; 0: never
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 1
    precision: Literal["auto", "fp32", "bf16", "fp64"] = "auto"  # auto: bf16 where CUDA has it, fp32 elsewhere

    @property
    def micro_batch_tokens(self) -> int:
        """What a micro-batch holds at most on each side."""
        return self.batch_tokens // self.micro_batches

    @property
    def copies(self) -> int:
        """How often a pair stands in its micro-batch."""
        return 2 if self.r_drop else 1

    def __post_init__(self) -> None:
        if self.batch_tokens < self.micro_batches:
            raise ConfigError(
                f"train.micro_batches = {self.micro_batches} cannot split train.batch_tokens = {self.batch_tokens}; "
                f"lower the one or raise the other"
            )


class DecodeConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Search as in §6.1; `SearchOptions` in `translate/engine.py` adds what a caller chooses."""

    beam_size: Positive = 4
    alpha: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.6
    max_extra: Count = 50  # how many tokens longer than the input the output may be


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings of a run."""

    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: FamilyConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    def __post_init__(self) -> None:
        rows = self.train.micro_batch_tokens
        if self.data.max_length + 1 > rows // self.train.copies:
            half = "half of " if self.train.copies > 1 else ""
            raise ConfigError(
                f"data.max_length = {self.data.max_length} does not fit {half}a micro-batch of {rows} tokens "
                f"(train.batch_tokens / train.micro_batches, and a sentence ends with one more token); "
                f"lower data.max_length or raise train.batch_tokens"
            )
        limit = min(self.model.source_limit, self.model.position_limit)
        if self.data.max_length + 1 > limit:
            raise ConfigError(
                f"data.max_length = {self.data.max_length} needs model.max_positions of at least "
                f"{self.data.max_length + 1}, not {limit}"
            )
