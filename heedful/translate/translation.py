"""Text → sentences → ids → hypotheses → text.

A line is translated sentence by sentence (`data/sentence_splitting.py`), or as one segment with `split=False`. A
segment with more pieces than the model's training text had (`data.max_length`) is cut (`data/long_text.py`). The
translations of a line's parts are joined again. A blank line has a blank translation. A translation never holds a line
break.

Lines stream through in order, in bounded memory. Two buffers lie between stdin and the engine: the lines that have
arrived (`bursts` in `data/stdio.py`; a file needs none), and a window of lines, which are encoded together and whose
parts the engine searches together. The first window is small, so that the first results come soon. How ids become
hypotheses (§6.1) is up to the engine; this module knows no weights and no tensors.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice, repeat, tee, zip_longest
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np

from heedful.config.settings import Config
from heedful.data.languages import are_side_by_side
from heedful.data.long_text import Cutter, TextPart
from heedful.data.sentence_splitting import sentences
from heedful.data.tokenizer import BulkEncoder, Tokenizer
from heedful.errors import ConfigError, DataError, DeviceError, DivergedError
from heedful.model.device import choose_device
from heedful.model.interface import TranslationModel
from heedful.model.registry import register
from heedful.translate.best_combinations import best_combinations
from heedful.translate.engine import FIRST_WINDOW, Engine, Request, SearchOptions, length_limit, windows
from heedful.translate.open_engine import ENGINES, open_engine
from heedful.translate.search import Hypothesis

PART_STEP = 2**40  # between the numbers of the parts of a line, which samples follow from; more than any input's lines
FEW_TEXTS = 16  # fewer are encoded one by one
_NONE: Any = object()  # fills up for lines, or prefixes, that have come to an end before the others


@dataclass(frozen=True, slots=True)
class TextHypothesis:
    """One translation of a line: its text, and the hypothesis of each part that the line was translated in.

    The score and log-probability are the sums of the parts'. `pieces` and `token_log_probs` are equally long: the
    `</s>` that ends a part is among them.
    """

    text: str
    parts: tuple[Hypothesis, ...]
    tokenizer: Tokenizer = field(repr=False, compare=False)
    language: str = field(default="", repr=False, compare=False)

    @property
    def score(self) -> float:
        """What hypotheses are ranked by."""
        return sum(part.score for part in self.parts)

    @property
    def log_prob(self) -> float:
        """The model's log-probability of all pieces."""
        return sum(part.log_prob for part in self.parts)

    @property
    def ids(self) -> list[int]:
        """Token ids, with the eos that ends each part."""
        return [*chain.from_iterable((*part.ids, self.tokenizer.eos_id) for part in self.parts)]

    @property
    def pieces(self) -> list[str]:
        """The ids as people read them."""
        return self.tokenizer.pieces(self.ids)

    @property
    def token_log_probs(self) -> list[float]:
        """The log-probability of each piece."""
        return [*chain.from_iterable(part.token_log_probs for part in self.parts)]

    def record(self) -> dict[str, Any]:
        """What is written as JSON."""
        return {
            "text": self.text,
            "score": self.score,
            "log_prob": self.log_prob,
            "tokens": self.pieces,
            "token_log_probs": self.token_log_probs,
        }


@dataclass(frozen=True, slots=True)
class Translation:
    """A line and its translations, best first; none for a blank line."""

    source: str
    text: str  # of the best one
    hypotheses: tuple[TextHypothesis, ...]
    num_parts: int  # its sentences, and the parts of those that were too long for the model; 0: it is blank
    source_ids: tuple[tuple[int, ...], ...] = ()  # of each part, as the model got them
    glues: tuple[str, ...] = ()  # what stands before the translation of each part
    is_cut: bool = False  # a sentence of it was too long for the model

    def record(self) -> dict[str, Any]:
        """What is written as one line of jsonl."""
        hypotheses = [hypothesis.record() for hypothesis in self.hypotheses]
        return {"source": self.source, "translation": self.text, "parts": self.num_parts, "hypotheses": hypotheses}


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """A given translation, and the log-probability that the model gives to each of its pieces, `</s>` included."""

    source: str
    target: str
    pieces: tuple[str, ...]
    token_log_probs: tuple[float, ...]

    @property
    def log_prob(self) -> float:
        """Of the whole target."""
        return sum(self.token_log_probs)

    def record(self) -> dict[str, Any]:
        """What is written as one line of jsonl."""
        return {
            "source": self.source,
            "target": self.target,
            "log_prob": self.log_prob,
            "tokens": list(self.pieces),
            "token_log_probs": list(self.token_log_probs),
        }


class _Line(NamedTuple):
    """A line as it was read: its parts, and what the translation of the first one must begin with."""

    source: str
    parts: tuple[TextPart, ...]
    is_cut: bool
    prefix_ids: Sequence[int]
    number: int  # in the whole input, from 0

    @property
    def requests(self) -> list[Request]:
        """What the engine is asked for. Samples follow from the number of the line and that of the part in it."""
        prefixes = chain([self.prefix_ids], repeat(()))
        each = zip(self.parts, prefixes, count(self.number, PART_STEP), strict=False)
        return [Request(part.ids, prefix_ids, number) for part, prefix_ids, number in each]


class Translator:
    """Translates text with an engine and the tokenizer of its model; `config` is the model's."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer, config: Config) -> None:
        self._engine, self.tokenizer, self.config = engine, tokenizer, config
        self._process = os.getpid()
        self.options = SearchOptions(**msgspec.structs.asdict(config.decode))
        self.cutter = Cutter(tokenizer, config.data.max_length, config.data.source_language)
        self._is_side_by_side = are_side_by_side(self.target_language)
        self._bulk = BulkEncoder(tokenizer, threads=min(8, os.cpu_count() or 1))

    @classmethod
    def load(
        cls,
        *models: str | PathLike[str],
        device: str = "auto",
        engine: str = "auto",
        precision: str = "auto",
        family: type[TranslationModel] | None = None,
    ) -> Self:
        """From a run folder, a model folder or a checkpoint; several of them translate together, as an ensemble.

        In precision "fp32" a translation hardly depends on what else is translated, on CUDA neither. `family` is the
        class of a model that is not ours.
        """
        if family is not None:
            register(family)
        if any(isinstance(model, list | tuple) for model in models):
            raise TypeError("load takes each model by itself: load(one, another)")
        if engine not in ENGINES:
            raise ConfigError(f"engine {engine!r} is unknown; choose one of {', '.join(ENGINES)}")
        where = choose_device("cpu" if device == "auto" and engine == "ctranslate2" else device)
        return cls(*open_engine([Path(path) for path in models], engine, where, precision=precision))

    @property
    def engine(self) -> Engine:
        """What computes. Its threads do not live on in a process that was forked from this one, which would wait."""
        if os.getpid() != self._process and not self._engine.outlives_fork:
            raise DeviceError(
                "this translator was loaded before the process was forked; load one in each process, or start them "
                'with multiprocessing.get_context("spawn")'
            )
        return self._engine

    @property
    def source_language(self) -> str:
        """The code of the language it translates from."""
        return self.config.data.source_language

    @property
    def target_language(self) -> str:
        """The code of the language it translates into."""
        return self.config.data.target_language

    def translate(
        self,
        texts: Iterable[str],
        *,
        options: SearchOptions | None = None,
        prefixes: Iterable[str] | None = None,
        split: bool = True,
    ) -> list[Translation]:
        """One translation for each text, in order; sentence by sentence unless told not to split.

        `msgspec.structs.replace(translator.options, n_best=4)` changes one of the model's own options; a new
        `SearchOptions` starts from the paper's values.
        """
        return list(self.translate_lines(texts, options=options, prefixes=prefixes, split=split))

    def translate_lines(
        self,
        lines: Iterable[str],
        *,
        options: SearchOptions | None = None,
        prefixes: Iterable[str] | None = None,
        split: bool = True,
        first_line: int = 0,
        first_window: int = FIRST_WINDOW,
    ) -> Iterator[Translation]:
        """The same as a stream.

        A translation begins with its prefix: its first sentence does. A line is not split whose prefix has more
        sentences than one. `first_line` lines of the whole input stand before these: samples follow from a line's
        number. The first result waits for the first window of lines.
        """
        if isinstance(lines, str) or isinstance(prefixes, str):
            raise TypeError("lines, and prefixes, are several texts; put the text in brackets: [text]")
        if options is not None and not isinstance(options, SearchOptions):
            raise TypeError(f"options are SearchOptions, such as SearchOptions(beam_size=8), not {options!r}")
        numbered = enumerate(_with_prefixes(lines, prefixes), first_line)
        return self._stream(windows(numbered, first=first_window), options or self.options, split)

    def _stream(
        self, numbered: Iterable[Sequence[tuple[int, tuple[str, str]]]], options: SearchOptions, split: bool
    ) -> Iterator[Translation]:
        read, ahead = tee(self._read(window, options, split) for window in numbered)
        requests = ([request for line in window for request in line.requests] for window in ahead)
        found = self.engine.translate_windows(requests, options)
        for line in chain.from_iterable(read):
            yield self._translation(line, list(islice(found, len(line.parts))), options)

    def translate_batch(
        self, texts: Sequence[str], options: SearchOptions | None = None
    ) -> Iterator[tuple[int, Translation]]:
        """The number of each text and its translation, as soon as each is found; a text is not split."""
        options = options or self.options
        lines = self._read([(number, (text, "")) for number, text in enumerate(texts)], options, split=False)
        owners = [number for number, line in enumerate(lines) for _ in line.parts]
        found: list[dict[int, list[Hypothesis]]] = [{} for _ in lines]
        yield from ((number, _blank(line)) for number, line in enumerate(lines) if not line.parts)
        requests = [request for line in lines for request in line.requests]
        for place, hypotheses in self.engine.translate_batch(requests, options):
            number = owners[place]
            found[number][place] = hypotheses
            if len(found[number]) == len(lines[number].parts):
                in_order = [part for _, part in sorted(found[number].items())]
                yield number, self._translation(lines[number], in_order, options)

    def score(self, pairs: Iterable[tuple[str, str]]) -> Iterator[ScoredPair]:
        """How likely given translations are, as a stream; pairs of any length are scored whole."""
        texts, ahead = tee(_checked(pairs))
        encoded, ids = tee(self.tokenizer.encode_batch([one_line(text) for text in pair]) for pair in ahead)
        scores = self.engine.score((source, target) for source, target in ids)
        for (source, target), (_, target_ids), log_probs in zip(texts, encoded, scores, strict=False):
            if any(map(math.isnan, log_probs)):
                raise DivergedError
            pieces = self.tokenizer.pieces([*target_ids, self.tokenizer.eos_id])
            yield ScoredPair(source, target, tuple(pieces), tuple(log_probs))

    def _read(self, window: Sequence[tuple[int, tuple[str, str]]], options: SearchOptions, split: bool) -> list[_Line]:
        """Split and encode numbered lines, each with its prefix; encoding many together is much faster."""
        segments = [self._segments(one_line(text.rstrip("\r\n")), prefix, split) for _, (text, prefix) in window]
        ids = iter(self._encoded(list(chain.from_iterable(segments))))
        lines = []
        for (number, (text, prefix)), each in zip(window, segments, strict=True):
            line = self._line(number, text.rstrip("\r\n"), prefix, each, ids)
            _check_prefix(line, options)
            lines.append(line)
        return lines

    def _segments(self, text: str, prefix: str, split: bool) -> list[str]:
        """The sentences of a line, or all of it."""
        if not split or len(sentences(prefix, self.target_language)) > 1:
            return [text]
        return sentences(text, self.source_language)

    def _line(self, number: int, source: str, prefix: str, segments: Sequence[str], ids: Iterator[list[int]]) -> _Line:
        """A line in parts; `ids` gives those of its segments next."""
        cut = [self.cutter.parts(segment, next(ids)) for segment in segments]
        first, *others = cut or [()]
        parts = [*first, *chain.from_iterable(_after_a_space(each) for each in others)]
        prefix_ids = self.tokenizer.encode(one_line(prefix)) if prefix else ()
        return _Line(source, tuple(parts), any(len(each) > 1 for each in cut), prefix_ids, number)

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        if len(texts) < FEW_TEXTS:
            return list(map(self.tokenizer.encode, texts))
        ids_T, lengths_N = self._bulk.encode(texts)
        ids, ends = ids_T.tolist(), np.cumsum(lengths_N).tolist()
        return [ids[end - length : end] for end, length in zip(ends, lengths_N.tolist(), strict=True)]

    def _translation(self, line: _Line, found: Sequence[Sequence[Hypothesis]], options: SearchOptions) -> Translation:
        """The n-th translation of a line is the one with the n-th greatest sum of the scores of its parts."""
        if not line.parts:
            return _blank(line)
        ranks = _samples(found) if options.sampling else _best(found, options.n_best)
        glues = tuple([part.glue for part in line.parts])
        texts = [(self.joined([part.ids for part in rank], glues), rank) for rank in ranks]
        hypotheses = tuple([TextHypothesis(text, rank, self.tokenizer, self.target_language) for text, rank in texts])
        source_ids = tuple([tuple(part.ids) for part in line.parts])
        return Translation(line.source, hypotheses[0].text, hypotheses, len(line.parts), source_ids, glues, line.is_cut)

    def joined(self, parts: Sequence[Sequence[int]], glues: Sequence[str]) -> str:
        """The text of a line whose parts were translated into these ids."""
        texts = [one_line(self.tokenizer.decode(ids)) for ids in parts]
        if self._is_side_by_side:
            return "".join(texts)
        if len(texts) == 1:
            return texts[0].strip()
        return "".join([glue + text for glue, text in zip(glues, texts, strict=True)]).strip()


def _after_a_space(parts: Sequence[TextPart]) -> list[TextPart]:
    """The parts of a sentence that another one stands before."""
    return [part if place else part._replace(glue=" ") for place, part in enumerate(parts)]


def _samples(found: Sequence[Sequence[Hypothesis]]) -> list[tuple[Hypothesis, ...]]:
    """The n-th sample of a line is made of the n-th of each part: choosing among them would make them no samples."""
    return list(zip(*found, strict=False))


def _best(found: Sequence[Sequence[Hypothesis]], count: int) -> list[tuple[Hypothesis, ...]]:
    if len(found) == 1:
        return list(zip(found[0]))
    ranks = best_combinations([[each.score for each in part] for part in found], count)
    return [tuple(part[rank] for part, rank in zip(found, each, strict=True)) for each in ranks]


def _checked(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Pairs of texts; a text of two letters would be taken for one."""
    for number, pair in enumerate(pairs, 1):
        texts = tuple(pair) if isinstance(pair, Iterable) and not isinstance(pair, str) else ()
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"score takes pairs of texts, [(source, target)]; pair {number} is {pair!r}")
        yield texts


def _with_prefixes(lines: Iterable[str], prefixes: Iterable[str] | None) -> Iterator[tuple[str, str]]:
    """Each line with its prefix; there must be as many of these as of those."""
    pairs = zip(lines, repeat("")) if prefixes is None else zip_longest(lines, prefixes, fillvalue=_NONE)
    for number, pair in enumerate(pairs):
        if _NONE in pair:
            raise DataError(_uneven(number, *(("line", "prefixes") if pair[0] is _NONE else ("prefix", "lines"))))
        for text in pair:
            if not isinstance(text, str):
                raise TypeError(f"lines and prefixes are texts; in line {number + 1}, {text!r} is no string")
        yield pair


def _uneven(number: int, fewer: str, more: str) -> str:
    """Which there are fewer of, and how many; the others may not all have been read."""
    plural = {"line": "lines", "prefix": "prefixes"}[fewer]
    return (
        f"there {'is' if number == 1 else 'are'} {number} {fewer if number == 1 else plural} and more {more} than "
        f"that; give one prefix for each line, an empty one where the translation may begin as it likes"
    )


def _check_prefix(line: _Line, options: SearchOptions) -> None:
    """As the engine will, which does not know the line's number."""
    try:
        for request in line.requests if line.prefix_ids else ():
            length_limit(request, options, position_limit=sys.maxsize)
    except DataError as error:
        raise DataError(f"line {line.number + 1}: {error}") from None


def _blank(line: _Line) -> Translation:
    return Translation(line.source, "", (), 0)


def one_line(text: str) -> str:
    """The text with a space for every line break of any kind."""
    return text if text.isprintable() else " ".join(text.splitlines())
