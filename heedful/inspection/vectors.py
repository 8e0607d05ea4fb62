"""The vectors that the attention weights follow from, so that the page can show the calculation with its real numbers.

For each attention: queries, keys and values, what W_O makes of the heads, and what comes out of residual and LayerNorm.
For each stack: the vector of every word before the first layer and after each, which says how far it moved. They are
half precision: three digits, which is what a page shows. The page does the arithmetic between them
(`inspection/page/worked.js`).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from heedful.inspection.attention_map import KINDS, AttentionMap, Kind


def states(found: AttentionMap, stack: str) -> Tensor:
    """The vectors of a stack's words before the first layer and after each: (layers + 1) × words × d_model."""
    kind: Kind = "encoder" if stack == "encoder" else "decoder"
    residuals, layers = found.reading.residuals, found.weights_LHTS[kind].size(0)
    after = [residuals[f"{stack}.{layer}.feed_forward_norm"].output_TD for layer in range(layers)]
    return torch.stack([residuals[f"{stack}.0.self_attention_norm"].x_TD, *after])


def num_vector_bytes(found: AttentionMap, layers: Sequence[int]) -> int:
    """How large `vectors` will be."""
    per_layer = sum(_part(found, kind, 0, name).numel() for kind in KINDS for name in PARTS)
    return 2 * (per_layer * len(layers) + states(found, "encoder").numel() + states(found, "decoder").numel())


PARTS = ("q", "k", "v", "sub", "out")
RESIDUALS: dict[Kind, str] = {  # the residual connection around each attention
    "cross": "decoder.{}.cross_attention_norm",
    "encoder": "encoder.{}.self_attention_norm",
    "decoder": "decoder.{}.self_attention_norm",
}


def vectors(found: AttentionMap, layers: Sequence[int]) -> dict[str, Any]:
    """The vectors of these layers as the page gets them."""
    kinds: dict[str, Any] = {}
    for kind in KINDS:
        here = [layer for layer in layers if layer < found.weights_LHTS[kind].size(0)]
        kinds[kind] = {"layers": here, **{name: halves(_parts(found, kind, here, name)) for name in PARTS}}
    return {"kinds": kinds, "states": {stack: halves(states(found, stack)) for stack in ("encoder", "decoder")}}


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
