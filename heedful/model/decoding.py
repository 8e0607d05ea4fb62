"""Decoding with a cache: the decoder of §3.1, one token at a time.

A `CachedState` has N slots of W hypotheses each. A slot holds one sentence, at a position of its own, so that a
sentence can enter while others are half-way. What earlier positions have to offer (their keys and values) is kept:

- those of the encoder's output once per sentence; its W hypotheses are W query positions of the same attention;
- those of the hypotheses where they were first written. When search goes on from other parents, nothing is copied:
  `ancestors_NWL` says which of the W hypotheses of a slot wrote position l of hypothesis w, and self-attention looks at
  the keys of all W and masks those that are no ancestors.

Nothing here knows search, text or batches. Shapes as in `model/__init__.py`; C = d_k + d_v, a key and its value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from heedful.config.supported_settings import NUMBERS, SupportedSettings, anything
from heedful.model.attention import Equation1, MultiHeadAttention, Pairs
from heedful.model.embedding import Embedding
from heedful.model.experts import Experts
from heedful.model.feed_forward import FeedForward
from heedful.model.interface import Memory
from heedful.model.layers import DecoderLayer

FIRST_CAPACITY = 32  # target positions; doubled when they are used up
NOBODY = -1  # in `ancestors_NWL`: nothing was written yet
CACHED = SupportedSettings(
    "cannot be decoded with a cache: that takes",
    {
        **NUMBERS,
        "positions": anything,
        "compatibility": anything,
        "projections": anything,
        "attention_radius": anything,
        "attention_dropout": anything,  # nothing is dropped
        "num_experts": anything,
        "tied_embeddings": anything,
        "scaled_embeddings": anything,
        "residuals": anything,
    },
)


class CachedState:
    """The caches of N slots of W hypotheses; made by `CachedDecoder.empty`, moved on by `CachedDecoder.step`.

    Room for longer sentences is made as they come, and a step looks only as far back as the longest hypothesis
    reaches. (`fast/cuda/static_decoder.py` has the fixed shapes that a captured CUDA graph needs.)
    """

    def __init__(self, decoder: CachedDecoder, num_slots: int, num_beams: int, *, source_length: int) -> None:
        self.decoder, self.num_beams = decoder, num_beams
        like, layers = decoder.embedding.weight_VD, decoder.layers
        self.keys_values_NHLWC = [
            like.new_zeros(num_slots, layer.num_heads, 0, num_beams, layer.d_kv) for layer in layers
        ]
        self.memory_NHMC = [like.new_zeros(num_slots, layer.num_heads, source_length, layer.d_kv) for layer in layers]
        self.memory_mask_N11M = like.new_zeros(num_slots, 1, 1, source_length)  # added to the scores: 0 or −∞
        self.ancestors_NWL = self._integers(torch.int16, num_slots, num_beams, 0)
        self.position_N = self._integers(torch.int64, num_slots)
        self.beam_W = torch.arange(num_beams, device=like.device, dtype=torch.int16)
        self.key_position_M = self._integers(torch.int64, 0)
        self._ages = [0] * num_slots  # the positions once more, known without asking the device

    def _integers(self, dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.decoder.embedding.weight_VD.device)

    @property
    def num_slots(self) -> int:
        """N."""
        return len(self._ages)

    @property
    def capacity(self) -> int:
        """How many target positions there is room for."""
        return self.ancestors_NWL.size(-1)

    @property
    def span(self) -> int:
        """How many target positions a step looks at, the one it writes included."""
        return min(max(self._ages, default=0) + 1, self.decoder.position_limit)

    @torch.no_grad()
    def select(self, parents_NW: Tensor) -> None:
        """Hypothesis w of each slot goes on from what was hypothesis `parents_NW[·, w]` of the same slot."""
        written_NWL = self.ancestors_NWL[:, :, : self.span]
        written_NWL.copy_(written_NWL.gather(1, parents_NW[:, :, None].expand_as(written_NWL)))

    @torch.no_grad()
    def admit(self, memory: Memory, slots: Sequence[int], *, longest: int) -> None:
        """Let new sentences, of at most `longest` source tokens each, into these slots, at position 0."""
        slots_N = torch.tensor(slots, device=self.position_N.device)
        self._reserve_sources(longest)
        row_NM, mask_NM = _unpacked(memory.offsets_N, len(slots), longest, self.memory_mask_N11M)
        for layer, memory_NHMC in zip(self.decoder.layers, self.memory_NHMC, strict=True):
            memory_NHMC[slots_N, :, :longest] = layer.memory(memory.hidden_SD, row_NM)
        self.memory_mask_N11M[slots_N] = -math.inf
        self.memory_mask_N11M[slots_N, :, :, :longest] = mask_NM[:, None, None, :]
        self.clear(slots)

    @torch.no_grad()
    def clear(self, slots: Sequence[int]) -> None:
        """Begin these slots anew. An empty slot is computed like any other; this keeps it from growing long."""
        slots_N = torch.tensor(slots, device=self.position_N.device)
        self.ancestors_NWL[slots_N] = NOBODY
        self.position_N[slots_N] = 0
        for slot in slots:
            self._ages[slot] = 0

    @torch.no_grad()
    def keep(self, slots: Sequence[int]) -> None:
        """Go on with these slots only, renumbered in this order."""
        slots_N = torch.tensor(slots, device=self.position_N.device)
        self._ages = [self._ages[slot] for slot in slots]
        self.keys_values_NHLWC = [cache.index_select(0, slots_N) for cache in self.keys_values_NHLWC]
        self.memory_NHMC = [memory.index_select(0, slots_N) for memory in self.memory_NHMC]
        self.memory_mask_N11M = self.memory_mask_N11M.index_select(0, slots_N)
        self.ancestors_NWL = self.ancestors_NWL.index_select(0, slots_N)
        self.position_N = self.position_N.index_select(0, slots_N)

    def _reserve_sources(self, longest: int) -> None:
        more = longest - self.memory_mask_N11M.size(-1)
        if more > 0:
            self.memory_NHMC = [F.pad(memory, (0, 0, 0, more)) for memory in self.memory_NHMC]
            self.memory_mask_N11M = F.pad(self.memory_mask_N11M, (0, more), value=-math.inf)

    def _reserve_targets(self) -> None:
        if self.span > self.capacity:
            more = max(FIRST_CAPACITY, self.capacity)
            self.keys_values_NHLWC = [F.pad(cache, (0, 0, 0, 0, 0, more)) for cache in self.keys_values_NHLWC]
            self.ancestors_NWL = F.pad(self.ancestors_NWL, (0, more), value=NOBODY)
            positions_L = torch.arange(self.capacity, device=self.position_N.device)
            self.key_position_M = positions_L.repeat_interleave(self.num_beams)

    def enter(self) -> Place:
        """Make room for one more position."""
        self._reserve_targets()
        # A slot that is done may have come to the end of all room; what it writes there is never read.
        position_N = self.position_N.clamp(max=min(self.capacity, self.decoder.position_limit) - 1)
        slot_N = torch.arange(self.num_slots, device=position_N.device)
        self.ancestors_NWL[slot_N, :, position_N] = self.beam_W
        not_mine_NWLW = self.ancestors_NWL[:, :, : self.span, None] != self.beam_W
        mask_NWLW = torch.zeros_like(not_mine_NWLW, dtype=self.memory_mask_N11M.dtype)
        mask_N1WM = mask_NWLW.masked_fill_(not_mine_NWLW, -math.inf).flatten(2)[:, None]
        key_position_M = self.key_position_M[: mask_N1WM.size(-1)]
        return Place(slot_N, position_N, mask_N1WM, Pairs(position_N[:, None, None], key_position_M, self.span))

    def leave(self) -> None:
        """The position has been computed."""
        self.position_N += 1
        self._ages = [age + 1 for age in self._ages]


class Place(NamedTuple):
    """Where a step writes, and what its queries may look at."""

    slot_N: Tensor
    position_N: Tensor
    mask_N1WM: Tensor  # added to the scores: 0 or −∞
    pairs: Pairs  # where the queries and the keys stand


def _unpacked(offsets_N: Tensor, num_sentences: int, longest: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Which packed row stands at place m of sentence n, and a mask of 0 or −∞; behind the end: the last row again."""
    start_N1, end_N1 = offsets_N[:num_sentences, None], offsets_N[1 : num_sentences + 1, None]
    row_NM = start_N1 + torch.arange(longest, device=offsets_N.device)
    mask_NM = torch.zeros_like(row_NM, dtype=like.dtype).masked_fill_(row_NM >= end_N1, -math.inf)
    return torch.minimum(row_NM, end_N1 - 1), mask_NM


class Product:
    """x ↦ x Wᵀ + b, and the same followed by a ReLU; sees W as it was when this was made."""

    def __init__(self, weight_XD: Tensor, bias_X: Tensor | None = None) -> None:
        self.weight_XD, self.bias_X = weight_XD.detach(), None if bias_X is None else bias_X.detach()

    def __call__(self, x_RD: Tensor) -> Tensor:
        return F.linear(x_RD, self.weight_XD, self.bias_X)

    def relu(self, x_RD: Tensor) -> Tensor:
        """max(0, x Wᵀ + b)."""
        return F.relu(self(x_RD))


class Products(NamedTuple):
    """What a layer's step multiplies with."""

    own_QKV: Product
    own_O: Product
    cross_Q: Product
    cross_O: Product
    W_1: Product
    W_2: Product


class CachedLayer:
    """One layer of the decoder, its matrices laid together once: fewer and larger products in each step."""

    def __init__(self, layer: DecoderLayer) -> None:
        self.layer = layer
        own, cross = layer.self_attention, layer.cross_attention
        self.own, self.cross = own.equation, cross.equation
        self.num_heads, self.query_width = own.num_heads, own.W_Q.out_features
        self.d_k = own.W_K.out_features // self.num_heads
        self.d_kv = self.d_k + own.W_V.out_features // self.num_heads
        self.cross_KV = keys_values(cross)
        self.products = Products(
            Product(torch.cat([scaled_queries(own), keys_values(own)])),
            Product(own.W_O.weight),
            Product(scaled_queries(cross)),
            Product(cross.W_O.weight),
            *feed_forward_products(layer.feed_forward),
        )

    def memory(self, hidden_SD: Tensor, row_NM: Tensor) -> Tensor:
        """Keys and values of the encoder's output, unpacked into N sentences of M places."""
        keys_values_SX = F.linear(hidden_SD, self.cross_KV)
        keys_values_NMHC: Tensor = keys_values_SX[row_NM].unflatten(-1, (self.num_heads, self.d_kv))
        return keys_values_NMHC.transpose(1, 2)

    def step(self, x_RD: Tensor, state: CachedState, number: int, place: Place) -> Tensor:
        """`DecoderLayer.forward` for one position of each row."""
        layer = self.layer
        x_RD = layer.self_attention_norm(x_RD, self._own(x_RD, state.keys_values_NHLWC[number], place))
        x_RD = layer.cross_attention_norm(x_RD, self._cross(x_RD, state.memory_NHMC[number], state.memory_mask_N11M))
        x_RD = layer.feed_forward_norm(x_RD, self.feed_forward(x_RD))
        return x_RD

    def feed_forward(self, x_RD: Tensor) -> Tensor:
        """Equation 2."""
        return self.products.W_2(self.products.W_1.relu(x_RD))

    def _own(self, x_RD: Tensor, cache_NHLWC: Tensor, place: Place) -> Tensor:
        num_beams, product_RX = cache_NHLWC.size(3), self.products.own_QKV(x_RD)
        query_RX, new_RX = product_RX.tensor_split([self.query_width], dim=-1)
        query_NHWK, new_NHWC = self._heads(query_RX, num_beams), self._heads(new_RX, num_beams)
        self.own.turn_(query_NHWK, new_NHWC, place.pairs)
        cache_NHLWC[place.slot_N, :, place.position_N] = new_NHWC
        seen_NHMC = cache_NHLWC[:, :, : place.mask_N1WM.size(-1) // num_beams].flatten(2, 3)
        heads_RX = self._attend(self.own, query_NHWK, seen_NHMC, place.mask_N1WM, place.pairs)
        return self.products.own_O(heads_RX)

    def _cross(self, x_RD: Tensor, memory_NHMC: Tensor, mask_N11M: Tensor) -> Tensor:
        query_NHWK = self._heads(self.products.cross_Q(x_RD), x_RD.size(0) // memory_NHMC.size(0))
        return self.products.cross_O(self._attend(self.cross, query_NHWK, memory_NHMC, mask_N11M, None))

    def _heads(self, x_RX: Tensor, num_beams: int) -> Tensor:
        x_NWHK = x_RX.view(-1, num_beams, self.num_heads, x_RX.size(-1) // self.num_heads)
        return x_NWHK.transpose(1, 2)

    def _attend(
        self, equation: Equation1, query_NHWK: Tensor, seen_NHMC: Tensor, mask_N1WM: Tensor, pairs: Pairs | None
    ) -> Tensor:
        """Equation 1, or what stands in its place; the queries are divided already."""
        key_NHMK, value_NHMK = seen_NHMC.tensor_split([self.d_k], dim=-1)
        weights_NHWM = equation.scores(query_NHWK, key_NHMK, pairs).add_(mask_N1WM).softmax(dim=-1)
        heads_NWHK = equation.values(weights_NHWM, value_NHMK, pairs).transpose(1, 2)
        return heads_NWHK.flatten(2).flatten(0, 1)


class CachedLayerOfExperts(CachedLayer):
    """All experts are computed, side by side, and the gates make zeros of those that a token does not take."""

    def __init__(self, layer: DecoderLayer, experts: Experts) -> None:
        super().__init__(layer)
        self.gates = experts.gates
        self.b_2_GD = torch.stack([part.W_2.bias for part in experts.networks]).detach()

    def feed_forward(self, x_RD: Tensor) -> Tensor:
        """The sum of the experts by their gates."""
        gates_RG = self.gates(x_RD)
        hidden_RGF = self.products.W_1.relu(x_RD).unflatten(-1, (gates_RG.size(-1), -1))
        return self.products.W_2((gates_RG[..., None] * hidden_RGF).flatten(1)) + gates_RG @ self.b_2_GD


def cached_layer(layer: DecoderLayer) -> CachedLayer:
    """The layer, prepared for one token at a time."""
    experts = layer.feed_forward
    return CachedLayerOfExperts(layer, experts) if isinstance(experts, Experts) else CachedLayer(layer)


def feed_forward_products(part: FeedForward | Experts) -> tuple[Product, Product]:
    """Those of equation 2; of experts all side by side, without the biases of the second."""
    if isinstance(part, FeedForward):
        return Product(part.W_1.weight, part.W_1.bias), Product(part.W_2.weight, part.W_2.bias)
    W_1, b_1 = ([getattr(each.W_1, name) for each in part.networks] for name in ("weight", "bias"))
    return Product(torch.cat(W_1), torch.cat(b_1)), Product(
        torch.cat([each.W_2.weight for each in part.networks], dim=1)
    )


def scaled_queries(part: MultiHeadAttention) -> Tensor:
    """W_Q / √d_k: equation 1 with the division done once, in the matrix."""
    return part.W_Q.weight.detach() / part.equation.divisor


def keys_values(part: MultiHeadAttention) -> Tensor:
    """W_K and W_V with the rows of a head together, so that a head's key and value are written as one."""
    heads = [matrix.weight.detach().unflatten(0, (part.num_heads, -1)) for matrix in (part.W_K, part.W_V)]
    return torch.cat(heads, dim=1).flatten(0, 1)


class CachedDecoder:
    """The decoder's layers, prepared for one token at a time. It sees the weights as they were when it was made."""

    def __init__(self, embedding: Embedding, layers: Sequence[DecoderLayer], *, position_limit: int) -> None:
        assert not embedding.training, "decoding is for a model in eval mode; dropout is for training"
        self.embedding, self.position_limit = embedding, position_limit
        self.layers = [cached_layer(layer) for layer in layers]
        self.logits = Product(embedding.weight_VD)

    def empty(self, num_slots: int, num_beams: int, *, source_length: int = 0) -> CachedState:
        """A state with no sentence in it; with room for so many source positions to begin with."""
        return CachedState(self, num_slots, num_beams, source_length=source_length)

    @torch.no_grad()
    def step(self, ids_R: Tensor, state: CachedState) -> Tensor:
        """The last token of each row → the logits of the next one. At position 0 the token is ignored (§3.1)."""
        place = state.enter()
        positions_R = place.position_N.repeat_interleave(state.num_beams, output_size=ids_R.numel())
        x_RD = self.embedding.target(ids_R, positions_R, state.span)
        for number, layer in enumerate(self.layers):
            x_RD = layer.step(x_RD, state, number, place)
        state.leave()
        return self.logits(x_RD)
