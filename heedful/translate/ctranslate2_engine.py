"""The engine that CTranslate2 computes: the fastest on a CPU, with an export of the model.

Its beam search is ours: the same hypotheses live and end in every step, but for the last one before the length limit.
It ranks them by |Y|^(¾α), though, so the W best of those that ended are taken from it and ranked here, by the paper's
length penalty (§6.1); with α over 1 what is best by ours may not be among them. Where it knows less than we want (the
probability of a prefix, of an end that the limit forces, of each token) the hypothesis is scored once more, as a given
target. It draws random numbers in an order of its own, so that samples would depend on the batch: it does not sample
here. An empty source has an empty translation.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError, ConfigError, DataError, DivergedError
from heedful.translate.engine import Computing, Engine, IdPair, Request, SearchOptions, Windows, length_limit
from heedful.translate.export.ctranslate2 import library
from heedful.translate.search import Hypothesis, length_penalty

SCORED_PAIRS = 512  # at a time
PATIENCE = 1.5  # with 1 a search that is asked for as many hypotheses as its beam now and then ends before the best one
LIKE_OURS = 0.75  # |Y|^(¾α) grows as ((5 + |Y|) / 6)^α does where |Y| is 15: which W of those that ended are returned
ROWS, FEWEST = 64, 16  # hypotheses of sentences of like length that a worker takes at a time, and sentences at least


@dataclass(frozen=True, slots=True)
class _Found:
    """A hypothesis as CTranslate2 found it; without a log-probability where it does not know that of the whole."""

    ids: tuple[int, ...]
    log_prob: float | None


@dataclass(frozen=True, slots=True)
class _Submitted:
    """A window of requests on its way; `results` are those of the requests at the places `free`."""

    window: Sequence[Request]
    limits: list[int]
    free: list[int]
    results: list[Any]


class CTranslate2Engine(Engine):
    """Translates with an exported model on the CPU; `pieces` are the strings of all tokens, in order of their ids."""

    def __init__(self, folder: Path, pieces: Sequence[str], *, position_limit: int) -> None:
        self.pieces, self.position_limit = list(pieces), position_limit
        self.ids = {piece: number for number, piece in enumerate(pieces)}
        ctranslate2 = library()
        try:
            num_threads = torch.get_num_threads()
            self.translator = ctranslate2.Translator(
                str(folder), "cpu", inter_threads=num_threads, intra_threads=1, max_queued_batches=-1
            )
        except (RuntimeError, IndexError, ValueError) as error:  # a piece that is missing, a name that is none
            raise CheckpointError(f"{folder}: CTranslate2 cannot load it ({error}); remove it") from None
        self.threads = num_threads
        self.workers = num_threads + 1  # one more, so that they go on while Python reads and writes
        torch.set_num_threads(num_threads)  # CTranslate2 takes its one thread a worker for the whole process

    def computing(self, options: SearchOptions) -> Computing:
        """In the numbers that CTranslate2 chose for this CPU."""
        return Computing(f"ctranslate2 {self.translator.compute_type}", "cpu")

    def translate_windows(self, windows: Windows, options: SearchOptions) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each request, in order."""
        if options.sampling is not None:
            raise ConfigError("the ctranslate2 engine does not sample; the torch engine does (--engine torch)")
        submitted: deque[_Submitted] = deque()
        for window in windows:
            submitted.append(self._submit(window, options))
            if len(submitted) > 1:  # the workers go on with this window while the one before it is read
                yield from self._collect(submitted.popleft(), options)
        while submitted:
            yield from self._collect(submitted.popleft(), options)

    def _submit(self, window: Sequence[Request], options: SearchOptions) -> _Submitted:
        """Nothing is searched for where the prefix is all that the limit allows."""
        limits = [self._limit(request, options) for request in window]
        free = [n for n, request in enumerate(window) if limits[n] > len(request.prefix_ids)]
        longest = max((limits[n] for n in free), default=0)
        return _Submitted(window, limits, free, self._search([window[n] for n in free], longest, options))

    def _collect(self, submitted: _Submitted, options: SearchOptions) -> list[list[Hypothesis]]:
        window, limits = submitted.window, submitted.limits
        found = [[_Found(tuple(request.prefix_ids), None)] for request in window]
        for n, result in zip(submitted.free, submitted.results, strict=True):
            found[n] = self._found(window[n], result.result(), options)
            if options.beam_size == 1 and len(found[n][0].ids) > limits[n]:  # greedy search goes on as it began
                found[n] = [_Found(found[n][0].ids[: limits[n]], None)]
        too_long = [n for n, each in enumerate(found) if any(len(one.ids) > limits[n] for one in each)]
        for limit in sorted({limits[n] for n in too_long}):
            again = [n for n in too_long if limits[n] == limit]
            for n, result in zip(again, self._search([window[n] for n in again], limit, options), strict=True):
                found[n] = self._found(window[n], result.result(), options)
        return self._ranked(window, found, options)

    def _limit(self, request: Request, options: SearchOptions) -> int:
        self._check_length(len(request.source_ids))
        return length_limit(request, options, position_limit=self.position_limit)

    def _check_length(self, num_tokens: int) -> None:
        if num_tokens + 1 > self.position_limit:
            raise DataError(
                f"a sentence of {num_tokens} tokens is longer than the {self.position_limit} positions of the export, "
                f"eos included; where they are sinusoids the torch engine takes any length (--engine torch)"
            )

    def _search(self, requests: Sequence[Request], limit: int, options: SearchOptions) -> list[Any]:
        """Results to come, one for each request; a prefix changes how its own request is searched, not the others."""
        results: dict[int, Any] = {}
        for has_prefix in (False, True):
            some = [number for number, request in enumerate(requests) if bool(request.prefix_ids) is has_prefix]
            patience = 1.0 if has_prefix or options.beam_size == 1 else PATIENCE  # scores leave prefixes out
            found = self._search_with([requests[number] for number in some], limit, options, patience)
            results |= zip(some, found, strict=True)
        return [results[number] for number in range(len(requests))]

    def _search_with(
        self, requests: Sequence[Request], limit: int, options: SearchOptions, patience: float
    ) -> list[Any]:
        prefixes = [self._tokens(request.prefix_ids) for request in requests]
        results: list[Any] = self.translator.translate_batch(
            [self._tokens(request.source_ids) for request in requests],
            target_prefix=prefixes if any(prefixes) else None,
            asynchronous=True,
            beam_size=options.beam_size,
            num_hypotheses=options.beam_size,
            patience=patience,
            length_penalty=LIKE_OURS * options.alpha,
            max_decoding_length=limit,
            min_decoding_length=0,
            max_input_length=0,
            return_end_token=True,
            return_scores=True,
            max_batch_size=self._batch_size(len(requests), options.beam_size),
        )
        return results

    def _found(self, request: Request, result: Any, options: SearchOptions) -> list[_Found]:
        return [
            self._hypothesis(tokens, None if request.prefix_ids else score, LIKE_OURS * options.alpha)
            for tokens, score in zip(result.hypotheses, result.scores, strict=True)
        ]

    def _hypothesis(self, tokens: list[str], score: float | None, alpha: float) -> _Found:
        """A score is the log-probability divided by |Y|^α, eos counted in |Y|; that of a prefix is not in it."""
        ids = tuple(map(self.ids.__getitem__, tokens))
        if not ids or ids[-1] != Tokenizer.eos_id:
            return _Found(ids, None)
        return _Found(ids[:-1], None if score is None else score * len(ids) ** alpha)

    def _batch_size(self, num_sentences: int, beam_size: int = 1) -> int:
        """So that every worker gets as many batches as the others, and none is larger than need be."""
        most = max(FEWEST, ROWS // beam_size)
        rounds = -(-num_sentences // (most * self.threads)) or 1
        return -(-num_sentences // (rounds * self.threads)) or 1

    def next_tokens(self, request: Request, count: int) -> list[tuple[int, float]]:
        """The likeliest tokens behind the prefix, and their probabilities."""
        self._check_length(max(len(request.source_ids), len(request.prefix_ids)))
        (result,) = self.translator.translate_batch(
            [self._tokens(request.source_ids)],
            target_prefix=[self._tokens(request.prefix_ids)],
            beam_size=1,
            max_decoding_length=len(request.prefix_ids) + 1,
            min_decoding_length=0,
            max_input_length=0,
            return_logits_vocab=True,
        )
        logits_V = torch.from_numpy(np.array(result.logits[0][-1], dtype=np.float32)).flatten()
        best = logits_V.softmax(dim=0).topk(min(count, logits_V.numel()))
        return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))

    def _tokens(self, ids: Sequence[int]) -> list[str]:
        return [self.pieces[i] for i in ids]

    # ------------------------------------------------------------------------------------------------------- ranking

    def _ranked(
        self, window: Sequence[Request], found: list[list[_Found]], options: SearchOptions
    ) -> list[list[Hypothesis]]:
        """By the paper's score, the best n."""
        scores = self._forced_scores(window, found, options)
        ranked = []
        for each in found:
            hypotheses = [_hypothesis(one, next(scores), options.alpha) for one in each]
            ranked.append(sorted(hypotheses, key=lambda one: -one.score)[: options.n_best])
        return ranked

    def _forced_scores(
        self, window: Sequence[Request], found: list[list[_Found]], options: SearchOptions
    ) -> Iterator[list[float]]:
        """For each hypothesis the log-probabilities of its tokens and its eos, or nothing where nothing is asked."""
        asked = [options.token_scores or one.log_prob is None for one in chain(*found)]
        pairs = ((request.source_ids, one.ids) for request, each in zip(window, found, strict=True) for one in each)
        scores = self.score([pair for pair, is_asked in zip(pairs, asked, strict=True) if is_asked])
        return (next(scores) if is_asked else [] for is_asked in asked)

    def score(self, pairs: Iterable[IdPair]) -> Iterator[list[float]]:
        """Forced scores, in the precision of the export."""
        stream = iter(pairs)
        while some := list(islice(stream, SCORED_PAIRS)):
            for source, target in some:
                self._check_length(max(len(source), len(target)))
            results: list[Any] = self.translator.score_batch(
                [self._tokens(source) for source, _ in some],
                [self._tokens(target) for _, target in some],
                max_input_length=0,
                max_batch_size=self._batch_size(len(some)),
            )
            yield from (list(result.log_probs) for result in results)


def _hypothesis(found: _Found, token_log_probs: list[float], alpha: float) -> Hypothesis:
    log_prob = sum(token_log_probs) if token_log_probs else found.log_prob
    if log_prob is None or math.isnan(log_prob):
        raise DivergedError
    score = log_prob / length_penalty(float(len(found.ids) + 1), alpha)
    return Hypothesis(found.ids, log_prob, score, tuple(token_log_probs))
