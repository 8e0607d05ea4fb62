"""Engines: token ids in, hypotheses out. One interface, whatever computes.

An engine takes a stream of requests and gives their hypotheses in the same order, as they come: it reads ahead no
further than a window, so that memory stays bounded whatever the length of the stream. What comes out for a request does
not depend on the other requests, but for rounding, of bfloat16 on a GPU above all. Ids never hold the eos; an engine
puts it behind each source, and behind each target that it scores. Engines know no text.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from numbers import Integral, Real
from time import perf_counter
from typing import TypeVar

import torch

from heedful.errors import ConfigError, DataError, counted
from heedful.model.interface import TranslationModel
from heedful.translate.search import Hypothesis

__all__ = [
    "Computing",
    "Engine",
    "Hypothesis",
    "Request",
    "Sampling",
    "SearchOptions",
    "length_limit",
    "windows",
]

Item = TypeVar("Item")

FIRST_WINDOW, LAST_WINDOW = 16, 4096  # requests read ahead: few at first, so that the first results come soon ...
WINDOW_SECONDS = 5.0  # ... and then more, until a window takes so long


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. A draw follows from the seed and the request's number in the stream."""

    temperature: float = 1.0  # below 1: likely tokens become likelier
    top_k: int = 0  # draw from so many of the likeliest tokens; 0: from all
    top_p: float = 1.0  # draw from the fewest of the likeliest tokens that have this share together
    seed: int = 1

    def __post_init__(self) -> None:
        _make_numbers_plain(self)
        _check(
            0 < self.temperature < math.inf,
            f"temperature = {self.temperature} is not above 0; for the likeliest token do not sample",
        )
        _check(self.top_k >= 0, f"top_k = {self.top_k} is below 0 (0: all tokens)")
        _check(0 < self.top_p <= 1, f"top_p = {self.top_p} is not above 0 and at most 1")
        _check(0 <= self.seed < 2**63, f"seed = {self.seed} is not between 0 and 2^63")


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search (§6.1). A beam of 1 is greedy search; with `sampling`, `n_best` is the number of samples."""

    beam_size: int = 4
    alpha: float = 0.6  # of the length penalty
    max_extra: int = 50  # an output may have so many tokens more than its source, eos not counted on either side
    n_best: int = 1
    sampling: Sampling | None = None
    token_scores: bool = True  # if not, an engine that is quicker without them may leave `token_log_probs` empty

    def __post_init__(self) -> None:
        _make_numbers_plain(self)
        _check(self.beam_size >= 1, f"beam_size = {self.beam_size} is below 1; 1 is greedy search")
        _check(0 <= self.alpha <= 100, f"alpha = {self.alpha} is not between 0 and 100; 0 is no length penalty")
        _check(self.max_extra >= 0, f"max_extra = {self.max_extra} is below 0; 0: no output is longer than its source")
        _check(self.n_best >= 1, f"n_best = {self.n_best} is below 1; 1 is the best hypothesis alone")
        _check(
            self.sampling is not None or self.n_best <= self.beam_size,
            f"n_best = {self.n_best} is more than a beam of {self.beam_size} can give; raise beam_size",
        )
        _check(
            self.sampling is None or isinstance(self.sampling, Sampling),
            f"sampling = {self.sampling!r} is no Sampling, such as Sampling(temperature=0.8)",
        )


def _make_numbers_plain(options: Sampling | SearchOptions) -> None:
    """As numpy counts, too: a card can hold Python's own numbers alone."""
    for field in fields(options):
        if field.type in ("int", "float"):
            object.__setattr__(options, field.name, _plain(field.name, getattr(options, field.name), field.type))


def _plain(name: str, value: object, kind: str) -> int | float:
    if kind == "int" and isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if kind == "float" and isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    raise ConfigError(f"{name} = {value!r} is no {'whole number' if kind == 'int' else 'number'}")


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ConfigError(otherwise)


@dataclass(frozen=True, slots=True)
class Request:
    """One sentence to translate, and the tokens that its translation must begin with."""

    source_ids: Sequence[int]
    prefix_ids: Sequence[int] = ()


def length_limit(request: Request, options: SearchOptions, *, position_limit: int) -> int:
    """How many tokens the output may have: its source's and `max_extra` more, as far as the model's positions reach."""
    wanted = len(request.source_ids) + options.max_extra
    limit = min(wanted, position_limit - 1)  # the eos takes one
    if len(request.prefix_ids) > limit:
        sizes = f"the source's {len(request.source_ids)} and max_extra = {options.max_extra}"
        why = sizes if limit == wanted else f"there are positions for {position_limit}, eos included"
        raise DataError(
            f"a prefix of {counted(len(request.prefix_ids), 'token')} is longer than the output may become "
            f"({counted(limit, 'token')}: {why}); shorten it{' or raise max_extra' if limit == wanted else ''}"
        )
    return limit


def windows(requests: Iterable[Item]) -> Iterator[list[Item]]:
    """Requests in parts that grow while whoever takes them is quick."""
    stream, size = iter(requests), FIRST_WINDOW
    while window := list(islice(stream, size)):
        begin = perf_counter()
        yield window
        size = min(2 * size, LAST_WINDOW) if perf_counter() - begin < WINDOW_SECONDS else size


@dataclass(frozen=True, slots=True)
class Computing:
    """What computes a search, in which numbers, and on which kind of device."""

    engine: str  # such as torch float32
    device: str  # cpu, cuda or mps
    reason: str = ""  # why a faster engine could not be taken, if one was there


class Engine(ABC):
    """What every engine can do."""

    workers = 1  # batches that may be under way at once

    @property
    def models(self) -> tuple[TranslationModel, ...]:
        """Our own models with these weights; none, where they cannot be looked into."""
        return ()

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return torch.device("cpu")

    @property
    def outlives_fork(self) -> bool:
        """Whether a forked process can go on with it: a GPU, and threads, do not live on there."""
        return False

    @abstractmethod
    def computing(self, options: SearchOptions) -> Computing:
        """What it searches by, with such options."""

    @abstractmethod
    def translate(self, requests: Iterable[Request], options: SearchOptions) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each request, best first (samples: as they were drawn), in the order of the requests."""

    @abstractmethod
    def score(self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Iterator[list[float]]:
        """The log-probability of each token of a given target, and of the eos after it, for (source, target) pairs."""

    @abstractmethod
    def next_tokens(self, request: Request, count: int) -> list[tuple[int, float]]:
        """The likeliest tokens after the prefix, and their probabilities; the eos may be among them."""

    def translate_batch(
        self, requests: Sequence[Request], options: SearchOptions
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The number of each request and its hypotheses; an engine that can tells them as they are found."""
        return enumerate(self.translate(requests, options))
