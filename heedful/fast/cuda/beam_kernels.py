"""The rule of the beam (`BeamRule` in `translate/search.py`, its twin) on a GPU: kernels over the slots of `slots.py`.

`best_tokens` reads the logits once and leaves of each row the best W tokens that are not the eos, and what else the
rule asks for. `advance` does one step of the rule for each slot, in place, and writes down what it did at the slot's
own position. A slot that is done stays as it is. Nothing is asked of the host.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from heedful.fast.cuda.slots import Slots
from heedful.fast.cuda.sums import accumulator
from heedful.translate.search import BeamRule

BLOCK_COLUMNS = 4096


# -------------------------------------------------------------------------------------------------------- best tokens


@triton.jit
def _forced(position, max_length_ptr, prefix_ptr, slot, capacity, EOS: tl.constexpr):
    """The token that must come next in a slot, or FREE."""
    prefix = tl.load(prefix_ptr + slot.to(tl.int64) * capacity + position)
    return tl.where(position >= tl.load(max_length_ptr + slot), EOS, prefix)


@triton.jit
def _best_tokens(
    logits_ptr, position_ptr, max_length_ptr, prefix_ptr, done_ptr, best_ptr, tokens_ptr, eos_ptr, forced_ptr,
    num_columns, capacity,
    EOS: tl.constexpr, NUM_BEAMS: tl.constexpr, PLACES: tl.constexpr, BLOCK: tl.constexpr, ACCUMULATE: tl.constexpr,
):  # fmt: skip
    """The W best tokens of a row but the eos, in any order; log-probabilities of them, of the eos, of a forced one."""
    row = tl.program_id(0)
    slot = row // NUM_BEAMS
    if tl.load(done_ptr + slot) != 0:
        return
    row_ptr = logits_ptr + row.to(tl.int64) * num_columns
    place, column = tl.arange(0, PLACES), tl.arange(0, BLOCK)
    # Places that are none stay at +∞, where nothing takes their place.
    best = tl.where(place < NUM_BEAMS, float("-inf"), float("inf")).to(ACCUMULATE)
    tokens = tl.zeros([PLACES], dtype=tl.int32)
    worst = tl.full([], float("-inf"), dtype=ACCUMULATE)
    highest = tl.full([], float("-inf"), dtype=ACCUMULATE)
    total = tl.zeros([], dtype=ACCUMULATE)
    for begin in range(0, num_columns, BLOCK):
        inside = begin + column < num_columns
        score = tl.load(row_ptr + begin + column, mask=inside, other=float("-inf")).to(ACCUMULATE)
        higher = tl.maximum(highest, tl.max(score, axis=0))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(score - higher), axis=0)
        highest = higher
        score = tl.where(begin + column == EOS, float("-inf"), score)
        top = tl.max(score, axis=0)
        while top > worst:
            # Of equal tokens the first one; it takes the place of the worst.
            token = tl.min(tl.where(score == top, begin + column, num_columns), axis=0)
            given = tl.min(tl.where(best == worst, place, PLACES), axis=0)
            best = tl.where(place == given, top, best)
            tokens = tl.where(place == given, token, tokens)
            score = tl.where(begin + column == token, float("-inf"), score)
            worst = tl.min(best, axis=0)
            top = tl.max(score, axis=0)
    lse = highest + tl.log(total)
    tl.store(best_ptr + row * NUM_BEAMS + place, best - lse, mask=place < NUM_BEAMS)
    tl.store(tokens_ptr + row * NUM_BEAMS + place, tokens, mask=place < NUM_BEAMS)
    tl.store(eos_ptr + row, tl.load(row_ptr + EOS).to(ACCUMULATE) - lse)
    forced = _forced(tl.load(position_ptr + slot), max_length_ptr, prefix_ptr, slot, capacity, EOS)
    tl.store(forced_ptr + row, tl.load(row_ptr + tl.maximum(forced, 0)).to(ACCUMULATE) - lse)


@dataclass(frozen=True, slots=True)
class Best:
    """What a step of the rule asks of the logits; all are log-probabilities but the tokens."""

    values_RW: Tensor
    tokens_RW: Tensor
    eos_R: Tensor
    forced_R: Tensor


def best_tokens(logits_RV: Tensor, slots: Slots, rule: BeamRule) -> Best:
    """Of each row, the best W tokens that are not the eos, the eos, and the token that is forced, if one is."""
    (rows, num_columns), width, like = logits_RV.shape, rule.width, slots.live_NW
    tokens_RW = torch.empty(rows, width, dtype=torch.int32, device=like.device)
    best = Best(like.new_empty(rows, width), tokens_RW, like.new_empty(rows), like.new_empty(rows))
    _best_tokens[(rows,)](
        logits_RV, slots.position_N, slots.max_length_N, slots.prefix_NL, slots.done_N,
        best.values_RW, best.tokens_RW, best.eos_R, best.forced_R, num_columns, slots.capacity,
        EOS=rule.eos_id, NUM_BEAMS=width, PLACES=triton.next_power_of_2(width),
        BLOCK=min(BLOCK_COLUMNS, triton.next_power_of_2(num_columns)), ACCUMULATE=accumulator(like.dtype), num_warps=8,
    )  # fmt: skip
    return best


# ------------------------------------------------------------------------------------------------------------ advance


@triton.jit
def _beaten_by(score, key, other_score, other_key):
    """How many of the others stand before each: those of a higher score, of equal ones those of a lower key."""
    higher = other_score[None, :] > score[:, None]
    equal = (other_score[None, :] == score[:, None]) & (other_key[None, :] < key[:, None])
    return tl.sum((higher | equal).to(tl.int32), axis=1)


@triton.jit
def _greater(value, other):
    """How many of the others are greater than each."""
    return tl.sum((other[None, :] > value[:, None]).to(tl.int32), axis=1)


@triton.jit
def _best_continuations(
    best_ptr, best_tokens_ptr, live, mine, there, vocab_size, NUM_BEAMS: tl.constexpr, PLACES: tl.constexpr
):
    """The best W continuations of W hypotheses that have W each; of equal ones the first in place, then in token."""
    place = tl.arange(0, PLACES)
    both = there[:, None] & there[None, :]
    entry = mine[:, None] * NUM_BEAMS + place[None, :]
    candidate = tl.load(best_ptr + entry, mask=both, other=float("-inf")) + live[:, None]
    order = place[:, None] * vocab_size + tl.load(best_tokens_ptr + entry, mask=both, other=0)
    order = tl.where(both, order, NUM_BEAMS * vocab_size)
    value = tl.full([PLACES], float("-inf"), dtype=live.dtype)
    chosen = tl.zeros([PLACES], dtype=tl.int32)
    for nth in tl.static_range(NUM_BEAMS):
        top = tl.max(tl.max(candidate, axis=1), axis=0)
        first = tl.min(tl.min(tl.where(candidate == top, order, NUM_BEAMS * vocab_size - 1), axis=1), axis=0)
        value = tl.where(place == nth, top, value)
        chosen = tl.where(place == nth, tl.minimum(first, NUM_BEAMS * vocab_size - 1), chosen)
        candidate = tl.where(order == first, float("-inf"), candidate)
    return value, chosen // vocab_size, chosen % vocab_size


@triton.jit
def _endings(eos_ptr, live, value, forced, mine, there, EOS: tl.constexpr, NUM_BEAMS: tl.constexpr):
    """Log-probabilities of those that end, if they are among the best W of those that end and those that go on."""
    eos = tl.load(eos_ptr + mine, mask=there, other=float("-inf")) + live
    eos = tl.where((eos > float("-inf")) & ((forced < 0) | (forced == EOS)), eos, float("-inf"))  # NaN: none
    return tl.where(_greater(eos, value) + _greater(eos, eos) < NUM_BEAMS, eos, float("-inf"))


@triton.jit
def _ranked(score, key, other_score, other_key, PLACES: tl.constexpr):
    """Where each comes to stand among these and the others: True at its place, nowhere for one that there is not."""
    rank = _beaten_by(score, key, score, key) + _beaten_by(score, key, other_score, other_key)
    return (rank[:, None] == tl.arange(0, PLACES)[None, :]) & (score > float("-inf"))[:, None]


@triton.jit
def _finished(score, total, key, old_score, old_total, old_key, PLACES: tl.constexpr):
    """The best W of those that end now and of those that have: scores, log-probabilities and endings, best first."""
    here = _ranked(score, key, old_score, old_key, PLACES)
    old_here = _ranked(old_score, old_key, score, key, PLACES)
    new_score = tl.maximum(
        tl.max(tl.where(here, score[:, None], float("-inf")), axis=0),
        tl.max(tl.where(old_here, old_score[:, None], float("-inf")), axis=0),
    )
    new_total = tl.sum(tl.where(here, total[:, None], 0.0), axis=0)
    new_total += tl.sum(tl.where(old_here, old_total[:, None], 0.0), axis=0)
    new_key = tl.sum(tl.where(here, key[:, None], 0), axis=0) + tl.sum(tl.where(old_here, old_key[:, None], 0), axis=0)
    return new_score, new_total, new_key


@triton.jit
def _at(numbers, index: tl.constexpr, PLACES: tl.constexpr):
    """The number at one place."""
    return tl.max(tl.where(tl.arange(0, PLACES) == index, numbers, float("-inf")), axis=0)


@triton.jit
def _inherit(
    ancestors_ptr, parent, slot, position, num_slots, capacity,
    NUM_BEAMS: tl.constexpr, PLACES: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    """Hypothesis w goes on from its parent, so its ancestors are its parent's, and its parent."""
    place = tl.arange(0, PLACES)
    there = place < NUM_BEAMS
    now, then = position % 2, (position + 1) % 2
    read_ptr = ancestors_ptr + (now * num_slots + slot).to(tl.int64) * NUM_BEAMS * capacity
    write_ptr = ancestors_ptr + (then * num_slots + slot).to(tl.int64) * NUM_BEAMS * capacity
    for begin in range(0, position, BLOCK_L):
        earlier = begin + tl.arange(0, BLOCK_L)
        inside = there[:, None] & (earlier < position)[None, :]
        whose = tl.load(read_ptr + parent[:, None] * capacity + earlier[None, :], mask=inside, other=0)
        tl.store(write_ptr + place[:, None] * capacity + earlier[None, :], whose, mask=inside)
    tl.store(write_ptr + place * capacity + position, parent.to(tl.int8), mask=there)


@triton.jit
def _advance(
    best_ptr, best_tokens_ptr, eos_ptr, forced_ptr,
    ids_ptr, live_ptr, scores_ptr, totals_ptr, endings_ptr, position_ptr, max_length_ptr, prefix_ptr, done_ptr,
    ancestors_ptr, past_tokens_ptr, past_parents_ptr, past_live_ptr, penalty_ptr,
    num_slots, capacity, vocab_size,
    EOS: tl.constexpr, NUM_BEAMS: tl.constexpr, N_BEST: tl.constexpr, PLACES: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    """One step of the rule for a slot."""
    slot = tl.program_id(0)
    if tl.load(done_ptr + slot) != 0:
        return
    place = tl.arange(0, PLACES)
    there = place < NUM_BEAMS
    mine = slot * NUM_BEAMS + place  # where the numbers of this slot's hypotheses lie
    position, max_length = tl.load(position_ptr + slot), tl.load(max_length_ptr + slot)
    forced = _forced(position, max_length_ptr, prefix_ptr, slot, capacity, EOS)
    live = tl.load(live_ptr + mine, mask=there, other=float("-inf"))

    value, parent, token = _best_continuations(
        best_ptr, best_tokens_ptr, live, mine, there, vocab_size, NUM_BEAMS, PLACES
    )
    if forced >= 0:  # every hypothesis goes on with the forced token, at its own place
        forced_value = tl.load(forced_ptr + mine, mask=there, other=float("-inf")) + live
        value = tl.where(there & (forced != EOS), forced_value, float("-inf"))
        parent, token = tl.where(there, place, 0), tl.zeros([PLACES], dtype=tl.int32) + forced

    eos = _endings(eos_ptr, live, value, forced, mine, there, EOS, NUM_BEAMS)
    old_score = tl.load(scores_ptr + mine, mask=there, other=float("-inf"))
    old_total = tl.load(totals_ptr + mine, mask=there, other=0.0)
    old_key = tl.load(endings_ptr + mine, mask=there, other=0)
    score, key = eos / tl.load(penalty_ptr + position + 1), place * capacity + position
    new_score, new_total, new_key = _finished(score, eos, key, old_score, old_total, old_key, PLACES)

    # Done: W have finished and no live one leads, or none can come among the best n any more, or there is no room.
    leader = tl.max(value, axis=0)
    last, wanted = _at(new_score, NUM_BEAMS - 1, PLACES), _at(new_score, N_BEST - 1, PLACES)
    leading = leader / tl.load(penalty_ptr + position + 1) > wanted
    bound = leader / tl.load(penalty_ptr + max_length + 1)
    done = (position >= max_length) | ((last > float("-inf")) & ~leading) | (bound <= wanted)
    value = tl.where(done, float("-inf"), value)

    past = (slot.to(tl.int64) * capacity + position) * NUM_BEAMS + place
    tl.store(past_tokens_ptr + past, token, mask=there)
    tl.store(past_parents_ptr + past, parent.to(tl.int8), mask=there)
    tl.store(past_live_ptr + past, value, mask=there)
    tl.store(ids_ptr + mine, token, mask=there)
    tl.store(live_ptr + mine, value, mask=there)
    tl.store(scores_ptr + mine, new_score, mask=there)
    tl.store(totals_ptr + mine, new_total, mask=there)
    tl.store(endings_ptr + mine, new_key, mask=there)
    tl.store(position_ptr + slot, position + 1)
    tl.store(done_ptr + slot, done.to(tl.int32))
    _inherit(ancestors_ptr, parent, slot, position, num_slots, capacity, NUM_BEAMS, PLACES, BLOCK_L)


def advance(best: Best, slots: Slots, rule: BeamRule, vocab_size: int) -> None:
    """One step for every slot that is not done."""
    _advance[(slots.num_slots,)](
        best.values_RW, best.tokens_RW, best.eos_R, best.forced_R,
        slots.ids_R, slots.live_NW, slots.scores_NW, slots.totals_NW, slots.endings_NW, slots.position_N,
        slots.max_length_N, slots.prefix_NL, slots.done_N, slots.ancestors_2NWL, slots.past_tokens_NLW,
        slots.past_parents_NLW, slots.past_live_NLW, slots.penalty_L,
        slots.num_slots, slots.capacity, vocab_size,
        EOS=rule.eos_id, NUM_BEAMS=rule.width, N_BEST=rule.n_best, PLACES=triton.next_power_of_2(rule.width),
        BLOCK_L=64, num_warps=1,
    )  # fmt: skip
