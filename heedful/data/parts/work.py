"""One process works through parts: one after the other, with a worker that is opened once.

A part gets a strike before it is begun, and loses it when it is finished. So the next process knows if a part has ended
its process or its machine. An error that is not the part's fault (a full disk, an unreadable model, changed text) ends
the work at once. After any other error the other parts go on.
"""

from __future__ import annotations

import faulthandler
import platform
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from heedful.data.parts.folder import STRIKES, PartFolder, PartOutput
from heedful.data.parts.plan import PartText, part_text
from heedful.errors import CheckpointError, DataError, DivergedError

PATIENCE = 3600.0  # a worker hangs if it has no line ready for so many seconds
ENDED = "the process ended while it was at work on this part"
Item = TypeVar("Item")


class PartWorker(Protocol):
    """It does the work on lines. Opening one may take long, so each process opens one only once."""

    computed_by: str

    def outputs(self, part: PartText) -> Iterator[PartOutput]:
        """The output of the part, piece by piece."""
        ...


Opening = Callable[[], PartWorker]


def work_through(
    folder: PartFolder, numbers: Iterable[int], open_worker: Opening, *, patience: float, done: Callable[[int], None]
) -> None:
    """Do these parts, except those that are finished or set aside. `done` is called after each."""
    waiting, worker = deque(numbers), None
    while waiting:
        number = waiting.popleft()
        if folder.is_finished(number) or folder.trouble(number).strikes >= STRIKES:
            done(number)
            continue
        worker = worker or open_worker()
        if attempt(folder, number, worker, patience):
            done(number)
        else:
            waiting.append(number)


def attempt(folder: PartFolder, number: int, worker: PartWorker, patience: float) -> bool:
    """Do a part. Returns whether it succeeded; an error that is not the part's fault is raised."""
    folder.strike(number, ENDED)
    try:
        do_part(folder, number, worker, patience)
    except Exception as error:
        folder.forgive(number)
        if is_no_fault_of_the_part(error):
            raise
        folder.strike(number, one_line(error))
        return False
    except BaseException:  # Ctrl-C or a signal
        folder.forgive(number)
        raise
    folder.forget_trouble(number)
    return True


def do_part(folder: PartFolder, number: int, worker: PartWorker, patience: float) -> None:
    """Write the part. The process ends if the next line takes longer than `patience` seconds."""
    outputs = worker.outputs(part_text(folder.root, folder.plan, number))
    try:
        watched = _watched(outputs, patience)
        folder.write(number, watched, cpu=cpu_name(), computed_by=worker.computed_by)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _watched(items: Iterable[Item], patience: float) -> Iterator[Item]:
    """The items. If the next one takes too long, the process prints its traceback and ends.

    faulthandler's thread works even if a stuck call holds the interpreter's lock.
    """
    last = _wait_for_at_most(patience)
    for item in items:
        if time.monotonic() - last > min(1.0, patience / 10):
            last = _wait_for_at_most(patience)
        yield item


def _wait_for_at_most(patience: float) -> float:
    """Start the timer again; returns the time."""
    faulthandler.dump_traceback_later(patience, exit=True, file=2)
    return time.monotonic()


def is_no_fault_of_the_part(error: BaseException) -> bool:
    """Whether every other part would fail in the same way."""
    return isinstance(error, OSError | DataError | CheckpointError) and not isinstance(error, DivergedError)


def one_line(error: BaseException) -> str:
    """An error's type and message, without line breaks."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def share_of(num_parts: int, share: int, num_shares: int) -> range:
    """The parts of a share: I, I + N, I + 2 N and so on."""
    return range(share, num_parts, num_shares)


def cpu_name() -> str:
    """The model of this machine's CPU."""
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
