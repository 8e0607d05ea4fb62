"""The engine of our own: search over `model/decoding.py`, with sentences that enter and leave between steps.

The requests of a window are sorted by length and go through N slots, as many as the token budget allows. A sentence
that is done leaves its slot; when enough slots are free, the next sentences are encoded and enter them, while the
others go on. At the end, when nobody is waiting, the slots that are left close ranks. So a step computes little but
what is needed, and one long hypothesis holds up nobody. Several models of the same vocabulary go together: the mean of
their probabilities decides.

On CUDA beam search and greedy search with one model take another road, `fast/cuda/requests.py`: the same in fixed
shapes, with kernels and CUDA graphs, equal by test; in bfloat16 there, unless it is told otherwise. Sampling, ensembles
and sentences of more than a thousand tokens are done as on a CPU.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor

from heedful.data.tokenizer import Tokenizer
from heedful.errors import ConfigError, DivergedError
from heedful.model.decoding import Decoder, State, max_positions
from heedful.model.device import explained_out_of_memory, has_kernels
from heedful.model.packed import Packed, pack_source, pack_target, shift_right
from heedful.model.transformer import Memory, Transformer
from heedful.translate.engine import Computing, Request, SearchOptions, length_limit, windows
from heedful.translate.sampling import SampleRule, greedy_rule
from heedful.translate.search import BeamRule, BeamStep, History, Hypothesis, Rule, new_beams

if TYPE_CHECKING:
    from heedful.fast.cuda.lanes import Lanes

Found = TypeVar("Found")

PRECISIONS = ("auto", "bf16", "fp32")
MAX_ROWS = 256  # more do not make a step more efficient
SCORED_LOGITS = 2**25  # at a time


class TorchEngine:
    """Translates with one model, or with several whose probabilities are averaged. Models are in eval mode.

    `precision` says in what numbers to search on CUDA: auto is bf16 there. Given targets are scored as the models are.
    `reason` says why no faster engine was taken, for whoever asks what computes.
    """

    def __init__(
        self, *models: Transformer, batch_tokens: int = 8192, precision: str = "auto", reason: str = ""
    ) -> None:
        sizes = [model.vocab_size for model in models]
        if len(set(sizes)) > 1:
            raise ConfigError(
                f"models of an ensemble share one vocabulary; these have {', '.join(map(str, sizes))} tokens"
            )
        if precision not in PRECISIONS:
            raise ConfigError(f"precision {precision!r} is unknown; choose one of {', '.join(PRECISIONS)}")
        self.models, self.batch_tokens, self.precision, self.reason = models, batch_tokens, precision, reason
        assert not any(model.training for model in models), "decoding is for a model in eval mode"
        self.check_steps = 1 if self.device.type == "cpu" else 8  # to ask who is done holds a GPU up

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.models[0].device

    @cached_property
    def decoders(self) -> list[Decoder]:
        """Of each model; they see the weights as they are when this is first asked for."""
        return [Decoder(model) for model in self.models]

    @cached_property
    def lanes(self) -> Lanes | None:
        """The fast road, where there is one."""
        if len(self.models) > 1 or not has_kernels(self.device, self.models[0].config):
            return None
        from heedful.fast.cuda.lanes import Lanes  # needs Triton, which is not everywhere

        (model,) = self.models
        narrow = self.precision != "fp32"
        return Lanes(model, torch.bfloat16 if narrow else model.embedding.weight_VD.dtype)

    def _is_fast(self, options: SearchOptions) -> bool:
        if self.lanes is None or options.sampling is not None:
            return False
        from heedful.fast.cuda.lanes import MAX_WIDTH

        return options.beam_size <= MAX_WIDTH

    def computing(self, options: SearchOptions) -> Computing:
        """With the fast road's numbers where that is taken, else with the models' own."""
        fast = self.lanes if self._is_fast(options) else None
        numbers = fast.dtype if fast else self.models[0].embedding.weight_VD.dtype
        return Computing(f"torch {str(numbers).removeprefix('torch.')}", self.device.type, self.reason)

    def _stream(
        self, requests: Iterable[tuple[int, Request]], options: SearchOptions
    ) -> Iterator[tuple[int, list[Hypothesis]]] | None:
        """The fast road for these requests, if there is one for such options."""
        if self.lanes is None or not self._is_fast(options):
            return None
        from heedful.fast.cuda.requests import Stream

        return Stream(
            self.lanes,
            requests,
            BeamRule(options.beam_size, options.alpha, options.n_best),
            limit=partial(length_limit, options=options, max_positions=self._max_positions),
            too_long=lambda waiting: self._in_runs(waiting, options),
            with_tokens=options.token_scores,
        ).found()

    def translate(self, requests: Iterable[Request], options: SearchOptions) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each request, in order."""
        stream = self._stream(enumerate(requests), options)
        found = self._in_windows(requests, options) if stream is None else _in_order(stream)
        return self._explained(found, "a smaller beam needs less")

    def _explained(self, found: Iterator[Found], remedy: str) -> Iterator[Found]:
        with explained_out_of_memory(f"the sentences do not fit {self.device}; {remedy}, or take another device"):
            yield from found

    def _in_windows(self, requests: Iterable[Request], options: SearchOptions) -> Iterator[list[Hypothesis]]:
        """A window of them at a time."""
        for window in windows(enumerate(requests)):
            found = dict(self._in_runs(window, options))
            yield from (found[number] for number, _ in window)

    def translate_batch(
        self, requests: Sequence[Request], options: SearchOptions
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The number of each request and its hypotheses, as they are found."""
        stream = self._stream(enumerate(requests), options)
        return self._in_runs(enumerate(requests), options) if stream is None else stream

    def _in_runs(
        self, window: Iterable[tuple[int, Request]], options: SearchOptions
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The longest first, in runs of like length: a run holds sentences down to half the length of its first."""
        waiting = deque(sorted(window, key=lambda item: -len(item[1].source_ids)))
        while waiting:
            shortest = (len(waiting[0][1].source_ids) + 1) // 2
            run: deque[tuple[int, Request]] = deque()
            while waiting and len(waiting[0][1].source_ids) >= shortest:
                run.append(waiting.popleft())
            yield from _Run(self, run, options).results()

    def score(self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Iterator[list[float]]:
        """Forced scores, by the computation that training uses."""
        return self._explained(self._scores(pairs), "let others leave it")

    @torch.no_grad()
    def _scores(self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Iterator[list[float]]:
        budget = min(self.batch_tokens, max(1, SCORED_LOGITS // self.models[0].vocab_size))
        for batch in _in_budget(pairs, budget):
            yield from self._score_batch(batch)

    def _score_batch(self, pairs: list[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        source, lengths_N = _joined([source for source, _ in pairs])
        target, target_lengths_N = _joined([target for _, target in pairs])
        packed = pack_source(source, lengths_N).to(self.device)
        target_in = pack_target(shift_right(target), target_lengths_N, lengths_N).to(self.device)
        logits = [model(packed, target_in) for model in self.models]
        target_T1 = torch.from_numpy(target).to(self.device)[:, None]
        scores_T = _mean_log_probs(logits).gather(1, target_T1).squeeze(1)
        return [part.tolist() for part in scores_T.cpu().split(target_lengths_N.tolist())]

    @torch.no_grad()
    def next_tokens(self, request: Request, count: int) -> list[tuple[int, float]]:
        """The likeliest tokens behind the prefix, and their probabilities."""
        source, lengths_1 = _joined([request.source_ids])
        target, target_lengths_1 = _joined([request.prefix_ids])
        packed = pack_source(source, lengths_1).to(self.device)
        target_in = pack_target(shift_right(target), target_lengths_1, lengths_1).to(self.device)
        probs_V = _mean_log_probs([model(packed, target_in)[-1] for model in self.models]).exp()
        best = probs_V.topk(min(count, probs_V.numel()))
        return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[list[Memory], int]:
        """The memory of the sentences in each model, and the length of the longest, eos included."""
        packed: Packed = pack_source(*_joined(sources)).to(self.device)
        return [model.encode(packed) for model in self.models], packed.longest

    @property
    def outlives_fork(self) -> bool:
        """Whether a forked process can go on with it: a GPU, and threads, do not live on there."""
        return self.device.type == "cpu" and torch.get_num_threads() == 1

    @cached_property
    def _max_positions(self) -> int:
        return min(map(max_positions, self.models))

    def max_length(self, request: Request, options: SearchOptions) -> int:
        """How many tokens the output may have; of several models, the one with the fewest positions decides."""
        return length_limit(request, options, max_positions=self._max_positions)


def _in_order(found: Iterator[tuple[int, list[Hypothesis]]]) -> Iterator[list[Hypothesis]]:
    """By their numbers, from 0; whoever comes early waits."""
    early: dict[int, list[Hypothesis]] = {}
    due = 0
    for number, hypotheses in found:
        early[number] = hypotheses
        while due in early:
            yield early.pop(due)
            due += 1


def _in_budget(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]], budget: int
) -> Iterator[list[tuple[Sequence[int], Sequence[int]]]]:
    """Pairs in order, in batches of at most so many tokens a side, or of one pair."""
    batch: list[tuple[Sequence[int], Sequence[int]]] = []
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


def _joined(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Sentences in one row, each with its eos; and their lengths."""
    ids = np.concatenate([[*sentence, Tokenizer.eos_id] for sentence in sentences]).astype(np.int64)
    return ids, np.array([len(sentence) + 1 for sentence in sentences], dtype=np.int64)


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

    def __init__(self, decoders: Sequence[Decoder], num_slots: int, num_beams: int) -> None:
        self.states: list[State] = [decoder.empty(num_slots, num_beams) for decoder in decoders]

    def step(self, ids_R: Tensor) -> Tensor:
        """Logits of one model; of several, the logarithm of their mean probabilities."""
        logits = [state.decoder.step(ids_R, state) for state in self.states]
        return logits[0] if len(logits) == 1 else _mean_log_probs(logits)

    def select(self, parents_NW: Tensor) -> None:
        """Go on from these parents."""
        for state in self.states:
            state.select(parents_NW)

    def admit(self, memories: Sequence[Memory], slots: Sequence[int], longest: int) -> None:
        """New sentences in these slots."""
        for state, memory in zip(self.states, memories, strict=True):
            state.admit(memory, slots, longest=longest)

    def rest(self, slots: Sequence[int]) -> None:
        """Nobody is in these slots."""
        for state in self.states:
            state.rest(slots)

    def keep(self, slots: Sequence[int]) -> None:
        """Go on with these slots only."""
        for state in self.states:
            state.keep(slots)


class _Run:
    """Sentences of like length on their way through the slots."""

    def __init__(self, engine: TorchEngine, waiting: deque[tuple[int, Request]], options: SearchOptions) -> None:
        self.engine, self.waiting, self.options, self.rule = engine, waiting, options, _rule(options)
        limits = [engine.max_length(request, options) for _, request in waiting]
        width, longest = self.rule.width, len(waiting[0][1].source_ids) + 1
        rows = min(MAX_ROWS, engine.batch_tokens // longest)
        num_slots = min(len(waiting), max(1, rows // width))
        self.states = _States(engine.decoders, num_slots, width)
        weight = engine.models[0].embedding.weight_VD
        self.like = weight.new_empty(0, dtype=torch.promote_types(weight.dtype, torch.float32))
        self.beams = new_beams(self.rule, [0] * num_slots, like=self.like)
        self.history = History(max(limits) + engine.check_steps)
        self.tenants: list[int | None] = [None] * num_slots  # whose request is in a slot
        self.births = [0] * num_slots
        self.ids_R = torch.zeros(num_slots * width, dtype=torch.int64, device=engine.device)

    @torch.no_grad()
    def results(self) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The number of a request and its hypotheses, as they are found."""
        while self.waiting or any(tenant is not None for tenant in self.tenants):
            self._refill()
            self._step()
            if self.history.now % self.engine.check_steps == 0 and (slots := self._done()):
                yield from self._leave(slots)

    def _refill(self) -> None:
        free = [slot for slot, tenant in enumerate(self.tenants) if tenant is None]
        if self.waiting and 4 * len(free) >= len(self.tenants):
            self._admit(free[: len(self.waiting)])
        elif not self.waiting and 2 * len(free) >= len(self.tenants):
            self._keep([slot for slot, tenant in enumerate(self.tenants) if tenant is not None])

    def _admit(self, slots: list[int]) -> None:
        numbers, requests = zip(*[self.waiting.popleft() for _ in slots], strict=True)
        memories, longest = self.engine.encode([request.source_ids for request in requests])
        self.states.admit(memories, slots, longest)
        newcomers = new_beams(
            self.rule,
            [self.engine.max_length(request, self.options) for request in requests],
            prefixes=[request.prefix_ids for request in requests],
            indices=numbers,
            like=self.like,
        )
        self.beams = self.beams.admit(slots, newcomers)
        for slot, number in zip(slots, numbers, strict=True):
            self.tenants[slot], self.births[slot] = number, self.history.now

    def _keep(self, slots: list[int]) -> None:
        self.states.keep(slots)
        self.beams = self.beams.keep(slots)
        self.history.keep(slots)
        self.ids_R = self.ids_R.unflatten(0, (-1, self.rule.width))[slots].flatten()
        self.tenants = [self.tenants[slot] for slot in slots]
        self.births = [self.births[slot] for slot in slots]

    def _step(self) -> None:
        step: BeamStep
        self.beams, step = self.rule.advance(self.beams, self.states.step(self.ids_R))
        self.history.record(step)
        self.states.select(step.parents_NW)
        self.ids_R = step.tokens_NW.flatten()

    def _done(self) -> list[int]:
        done = self.beams.done_N.tolist()
        return [slot for slot, tenant in enumerate(self.tenants) if tenant is not None and done[slot]]

    def _leave(self, slots: list[int]) -> Iterator[tuple[int, list[Hypothesis]]]:
        found = self.history.hypotheses(slots, [self.births[slot] for slot in slots], self.rule)
        self.states.rest(slots)
        for slot, hypotheses in zip(slots, found, strict=True):
            number, self.tenants[slot] = self.tenants[slot], None
            assert number is not None
            if not hypotheses:
                raise DivergedError
            yield number, hypotheses
