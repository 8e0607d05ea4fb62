"""The vectors that the attention weights follow from, so that the page can show the calculation with its real numbers.

For each attention: queries, keys and values, what W_O makes of the heads, and what comes out of residual and LayerNorm.
For each stack: the vector of every word before the first layer and after each, which says how far it moved. They are
half precision: three digits, which is what a page shows. The page does the arithmetic between them
(`inspection/page/worked.js`). So there are vectors only where that arithmetic is the model's own (`worked_kinds`).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from heedful.inspection.attention_map import AttentionMap, Kind
from heedful.model.attention import attention

PARTS = ("q", "k", "v", "sub", "out")
RESIDUALS: dict[Kind, str] = {  # the residual connection around each attention
    "cross": "decoder.{}.cross_attention_norm",
    "encoder": "encoder.{}.self_attention_norm",
    "decoder": "decoder.{}.self_attention_norm",
}


def worked_kinds(found: AttentionMap) -> tuple[Kind, ...]:
    """The kinds of attention that the page can work through.

    Their weights follow from the recorded vectors by equation 1, and there is a residual connection around each part.
    Cross-attention needs the decoder's self-attention as well, whose output it starts from.
    """
    kinds = tuple(kind for kind in found.weights_LHTS if _has_residuals(found, kind) and _is_equation_1(found, kind))
    return tuple(kind for kind in kinds if _stack(kind) in kinds)


def _stack(kind: Kind) -> Kind:
    """The stack of the words that look. It has the name of its self-attention."""
    return "encoder" if kind == "encoder" else "decoder"


def _has_residuals(found: AttentionMap, kind: Kind) -> bool:
    return {RESIDUALS[kind].format(0), f"{_stack(kind)}.0.feed_forward_norm"} <= found.reading.residuals.keys()


def _is_equation_1(found: AttentionMap, kind: Kind) -> bool:
    """Does the first layer's recorder hold queries and keys that have given these weights?"""
    recorder = found.reading.recorders[kind][0]
    parts = recorder.queries, recorder.keys, recorder.values
    if not all(parts):
        return False
    query_HTK, key_HSK, value_HSK = (part[0].transpose(0, 1) for part in parts)
    all_TS = torch.ones(query_HTK.size(1), key_HSK.size(1), dtype=torch.bool, device=query_HTK.device)
    _, weights_HTS = attention(query_HTK, key_HSK, value_HSK, all_TS.tril() if kind == "decoder" else all_TS)
    return torch.allclose(weights_HTS, recorder.weights[0], atol=1e-3)


def states(found: AttentionMap, stack: Kind) -> Tensor:
    """The vectors of a stack's words before the first layer and after each: (layers + 1) × words × d_model."""
    residuals, layers = found.reading.residuals, found.weights_LHTS[stack].size(0)
    after = [residuals[f"{stack}.{layer}.feed_forward_norm"].output_TD for layer in range(layers)]
    return torch.stack([residuals[f"{stack}.0.self_attention_norm"].x_TD, *after])


def num_vector_bytes(found: AttentionMap, layers: Sequence[int]) -> int:
    """How large `vectors` will be."""
    kinds = worked_kinds(found)
    per_layer = sum(_part(found, kind, 0, name).numel() for kind in kinds for name in PARTS)
    return 2 * (per_layer * len(layers) + sum(states(found, stack).numel() for stack in _stacks(kinds)))


def vectors(found: AttentionMap, layers: Sequence[int]) -> dict[str, Any]:
    """The vectors of these layers as the page gets them."""
    kinds: dict[Kind, Any] = {}
    for kind in worked_kinds(found):
        here = [layer for layer in layers if layer < found.weights_LHTS[kind].size(0)]
        kinds[kind] = {"layers": here, **{name: halves(_parts(found, kind, here, name)) for name in PARTS}}
    return {"kinds": kinds, "states": {stack: halves(states(found, stack)) for stack in _stacks(kinds)}}


def _stacks(kinds: Iterable[Kind]) -> list[Kind]:
    return list(dict.fromkeys(map(_stack, kinds)))


def _parts(found: AttentionMap, kind: Kind, layers: Sequence[int], name: str) -> Tensor:
    """Layers × rows × width; a decoder may have none of the layers that an encoder has."""
    parts = [_part(found, kind, layer, name) for layer in layers]
    return torch.stack(parts) if parts else _part(found, kind, 0, name)[None][:0]


def _part(found: AttentionMap, kind: Kind, layer: int, name: str) -> Tensor:
    """Rows × width; the heads of a row lie side by side."""
    recorder = found.reading.recorders[kind][layer]
    residual = found.reading.residuals[RESIDUALS[kind].format(layer)]
    tensors = {
        "q": recorder.queries[0].flatten(1),
        "k": recorder.keys[0].flatten(1),
        "v": recorder.values[0].flatten(1),
        "sub": residual.sublayer_TD,
        "out": residual.output_TD,
    }
    return tensors[name]


def halves(values: Tensor) -> dict[str, Any]:
    """A tensor as half-precision numbers in base64."""
    data = values.detach().cpu().half().contiguous().numpy().astype("<f2").tobytes()
    return {"shape": list(values.shape), "dtype": "f16", "data": base64.b64encode(data).decode("ascii")}
