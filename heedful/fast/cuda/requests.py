"""Requests on their way through the searches of a GPU: who enters when, and what is read ahead meanwhile.

A sentence enters as soon as a slot is free, while the others are half-way; nothing waits for the longest of a batch.
While the GPU works on one round of steps, the host takes what the round before it has found, hands it on, and reads
what comes next. So whoever reads requests from text and makes text of results does it in the GPU's time. Sentences too
long for the search that is running wait until it is empty; no more than `WINDOW` requests are under way at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from heedful.fast.cuda.captured_search import CAPACITIES, ROUND_STEPS, CapturedSearch, CapturedSearches, Newcomer, Round
from heedful.translate.engine import Numbered, Request, SearchOptions
from heedful.translate.search import BeamRule
from heedful.translate.torch_engine import TorchEngine

WINDOW = 16384  # requests between the oldest that is not done and the newest that was read
FEW_SLOTS, FEW_STEPS = 16, 2  # with few slots somebody is waiting for each of them
SHARE_TO_ENTER = 1 / 16  # of the slots are free when the next sentences enter
EMPTY = np.iinfo(np.int64).max


class Waiting(NamedTuple):
    """A request, its number in the stream, and how long its output may become."""

    number: int
    request: Request
    max_length: int


class RequestQueue:
    """Requests, numbered in their order, and the way of each."""

    def __init__(
        self,
        searches: CapturedSearches,
        plain: TorchEngine,
        requests: Iterable[tuple[int, Request]],
        options: SearchOptions,
    ) -> None:
        self.searches, self.plain, self.options = searches, plain, options
        self.rule = BeamRule(options.beam_size, options.alpha, options.n_best)
        self._requests, self._is_read = iter(requests), False
        self._under_way: dict[int, None] = {}  # numbers of requests, the oldest first
        self._waiting: dict[int, deque[Waiting]] = {}  # by the capacity that they need; 0: more than any search has
        self._last, self._position_limit = -1, searches.decoder.position_limit

    def found(self) -> Iterator[Numbered]:
        """The number of a request and its hypotheses, as they are found."""
        while self.read(2 * self.searches.most_slots(self.rule, CAPACITIES[0])):
            capacity = next(iter(self._waiting))
            results = self._searched(capacity) if capacity else self._by_the_plain_engine()
            for number, hypotheses in results:
                self._under_way.pop(number)
                yield number, hypotheses

    def read(self, enough: int) -> bool:
        """Read until so many are waiting; is anybody?"""
        count = min(enough - sum(map(len, self._waiting.values())), self._room())
        if count > 0 and not self._is_read:
            before = len(self._under_way)
            for number, request in islice(self._requests, count):
                limit = self.plain.max_length(request, self.options)
                self._queue(len(request.source_ids), limit).append(Waiting(number, request, limit))
                self._under_way[number] = None
                self._last = number
            self._is_read = len(self._under_way) < before + count
        return bool(self._waiting)

    def _room(self) -> int:
        """So many may be read, the oldest that is not done in mind."""
        return WINDOW - (self._last + 1 - next(iter(self._under_way), self._last + 1))

    def _queue(self, length: int, limit: int) -> deque[Waiting]:
        """Where a sentence of this length, and of an output of at most that, waits; at 0 one that no search takes.

        There the plain engine raises the error of a sentence that is too long for the model.
        """
        needed = max(length, limit) + 1
        fitting = (each for each in CAPACITIES if needed <= each and length < self._position_limit)
        return self._waiting.setdefault(next(fitting, 0), deque())

    def _by_the_plain_engine(self) -> Iterator[Numbered]:
        waiting = [(number, request) for number, request, _ in self._waiting.pop(0)]
        return self.plain.search_by_length(waiting, self.options)

    def _searched(self, capacity: int) -> Iterator[Numbered]:
        """All that wait for this capacity, and those that come while they are under way."""
        search = self.searches.take(
            self.rule, self._num_slots(capacity), capacity, with_tokens=self.options.token_scores
        )
        try:
            yield from _SlotFiller(self, search, capacity).results()
        finally:
            self.searches.give_back(search)

    def _num_slots(self, capacity: int) -> int:
        """As many as the search may have; fewer where fewer sentences are left: a power of four."""
        most, num_slots = self.searches.most_slots(self.rule, capacity), 1
        while num_slots < most and not (self._is_read and num_slots >= len(self._waiting[capacity])):
            num_slots *= 4
        return min(most, num_slots)

    def more(self, capacity: int, count: int) -> list[Waiting]:
        """The next ones that wait for this capacity, at most so many."""
        waiting = self._waiting.get(capacity, deque())
        taken = [waiting.popleft() for _ in range(min(count, len(waiting)))]
        if not waiting:
            self._waiting.pop(capacity, None)
        return taken

    def num_waiting(self, capacity: int) -> int:
        """How many wait for this capacity."""
        return len(self._waiting.get(capacity, ()))


class _SlotFiller:
    """Sentences in the slots of one search."""

    def __init__(self, queue: RequestQueue, search: CapturedSearch, capacity: int) -> None:
        self.queue, self.search, self.capacity = queue, search, capacity
        self.steps = FEW_STEPS if search.num_slots <= FEW_SLOTS else ROUND_STEPS
        self.free = list(range(search.num_slots))
        self.tenants = [-1] * search.num_slots
        self.first_round_N = np.full(search.num_slots, EMPTY)  # since when who is in a slot is there

    def results(self) -> Iterator[Numbered]:
        """As they are found."""
        before: Round | None = None
        while True:
            self._admit()
            busy = len(self.free) < self.search.num_slots
            now = self.search.launch(self.steps) if busy else None
            self.queue.read(2 * self.search.num_slots)
            if before is not None:
                yield from self._leave(before)
            if now is None and not self.queue.num_waiting(self.capacity):
                return
            before = now

    def _admit(self) -> None:
        if len(self.free) < SHARE_TO_ENTER * self.search.num_slots:
            return
        newcomers = []
        for number, request, limit in self.queue.more(self.capacity, len(self.free)):
            slot = self.free.pop()
            self.tenants[slot] = number
            self.first_round_N[slot] = self.search.rounds
            newcomers.append(Newcomer(slot, request.source_ids, limit, request.prefix_ids))
        self.search.admit(newcomers)

    def _leave(self, before: Round) -> Iterator[Numbered]:
        slots_N = np.flatnonzero(before.done() & (self.first_round_N <= before.number))
        if not len(slots_N):
            return
        slots, found = slots_N.tolist(), before.hypotheses(slots_N)
        numbers = [self.tenants[slot] for slot in slots]
        self.first_round_N[slots_N] = EMPTY
        self.free += slots
        yield from zip(numbers, found, strict=True)
