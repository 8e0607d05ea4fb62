"""Capturing CUDA graphs: work is done a few times, then recorded, and a replay does it again at the cost of one call.

All graphs of a process are captured one at a time, on one stream of their device: torch keeps a workspace of matrix
products for every stream it has seen, and what another thread does on a stream that captures would become part of the
graph. It does not know what the work is, nor whose memory it uses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import torch

WARM_UP_RUNS = 2  # kernels are compiled and libraries made ready before a graph is captured
_CAPTURING = threading.Lock()
Result = TypeVar("Result")


@contextmanager
def capturing() -> Iterator[None]:
    """Nobody else captures meanwhile, and the work runs on the stream of captures, behind what was asked for before."""
    with _CAPTURING:
        stream = capture_stream(torch.cuda.current_device())
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            yield
        torch.cuda.current_stream().wait_stream(stream)


@cache
def capture_stream(device_index: int) -> torch.cuda.Stream:
    """The one on which a device's graphs are captured."""
    return torch.cuda.Stream(device_index)


def recorded(work: Callable[[], Result], pool: Any) -> tuple[torch.cuda.CUDAGraph, Result]:
    """The graph of the work, which takes its memory from `pool`, and where it leaves its result; while `capturing`."""
    graph = torch.cuda.CUDAGraph()
    # Other threads may ask for pinned memory meanwhile, which must not end the capture.
    with torch.cuda.graph(graph, pool, torch.cuda.current_stream(), capture_error_mode="thread_local"):
        return graph, work()


def captured(work: Callable[[], object], pool: Any) -> torch.cuda.CUDAGraph:
    """The work's graph; on the way the work is done `WARM_UP_RUNS` times."""
    with capturing():
        for _ in range(WARM_UP_RUNS):
            work()
        return recorded(work, pool)[0]
