"""Search on CUDA as a captured graph: N slots through which sentences go, and each step one replay.

A `CapturedSearch` has a rule, a number of slots and room for a number of positions; it takes all of its memory when it
is made. Sentences enter by the replay of another graph (encoder, keys and values of the memory, the slot's beginning).
The host learns a round of steps later, from pinned memory, which slots are done, so that the GPU never waits for it.
`CapturedSearches` keeps the searches of a model, so that a graph is captured once. On a CPU the same runs without
graphs, through Triton's interpreter, for tests. This module knows no order of requests and no text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.errors import DivergedError
from heedful.fast.cuda.beam_kernels import advance, best_tokens
from heedful.fast.cuda.cached_step import place_rows
from heedful.fast.cuda.graphs import captured
from heedful.fast.cuda.slots import NO_HYPOTHESIS, NOT_DONE, Found, empty_found, empty_slots, enter, trace_back
from heedful.fast.cuda.static_decoder import StaticDecoder
from heedful.fast.cuda.tiles import StaticShape, aligned, fill_tiles, num_numbers, view_tiles, write_tables
from heedful.model.packed import Packed, positions_of
from heedful.model.transformer import Transformer
from heedful.translate.search import FREE, BeamRule, Hypothesis

CAPACITIES = (256, 512, 1024)  # positions that a search may have room for
MAX_WIDTH = 16  # hypotheses a slot
MAX_SLOTS, MAX_ROWS = 1024, 2048  # more do not make a step more efficient; R = slots × width
ROUND_STEPS = 4  # steps between two looks at who is done
ENCODER_ROWS = (256, 1024, 4096, 16384)  # source tokens that enter at once
SHARE_OF_MEMORY = 0.15  # that the searches of a model may take of a GPU's

Key: TypeAlias = tuple[BeamRule, int, int, bool]
"""What one search differs in from another: its rule, slots, capacity, and whether it tells the scores of tokens."""


class Newcomer(NamedTuple):
    """A sentence on its way into a slot; the ids hold no eos."""

    slot: int
    source_ids: Sequence[int]
    max_length: int
    prefix_ids: Sequence[int] = ()


class Round:
    """A few steps that were launched, and what they found once they are done."""

    def __init__(self, number: int, found: Found, event: Any) -> None:
        self.number, self._found, self._event = number, found, event

    def done(self) -> npt.NDArray[np.bool_]:
        """Which slots are done; waits until the steps are."""
        if self._event is not None:
            self._event.synchronize()
        done_N: npt.NDArray[np.bool_] = self._found.ids_NBL[:, 0, 0].numpy() != NOT_DONE
        return done_N

    def hypotheses(self, slots: npt.NDArray[np.int64]) -> list[list[Hypothesis]]:
        """The hypotheses of slots that are done, best first."""
        ids_NBL, scores_NBL = self._found.ids_NBL.numpy()[slots], self._found.scores_NBL.numpy()[slots]
        lengths_NB, found_NB = ids_NBL[:, :, 0], ids_NBL[:, :, 0] != NO_HYPOTHESIS
        if not found_NB[:, 0].all():
            raise DivergedError
        lengths_H = lengths_NB[found_NB]
        ids = _cut(ids_NBL[:, :, 1:][found_NB], lengths_H)
        with_tokens = scores_NBL.shape[-1] > 2
        tokens = _cut(scores_NBL[:, :, 2:][found_NB], lengths_H + 1) if with_tokens else [()] * len(ids)
        made = map(Hypothesis, ids, *(scores_NBL[:, :, i][found_NB].tolist() for i in (1, 0)), tokens)
        if lengths_NB.shape[1] == 1:
            return [[hypothesis] for hypothesis in made]
        return [list(islice(made, count)) for count in found_NB.sum(axis=1).tolist()]


def _cut(rows_HL: npt.NDArray[Any], lengths_H: npt.NDArray[np.int32]) -> list[tuple[Any, ...]]:
    """The first so many numbers of each row."""
    rows_HL = rows_HL[:, : lengths_H.max(initial=0)]
    values = rows_HL[np.arange(rows_HL.shape[-1]) < lengths_H[:, None]].tolist()
    ends = np.cumsum(lengths_H).tolist()
    return [tuple(values[end - length : end]) for end, length in zip(ends, lengths_H.tolist(), strict=True)]


class _Entrance:
    """Numbers on the device, and two places in pinned memory from which they come in turns."""

    def __init__(self, size: int, device: torch.device) -> None:
        is_cuda = device.type == "cuda"
        self.numbers_I = torch.zeros(size, dtype=torch.int32, device=device)
        self._places = [torch.zeros(size, dtype=torch.int32, pin_memory=is_cuda) for _ in range(2)]
        self._copied = [torch.cuda.Event() if is_cuda else None for _ in range(2)]

    @contextmanager
    def filled(self) -> Iterator[npt.NDArray[np.int32]]:
        """Fill these; then they are copied, without waiting."""
        self._places.reverse()
        self._copied.reverse()
        if copied := self._copied[0]:
            copied.synchronize()  # it was, long ago
        yield self._places[0].numpy()
        self.numbers_I.copy_(self._places[0], non_blocking=True)
        if copied:
            copied.record()


class CapturedSearch:
    """The slots, their memory and the graphs that move them on."""

    def __init__(self, decoder: StaticDecoder, key: Key, pool: Any) -> None:
        self.decoder, self.key, self.pool = decoder, key, pool
        rule, num_slots, capacity, with_tokens = key
        self.rule, self.num_slots, self.capacity = rule, num_slots, capacity
        weight = decoder.model.embedding.weight_VD
        self.is_cuda = weight.is_cuda
        like = weight.new_empty(0, dtype=torch.promote_types(weight.dtype, torch.float32))
        self.caches = decoder.caches(num_slots, rule.width, capacity=capacity)
        self.slots = empty_slots(num_slots, rule, capacity, like)
        self.found = empty_found(self.slots, rule, with_tokens=with_tokens, device=weight.device)
        self._told = [empty_found(self.slots, rule, with_tokens=with_tokens, pin_memory=self.is_cuda) for _ in range(2)]
        self._shape_of_rows = {
            rows: StaticShape(rows, min(num_slots, rows), min(capacity, decoder.position_limit))
            for rows in ENCODER_ROWS
            if rows >= capacity
        }
        self._graphs: dict[str, torch.cuda.CUDAGraph] = {}
        self._entrances: dict[int, _Entrance] = {}
        self._prefixed: set[int] = set()
        self.rounds = 0

    # ------------------------------------------------------------------------------------------------------ entering

    def admit(self, newcomers: Sequence[Newcomer]) -> None:
        """New sentences in slots that are done or empty."""
        self._put_prefixes(newcomers)
        ends_N = np.cumsum([len(newcomer.source_ids) + 1 for newcomer in newcomers])
        begin, most = 0, max(self._shape_of_rows)
        while begin < len(newcomers):
            before = ends_N[begin - 1] if begin else 0
            end = int(np.searchsorted(ends_N, before + most, side="right"))
            self._admit(newcomers[begin:end], int(ends_N[end - 1] - before))
            begin = end

    def _admit(self, newcomers: Sequence[Newcomer], rows: int) -> None:
        shape = next(shape for most, shape in self._shape_of_rows.items() if rows <= most)
        if shape.rows not in self._entrances:
            self._entrances[shape.rows] = _Entrance(sum(_sizes_entering(shape)), self.slots.done_N.device)
        entrance = self._entrances[shape.rows]
        with entrance.filled() as numbers:
            self._fill(numbers, newcomers, shape)
        # To do this more than once, as before a capture, changes nothing.
        self._run(f"enter {shape.rows}", lambda: self._enter(entrance.numbers_I, shape))

    def _fill(self, numbers: npt.NDArray[np.int32], newcomers: Sequence[Newcomer], shape: StaticShape) -> None:
        """All that enters, in one array: tokens, positions and places of rows; slots, lengths and limits; tiles."""
        of_slots, sources, of_limits, _ = zip(*newcomers, strict=True)
        slots, limits = np.array(of_slots), np.array(of_limits)
        lengths = np.fromiter(map(len, sources), np.int64, len(sources)) + 1
        ids = np.full(lengths.sum(), self.rule.eos_id, dtype=np.int32)
        is_eos = np.zeros(len(ids), dtype=np.bool_)
        is_eos[np.cumsum(lengths) - 1] = True
        ids[~is_eos] = list(chain.from_iterable(sources))
        positions = positions_of(lengths)
        rows = np.repeat(slots * self.capacity, lengths) + positions
        tables = ((ids, 0), (positions, 0), (rows, -1), (slots, -1), (lengths, 0), (limits, 0))
        of_tiles = write_tables(numbers, tables, _sizes_entering(shape)[:-1])
        fill_tiles(of_tiles, lengths, lengths, causal=False, shape=shape)

    def _enter(self, numbers_I: Tensor, shape: StaticShape) -> None:
        ids_T, positions_T, row_T, slot_A, length_A, limit_A, tiles_I = numbers_I.split(_sizes_entering(shape))
        source = Packed(ids_T, positions_T, shape.longest, view_tiles(tiles_I, causal=False, shape=shape))
        self.decoder.encode(source, row_T, self.caches)
        place_rows(length_A[:, None], slot_A, self.caches.length_N[:, None])
        enter(self.slots, slot_A, limit_A, self.rule)

    def _put_prefixes(self, newcomers: Sequence[Newcomer]) -> None:
        concerned = [each for each in newcomers if each.prefix_ids or each.slot in self._prefixed]
        if not concerned:
            return
        rows = np.full((len(concerned), self.capacity), FREE, dtype=np.int32)
        for row, each in zip(rows, concerned, strict=True):
            row[: len(each.prefix_ids)] = each.prefix_ids
        slots = torch.tensor([each.slot for each in concerned], device=self.slots.prefix_NL.device)
        self.slots.prefix_NL[slots] = torch.from_numpy(rows).to(slots.device)
        self._prefixed -= {each.slot for each in concerned}
        self._prefixed |= {each.slot for each in concerned if each.prefix_ids}

    # ------------------------------------------------------------------------------------------------------- stepping

    def launch(self, steps: int) -> Round:
        """So many steps of all slots, or more, and then a look at who is done. The host does not wait."""
        self._run(f"{steps} steps", lambda: self._round(steps))
        told, event = self._told[self.rounds % 2], None
        told.ids_NBL.copy_(self.found.ids_NBL, non_blocking=True)
        told.scores_NBL.copy_(self.found.scores_NBL, non_blocking=True)
        if self.is_cuda:
            event = torch.cuda.Event()
            event.record()
        self.rounds += 1
        return Round(self.rounds - 1, told, event)

    def _round(self, steps: int) -> None:
        for _ in range(steps):
            self._step()
        trace_back(self.slots, self.found, self.rule)

    def _step(self) -> None:
        slots = self.slots
        logits_RV = self.decoder.step(slots.ids_R, self.caches, slots.ancestors_2NWL, slots.position_N, slots.done_N)
        advance(best_tokens(logits_RV, slots, self.rule), slots, self.rule, logits_RV.size(1))

    def clear(self) -> None:
        """Nobody is in any slot."""
        self.slots.done_N.fill_(1)

    @torch.no_grad()
    def _run(self, name: str, work: Callable[[], None]) -> None:
        """The work itself; on CUDA a replay of it, or what is done before it is captured, which is the work too."""
        if not self.is_cuda:
            work()
        elif name in self._graphs:
            self._graphs[name].replay()
        else:
            self._graphs[name] = captured(work, self.pool)


class CapturedSearches:
    """The searches of one model, made when they are first asked for, and kept while there is room."""

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        self.decoder, self.dtype = StaticDecoder(model, dtype), dtype
        is_cuda = model.device.type == "cuda"
        self.pool = torch.cuda.graph_pool_handle() if is_cuda else None
        # torch takes no graph into a pool whose last one is gone, as when every search has made room for another.
        self._keeper = captured(lambda: torch.zeros(1, device=model.device).add_(1), self.pool) if is_cuda else None
        self.budget = _budget(model.device)
        self._idle: dict[Key, CapturedSearch] = {}

    def most_slots(self, rule: BeamRule, capacity: int) -> int:
        """How many slots a search may have: a power of two, as many as rows and memory allow."""
        by_memory = self.budget / self._bytes(rule, 1, capacity)
        fitting = int(min(MAX_SLOTS, MAX_ROWS // rule.width, by_memory))
        return 1 << max(0, fitting.bit_length() - 1)

    def take(self, rule: BeamRule, num_slots: int, capacity: int, *, with_tokens: bool) -> CapturedSearch:
        """A search that is nobody else's until it is given back."""
        key = (rule, num_slots, capacity, with_tokens)
        if search := self._idle.pop(key, None):
            return search
        self._make_room(self._bytes(rule, num_slots, capacity))
        return CapturedSearch(self.decoder, key, self.pool)

    def give_back(self, search: CapturedSearch) -> None:
        """For whoever asks next; the one that was given back last goes last."""
        search.clear()
        self._idle[search.key] = search

    def _make_room(self, needed: int) -> None:
        idle = list(self._idle)  # other threads take searches and give them back meanwhile
        taken = sum(self._bytes(*key[:3]) for key in idle)
        for key in idle:
            if taken + needed <= self.budget:
                return
            taken -= self._bytes(*key[:3])
            self._idle.pop(key, None)

    def _bytes(self, rule: BeamRule, num_slots: int, capacity: int) -> int:
        return num_slots * self.decoder.slot_bytes(rule.width, capacity)


def _budget(device: torch.device) -> float:
    """What searches may take: a share of the GPU's memory, and no more than half of what is free.

    What torch holds and nobody uses is given back and counts as free, but for the memory of other graphs, such as those
    of training: nobody else can have that.
    """
    if device.type != "cuda":
        return math.inf
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    return min(SHARE_OF_MEMORY * total, free / 2)


def _sizes_entering(shape: StaticShape) -> list[int]:
    """Of tokens, their positions and places; of slots, lengths and limits; and of the tiles."""
    return [shape.rows] * 3 + [aligned(shape.sentences)] * 3 + [num_numbers(shape)]
