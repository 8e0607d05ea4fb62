"""Decoding on CUDA: the decoder of §3.1 one token at a time, in memory and shapes that never change.

The counterpart of `model/decoding.py`, and equal to it by test: N slots of W hypotheses, each slot at a position of its
own. All that changes from step to step is read from the device's memory, so that a CUDA graph can be captured once and
replayed. Attention reads as far as a sentence reaches; room that is not used costs memory alone. Who is in a slot, and
which hypothesis goes on from which, is written by whoever searches: nothing here knows search, text or batches. Shapes
as in `model/__init__.py`; X is what the heads of a layer take, side by side.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful.config.supported_settings import KERNELS
from heedful.fast.cuda.cached_step import Heads, cross_attention, embed, own_attention, place_rows
from heedful.fast.cuda.modules import dropout_places, use_kernels
from heedful.model.decoding import CachedLayer
from heedful.model.layers import DecoderLayer
from heedful.model.packed import Packed
from heedful.model.transformer import Transformer


@dataclass(frozen=True, slots=True)
class Caches:
    """What earlier positions, and the sources, have to offer to N slots."""

    own_NLWX: list[Tensor]  # of each layer: keys and values of the hypotheses, where they were first written
    memory_NSX: Tensor  # keys and values of the encoder's output, of all layers side by side
    length_N: Tensor  # of the sources
    positions_LD: Tensor  # §3.5; here, because a captured graph reads it as long as there are caches


class StaticDecoder:
    """A model prepared for decoding with kernels, in numbers of this type; LayerNorm keeps its own.

    It computes with the weights as they were when it was made; who changes them in place makes a new one.
    """

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        assert not model.training, "decoding is for a model in eval mode; dropout is for training"
        KERNELS.refuse(model.config)
        self.model = _with_kernels(model, dtype)
        self.layers = [CachedLayer(cast(DecoderLayer, layer)) for layer in self.model.decoder]
        self.memory_XD = torch.cat([layer.cross_KV for layer in self.layers])
        self.position_limit = model.position_limit

    def slot_bytes(self, num_beams: int, capacity: int) -> int:
        """What the caches of a slot take."""
        return (num_beams + 1) * capacity * self.memory_XD.size(0) * self.memory_XD.element_size()

    def caches(self, num_slots: int, num_beams: int, *, capacity: int) -> Caches:
        """Room for so many source and target positions a slot."""
        like, width = self.memory_XD, self.memory_XD.size(0) // len(self.layers)
        positions_LD = self.model.embedding.position_table(capacity)
        return Caches(
            [like.new_zeros(num_slots, capacity, num_beams, width) for _ in self.layers],
            like.new_zeros(num_slots, capacity, like.size(0)),
            torch.zeros(num_slots, dtype=torch.int32, device=like.device),
            # In float32 at least: they are added before anything is rounded.
            positions_LD.to(like.device, torch.promote_types(like.dtype, torch.float32)),
        )

    def encode(self, source: Packed, row_T: Tensor, caches: Caches) -> None:
        """The memory of new sentences; row t of the packed batch is row `row_T[t]` of N · S, or none of them (−1)."""
        hidden_TD = self.model.encode(source).hidden_SD
        place_rows(F.linear(hidden_TD, self.memory_XD), row_T, caches.memory_NSX.flatten(0, 1))

    def step(self, ids_R: Tensor, caches: Caches, ancestors_2NWL: Tensor, position_N: Tensor, done_N: Tensor) -> Tensor:
        """The newest token of each row → the logits of the next one, in float32 at least."""
        x_RD = embed(ids_R, position_N, done_N, self.model.embedding.weight_VD, caches.positions_LD)
        for number, cached in enumerate(self.layers):
            layer, width = cached.layer, caches.own_NLWX[number].size(-1)
            heads = Heads(cached.num_heads, cached.d_k, cached.d_kv - cached.d_k)
            product_RX = F.linear(x_RD, cached.products.own_QKV.weight_XD)
            heads_RX = own_attention(product_RX, caches.own_NLWX[number], ancestors_2NWL, position_N, done_N, heads)
            x_RD = layer.self_attention_norm(x_RD, F.linear(heads_RX, layer.self_attention.W_O.weight))
            query_RX = F.linear(x_RD, cached.products.cross_Q.weight_XD)
            heads_RX = cross_attention(
                query_RX, caches.memory_NSX, caches.length_N, done_N, heads, first_column=number * width
            )
            x_RD = layer.cross_attention_norm(x_RD, F.linear(heads_RX, layer.cross_attention.W_O.weight))
            x_RD = layer.feed_forward_norm(x_RD, layer.feed_forward(x_RD))
        return _wide_product(x_RD, self.model.embedding.weight_VD)


def _with_kernels(model: Transformer, dtype: torch.dtype) -> Transformer:
    """The same weights in modules of their own, which compute with kernels and in `dtype`."""
    twin = copy.deepcopy(model, {id(weight): weight for weight in model.parameters()})
    for module in twin.modules():
        kept = isinstance(module, nn.LayerNorm)
        for name, weight in list(module.named_parameters(recurse=False)):
            # Parameters of its own: a captured graph needs its memory, wherever the model goes.
            own = weight.detach() if kept else weight.detach().to(dtype)
            setattr(module, name, nn.Parameter(own, requires_grad=False))
    use_kernels(twin, torch.zeros(len(dropout_places(twin)), dtype=torch.int64, device=model.device))
    return twin


def _wide_product(x_RD: Tensor, weight_VD: Tensor) -> Tensor:
    """x Wᵀ with sums that are not rounded to 16 bits: the logits of near words differ by less."""
    if x_RD.dtype in (torch.float32, torch.float64):
        return F.linear(x_RD, weight_VD)
    return torch.mm(x_RD, weight_VD.T, out_dtype=torch.float32)
