"""Sampling and greedy search: hypotheses that go on one token at a time, each by itself.

A rule for `search.py` to search by. A draw follows from (seed, index of the sentence, place, position), so that what
else is in the batch does not change it. It knows no model and no text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heedful.data.special_ids import EOS_ID
from heedful.data.splitmix import mixed, shifted
from heedful.translate.search import FREE, Beams, BeamStep, Ending, float_log_probs


@dataclass(frozen=True, slots=True)
class SampleRule:
    """W hypotheses that go on by themselves, each by a random draw in every step; with temperature 0: greedy search.

    A draw takes one number of the sentence's stream, which follows from (seed, index of the sentence, place, position):
    what else is in the batch does not change it.
    """

    width: int = 1  # W, the number of samples
    temperature: float = 1.0
    top_k: int = 0  # 0: all tokens
    top_p: float = 1.0
    seed: int = 1
    alpha: float = 0.6
    eos_id: int = EOS_ID

    @property
    def initial_log_probs(self) -> tuple[float, ...]:
        """Every place holds an empty hypothesis."""
        return (0.0,) * self.width

    def seeds(self, index_N: Tensor) -> Tensor:
        """From (seed, index of the sentence)."""
        return mixed(mixed(torch.full_like(index_N, self.seed)) + index_N)

    def advance(self, beams: Beams, logits_RV: Tensor) -> tuple[Beams, BeamStep]:
        """One draw, or the likeliest token, for every live hypothesis."""
        log_probs_NWV = float_log_probs(logits_RV).unflatten(0, (-1, self.width))
        forced_N1 = beams.forced(self.eos_id)[:, None]
        tokens_NW = torch.where(forced_N1 == FREE, self._choose(log_probs_NWV, beams), forced_N1)
        total_NW = beams.log_probs_NW + log_probs_NWV.gather(2, tokens_NW[:, :, None]).squeeze(2)
        ends_NW = tokens_NW == self.eos_id
        live_NW = total_NW.masked_fill(ends_NW, -math.inf)
        done_N = (live_NW == -math.inf).all(dim=1)
        parents_NW = torch.arange(self.width, device=live_NW.device).expand_as(live_NW)
        step = BeamStep(parents_NW, tokens_NW, live_NW, total_NW.masked_fill(~ends_NW, -math.inf))
        return replace(beams, log_probs_NW=live_NW, position_N=beams.position_N + 1, done_N=done_N), step

    def _choose(self, log_probs_NWV: Tensor, beams: Beams) -> Tensor:
        if self.temperature == 0:
            return log_probs_NWV.argmax(dim=-1)
        values_NWV, ids_NWV = self._candidates(log_probs_NWV / self.temperature)
        mass_NWV = values_NWV.softmax(dim=-1)
        if self.top_p < 1:  # the fewest of the likeliest tokens that have this share
            mass_NWV = mass_NWV.masked_fill(mass_NWV.cumsum(dim=-1) - mass_NWV >= self.top_p, 0.0)
        mass_NWV = mass_NWV.cumsum(dim=-1)
        drawn_NW1 = _uniform(beams.seed_N, beams.position_N, self.width)[:, :, None].to(mass_NWV) * mass_NWV[..., -1:]
        index_NW1 = torch.searchsorted(mass_NWV, drawn_NW1, right=True).clamp(max=mass_NWV.size(-1) - 1)
        return ids_NWV.gather(2, index_NW1).squeeze(2)

    def _candidates(self, values_NWV: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens to draw from, likeliest first where that matters: their values and ids."""
        if self.top_k:
            best = values_NWV.topk(min(self.top_k, values_NWV.size(-1)))
            return best.values, best.indices
        if self.top_p < 1:
            ordered = values_NWV.sort(dim=-1, descending=True, stable=True)
            return ordered.values, ordered.indices
        return values_NWV, torch.arange(values_NWV.size(-1), device=values_NWV.device).expand_as(values_NWV)

    def choose(self, endings: list[Ending]) -> list[Ending]:
        """As they were drawn."""
        return endings


def greedy_rule(*, alpha: float = 0.6, eos_id: int = EOS_ID) -> SampleRule:
    """Always the likeliest token."""
    return SampleRule(temperature=0.0, alpha=alpha, eos_id=eos_id)


def _uniform(seed_N: Tensor, position_N: Tensor, width: int) -> Tensor:
    """A number from [0, 1) for each place of each sentence, at its position."""
    counter_NW = (position_N[:, None] << 20) + torch.arange(width, device=position_N.device)
    return shifted(mixed(seed_N[:, None] + mixed(counter_NW + 1)), 40) / 2**24
