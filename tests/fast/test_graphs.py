"""Graphs are captured one at a time, on a stream that nobody else uses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from unittest.mock import MagicMock

import pytest
import torch

from heedful.fast.cuda import graphs as cuda_graphs
from heedful.train import checkpoint_writer
from tests.interpreted import DEVICE, on_a_gpu


def test_threads_capture_their_graphs_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way: list[int] = []

    @contextmanager
    def capture(*_: object, **__: object) -> Iterator[None]:
        under_way.append(len(under_way))
        time.sleep(0.01)
        yield
        under_way.pop()

    for name, fake in {
        "Stream": MagicMock(),
        "current_stream": MagicMock(),
        "current_device": MagicMock(),
        "CUDAGraph": object,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    seen: list[int] = []
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: cuda_graphs.captured(lambda: seen.append(len(under_way)), None), range(4)))
    assert sorted(seen) == [0] * 4 * cuda_graphs.WARM_UP_RUNS + [1] * 4


@on_a_gpu
def test_a_replay_reads_what_is_there_now_and_leaves_its_result_where_it_was() -> None:
    number = torch.ones(1, device=DEVICE)
    with cuda_graphs.capturing():
        graph, twice = cuda_graphs.recorded(lambda: 2 * number, torch.cuda.graph_pool_handle())
    number.fill_(21)
    graph.replay()
    assert twice.item() == 42


@on_a_gpu
def test_workspaces_do_not_grow_with_the_number_of_graphs() -> None:
    square = torch.ones(64, 64, device=DEVICE)
    reserved = []
    for _ in range(8):
        cuda_graphs.captured(lambda: square @ square, torch.cuda.graph_pool_handle())
        torch.cuda.empty_cache()
        reserved.append(torch.cuda.memory_reserved())
    assert reserved[-1] == reserved[0]


@on_a_gpu
def test_checkpoints_are_never_copied_on_the_stream_that_captures() -> None:
    capturing, used = cuda_graphs.capture_stream(torch.cuda.current_device()), set()
    for _ in range(40):  # torch has 32 streams, which it gives out in turns
        event = torch.cuda.Event()
        event.record()
        with checkpoint_writer._own_stream(event):
            used.add(torch.cuda.current_stream().cuda_stream)
    assert len(used) == 1
    assert capturing.cuda_stream not in used
