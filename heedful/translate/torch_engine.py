"""The engine of our own: search over `model/decoding.py`, with sentences that enter and leave between steps.

The requests of a window are sorted by length and divided into groups: the shortest sentence of a group is at least half
as long as its longest. A group is searched in N slots, as many as the token budget allows for its longest sentence. A
finished sentence leaves its slot; when a quarter of the slots are free, the next sentences of the group are encoded and
enter them, while the others go on. When none are waiting and half of the slots are free, the free slots are removed. So
a step computes little that is not needed, and one long hypothesis delays no other sentence of its group. The next group
starts when all sentences of this one are done.

An ensemble is several models of the same vocabulary: the search uses the mean of their probabilities.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from heedful.errors import ConfigError, DivergedError
from heedful.model.device import explained_out_of_memory
from heedful.model.interface import Decoder, Memory, State, TranslationModel
from heedful.translate.engine import Computing, Engine, IdPair, Numbered, Request, SearchOptions, Windows, length_limit
from heedful.translate.forced_pass import forced_batch, packed_sources, with_eos
from heedful.translate.sampling import SampleRule, greedy_rule
from heedful.translate.search import BeamRule, Hypothesis, Rule, Search, beam_steps, new_beams

MAX_ROWS = 256  # more do not make a step more efficient
SCORED_LOGITS = 2**25  # at a time
FREE_MEMORY = "free memory there, which other processes use"


class TorchEngine(Engine):
    """Translates with one model, or with several whose probabilities are averaged. Models are in eval mode.

    `reason` says why no faster engine was taken, for whoever asks what computes. `decoder_of` prepares a model for one
    token at a time.
    """

    def __init__(
        self,
        *models: TranslationModel,
        batch_tokens: int = 8192,
        reason: str = "",
        decoder_of: Callable[[TranslationModel], Decoder[Any]] = lambda model: model.new_decoder(),
    ) -> None:
        sizes = [model.vocab_size for model in models]
        if len(set(sizes)) > 1:
            raise ConfigError(
                f"models of an ensemble share one vocabulary; these have {', '.join(map(str, sizes))} tokens"
            )
        assert not any(model.training for model in models), "decoding is for a model in eval mode"
        self._models, self.batch_tokens, self.reason, self.decoder_of = models, batch_tokens, reason, decoder_of
        self.check_steps = 1 if self.device.type == "cpu" else 8  # to ask who is done holds a GPU up

    @property
    def models(self) -> tuple[TranslationModel, ...]:
        """What it searches with."""
        return self._models

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.models[0].device

    @property
    def outlives_fork(self) -> bool:
        """On a CPU, with one thread."""
        return self.device.type == "cpu" and torch.get_num_threads() == 1

    @cached_property
    def decoders(self) -> list[Decoder[Any]]:
        """Of each model; they see the weights as they are when this is first asked for."""
        return [self.decoder_of(model) for model in self.models]

    def computing(self, options: SearchOptions) -> Computing:
        """In the models' own numbers."""
        return Computing(f"torch {str(self.models[0].dtype).removeprefix('torch.')}", self.device.type, self.reason)

    def translate_windows(self, windows: Windows, options: SearchOptions) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each request, in order."""
        first = 0  # its number in the stream
        with self.explained("a smaller beam needs less"):
            for window in windows:
                found = dict(self.search_by_length(enumerate(window, first), options))
                yield from (found[number] for number in range(first, first + len(window)))
                first += len(window)

    def explained(self, remedy: str) -> AbstractContextManager[None]:
        """Too little memory is told in one line, with a remedy."""
        return explained_out_of_memory(f"the sentences do not fit {self.device}; {remedy}, or take another device")

    def translate_batch(self, requests: Sequence[Request], options: SearchOptions) -> Iterator[Numbered]:
        """The number of each request and its hypotheses, as they are found."""
        with self.explained("a smaller beam needs less"):
            yield from self.search_by_length(enumerate(requests), options)

    def search_by_length(self, window: Iterable[tuple[int, Request]], options: SearchOptions) -> Iterator[Numbered]:
        """The longest group first; a group holds sentences down to half the length of its longest."""
        waiting = deque(sorted(window, key=lambda item: -len(item[1].source_ids)))
        while waiting:
            shortest = (len(waiting[0][1].source_ids) + 1) // 2
            group: deque[tuple[int, Request]] = deque()
            while waiting and len(waiting[0][1].source_ids) >= shortest:
                group.append(waiting.popleft())
            yield from _LengthGroup(self, group, options).results()

    def score(self, pairs: Iterable[IdPair]) -> Iterator[list[float]]:
        """Forced scores, by the computation that training uses."""
        budget = min(self.batch_tokens, max(1, SCORED_LOGITS // self.models[0].vocab_size))
        with self.explained(FREE_MEMORY):
            for batch in _in_budget(pairs, budget):
                yield from self._score_batch(batch)

    def _score_batch(self, pairs: list[IdPair]) -> list[list[float]]:
        sources, targets = zip(*pairs, strict=True)
        target_T, lengths_N = with_eos(targets)
        log_probs_TV = _mean_log_probs(self._forced_logits(sources, targets))
        scores_T = log_probs_TV.gather(1, torch.from_numpy(target_T).to(self.device)[:, None]).squeeze(1)
        return [part.tolist() for part in scores_T.cpu().split(lengths_N.tolist())]

    def next_tokens(self, request: Request, count: int) -> list[tuple[int, float]]:
        """The likeliest tokens after the prefix, and their probabilities."""
        with self.explained(FREE_MEMORY):
            logits = self._forced_logits([request.source_ids], [request.prefix_ids])
        probs_V = _mean_log_probs([logits_TV[-1] for logits_TV in logits]).exp()
        best = probs_V.topk(min(count, probs_V.numel()))
        return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))

    @torch.no_grad()
    def _forced_logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        """The logits of each model at every token of the targets."""
        source, target_in = forced_batch(sources, targets, self.device)
        return [model(source, target_in) for model in self.models]

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[list[Memory], int]:
        """The memory of the sentences in each model, and the length of the longest, eos included."""
        packed = packed_sources(sources, self.device)
        return [model.encode(packed) for model in self.models], packed.longest

    def max_length(self, request: Request, options: SearchOptions) -> int:
        """How many tokens the output may have; of several models, the one with the fewest positions decides."""
        limit = min(model.position_limit for model in self.models)
        return length_limit(request, options, position_limit=limit)


def _in_budget(pairs: Iterable[IdPair], budget: int) -> Iterator[list[IdPair]]:
    """Pairs in order, in batches of at most so many tokens a side, or of one pair."""
    batch: list[IdPair] = []
    used = 0
    for pair in pairs:
        tokens = max(len(pair[0]), len(pair[1])) + 1
        if batch and used + tokens > budget:
            yield batch
            batch, used = [], 0
        batch.append(pair)
        used += tokens
    if batch:
        yield batch


def _mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """log of the mean of the models' probabilities, in float32 at least."""
    dtype = torch.promote_types(logits[0].dtype, torch.float32)
    log_probs = [each.log_softmax(dim=-1, dtype=dtype) for each in logits]
    return log_probs[0] if len(log_probs) == 1 else torch.stack(log_probs).logsumexp(0) - math.log(len(log_probs))


def _rule(options: SearchOptions) -> Rule:
    if how := options.sampling:
        return SampleRule(options.n_best, how.temperature, how.top_k, how.top_p, how.seed, options.alpha)
    if options.beam_size == 1:
        return greedy_rule(alpha=options.alpha)
    return BeamRule(options.beam_size, options.alpha, options.n_best)


class _States:
    """The states of all models of an ensemble, which move together."""

    def __init__(self, decoders: Sequence[Decoder[Any]], num_slots: int, num_beams: int) -> None:
        self.decoders = decoders
        self.states: list[State] = [decoder.empty(num_slots, num_beams) for decoder in decoders]

    def step(self, ids_R: Tensor, _: _States) -> Tensor:
        """Logits of one model; of several, the logarithm of their mean probabilities."""
        logits = [decoder.step(ids_R, state) for decoder, state in zip(self.decoders, self.states, strict=True)]
        return logits[0] if len(logits) == 1 else _mean_log_probs(logits)

    def select(self, parents_NW: Tensor) -> None:
        """Go on from these parents."""
        for state in self.states:
            state.select(parents_NW)

    def admit(self, memories: Sequence[Memory], slots: Sequence[int], longest: int) -> None:
        """New sentences in these slots."""
        for state, memory in zip(self.states, memories, strict=True):
            state.admit(memory, slots, longest=longest)

    def clear(self, slots: Sequence[int]) -> None:
        """Nobody is in these slots."""
        for state in self.states:
            state.clear(slots)

    def keep(self, slots: Sequence[int]) -> None:
        """Go on with these slots only."""
        for state in self.states:
            state.keep(slots)


class _LengthGroup:
    """Consecutive requests of similar length, and the slots in which they are searched."""

    def __init__(self, engine: TorchEngine, waiting: deque[tuple[int, Request]], options: SearchOptions) -> None:
        self.engine, self.waiting, self.options, self.rule = engine, waiting, options, _rule(options)
        limits = [engine.max_length(request, options) for _, request in waiting]
        width, longest = self.rule.width, len(waiting[0][1].source_ids) + 1
        rows = min(MAX_ROWS, engine.batch_tokens // longest)
        num_slots = min(len(waiting), max(1, rows // width))
        self.states = _States(engine.decoders, num_slots, width)
        dtype = torch.promote_types(engine.models[0].dtype, torch.float32)
        self.like = torch.empty(0, dtype=dtype, device=engine.device)
        beams = new_beams(self.rule, [0] * num_slots, like=self.like)
        self.search = Search(self.rule, beams, num_steps=max(limits) + engine.check_steps)
        self.tenants: list[int | None] = [None] * num_slots  # whose request is in a slot
        self.births = [0] * num_slots

    @torch.no_grad()
    def results(self) -> Iterator[Numbered]:
        """The number of a request and its hypotheses, as they are found."""
        self._refill()
        for _ in beam_steps(self.states.step, self.states, self.search):
            if self.search.history.now % self.engine.check_steps == 0 and (slots := self._done()):
                yield from self._leave(slots)
            if not self.waiting and all(tenant is None for tenant in self.tenants):
                return
            self._refill()

    def _refill(self) -> None:
        free = [slot for slot, tenant in enumerate(self.tenants) if tenant is None]
        if self.waiting and 4 * len(free) >= len(self.tenants):
            self._admit(free[: len(self.waiting)])
        elif not self.waiting and 2 * len(free) >= len(self.tenants):
            self._keep([slot for slot, tenant in enumerate(self.tenants) if tenant is not None])

    def _admit(self, slots: list[int]) -> None:
        arrived = [self.waiting.popleft() for _ in slots]
        numbers, requests = zip(*arrived, strict=True)
        memories, longest = self.engine.encode([request.source_ids for request in requests])
        self.states.admit(memories, slots, longest)
        newcomers = new_beams(
            self.rule,
            [self.engine.max_length(request, self.options) for request in requests],
            prefixes=[request.prefix_ids for request in requests],
            indices=[place if request.number is None else request.number for place, request in arrived],
            like=self.like,
        )
        self.search.admit(slots, newcomers)
        for slot, number in zip(slots, numbers, strict=True):
            self.tenants[slot], self.births[slot] = number, self.search.history.now

    def _keep(self, slots: list[int]) -> None:
        self.states.keep(slots)
        self.search.keep(slots)
        self.tenants = [self.tenants[slot] for slot in slots]
        self.births = [self.births[slot] for slot in slots]

    def _done(self) -> list[int]:
        done = self.search.beams.done_N.tolist()
        return [slot for slot, tenant in enumerate(self.tenants) if tenant is not None and done[slot]]

    def _leave(self, slots: list[int]) -> Iterator[Numbered]:
        found = self.search.history.hypotheses(slots, [self.births[slot] for slot in slots], self.rule)
        self.states.clear(slots)
        for slot, hypotheses in zip(slots, found, strict=True):
            number, self.tenants[slot] = self.tenants[slot], None
            assert number is not None
            if not hypotheses:
                raise DivergedError
            yield number, hypotheses
