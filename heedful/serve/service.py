"""Which model translates what: language pairs, detection, and the way of a request's texts through the queue.

Several models give several pairs; several of one pair translate together, as an ensemble. The service speaks of
languages and texts; it knows no HTTP.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from heedful.data import language_id
from heedful.data.language_id import LanguageModel
from heedful.data.languages import has_spaces
from heedful.errors import ConfigError
from heedful.model.checkpoint import find_model, load_config
from heedful.model.device import ONE_THREAD
from heedful.serve.limits import RefusalError
from heedful.serve.queue import BatchQueue, QueueClosedError, QueueFullError
from heedful.serve.serving import ServingTranslator
from heedful.translate.alignment import Aligner, Alignment, choice_for
from heedful.translate.combining import best_combinations
from heedful.translate.ctranslate2_engine import CTranslate2Engine
from heedful.translate.documents.markup import Markup
from heedful.translate.documents.paragraphs import Division, Document
from heedful.translate.opening import AutoEngine
from heedful.translate.torch_engine import TorchEngine
from heedful.translate.translation import Translation, Translator

AUTO = "auto"
FORMATS = ("text", "html")
MUCH_TEXT = 2_000  # characters
SURE = 0.9  # of a language, to refuse a text in it;
FEW_LETTERS = 0.5  # and of its letters no more are used by any language that could be translated
MOST_LOOKING = 64  # requests that wait to look inside
Result = TypeVar("Result")
log = logging.getLogger("uvicorn.error")


@dataclass(frozen=True, slots=True)
class Pair:
    """A direction that can be translated, and with what."""

    translator: ServingTranslator
    folder: Path | None = None  # the first of its models, as it was named
    languages: LanguageModel = field(default_factory=LanguageModel)

    @property
    def source(self) -> str:
        """The code of the language it translates from."""
        return self.translator.source_language

    @property
    def target(self) -> str:
        """The code of the language it translates into."""
        return self.translator.target_language


def load_pairs(models: Sequence[Path | Translator], *, device: str = "auto", engine: str = "auto") -> list[Pair]:
    """Load the models of all pairs; a translator is taken as it is."""
    pairs = [Pair(ServingTranslator.of(model)) for model in models if isinstance(model, Translator)]
    folders: dict[tuple[str, str], list[Path]] = {}
    for model in models:
        if isinstance(model, Path):
            data = load_config(find_model(model).config).data
            folders.setdefault((data.source_language, data.target_language), []).append(model)
    for names in folders.values():
        home = find_model(names[0]).config.parent
        translator = Translator.load(*names, device=device, engine=engine)
        pairs.append(Pair(ServingTranslator.of(translator), names[0], language_id.load(home)))
    _check_languages(pairs)
    return pairs


def num_workers(pairs: Sequence[Pair]) -> int:
    """Batches that may be under way at once: our engine takes one; CTranslate2 one for each thread of its own, and one
    more, so that they go on while Python reads and writes."""
    engines = [pair.translator.engine for pair in pairs]
    fast = [engine.fast if isinstance(engine, AutoEngine) else engine for engine in engines]
    return min(engine.workers + 1 if isinstance(engine, CTranslate2Engine) else 1 for engine in fast)


def _for_other_threads(translator: Translator) -> Translator:
    """Whose weights another thread than the one that translates may use: on some devices a copy on the CPU."""
    engine = translator.engine
    if not isinstance(engine, TorchEngine) or engine.device.type not in ONE_THREAD:
        return translator
    twins = [copy.deepcopy(model).to("cpu") for model in engine.models]
    return Translator(TorchEngine(*twins), translator.tokenizer, translator.config)


def _for_looking(translator: Translator) -> Translator:
    """The same weights in the torch engine, in modules of its own: what is looked into may compute beside the rest."""
    engine = translator.engine
    if isinstance(engine, AutoEngine):
        return Translator(engine.torch, translator.tokenizer, translator.config)  # which translates nothing itself
    if not isinstance(engine, TorchEngine):
        return translator
    twins = [copy.deepcopy(model, {id(weight): weight for weight in model.parameters()}) for model in engine.models]
    return Translator(TorchEngine(*twins), translator.tokenizer, translator.config)


def _aligner(pair: Pair, translator: Translator) -> Aligner | None:
    """Says which word comes from which; an engine that shows no attention cannot."""
    engine = translator.engine
    if pair.folder is not None:
        return Aligner.load(pair.folder, device=engine.device.type if isinstance(engine, TorchEngine) else "cpu")
    looking = _for_looking(translator)
    if not isinstance(looking.engine, TorchEngine):
        return None
    model, tokenizer = looking.engine.models[0], looking.tokenizer
    languages = pair.source, pair.target
    return Aligner(model, tokenizer, choice_for(model, tokenizer, languages), languages)


def _check_languages(pairs: Sequence[Pair]) -> None:
    if not pairs:
        raise ConfigError("no model is given")
    for pair in pairs:
        if not (pair.source and pair.target):
            where = find_model(pair.folder).config if pair.folder else "a model"
            raise ConfigError(f"{where}: data.source_language or data.target_language is not set; set it there")


@dataclass(frozen=True, slots=True)
class Answer:
    """The translation of one text; `confidence` (0 to 1) only where its language was guessed."""

    text: str
    alternatives: tuple[str, ...]
    language: str
    confidence: float | None


@dataclass(frozen=True, slots=True)
class Side:
    """A text in its language, divided into sentences."""

    language: str
    document: Document


@dataclass(frozen=True, slots=True)
class _Order:
    """One text of a request, split, and who translates it (None: it is in the target's language already)."""

    text: str
    split: Document | Markup
    language: str
    confidence: float | None
    pair: Pair | None

    def wanted(self, ranks: Sequence[Sequence[_Ranked]]) -> list[_Ranked]:
        """The translations whose alignment shows where inline tags go."""
        tagged = self.split.tagged if isinstance(self.split, Markup) else ()
        return list(dict.fromkeys(rank[n] for rank in ranks for n in tagged if rank[n].translation.hypotheses))

    def answer(
        self, ranks: Sequence[Sequence[_Ranked]], target: str, alignments: Mapping[_Ranked, Alignment]
    ) -> Answer:
        if self.pair is None:
            return Answer(self.text, (), self.language, self.confidence)
        best, *others = dict.fromkeys(self._joined(each, target, alignments) for each in ranks)
        return Answer(best, tuple(others), self.language, self.confidence)

    def _joined(self, found: Sequence[_Ranked], target: str, alignments: Mapping[_Ranked, Alignment]) -> str:
        texts = [each.text for each in found]
        if isinstance(self.split, Document):
            return self.split.join(texts, target)
        known = {n: alignments[each] for n, each in enumerate(found) if each in alignments}
        return self.split.join(texts, target, known)


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The n-th best translation of a sentence."""

    translation: Translation
    rank: int

    def __len__(self) -> int:
        return len(self.translation.source)

    @property
    def text(self) -> str:
        """As the client gets it."""
        return self.translation.hypotheses[self.rank].text if self.translation.hypotheses else self.translation.text


def _ranked(found: Sequence[Translation], count: int) -> list[list[_Ranked]]:
    """The best translations of a text, each as those of its sentences: the n-th has the n-th greatest sum of scores."""
    scores = [[hypothesis.score for hypothesis in each.hypotheses] or [0.0] for each in found]
    return [list(map(_Ranked, found, ranks)) for ranks in best_combinations(scores, count)]


class Service:
    """All that is served."""

    def __init__(self, pairs: Sequence[Pair], queue: BatchQueue) -> None:
        self.pairs = {(pair.source, pair.target): pair for pair in pairs}
        self.queue, self.looking = queue, BatchQueue(max_waiting=MOST_LOOKING, max_batch=1)
        self.aligning = BatchQueue(max_waiting=queue.max_waiting)
        self._for_others = {key: _for_other_threads(pair.translator) for key, pair in self.pairs.items()}
        self._insights: dict[tuple[str, str], Translator] = {}
        self._aligners: dict[tuple[str, str], Aligner | None] = {}
        self.characters = 0  # that were translated
        self.detector = language_id.merge([pair.languages for pair in pairs])

    @property
    def languages(self) -> dict[str, list[str]]:
        """The code of each language, and those that it can be translated into."""
        codes = dict.fromkeys(code for pair in self.pairs for code in pair)
        return {code: [target for source, target in self.pairs if source == code] for code in codes}

    @property
    def default(self) -> Pair:
        """The first one."""
        return next(iter(self.pairs.values()))

    def pair(self, source: str, target: str) -> Pair:
        """Who translates this direction."""
        for code in (source, target):
            if code not in self.languages:
                raise RefusalError(400, f"{code[:20]} is not supported")
        if (source, target) not in self.pairs:
            raise RefusalError(400, f"{source} to {target} is not supported")
        return self.pairs[source, target]

    def detect(self, text: str) -> list[tuple[str, float]]:
        """The languages that we know, the likeliest first; without statistics, the source of the first pair."""
        return self.detector.detect(text) or [(self.default.source, 0.0)]

    def guesses(self, text: str, target: str) -> list[tuple[str, float]]:
        """Of the languages that can be translated into the target, itself included, the likeliest first.

        Text that is surely in another one, and in another script, is refused; a name may be of any language.
        """
        sources = [source for source, into in self.pairs if into == target]
        if not sources:
            raise RefusalError(400, f"{target[:20]} is not supported")
        found = self.detect(text)
        possible = [item for item in found if item[0] in (*sources, target)]
        if found[0] not in possible and found[0][1] > SURE and self._is_strange(text, possible):
            raise RefusalError(400, f"{found[0][0]} to {target} is not supported")
        return possible or [(sources[0], 0.0)]

    def _is_strange(self, text: str, languages: Sequence[tuple[str, float]]) -> bool:
        """Is it written in letters that none of these languages uses?"""
        shares = (self.detector.share_of_letters(text, code) for code, _ in languages)
        return max(shares, default=0.0) < FEW_LETTERS

    async def translate(
        self,
        texts: Sequence[str],
        *,
        source: str,
        target: str,
        form: str = "text",
        num_alternatives: int = 0,
        division: Division | None = None,
    ) -> list[Answer]:
        """The answers to all texts of a request, in order."""
        orders = await _beside(sum(map(len, texts)), self._orders, texts, source, target, form, division)
        found = {id(pair): await self._solve(pair, orders, num_alternatives) for pair in _pairs(orders)}
        answers = []
        for order in orders:
            mine = [next(found[id(order.pair)]) for _ in order.split.units] if order.pair else []
            ranks = await _beside(len(order.text), _ranked, mine, num_alternatives + 1)
            alignments = await self._align(order, ranks)
            answers.append(await _beside(len(order.text), order.answer, ranks, target, alignments))
        self.characters += sum(map(len, texts))
        return answers

    async def translate_apart(
        self, text: str, *, source: str, target: str, division: Division | None = None
    ) -> tuple[Side, Side]:
        """A text and its translation, sentence by sentence: those that `translate` divides it into."""
        (order,) = await _beside(len(text), self._orders, [text], source, target, "text", division)
        document = order.split
        assert isinstance(document, Document)
        translated = document
        if order.pair is not None:
            found = await self._solve(order.pair, [order], 0)
            translated = document.translated([_Ranked(each, 0).text for each in found], target)
        self.characters += len(text)
        return Side(order.language, document), Side(target, translated)

    async def _align(self, order: _Order, ranks: Sequence[Sequence[_Ranked]]) -> Mapping[_Ranked, Alignment]:
        """Which word comes from which, where tags depend on it. Without that, a translation is still an answer: then
        tags go word for word."""
        wanted = order.wanted(ranks)
        if not wanted or order.pair is None:
            return {}
        key, align = (order.pair.source, order.pair.target), partial(self._alignments, order.pair)
        try:
            return dict(zip(wanted, await self.aligning.run(key, align, wanted), strict=True))
        except (QueueFullError, QueueClosedError):
            return {}
        except Exception:
            log.exception("%s-%s: a translation could not be aligned", *key)
            return {}

    def _alignments(self, pair: Pair, wanted: Sequence[_Ranked]) -> Iterator[tuple[int, Alignment]]:
        """In the one thread that aligns, with a model of its own."""
        aligner = self._aligner(pair)
        for number, each in enumerate(wanted):
            yield number, aligner.align_translation(each.translation, each.rank) if aligner else ()

    def _aligner(self, pair: Pair) -> Aligner | None:
        """Loaded once, by that thread; one that cannot be loaded is not tried again."""
        key = (pair.source, pair.target)
        if key not in self._aligners:
            try:
                self._aligners[key] = _aligner(pair, self._for_others[key])
            except Exception:
                log.exception("%s-%s: no model to align with", *key)
                self._aligners[key] = None
        return self._aligners[key]

    async def prepare_aligning(self) -> None:
        """Load, and choose heads, before the first HTML waits for it."""
        for pair in self.pairs.values():
            if has_spaces(pair.source) and has_spaces(pair.target):
                await self.aligning.call(partial(self._aligner, pair))

    async def look(self, pair: Pair, function: Callable[[Translator], Result]) -> Result:
        """What this function finds in a pair's model. Who looks has a queue of his own, and holds up no translation."""
        return await self.looking.call(lambda: function(self._insight(pair)))

    def _insight(self, pair: Pair) -> Translator:
        """Made when it is first asked for, by the one thread that looks."""
        key = (pair.source, pair.target)
        if key not in self._insights:
            self._insights[key] = _for_looking(self._for_others[key])
        return self._insights[key]

    @property
    def queues(self) -> tuple[BatchQueue, ...]:
        """All that have workers."""
        return self.queue, self.aligning, self.looking

    def close(self) -> None:
        """Finish what is there."""
        for queue in self.queues:
            queue.close()

    def _orders(
        self, texts: Sequence[str], source: str, target: str, form: str, division: Division | None
    ) -> list[_Order]:
        return [self._order(text, source, target, form, division) for text in texts]

    def _order(self, text: str, source: str, target: str, form: str, division: Division | None) -> _Order:
        if form not in FORMATS:
            raise RefusalError(400, f"{form[:20]} format is not supported")
        kind, confidence = Markup if form == "html" else Document, None
        if source == AUTO:
            source, confidence = self.guesses(" ".join(kind.of(text).units), target)[0]
        split = kind.of(text, source, division) if division else kind.of(text, source)
        pair = None if source == target and source in self.languages else self.pair(source, target)
        if isinstance(split, Markup) and not (has_spaces(source) and has_spaces(target)):
            split = split.divided()
        return _Order(text, split, source, confidence, pair)

    async def _solve(self, pair: Pair, orders: Sequence[_Order], num_alternatives: int) -> Iterator[Translation]:
        options = pair.translator.options
        n_best = num_alternatives + 1
        options = replace(options, n_best=n_best, beam_size=max(options.beam_size, n_best), token_scores=False)
        units = [unit for order in orders if order.pair is pair for unit in order.split.units]
        solve = partial(pair.translator.translate_batch, options=options)
        return iter(await self.queue.run((pair.source, pair.target, options), solve, units))


async def _beside(size: int, function: Callable[..., Result], *arguments: Any) -> Result:
    """Call the function; in a thread if it has much text to go through, so that nobody waits for it."""
    return await asyncio.to_thread(function, *arguments) if size > MUCH_TEXT else function(*arguments)


def _pairs(orders: Sequence[_Order]) -> list[Pair]:
    return list({id(order.pair): order.pair for order in orders if order.pair is not None}.values())
