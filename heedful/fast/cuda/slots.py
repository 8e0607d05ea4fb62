"""The slots of a search on a GPU, in memory of a fixed size: sentences enter them, and leave when they are done.

`enter` puts new sentences into slots; what happens to them there is in `beam_kernels.py`. `trace_back` follows the best
hypotheses of the slots that are done from their end to their beginning. Nothing is asked of the host, so that a
captured CUDA graph can hold it all.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from heedful.translate.search import FREE, BeamRule, length_penalty

NOT_DONE, NO_HYPOTHESIS = -2, -1  # in the place of a length


@dataclass(frozen=True, slots=True)
class Slots:
    """N slots of W hypotheses, of at most L tokens, eos included: what a search knows, as its kernels keep it."""

    ids_R: Tensor  # the newest token of each hypothesis
    live_NW: Tensor  # log-probabilities; −∞: there is none at this place
    scores_NW: Tensor  # of the best finished ones, best first; −∞: there are fewer
    totals_NW: Tensor  # their log-probabilities
    endings_NW: Tensor  # place · L + position where they ended
    position_N: Tensor
    max_length_N: Tensor
    prefix_NL: Tensor
    done_N: Tensor
    ancestors_2NWL: Tensor  # by which hypothesis of the slot each position was written; of even and of odd steps
    past_tokens_NLW: Tensor
    past_parents_NLW: Tensor
    past_live_NLW: Tensor
    penalty_L: Tensor

    @property
    def num_slots(self) -> int:
        """N."""
        return self.live_NW.size(0)

    @property
    def capacity(self) -> int:
        """L."""
        return self.prefix_NL.size(1)


def empty_slots(num_slots: int, rule: BeamRule, capacity: int, like: Tensor) -> Slots:
    """Slots in which nobody is, with numbers of the type and on the device of `like`."""
    shape, past = (num_slots, rule.width), (num_slots, capacity, rule.width)

    def integers(*shape: int, fill: int = 0, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.full(shape, fill, dtype=dtype, device=like.device)

    lengths_L = torch.arange(capacity + 2, dtype=torch.float64)
    return Slots(
        ids_R=integers(num_slots * rule.width),
        live_NW=like.new_full(shape, -math.inf),
        scores_NW=like.new_full(shape, -math.inf),
        totals_NW=like.new_zeros(shape),
        endings_NW=integers(*shape),
        position_N=integers(num_slots),
        max_length_N=integers(num_slots),
        prefix_NL=integers(num_slots, capacity, fill=FREE),
        done_N=integers(num_slots, fill=1),
        ancestors_2NWL=integers(2, num_slots, rule.width, capacity, dtype=torch.int8),
        past_tokens_NLW=integers(*past),
        past_parents_NLW=integers(*past, dtype=torch.int8),
        past_live_NLW=like.new_zeros(past),
        penalty_L=length_penalty(lengths_L, rule.alpha).to(like),
    )


# -------------------------------------------------------------------------------------------------------------- enter


@triton.jit
def _enter(
    which_ptr, limit_ptr, live_ptr, scores_ptr, position_ptr, max_length_ptr, done_ptr,
    NUM_BEAMS: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """A sentence before its first step: one empty hypothesis."""
    slot = tl.load(which_ptr + tl.program_id(0))
    if slot < 0:
        return
    place = tl.arange(0, PLACES)
    there = place < NUM_BEAMS
    tl.store(live_ptr + slot * NUM_BEAMS + place, tl.where(place == 0, 0.0, float("-inf")), mask=there)
    tl.store(scores_ptr + slot * NUM_BEAMS + place, tl.zeros([PLACES], tl.float32) - float("inf"), mask=there)
    tl.store(position_ptr + slot, 0)
    tl.store(max_length_ptr + slot, tl.load(limit_ptr + tl.program_id(0)))
    tl.store(done_ptr + slot, 0)


def enter(slots: Slots, which_A: Tensor, max_length_A: Tensor, rule: BeamRule) -> None:
    """New sentences, with limits of their own, in these slots; −1 is no slot."""
    _enter[(which_A.numel(),)](
        which_A, max_length_A, slots.live_NW, slots.scores_NW, slots.position_N, slots.max_length_N, slots.done_N,
        NUM_BEAMS=rule.width, PLACES=triton.next_power_of_2(rule.width), num_warps=1,
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------------- trace back


@triton.jit
def _trace_back(
    scores_ptr, totals_ptr, endings_ptr, done_ptr, past_tokens_ptr, past_parents_ptr, past_live_ptr,
    found_ids_ptr, found_scores_ptr, capacity,
    NUM_BEAMS: tl.constexpr, N_BEST: tl.constexpr, WITH_TOKENS: tl.constexpr,
    NOT_YET: tl.constexpr, NOTHING: tl.constexpr,
):  # fmt: skip
    """Hypothesis `rank` of a slot, if that is done: its length and ids; its score, log-probability and its tokens'."""
    slot, rank = tl.program_id(0), tl.program_id(1)
    into = slot.to(tl.int64) * N_BEST + rank
    ids_ptr = found_ids_ptr + into * (capacity + 1)
    kept_ptr = found_scores_ptr + into * (capacity + 2 if WITH_TOKENS else 2)
    score = tl.load(scores_ptr + slot * NUM_BEAMS + rank)
    if tl.load(done_ptr + slot) == 0:
        tl.store(ids_ptr, NOT_YET)
    elif score == float("-inf"):
        tl.store(ids_ptr, NOTHING)
    else:
        ending = tl.load(endings_ptr + slot * NUM_BEAMS + rank)
        place, length = ending // capacity, ending % capacity
        total = tl.load(totals_ptr + slot * NUM_BEAMS + rank)
        tl.store(ids_ptr, length)
        tl.store(kept_ptr, score)
        tl.store(kept_ptr + 1, total)
        for back in range(length):
            step = length - 1 - back
            past = (slot.to(tl.int64) * capacity + step) * NUM_BEAMS + place
            tl.store(ids_ptr + 1 + step, tl.load(past_tokens_ptr + past))
            before = tl.load(past_live_ptr + past)
            if WITH_TOKENS:
                tl.store(kept_ptr + 3 + step, total - before)
            total = before
            place = tl.load(past_parents_ptr + past).to(tl.int32)
        if WITH_TOKENS:
            tl.store(kept_ptr + 2, total)


@dataclass(frozen=True, slots=True)
class Found:
    """The hypotheses of all slots: B = n-best; `ids` begin with a length, or `NOT_DONE`, or `NO_HYPOTHESIS`.

    `scores` hold score, log-probability and, if they are wanted, the log-probabilities of the ids and of the eos.
    """

    ids_NBL: Tensor
    scores_NBL: Tensor


def empty_found(slots: Slots, rule: BeamRule, *, with_tokens: bool, **memory: Any) -> Found:
    """Room for them; `memory` says where."""
    shape = slots.num_slots, rule.n_best
    width = slots.capacity + 2 if with_tokens else 2
    return Found(
        torch.full((*shape, slots.capacity + 1), NOT_DONE, dtype=torch.int32, **memory),
        torch.zeros(*shape, width, dtype=slots.live_NW.dtype, **memory),
    )


def trace_back(slots: Slots, found: Found, rule: BeamRule) -> None:
    """Write the n best hypotheses of the slots that are done."""
    _trace_back[(slots.num_slots, rule.n_best)](
        slots.scores_NW, slots.totals_NW, slots.endings_NW, slots.done_N,
        slots.past_tokens_NLW, slots.past_parents_NLW, slots.past_live_NLW,
        found.ids_NBL, found.scores_NBL, slots.capacity,
        NUM_BEAMS=rule.width, N_BEST=rule.n_best, WITH_TOKENS=found.scores_NBL.size(-1) > 2,
        NOT_YET=NOT_DONE, NOTHING=NO_HYPOTHESIS, num_warps=1,
    )  # fmt: skip
