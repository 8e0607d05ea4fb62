"""Embeddings (§3.4) and positional encoding (§3.5). They know token ids and positions, not sentences.

One matrix serves three times: both embeddings, multiplied by √d_model, and the projection before the softmax.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful.config.settings import ModelConfig
from heedful.errors import DataError
from heedful.model.dropout import Dropout


def sinusoids(num_positions: int, d_model: int) -> Tensor:
    """§3.5, in float64: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(the same)."""
    position_L1 = torch.arange(num_positions, dtype=torch.float64)[:, None]
    even_I = torch.arange(0, d_model, 2, dtype=torch.float64)  # 2i
    angle_LI = position_L1 / 10000 ** (even_I / d_model)
    return torch.stack([angle_LI.sin(), angle_LI.cos()], dim=-1).flatten(1)[:, :d_model]


class SinusoidalPositions(nn.Module):
    """The formula, to any length; the table grows when a longer sentence comes."""

    table_LD: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("table_LD", torch.empty(0, d_model), persistent=False)

    def forward(self, positions_T: Tensor, longest: int, like: Tensor) -> Tensor:
        """The encodings of positions below `longest`, in the type and on the device of `like`."""
        if self.table_LD.size(0) < longest or self.table_LD.dtype != like.dtype or self.table_LD.device != like.device:
            num_positions = max(1024, 2 ** math.ceil(math.log2(longest)))
            self.table_LD = sinusoids(num_positions, self.d_model).to(like)
        return F.embedding(positions_T, self.table_LD)


class LearnedPositions(nn.Module):
    """Table 3, row E: a learned vector for each position, up to a fixed number of them."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.weight_LD = nn.Parameter(torch.empty(max_positions, d_model))

    def forward(self, positions_T: Tensor, longest: int, like: Tensor) -> Tensor:
        """The vectors of positions below `longest`."""
        if longest > self.weight_LD.size(0):
            raise DataError(
                f"a sentence of {longest} tokens is longer than the {self.weight_LD.size(0)} learned positions of this "
                f"model (model.max_positions); split it, or train with model.positions = sinusoidal"
            )
        return F.embedding(positions_T, self.weight_LD)


class NoPositions(nn.Module):
    """Not in the paper: nothing is added. Order is known to attention, if it has positions of its own, or to nobody."""

    def forward(self, positions_T: Tensor, longest: int, like: Tensor) -> Tensor:
        return like.new_zeros(())


def new_positions(config: ModelConfig) -> nn.Module:
    """What is added to the embeddings: `model.positions`."""
    match config.positions:
        case "learned":
            return LearnedPositions(config.d_model, config.max_positions)
        case "none" | "relative" | "rotary":
            return NoPositions()
        case _:
            return SinusoidalPositions(config.d_model)


class Embedding(nn.Module):
    """§3.4 and §3.5: dropout(E[token] · √d_model + PE[position]); and E once more as the projection."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.weight_VD = nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.factor = math.sqrt(config.d_model) if config.scaled_embeddings else 1.0
        self.positions = new_positions(config)
        self.dropout = Dropout(config.dropout)
        self.target_dropout = Dropout(config.dropout)

    def source(self, tokens_T: Tensor, positions_T: Tensor, longest: int) -> Tensor:
        """The encoder's input."""
        x_TD: Tensor = self.dropout(self._with_positions(self.scaled(tokens_T), positions_T, longest))
        return x_TD

    def target(self, tokens_T: Tensor, positions_T: Tensor, longest: int) -> Tensor:
        """The decoder's input: the output shifted right, so that the zero vector stands before the first token."""
        shifted_TD = self.scaled_target(tokens_T).masked_fill((positions_T == 0)[:, None], 0.0)
        x_TD: Tensor = self.target_dropout(self._with_positions(shifted_TD, positions_T, longest))
        return x_TD

    def position_table(self, num_positions: int) -> Tensor:
        """The encodings of the first positions; of learned ones all."""
        if isinstance(self.positions, LearnedPositions):
            return self.positions.weight_LD.detach()
        assert isinstance(self.positions, SinusoidalPositions), f"{type(self.positions).__name__} have no table"
        return sinusoids(num_positions, self.positions.d_model)

    def logits(self, hidden_TD: Tensor) -> Tensor:
        """The projection before the softmax: x Eᵀ."""
        return F.linear(hidden_TD, self.weight_VD)

    def scaled(self, tokens_T: Tensor) -> Tensor:
        """E[token] · √d_model."""
        return F.embedding(tokens_T, self.weight_VD) * self.factor

    def scaled_target(self, tokens_T: Tensor) -> Tensor:
        """The same, for the decoder's input."""
        return self.scaled(tokens_T)

    def _with_positions(self, x_TD: Tensor, positions_T: Tensor, longest: int) -> Tensor:
        encodings_TD: Tensor = self.positions(positions_T, longest, x_TD)
        return x_TD + encodings_TD


class UntiedEmbedding(Embedding):
    """Not in the paper: three matrices. `weight_VD` is the projection alone."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        self.source_VD = nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.target_VD = nn.Parameter(torch.empty(vocab_size, config.d_model))

    def scaled(self, tokens_T: Tensor) -> Tensor:
        return F.embedding(tokens_T, self.source_VD) * self.factor

    def scaled_target(self, tokens_T: Tensor) -> Tensor:
        return F.embedding(tokens_T, self.target_VD) * self.factor


def new_embedding(config: ModelConfig, vocab_size: int) -> Embedding:
    """One matrix or three: `model.tied_embeddings`."""
    return (Embedding if config.tied_embeddings else UntiedEmbedding)(config, vocab_size)
