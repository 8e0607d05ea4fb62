"""Engines: token ids in, hypotheses out; one interface for everything that can search.

An engine takes requests as a stream and gives their hypotheses in the same order. It reads at most a window or two
ahead, so memory stays bounded however long the stream is. A result does not depend on the other requests, except for
rounding (mostly of bfloat16 on a GPU). Ids never include the eos: an engine adds it to each source, and to each target
that it scores. Engines know no text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Annotated, TypeAlias, TypeVar

import torch
from msgspec import Meta, Struct

from heedful.config.setting_names import check_fields
from heedful.config.settings import Count, DecodeConfig, Positive
from heedful.errors import ConfigError, DataError, counted
from heedful.model.interface import TranslationModel
from heedful.translate.search import Hypothesis

Item = TypeVar("Item")

FIRST_WINDOW, LAST_WINDOW = 16, 2048  # items read ahead: few at first, so that the first results come soon,
WINDOW_SECONDS = 5.0  # and twice as many each time until a window takes this long


class Sampling(Struct, frozen=True, forbid_unknown_fields=True):
    """How tokens are drawn. A draw depends on the seed and on the request's number."""

    temperature: Annotated[float, Meta(gt=0.0, le=1e6)] = 1.0  # below 1, likely tokens become likelier
    top_k: Count = 0  # draw from this many of the likeliest tokens; 0: from all
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0  # draw from the fewest likeliest tokens with this probability
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 1

    def __post_init__(self) -> None:
        check_fields(self)


class SearchOptions(DecodeConfig, frozen=True):
    """How to search (§6.1). A beam of 1 is greedy search; with `sampling`, `n_best` is the number of samples."""

    n_best: Positive = 1
    sampling: Sampling | None = None
    token_scores: bool = True  # if false, an engine may leave `token_log_probs` empty to save time

    def __post_init__(self) -> None:
        check_fields(self)
        if self.sampling is None and self.n_best > self.beam_size:
            raise ConfigError(
                f"n_best = {self.n_best} is more than a beam of {self.beam_size} can give; raise beam_size"
            )


@dataclass(frozen=True, slots=True)
class Request:
    """One sentence to translate, and the tokens that its translation must begin with.

    Samples are drawn by its number; without one, by its place in the stream.
    """

    source_ids: Sequence[int]
    prefix_ids: Sequence[int] = ()
    number: int | None = None


Windows: TypeAlias = Iterable[Sequence[Request]]
"""Requests as a stream of windows; those of a window are searched together."""

Numbered: TypeAlias = tuple[int, list[Hypothesis]]
"""The number of a request, and its hypotheses."""

IdPair: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""A source and a given target, both without the eos."""


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


def windows(items: Iterable[Item], *, first: int = FIRST_WINDOW) -> Iterator[list[Item]]:
    """The items in lists, `first` items at first, that grow as long as the caller asks for the next one soon."""
    stream, size = iter(items), first
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

    def translate(self, requests: Iterable[Request], options: SearchOptions) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each request, best first (samples: as drawn), in the order of the requests."""
        return self.translate_windows(windows(requests), options)

    @abstractmethod
    def translate_windows(self, windows: Windows, options: SearchOptions) -> Iterator[list[Hypothesis]]:
        """The same for requests that come in windows."""

    @abstractmethod
    def score(self, pairs: Iterable[IdPair]) -> Iterator[list[float]]:
        """The log-probability of each token of a given target, and of the eos after it, for (source, target) pairs."""

    @abstractmethod
    def next_tokens(self, request: Request, count: int) -> list[tuple[int, float]]:
        """The likeliest tokens after the prefix, and their probabilities; the eos may be among them."""

    def translate_batch(self, requests: Sequence[Request], options: SearchOptions) -> Iterator[Numbered]:
        """The number of each request and its hypotheses; an engine that can tells them as they are found."""
        return enumerate(self.translate(requests, options))
