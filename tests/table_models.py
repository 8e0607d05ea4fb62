"""Made-up models in which every sequence and its probability is known, and a plain beam search over them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from heedful.translate.sampling import greedy_rule
from heedful.translate.search import (
    BeamRule,
    Beams,
    BeamStep,
    Hypothesis,
    Rule,
    Search,
    Selectable,
    Step,
    beam_steps,
    length_penalty,
    new_beams,
)

EOS = 0
Prefix = tuple[int, ...]
S = TypeVar("S", bound=Selectable)


def search_of(beams: Beams, rule: Rule) -> Search:
    """It remembers all steps of its sentences."""
    return Search(rule, beams, num_steps=int(beams.max_length_N.max()) + 1)


def until_done(step: Step[S], state: S, search: Search) -> Iterator[BeamStep]:
    for done in beam_steps(step, state, search):
        yield done
        if search.is_done():
            return


def steps_to_the_end(step: Step[S], state: S, beams: Beams, rule: Rule) -> Iterator[BeamStep]:
    """Until all sentences are done."""
    return until_done(step, state, search_of(beams, rule))


def searched(step: Step[S], state: S, beams: Beams, rule: Rule) -> list[list[Hypothesis]]:
    """The results of sentences that stay together until the last one is done."""
    search, num_sentences = search_of(beams, rule), beams.done_N.numel()
    for _ in until_done(step, state, search):
        pass
    return search.history.hypotheses(range(num_sentences), [0] * num_sentences, rule)


def beam_search(
    step: Step[S],
    state: S,
    *,
    max_lengths: Sequence[int],
    beam_size: int,
    alpha: float = 0.6,
    n_best: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    rule = BeamRule(beam_size, alpha, n_best)
    return searched(step, state, new_beams(rule, max_lengths, prefixes=prefixes), rule)


def greedy_search(step: Step[S], state: S, *, max_lengths: Sequence[int]) -> list[list[Hypothesis]]:
    rule = greedy_rule()
    return searched(step, state, new_beams(rule, max_lengths), rule)


@dataclass
class Table:
    """A model in which the next token depends on all before it: one random row of log-probabilities for each prefix."""

    seed: int
    vocab_size: int = 4
    sharpness: float = 2.0

    def log_probs(self, prefix: Prefix) -> list[float]:
        draw = random.Random(f"{self.seed} {prefix}")
        logits = [draw.gauss(0, self.sharpness) for _ in range(self.vocab_size)]
        total = math.log(sum(map(math.exp, logits)))
        return [logit - total for logit in logits]

    def forced(self, ids: Prefix) -> list[float]:
        """The log-probability of each token and of the eos behind them."""
        return [self.log_probs(ids[:i])[token] for i, token in enumerate((*ids, EOS))]

    def all_sequences(self, max_length: int) -> list[Prefix]:
        words = range(1, self.vocab_size)
        return [ids for length in range(max_length + 1) for ids in itertools.product(words, repeat=length)]


class Sure(Table):
    """A table that is sure of `seed` times token 1 and of the end behind them, and takes too early an end for likelier
    than any other mistake."""

    def log_probs(self, prefix: Prefix) -> list[float]:
        wanted = EOS if len(prefix) >= self.seed else 1
        weights = [0.998 if token == wanted else 0.001 if token == EOS else 1e-6 for token in range(self.vocab_size)]
        return [math.log(weight / sum(weights)) for weight in weights]


class Tables:
    """The state of N tables with W hypotheses each: what every row has come by."""

    def __init__(self, tables: list[Table], num_beams: int) -> None:
        self.tables = tables
        self.rows: list[list[Prefix]] = [[()] * num_beams for _ in tables]
        self.started = False

    def select(self, parents_NW: Tensor) -> None:
        self.rows = [[row[p] for p in parents] for row, parents in zip(self.rows, parents_NW.tolist(), strict=True)]


def step(ids_R: Tensor, state: Tables) -> Tensor:
    ids = iter(ids_R.tolist())
    if state.started:
        state.rows = [[(*prefix, next(ids)) for prefix in row] for row in state.rows]
    state.started = True
    rows = zip(state.tables, state.rows, strict=True)
    # Logits need not be normalised.
    return torch.tensor([table.log_probs(prefix) for table, row in rows for prefix in row], dtype=torch.float64) + 3.0


def plain_beam_search(
    table: Table, max_length: int, beam_size: int, alpha: float, n_best: int, prefix: Prefix = ()
) -> list[tuple[float, Prefix]]:
    """The rule of search.py once more, with lists; it ends early only where W have finished and no live one leads."""
    live: list[tuple[float, Prefix]] = [(0.0, ())]
    finished: list[tuple[float, Prefix]] = []
    for length in range(max_length + 1):
        totals = [(p + q, ids, token) for p, ids in live for token, q in enumerate(table.log_probs(ids))]
        if length == max_length:
            totals = [entry for entry in totals if entry[2] == EOS]
        elif length < len(prefix):
            totals = [entry for entry in totals if entry[2] == prefix[length]]
        totals.sort(key=lambda entry: -entry[0])
        finished += [(p / length_penalty(length + 1, alpha), ids) for p, ids, t in totals[:beam_size] if t == EOS]
        live = [(p, (*ids, token)) for p, ids, token in totals if token != EOS][:beam_size]
        finished.sort(key=lambda entry: -entry[0])
        leader = max((p / length_penalty(length + 1, alpha) for p, _ in live), default=-math.inf)
        if len(finished) >= beam_size and leader <= finished[n_best - 1][0]:
            break
    return finished[:n_best]
