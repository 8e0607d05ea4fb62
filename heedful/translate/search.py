"""Search (§6.1): beam search over a step function. It imports torch and the id of eos; it knows no model and no text.

A step function takes the last token of each of R = N × W rows (N sentences, W hypotheses of each) and a state, and
gives logits_RV; the state can `select` the parents from which the hypotheses go on. What search itself knows is a
`Beams`, a struct of tensors; a rule makes of it and of the logits the next `Beams` and a `BeamStep`, without asking the
device for anything, so that the same rule serves one batch, an engine whose sentences come and go, and a CUDA graph.
`beam_steps` is the loop: the engine and the page's tree both drive it.

The rule of the beam: of all continuations of the live hypotheses the best W are looked at; those among them that end
with eos are finished, and the best W that do not end stay alive. A hypothesis Y of log-probability p has the score
p / ((5 + |Y|) / 6)^α; |Y| counts the final eos, and of a live one the tokens that it has. A sentence is done when W of
its hypotheses are finished and no live one has a better score than its n-th best; or when none can have one at any
length. (So a beam of one is greedy search.) At the length limit the end is forced: eos is the only continuation, and
counts with the log-probability that the model gives it. The tokens of a prefix are forced, and counted, in the same
way. So the log-probability of a hypothesis is always that of its tokens and its eos.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from heedful.data.special_ids import EOS_ID

FREE = -1  # in `prefix_NL`: no token is prescribed here

Number = TypeVar("Number", float, Tensor)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One way to go on until eos."""

    ids: tuple[int, ...]  # without the eos
    log_prob: float  # of the ids and the eos
    score: float  # log_prob / ((5 + |Y|) / 6)^α
    token_log_probs: tuple[float, ...]  # one for each id, and one for the eos


@dataclass(frozen=True, slots=True)
class Beams:
    """N sentences with W hypotheses each. The hypotheses of a sentence are at one position, sentences at their own."""

    log_probs_NW: Tensor  # of the live hypotheses; −∞: there is none at this place
    finished_scores_NW: Tensor  # the best W of the finished ones, best first; −∞: there are fewer
    position_N: Tensor  # how many tokens the live ones have
    max_length_N: Tensor  # how many they may have, eos not counted
    prefix_NL: Tensor  # prescribed tokens; the last column is always FREE
    seed_N: Tensor  # the random numbers of a sentence follow from this one
    done_N: Tensor

    def admit(self, slots: Sequence[int], newcomers: Beams) -> Beams:
        """New sentences take these places."""
        width = max(self.prefix_NL.size(1), newcomers.prefix_NL.size(1))
        slots_N = torch.tensor(slots, device=self.done_N.device)
        mine, theirs = self._with_prefixes(width), newcomers._with_prefixes(width)
        return Beams(*(a.index_copy(0, slots_N, b) for a, b in zip(mine._tensors(), theirs._tensors(), strict=True)))

    def keep(self, slots: Sequence[int]) -> Beams:
        """These sentences only, in this order."""
        slots_N = torch.tensor(slots, device=self.done_N.device)
        return Beams(*(tensor.index_select(0, slots_N) for tensor in self._tensors()))

    def forced(self, eos_id: int) -> Tensor:
        """The token that must come next in each sentence, or FREE."""
        column_N1 = self.position_N.clamp(max=self.prefix_NL.size(1) - 1)[:, None]
        prefix_N = self.prefix_NL.gather(1, column_N1).squeeze(1)
        return torch.where(self.position_N >= self.max_length_N, eos_id, prefix_N)

    def _tensors(self) -> list[Tensor]:
        return [getattr(self, field.name) for field in fields(self)]

    def _with_prefixes(self, width: int) -> Beams:
        return replace(self, prefix_NL=F.pad(self.prefix_NL, (0, width - self.prefix_NL.size(1)), value=FREE))


@dataclass(frozen=True, slots=True)
class BeamStep:
    """One step: place w of a sentence now holds what was at `parents_NW[·, w]`, and `tokens_NW[·, w]` after it.

    `finished_NW` speaks of the places before the step: the hypothesis that was at place w has ended with this
    log-probability, eos included; −∞: it has not.
    """

    parents_NW: Tensor
    tokens_NW: Tensor
    log_probs_NW: Tensor  # −∞: there is no live hypothesis at this place
    finished_NW: Tensor


class Ending(NamedTuple):
    """A hypothesis that ended: in which step of its sentence, at which place before that step, with which score."""

    step: int
    place: int
    score: float


class Rule(Protocol):
    """How hypotheses go on, end, and are ranked."""

    @property
    def width(self) -> int:
        """W, the places of a sentence."""

    @property
    def eos_id(self) -> int:
        """The token that ends a hypothesis."""

    @property
    def alpha(self) -> float:
        """The exponent of the length penalty."""

    @property
    def initial_log_probs(self) -> tuple[float, ...]:
        """The log-probabilities of the W places before the first step."""

    def seeds(self, index_N: Tensor) -> Tensor:
        """A seed for each sentence, from which its random choices follow."""

    def advance(self, beams: Beams, logits_RV: Tensor) -> tuple[Beams, BeamStep]:
        """One step for all sentences."""

    def choose(self, endings: list[Ending]) -> list[Ending]:
        """Of all endings of a sentence, given place by place, those that are asked for, in their order."""


def length_penalty(length: Number, alpha: float) -> Number:
    """((5 + |Y|) / 6)^α, of GNMT; |Y| counts the final eos."""
    penalty: Number = ((5 + length) / 6) ** alpha
    return penalty


@dataclass(frozen=True, slots=True)
class BeamRule:
    """Beam search; the rule is told at the top of this file."""

    width: int  # W, the size of the beam
    alpha: float
    n_best: int = 1
    eos_id: int = EOS_ID

    @property
    def initial_log_probs(self) -> tuple[float, ...]:
        """One empty hypothesis."""
        return (0.0, *[-math.inf] * (self.width - 1))

    def seeds(self, index_N: Tensor) -> Tensor:
        """Nothing is random here."""
        return torch.zeros_like(index_N)

    def advance(self, beams: Beams, logits_RV: Tensor) -> tuple[Beams, BeamStep]:
        """The best W continuations, and those that end among the best W of both kinds."""
        total_NWV = float_log_probs(logits_RV).unflatten(0, (-1, self.width)).add_(beams.log_probs_NW[:, :, None])
        forced_N1 = beams.forced(self.eos_id)[:, None]
        eos_NW = total_NWV[:, :, self.eos_id].masked_fill((forced_N1 != FREE) & (forced_N1 != self.eos_id), -math.inf)
        total_NWV[:, :, self.eos_id] = -math.inf
        best_NW, parents_NW, tokens_NW = _prescribed(total_NWV, forced_N1, *_best(total_NWV))
        cutoff_N1 = torch.cat([best_NW, eos_NW], dim=1).topk(self.width).values[:, -1:]
        finished_NW = eos_NW.masked_fill(eos_NW < cutoff_N1, -math.inf)
        beams = self._close(beams, best_NW, finished_NW)
        return beams, BeamStep(parents_NW, tokens_NW, beams.log_probs_NW, finished_NW)

    def _close(self, beams: Beams, live_NW: Tensor, finished_NW: Tensor) -> Beams:
        """Count the finished ones in, and see which sentences are done.

        W finished ones are not enough: where a model is sure, W bad ones finish while the good one is alive. A live
        one can at most keep its log-probability until the length limit, where the penalty divides it by the most.
        At the length limit a sentence is done even if its numbers are NaN.
        """
        scores_NW = finished_NW / length_penalty(beams.position_N + 1, self.alpha)[:, None]
        scores_NW = torch.cat([beams.finished_scores_NW, scores_NW], dim=1).topk(self.width).values
        leader_N, wanted_N = live_NW.amax(dim=1), scores_NW[:, self.n_best - 1]
        leading_N = leader_N / length_penalty(beams.position_N + 1, self.alpha) > wanted_N
        enough_N = (scores_NW[:, -1] > -math.inf) & ~leading_N
        bound_N = leader_N / length_penalty(beams.max_length_N + 1, self.alpha)
        done_N = beams.done_N | enough_N | (bound_N <= wanted_N) | (beams.position_N >= beams.max_length_N)
        live_NW = live_NW.masked_fill(done_N[:, None], -math.inf)
        position_N = beams.position_N + 1
        return replace(beams, log_probs_NW=live_NW, finished_scores_NW=scores_NW, position_N=position_N, done_N=done_N)

    def choose(self, endings: list[Ending]) -> list[Ending]:
        """The n of the highest scores; of equal ones the one at the lowest place."""
        return sorted(endings, key=lambda ending: -ending.score)[: self.n_best]


def float_log_probs(logits_RV: Tensor) -> Tensor:
    """In float32 at least, and in memory of its own."""
    return logits_RV.log_softmax(dim=-1, dtype=torch.promote_types(logits_RV.dtype, torch.float32))


def _best(total_NWV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best W of the W · V continuations, best first: values, places and tokens.

    Equal ones stand in the order of their index; where not all of them fit in, torch.topk says which do.
    """
    (num_beams, vocab_size), total_NX = total_NWV.shape[1:], total_NWV.flatten(1)
    if num_beams == 1:
        best_NW, index_NW = total_NX.max(dim=1, keepdim=True)
    else:
        index_NW = total_NX.topk(num_beams, sorted=False).indices.sort(dim=1).values
        best_NW, order_NW = total_NX.gather(1, index_NW).sort(dim=1, descending=True, stable=True)
        index_NW = index_NW.gather(1, order_NW)
    return best_NW, index_NW // vocab_size, index_NW % vocab_size


def _prescribed(
    total_NWV: Tensor, forced_N1: Tensor, best_NW: Tensor, parents_NW: Tensor, tokens_NW: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Where a token is forced, every hypothesis goes on with it, at its own place."""
    free_N1, forced_NW1 = forced_N1 == FREE, forced_N1.clamp(min=0).expand_as(best_NW)[:, :, None]
    forced_best_NW = total_NWV.gather(2, forced_NW1).squeeze(2)
    place_W = torch.arange(best_NW.size(1), device=best_NW.device)
    return (
        torch.where(free_N1, best_NW, forced_best_NW),
        torch.where(free_N1, parents_NW, place_W),
        torch.where(free_N1, tokens_NW, forced_NW1.squeeze(2)),
    )


def new_beams(
    rule: Rule,
    max_lengths: Sequence[int],
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    indices: Sequence[int] | None = None,
    like: Tensor | None = None,
) -> Beams:
    """Sentences before their first step, with the type and on the device of `like`.

    `indices` number them for what is random in them (else: 0, 1, 2, …).
    """
    num_sentences, like = len(max_lengths), torch.empty(0) if like is None else like
    given = prefixes or [()] * num_sentences
    width = max(map(len, given), default=0) + 1
    log_probs_NW = like.new_tensor(rule.initial_log_probs).repeat(num_sentences, 1)
    index_N = _integers(range(num_sentences) if indices is None else indices, like)
    return Beams(
        log_probs_NW=log_probs_NW,
        finished_scores_NW=torch.full_like(log_probs_NW, -math.inf),
        position_N=torch.zeros_like(index_N),
        max_length_N=_integers(max_lengths, like),
        prefix_NL=_integers([[*ids, *[FREE] * (width - len(ids))] for ids in given], like),
        seed_N=rule.seeds(index_N),
        done_N=torch.zeros_like(index_N, dtype=torch.bool),
    )


def _integers(values: Sequence[int] | Sequence[Sequence[int]], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=torch.int64, device=like.device)


class History:
    """The last steps, on the device where they were made, until the sentences they belong to are done."""

    def __init__(self, num_steps: int) -> None:
        self.num_steps, self.now = num_steps, 0
        self._rings_TNW: list[Tensor] = []

    def record(self, step: BeamStep) -> None:
        """Keep one more step, and let go the one that was `num_steps` before it."""
        tensors = (step.parents_NW, step.tokens_NW, step.log_probs_NW, step.finished_NW)
        if not self._rings_TNW:
            self._rings_TNW = [tensor.new_empty((self.num_steps, *tensor.shape)) for tensor in tensors]
        for ring_TNW, tensor_NW in zip(self._rings_TNW, tensors, strict=True):
            ring_TNW[self.now % self.num_steps] = tensor_NW
        self.now += 1

    def keep(self, slots: Sequence[int]) -> None:
        """These sentences only, in this order."""
        self._rings_TNW = [ring_TNW[:, list(slots)] for ring_TNW in self._rings_TNW]

    def hypotheses(self, slots: Sequence[int], births: Sequence[int], rule: Rule) -> list[list[Hypothesis]]:
        """The results of these slots; a slot's sentence began when `now` was its birth."""
        rings = [ring_TNW[:, list(slots)].tolist() for ring_TNW in self._rings_TNW]
        results = []
        for column, birth in enumerate(births):
            times = [time % self.num_steps for time in range(birth, self.now)]
            past = _Past(*([ring[time][column] for time in times] for ring in rings))
            results.append([past.hypothesis(ending) for ending in rule.choose(past.endings(rule.alpha))])
        return results


@dataclass(frozen=True, slots=True)
class _Past:
    """The steps of one sentence, as numbers: [step][place]."""

    parents: list[list[int]]
    tokens: list[list[int]]
    log_probs: list[list[float]]
    ends: list[list[float]]

    def endings(self, alpha: float) -> list[Ending]:
        """All that have ended, place by place."""
        penalties = [length_penalty(float(step + 1), alpha) for step in range(len(self.ends))]
        return [
            Ending(step, place, log_prob / penalties[step])
            for place, log_probs in enumerate(zip(*self.ends, strict=True))
            for step, log_prob in enumerate(log_probs)
            if log_prob > -math.inf
        ]

    def hypothesis(self, ending: Ending) -> Hypothesis:
        """Back from the end to the first token, parent by parent."""
        end, place, score = ending
        ids: list[int] = []
        totals = [self.ends[end][place]]
        for step in range(end - 1, -1, -1):
            ids.append(self.tokens[step][place])
            totals.append(self.log_probs[step][place])
            place = self.parents[step][place]
        token_log_probs = [after - before for after, before in zip(totals, [*totals[1:], 0.0], strict=True)]
        return Hypothesis(tuple(ids[::-1]), totals[0], score, tuple(token_log_probs[::-1]))


class Selectable(Protocol):
    """What search asks of a state."""

    def select(self, parents_NW: Tensor) -> None:
        """Hypothesis w of each sentence goes on from what was hypothesis `parents_NW[·, w]` of the same sentence."""


S = TypeVar("S", bound=Selectable)
Step: TypeAlias = Callable[[Tensor, S], Tensor]


class Search:
    """Sentences on their way through N slots: their beams, the last token of each row, and their last `num_steps`.

    Others may come and go.
    """

    def __init__(self, rule: Rule, beams: Beams, *, num_steps: int) -> None:
        self.rule, self.beams, self.history = rule, beams, History(num_steps)
        self.ids_R = torch.zeros_like(beams.log_probs_NW, dtype=torch.int64).flatten()

    def admit(self, slots: Sequence[int], newcomers: Beams) -> None:
        """New sentences take these slots; their first token means nothing."""
        self.beams = self.beams.admit(slots, newcomers)

    def keep(self, slots: Sequence[int]) -> None:
        """Go on with these slots only, in this order."""
        self.beams = self.beams.keep(slots)
        self.history.keep(slots)
        self.ids_R = self.ids_R.unflatten(0, (-1, self.rule.width))[list(slots)].flatten()

    def is_done(self) -> bool:
        """Whether no sentence goes on."""
        return bool(self.beams.done_N.all())


def beam_steps(step: Step[S], state: S, search: Search) -> Iterator[BeamStep]:
    """Yields steps as long as the caller asks; in between it may let sentences in or out of `search` and `state`."""
    while True:
        search.beams, made = search.rule.advance(search.beams, step(search.ids_R, state))
        state.select(made.parents_NW)
        search.ids_R = made.tokens_NW.flatten()
        search.history.record(made)
        yield made
