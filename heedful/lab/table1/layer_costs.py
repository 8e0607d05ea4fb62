"""What one layer of Table 1 costs: operations, the longest chain of them, and memory counted; time measured.

On a CPU one thread computes, and its own clock is read: it stands still while other work has the core.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from msgspec import Struct
from torch import Tensor
from torch.utils import benchmark

from heedful.lab.table1.complexity import Kind, Size
from heedful.lab.table1.layers import Layer
from heedful.lab.table1.operations import cost


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
        median = _median_seconds(layer.to(device), x_NLD.to(device), seconds)
    return LayerCost(
        operations=part.multiply_adds,
        layer_operations=whole.multiply_adds,
        longest_chain=whole.longest_chain,
        peak_bytes=whole.peak_bytes,
        seconds=median,
    )


def _median_seconds(layer: Layer, x_NLD: Tensor, seconds: float) -> float:
    clock = time.thread_time if x_NLD.device.type == "cpu" else benchmark.timer  # which waits for the GPU
    timer = benchmark.Timer("layer(x_NLD)", globals={"layer": layer, "x_NLD": x_NLD}, timer=clock, num_threads=1)
    return float(timer.blocked_autorange(min_run_time=seconds).median)


@contextmanager
def one_thread() -> Iterator[None]:
    """Within this context torch computes with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
