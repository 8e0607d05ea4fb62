"""The work of all clients, collected into batches for a worker thread, the only one that uses the models.

A job is a list of units (sentences) and the function that solves such units; a unit costs its length. The worker fills
a batch with one unit of each job in turn, so that a long document delays nobody. Only units of jobs with equal keys go
into one batch. The queue is bounded: a job that does not fit is refused at once. When a client disconnects, the rest of
its job is dropped. An engine that can work on several batches at once gets several workers. The queue knows no text and
no HTTP.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

Result = TypeVar("Result")
# Units → the number and the result of each, in any order; each result is passed on at once.
Solve: TypeAlias = Callable[[Sequence[Any]], Iterable[tuple[int, Result]]]

LONGEST_RETRY = 60  # seconds


class QueueFullError(Exception):
    """Too much is waiting; after `retry_after` seconds there should be room."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_after} s")
        self.retry_after = retry_after


class QueueClosedError(Exception):
    """The server is shutting down."""


@dataclass(eq=False, slots=True)
class _Job:
    """The work of one request; `next` is the first unit that no batch has taken yet."""

    key: Hashable
    solve: Solve[Any]
    units: Sequence[Sized]
    found: dict[int, Any] = field(default_factory=dict)
    future: Future[list[Any]] = field(default_factory=Future)
    next: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)  # workers may have units of one job at once

    @property
    def waiting(self) -> int:
        """Units that no batch has taken yet."""
        return len(self.units) - self.next

    def put(self, place: int, result: Any) -> None:
        """Store the result of one unit; the last one completes the job."""
        with self.lock:
            self.found[place] = result
            if len(self.found) == len(self.units) and self._is_awaited():
                self.future.set_result([self.found[n] for n in range(len(self.units))])

    def fail(self, error: BaseException) -> None:
        """End the job with an error."""
        with self.lock:
            if self._is_awaited():
                self.future.set_exception(error)

    def _is_awaited(self) -> bool:
        """Whether it has no result, has not failed, and is not cancelled."""
        return not self.future.done() and self.future.set_running_or_notify_cancel()


_Batch: TypeAlias = list[tuple[_Job, int]]  # jobs, and which of their units


@dataclass(slots=True)
class QueueCounts:
    """Counts since the start, for /metrics."""

    batches: int = 0
    units: int = 0
    refused: int = 0
    cancelled: int = 0  # jobs whose client disconnected before the last unit was taken
    seconds: float = 0.0  # spent on batches


class BatchQueue:
    """Jobs in, results out, in batches across jobs.

    `max_waiting` units may wait. A job counts for at most an eighth of them: a long document takes turns with others
    anyway, so it should not keep them out. A batch has at most `max_batch` units and about `max_characters`.
    """

    def __init__(
        self, *, max_waiting: int = 2048, max_batch: int = 64, max_characters: int = 8000, num_workers: int = 1
    ) -> None:
        self.max_waiting, self.max_batch, self.max_characters = max_waiting, max_batch, max_characters
        self.counts = QueueCounts()
        self.waiting = 0  # units
        self._jobs: deque[_Job] = deque()  # those with waiting units; the first one is next
        self._changed = threading.Condition()
        self._closed = False
        thread = partial(threading.Thread, target=self._work, name="heedful-worker", daemon=True)
        self._workers = [thread() for _ in range(num_workers)]
        for worker in self._workers:
            worker.start()

    @property
    def is_alive(self) -> bool:
        """Whether all workers are running."""
        return all(worker.is_alive() for worker in self._workers)

    @property
    def has_workers(self) -> bool:
        """Whether a worker is running; after `close` that means that it is still busy with a batch."""
        return any(worker.is_alive() for worker in self._workers)

    async def run(self, key: Hashable, solve: Solve[Result], units: Sequence[Sized]) -> list[Result]:
        """The result of each unit, in order. `solve` may also get units of other jobs with an equal key."""
        if not units:
            return []
        job = _Job(key, solve, units)
        self._enter(job)
        try:
            return await asyncio.wrap_future(job.future)
        finally:
            self._leave(job)

    async def call(self, function: Callable[[], Result]) -> Result:
        """Call a function in the worker, in a batch of its own."""
        (result,) = await self.run(object(), lambda _: [(0, function())], [""])
        return result

    def close(self, seconds: float = 10.0) -> None:
        """Take no more jobs, and wait for each worker to finish those that are there, for at most `seconds`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for worker in self._workers:
            worker.join(seconds)

    # ------------------------------------------------------------------------------------------- the clients' side

    def _enter(self, job: _Job) -> None:
        with self._changed:
            if self._closed:
                raise QueueClosedError("the server is shutting down")
            if not self._has_room(job):
                self.counts.refused += 1
                raise QueueFullError(self._retry_after())
            self.waiting += job.waiting
            self._jobs.append(job)
            self._changed.notify()

    def _has_room(self, job: _Job) -> bool:
        if self.waiting + job.waiting <= self.max_waiting:
            return True
        most = max(1, self.max_waiting // 8)
        return sum(min(most, each.waiting) for each in (*self._jobs, job)) <= self.max_waiting

    def _leave(self, job: _Job) -> None:
        """Remove what is left of a job that nobody waits for any longer."""
        with self._changed:
            if job.waiting and job in self._jobs:
                self._jobs.remove(job)
                self.waiting -= job.waiting
                self.counts.cancelled += 1

    def _retry_after(self) -> int:
        """Seconds that the waiting units will take at the speed so far."""
        pace = self.counts.seconds / self.counts.units if self.counts.units else 0.0
        return min(LONGEST_RETRY, max(1, math.ceil(self.waiting * pace)))

    # -------------------------------------------------------------------------------------------- the worker's side

    def _work(self) -> None:
        while batch := self._next_batch():
            begin = perf_counter()
            self._solve(batch)
            with self._changed:
                self.counts.batches += 1
                self.counts.units += len(batch)
                self.counts.seconds += perf_counter() - begin

    def _next_batch(self) -> _Batch:
        """Wait for work; an empty batch means that the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            batch = self._take() if self._jobs else []
            if self._jobs:
                self._changed.notify()  # a new job wakes one worker only; this one wakes the next
            return batch

    def _take(self) -> _Batch:
        """One unit in turn of each job with the first job's key; jobs that had no turn are first next time."""
        key, batch, characters = self._jobs[0].key, _Batch(), 0
        ring = deque(job for job in self._jobs if job.key == key)
        others = [job for job in self._jobs if job.key != key]
        while ring and len(batch) < self.max_batch and characters < self.max_characters:
            job = ring.popleft()
            batch.append((job, job.next))
            characters += len(job.units[job.next])
            job.next += 1
            if job.waiting:
                ring.append(job)
        self._jobs = deque([*others, *ring])
        self.waiting -= len(batch)
        return batch

    def _solve(self, batch: _Batch) -> None:
        """Solve a batch. If that fails, solve the rest job by job, so that only the job at fault fails."""
        left = dict(enumerate(batch))
        try:
            for number, result in batch[0][0].solve([job.units[place] for job, place in batch]):
                job, place = left.pop(number)
                job.put(place, result)
            assert not left, "every unit has a result"
        except Exception as error:
            self._solve_apart(list(left.values()), error)

    def _solve_apart(self, batch: _Batch, error: Exception) -> None:
        jobs = list(dict.fromkeys(job for job, _ in batch))
        if len(jobs) == 1:
            return jobs[0].fail(error)
        for job in jobs:
            self._solve([(each, place) for each, place in batch if each is job])
