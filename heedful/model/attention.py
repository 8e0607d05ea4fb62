"""Attention (§3.2): the only part of the model in which positions meet.

Three ways to compute equation 1, equal by test: `attention` as the paper writes it, which also gives the weights;
`grouped_attention` for CPUs, padded within groups of like length; `fast/cuda/attention.py` for CUDA, on the packed rows
themselves. `attend` is the one place that chooses between the fast ones. (Translation, a position at a time, has its
own in `decoding.py`, with the √d_k in W_Q.) K is d_k; of values and outputs it is d_v. What may look at what is in the
layout; here nobody knows tokens, sentences or which of the three uses of §3.2.3 it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedful.fast.cuda.tiles import Tiles
from heedful.model.layout import Group, Groups, Slots
from heedful.model.packed import Layout


def attention(query_HLK: Tensor, key_HMK: Tensor, value_HMK: Tensor, mask_LM: Tensor) -> tuple[Tensor, Tensor]:
    """Equation 1: softmax(Q Kᵀ / √d_k) V. Returns the output and the weights.

    Illegal connections get −∞ before the softmax. A row that may attend to nothing comes out as zeros.
    """
    scores_HLM = query_HLK @ key_HMK.mT / math.sqrt(query_HLK.size(-1))
    weights_HLM = scores_HLM.masked_fill(~mask_LM, -math.inf).softmax(dim=-1)
    weights_HLM = weights_HLM.masked_fill(~mask_LM, 0.0)
    return weights_HLM @ value_HMK, weights_HLM


def layout_mask(layout: Layout, num_queries: int, num_keys: int) -> Tensor:
    """The layout as a mask over all pairs of rows: True where the query may attend to the key."""
    query_row_L1 = torch.arange(num_queries, device=layout.query_offsets_N.device)[:, None]
    key_row_M = torch.arange(num_keys, device=layout.key_offsets_N.device)
    query_sentence_L1 = torch.bucketize(query_row_L1, layout.query_offsets_N, right=True)
    key_sentence_M = torch.bucketize(key_row_M, layout.key_offsets_N, right=True)
    outside = query_row_L1 >= layout.query_offsets_N[-1]
    mask_LM = (query_sentence_L1 == key_sentence_M) & ~outside
    return mask_LM & (key_row_M <= query_row_L1) if layout.causal else mask_LM


def plain_attention(query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Equation 1 over the whole packed row: the twin of the fast paths, and the one that gives the weights."""
    mask_TS = layout_mask(layout, query_THK.size(0), key_SHK.size(0))
    output_HTK, weights_HTS = attention(
        query_THK.transpose(0, 1), key_SHK.transpose(0, 1), value_SHK.transpose(0, 1), mask_TS
    )
    return output_HTK.transpose(0, 1), weights_HTS


def grouped_attention(query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor, layout: Groups) -> Tensor:
    """Equation 1 on groups of sentences of like length; rows behind the last sentence come out as zeros."""
    query_PHK = _pad(query_THK, layout.queries)
    key_PHK, value_PHK = _pad(key_SHK, layout.keys), _pad(value_SHK, layout.keys)
    query_sizes = [group.num_sentences * group.num_queries for group in layout.groups]
    key_sizes = [group.num_sentences * group.num_keys for group in layout.groups]
    parts = zip(
        layout.groups, query_PHK.split(query_sizes), key_PHK.split(key_sizes), value_PHK.split(key_sizes), strict=True
    )
    outputs = [_attend_group(group, query, key, value, layout.causal) for group, query, key, value in parts]
    output_THK = _unpad(torch.cat(outputs), layout.queries)
    return F.pad(output_THK, (0, 0, 0, 0, 0, query_THK.size(0) - output_THK.size(0)))


def _attend_group(group: Group, query_PHK: Tensor, key_PHK: Tensor, value_PHK: Tensor, causal: bool) -> Tensor:
    query_NHLK = query_PHK.unflatten(0, (group.num_sentences, group.num_queries)).transpose(1, 2)
    key_NHMK = key_PHK.unflatten(0, (group.num_sentences, group.num_keys)).transpose(1, 2)
    value_NHMK = value_PHK.unflatten(0, (group.num_sentences, group.num_keys)).transpose(1, 2)
    output_NHLK = F.scaled_dot_product_attention(
        query_NHLK, key_NHMK, value_NHMK, attn_mask=group.key_mask_N11M, is_causal=causal
    )
    return output_NHLK.transpose(1, 2).flatten(0, 1)


def _pad(x_THK: Tensor, slots: Slots) -> Tensor:
    padded_PHK: Tensor = _Pad.apply(x_THK, slots.row_of_slot_P, slots.slot_of_row_T)  # type: ignore[no-untyped-call]
    return padded_PHK


def _unpad(y_PHK: Tensor, slots: Slots) -> Tensor:
    rows_THK: Tensor = _Unpad.apply(y_PHK, slots.slot_of_row_T)  # type: ignore[no-untyped-call]
    return rows_THK


class _Pad(torch.autograd.Function):
    """Packed rows → padded slots. The gradient of a row is that of its one real slot, so no sum is needed."""

    @staticmethod
    def forward(ctx: Any, x_THK: Tensor, row_of_slot_P: Tensor, slot_of_row_T: Tensor) -> Tensor:
        ctx.save_for_backward(slot_of_row_T)
        ctx.num_rows = x_THK.size(0)
        return x_THK.index_select(0, row_of_slot_P)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (slot_of_row_T,) = ctx.saved_tensors
        grad_THK = grads[0].index_select(0, slot_of_row_T)
        return F.pad(grad_THK, (0, 0, 0, 0, 0, ctx.num_rows - grad_THK.size(0))), None, None


class _Unpad(torch.autograd.Function):
    """Padded slots → packed rows. Padded slots get a gradient of zero."""

    @staticmethod
    def forward(ctx: Any, y_PHK: Tensor, slot_of_row_T: Tensor) -> Tensor:
        ctx.save_for_backward(slot_of_row_T)
        ctx.num_slots = y_PHK.size(0)
        return y_PHK.index_select(0, slot_of_row_T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (slot_of_row_T,) = ctx.saved_tensors
        grad_PHK = grads[0].new_zeros((ctx.num_slots, *grads[0].shape[1:]))
        return grad_PHK.index_copy_(0, slot_of_row_T, grads[0]), None


def attend(products: tuple[Tensor, ...], layout: Layout, *, num_heads: int, d_k: int) -> Tensor:
    """Equation 1 for all heads, by the fastest way that this layout was built for."""
    if isinstance(layout, Tiles):
        from heedful.fast.cuda.attention import tiled_attention  # needs Triton, which is not everywhere

        return tiled_attention(products, layout, num_heads=num_heads, d_k=d_k)
    return grouped_attention(*split_heads(products, num_heads=num_heads, d_k=d_k), layout).flatten(-2)


def project(x_TD: Tensor, *matrices: nn.Linear) -> Tensor:
    """x W for several matrices W, in one product; the results lie side by side."""
    return F.linear(x_TD, torch.cat([matrix.weight for matrix in matrices]))


def split_heads(products: tuple[Tensor, ...], *, num_heads: int, d_k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, with an axis for the heads, which lie side by side in a row."""
    width = num_heads * d_k
    *queries, rest = products
    query, key_value = (queries[0], rest) if queries else rest.tensor_split([width], dim=-1)
    key, value = key_value.tensor_split([width], dim=-1)
    query_THK, key_SHK, value_SHK = (part.unflatten(-1, (num_heads, -1)) for part in (query, key, value))
    return query_THK, key_SHK, value_SHK


class MultiHeadAttention(nn.Module):
    """§3.2.2: MultiHead(Q, K, V) = Concat(head_1, …, head_h) W_O, head_i = Attention(Q W_Q, K W_K, V W_V); no biases.

    The matrices of the h heads lie side by side in one, so `W_Q` maps d_model to h·d_k.
    """

    def __init__(self, d_model: int, num_heads: int, d_k: int, d_v: int) -> None:
        super().__init__()
        self.num_heads, self.d_k = num_heads, d_k
        self.W_Q = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.W_K = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.W_V = nn.Linear(d_model, num_heads * d_v, bias=False)
        self.W_O = nn.Linear(num_heads * d_v, d_model, bias=False)
        self.recorder: Recorder | None = None

    def forward(self, x_TD: Tensor, memory_SD: Tensor, layout: Layout) -> Tensor:
        """Queries from x, keys and values from the memory (in self-attention x itself)."""
        products: tuple[Tensor, ...] = (
            (project(x_TD, self.W_Q, self.W_K, self.W_V),)
            if memory_SD is x_TD
            else (self.W_Q(x_TD), project(memory_SD, self.W_K, self.W_V))
        )
        attend_ = attend if self.recorder is None else self.recorder.attend
        output_TD: Tensor = self.W_O(attend_(products, layout, num_heads=self.num_heads, d_k=self.d_k))
        return output_TD


@dataclass
class Recorder:
    """Attends by equation 1 as written, and keeps what went in and the weights that came out, one entry a call."""

    queries: list[Tensor] = field(default_factory=list)
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)

    def attend(self, products: tuple[Tensor, ...], layout: Layout, *, num_heads: int, d_k: int) -> Tensor:
        """Equation 1; the weights of this call are kept."""
        query_THK, key_SHK, value_SHK = split_heads(products, num_heads=num_heads, d_k=d_k)
        output_THK, weights_HTS = plain_attention(query_THK, key_SHK, value_SHK, layout)
        self.queries.append(query_THK)
        self.keys.append(key_SHK)
        self.values.append(value_SHK)
        self.weights.append(weights_HTS)
        return output_THK.flatten(-2)


@contextmanager
def recorded_attention(module: nn.Module) -> Iterator[dict[str, Recorder]]:
    """Within this context every attention inside `module` is recorded, under the name of its place in the model."""
    places = {name: part for name, part in module.named_modules() if isinstance(part, MultiHeadAttention)}
    recorders = {name: Recorder() for name in places}
    for name, part in places.items():
        part.recorder = recorders[name]
    try:
        yield recorders
    finally:
        for part in places.values():
            part.recorder = None
