"""What one layer of Table 1 costs: operations, the longest chain of them, and memory counted; time measured."""

from __future__ import annotations

import torch
from msgspec import Struct
from torch.utils.benchmark import Timer

from heedful.lab.complexity import Kind, Size
from heedful.lab.operations import cost


class LayerCost(Struct, frozen=True, kw_only=True):
    """One forward pass over one sentence, in float32. Operations are multiply-adds."""

    operations: int  # of what Table 1 counts
    layer_operations: int  # with attention's projections
    longest_chain: int  # products in a row, in the whole layer
    peak_bytes: int  # of the tensors it makes
    seconds: float  # the median


def layer_cost(kind: Kind, size: Size, device: torch.device, *, seconds: float) -> LayerCost:
    """Count on the CPU, then time on the device for about so many seconds."""
    layer, x_NLD = kind.build(size), torch.randn(1, size.n, size.d)
    with torch.no_grad():
        prepared = layer.prepare(x_NLD)
        part, whole = cost(lambda: layer.mix(*prepared)), cost(lambda: layer(x_NLD))
        timer = Timer(
            "layer(x_NLD)",
            globals={"layer": layer.to(device), "x_NLD": x_NLD.to(device)},
            num_threads=torch.get_num_threads(),
        )
        measured = timer.blocked_autorange(min_run_time=seconds)
    return LayerCost(
        operations=part.multiply_adds,
        layer_operations=whole.multiply_adds,
        longest_chain=whole.longest_chain,
        peak_bytes=whole.peak_bytes,
        seconds=measured.median,
    )
