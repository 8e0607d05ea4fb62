"""The layers of Table 1 (§4), each mapping n positions of width d to as many: x_NLD → y_NLD.

They are measured, not trained, and no model uses them. A layer has three parts, so that what Table 1 counts can be
counted alone: attention's complexity is that of QKᵀ and of the weighted sum, without its four projections. No layer
has biases. Self-attention and restricted self-attention see both sides; the others see the past only.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful.config.settings import ModelConfig
from heedful.model.attention import Equation1, SelfAttention, project, recorded
from heedful.model.layout import Groups, make_groups

BYTENET_SET = 5  # layers with dilations 1, 2, 4, 8 and 16, after which ByteNet begins again


class Layer(nn.Module):
    """A layer of Table 1."""

    is_causal = True

    def prepare(self, x_NLD: Tensor) -> tuple[Tensor, ...]:
        """What comes before the part that Table 1 counts."""
        return (x_NLD,)

    def mix(self, *prepared: Tensor) -> Tensor:
        """The part that Table 1 counts."""
        raise NotImplementedError

    def finish(self, mixed: Tensor) -> Tensor:
        """What comes after it."""
        return mixed

    def forward(self, x_NLD: Tensor) -> Tensor:
        return self.finish(self.mix(*self.prepare(x_NLD)))


# ----------------------------------------------------------------------------------------------------------- attention


class SelfAttentionLayer(Layer):
    """heedful's own multi-head self-attention, over sentences of one length."""

    is_causal = False

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        config = ModelConfig(d_model=d_model, num_heads=num_heads)
        self.attention = SelfAttention(config, Equation1(config))

    def prepare(self, x_NLD: Tensor) -> tuple[Tensor, ...]:
        """x W_Q, x W_K and x W_V."""
        return project(x_NLD, self.attention.W_Q, self.attention.W_K, self.attention.W_V)

    def mix(self, *prepared: Tensor) -> Tensor:
        """QKᵀ, the softmax and the weighted sum of every head."""
        num_sentences, length = prepared[0].shape[:2]
        layout = layout_of(num_sentences, length, prepared[0].device)
        heads_TD = self.attention.heads(layout, *(x_NLD.flatten(0, 1) for x_NLD in prepared))
        return heads_TD.view(num_sentences, length, -1)

    def finish(self, mixed: Tensor) -> Tensor:
        """Concat(head_1, …, head_h) W_O."""
        y_NLD: Tensor = self.attention.W_O(mixed)
        return y_NLD


class WrittenOutAttentionLayer(SelfAttentionLayer):
    """The same by equation 1 as it is written, which holds all n² weights of every head in memory."""

    def mix(self, *prepared: Tensor) -> Tensor:
        """QKᵀ, the softmax and the weighted sum of every head, one after the other."""
        with recorded([self.attention]):
            return super().mix(*prepared)


class RestrictedAttentionLayer(SelfAttentionLayer):
    """Self-attention in which a position sees `radius` positions on each side of it."""

    def __init__(self, d_model: int, num_heads: int, radius: int) -> None:
        super().__init__(d_model, num_heads)
        self.radius = radius

    def mix(self, *prepared: Tensor) -> Tensor:
        """Scores, softmax and weighted sum over each position's own window."""
        query_NHLK, key_NHLK, value_NHLK = (
            x_NLD.unflatten(-1, (self.attention.num_heads, -1)).transpose(1, 2) for x_NLD in prepared
        )
        return restricted_attention(query_NHLK, key_NHLK, value_NHLK, self.radius).transpose(1, 2).flatten(-2)


def restricted_attention(query_NHLK: Tensor, key_NHLK: Tensor, value_NHLK: Tensor, radius: int) -> Tensor:
    """Equation 1 where position i sees the positions i − radius to i + radius (W of them), in O(n·W·d) operations."""
    keys_NHLKW, values_NHLKW = _windows(key_NHLK, radius), _windows(value_NHLK, radius)
    scores_NHL1W = query_NHLK.unsqueeze(-2) @ keys_NHLKW / math.sqrt(query_NHLK.size(-1))
    mask_L1W = _inside(query_NHLK.size(-2), radius, query_NHLK.device).unsqueeze(-2)
    weights_NHL1W = scores_NHL1W.masked_fill(~mask_L1W, -math.inf).softmax(dim=-1)
    return (weights_NHL1W @ values_NHLKW.mT).squeeze(-2)


def _windows(x_NHLK: Tensor, radius: int) -> Tensor:
    """For every position the rows around it; those outside the sentence are zeros."""
    return F.pad(x_NHLK, (0, 0, radius, radius)).unfold(-2, 2 * radius + 1, 1)


def _inside(length: int, radius: int, device: torch.device) -> Tensor:
    """Which places of every position's window lie in the sentence."""
    place_LW = torch.arange(length, device=device)[:, None] + torch.arange(-radius, radius + 1, device=device)
    return (place_LW >= 0) & (place_LW < length)


@lru_cache(maxsize=1)
def layout_of(num_sentences: int, length: int, device: torch.device) -> Groups:
    """The layout of sentences of one length."""
    lengths_N = np.full(num_sentences, length, dtype=np.int64)
    return make_groups(lengths_N, lengths_N, causal=False).to(device)


# ---------------------------------------------------------------------------------------------------------- recurrence


class RecurrentLayer(Layer):
    """h_t = f(W x_t + U h_{t−1}); f is tanh. Of positive numbers, relu changes nothing: the layer is linear."""

    def __init__(self, d_model: int, *, activation: Literal["tanh", "relu"] = "tanh") -> None:
        super().__init__()
        self.rnn = nn.RNN(d_model, d_model, nonlinearity=activation, bias=False, batch_first=True)

    def mix(self, *prepared: Tensor) -> Tensor:
        """All states, one after the other."""
        states_NLD: Tensor = self.rnn(*prepared)[0]
        return states_NLD

    def transitions(self, x_NLD: Tensor, steps: int) -> Tensor:
        """The states that so many transitions from one position to the next can make, in all positions at once.

        No transition: the state of each position follows from its own input alone. With n − 1 transitions the states
        are the layer's output.
        """
        input_T1D = x_NLD.flatten(0, 1).unsqueeze(1)
        state_NLD = torch.zeros_like(x_NLD)
        for _ in range(steps + 1):
            before_1TD = F.pad(state_NLD, (0, 0, 1, -1)).flatten(0, 1).unsqueeze(0)
            state_NLD = self.rnn(input_T1D, before_1TD)[0].view_as(x_NLD)
        return state_NLD


class LstmLayer(Layer):
    """The recurrent layer of the systems before the Transformer: four products with x_t and four with h_{t−1}."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(d_model, d_model, bias=False, batch_first=True)

    def mix(self, *prepared: Tensor) -> Tensor:
        """All states, one after the other."""
        states_NLD: Tensor = self.lstm(*prepared)[0]
        return states_NLD


# --------------------------------------------------------------------------------------------------------- convolution


class ConvolutionLayer(Layer):
    """A position sees itself and the k − 1 positions before it that are `dilation` apart."""

    def __init__(self, d_model: int, kernel: int, *, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, d_model, kernel, dilation=dilation, groups=groups, bias=False)
        self.reach = (kernel - 1) * dilation

    def mix(self, *prepared: Tensor) -> Tensor:
        """The convolution, with zeros before the sentence."""
        (x_NLD,) = prepared
        y_NDL: Tensor = self.convolution(F.pad(x_NLD.mT, (self.reach, 0)))
        return y_NDL.mT


class SeparableConvolutionLayer(ConvolutionLayer):
    """A convolution of each of the d columns by itself, then one d × d product at every position."""

    def __init__(self, d_model: int, kernel: int) -> None:
        super().__init__(d_model, kernel, groups=d_model)
        self.pointwise = nn.Linear(d_model, d_model, bias=False)

    def mix(self, *prepared: Tensor) -> Tensor:
        """Both of its products."""
        y_NLD: Tensor = self.pointwise(super().mix(*prepared))
        return y_NLD
