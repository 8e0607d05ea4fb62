"""Checkpoints written while training goes on (§6.1: nothing is lost when a machine dies).

A snapshot is a copy, made in the order of the device's work, which a thread then brings to the host and to the disk.
There is one at a time: who asks for the next while the last is under way waits. What goes wrong in the thread is raised
in the loop, at the next question. Nothing here knows what a snapshot holds.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch

from heedful.config.settings import TrainConfig
from heedful.model.checkpoint import Snapshot, prune_checkpoints, save_checkpoint
from heedful.model.device import ONE_THREAD


class CheckpointWriter:
    """Writes checkpoints of one run, and takes away those that are no longer needed."""

    def __init__(self, run: Path, config: TrainConfig) -> None:
        self.run, self.config = run, config
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._written: queue.SimpleQueue[int] = queue.SimpleQueue()

    def write(self, step: int, snapshot: Callable[[], Snapshot]) -> None:
        """Take a snapshot and begin to write it; not before the last one has been let go."""
        self.wait()
        taken = [_for_another_thread(snapshot())]
        work = (step, taken, _end_of_queue(taken[0]))
        self._thread = threading.Thread(target=self._work, args=work, daemon=True, name="heedful-checkpoint")
        self._thread.start()

    def written(self) -> Iterator[int]:
        """The steps whose checkpoints are on the disk since this was last asked."""
        while not self._written.empty():
            yield self._written.get()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self) -> None:
        """Until nothing is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    close = wait

    def _work(self, step: int, taken: list[Snapshot], copied: torch.cuda.Event | None) -> None:
        try:
            with _own_stream(copied):
                on_host = taken.pop().on_host()  # what was on the device is free again
            save_checkpoint(self.run, step, on_host)
            prune_checkpoints(self.run, self.config)
            self._written.put(step)
        except BaseException as error:
            self._error = error


def _for_another_thread(snapshot: Snapshot) -> Snapshot:
    """On the host already where torch lets no other thread use the device."""
    devices = {tensor.device.type for tensor in snapshot.weights.values()}
    return snapshot if devices.isdisjoint(ONE_THREAD) else snapshot.on_host()


def _end_of_queue(snapshot: Snapshot) -> torch.cuda.Event | None:
    """The moment at which the GPU will have made the copies; None on a CPU, where they are made."""
    if not any(tensor.is_cuda for tensor in snapshot.weights.values()):
        return None
    event = torch.cuda.Event()
    event.record()
    return event


def _own_stream(copied: torch.cuda.Event | None) -> AbstractContextManager[Any]:
    """A stream that waits for the copies and for nothing that is asked of the GPU after them."""
    if copied is None:
        return nullcontext()
    stream = _stream(torch.cuda.current_device())
    stream.wait_event(copied)
    return torch.cuda.stream(stream)


@cache
def _stream(device_index: int) -> torch.cuda.Stream:
    """The same each time: torch has 32, which it gives out in turns, and on one of them graphs are captured."""
    return torch.cuda.Stream(device_index)
