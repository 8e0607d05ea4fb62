"""The texts of a request: detect their language, translate them through the queue, and align their inline tags.

It knows languages and texts, but no HTTP.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from heedful.data import language_detection
from heedful.data.languages import has_spaces
from heedful.errors import HeedfulError
from heedful.model.device import ONE_THREAD
from heedful.serve.language_pairs import LanguagePair
from heedful.serve.limits import RefusalError
from heedful.serve.queue import BatchQueue, QueueClosedError, QueueFullError
from heedful.serve.translation_task import Answer, RankedSentence, SplitText, TranslationTask, best_translations
from heedful.translate.alignment import Aligner, Alignment, choice_for
from heedful.translate.documents.markup import Markup
from heedful.translate.documents.paragraphs import Division, Document
from heedful.translate.engine import SearchOptions
from heedful.translate.open_engine import search_engine
from heedful.translate.translation import Translation, Translator

AUTO = "auto"
FORMATS = ("text", "html")
MUCH_TEXT = 2_000  # characters
SURE = 0.9  # a text is refused if its language is at least this probable,
FEW_LETTERS = 0.5  # and each language that could be translated uses less than this share of its letters
MOST_LOOKING = 64  # requests that wait to look inside
Result = TypeVar("Result")
log = logging.getLogger("uvicorn.error")


def num_workers(pairs: Sequence[LanguagePair]) -> int:
    """Batches that may be under way at once: our engine takes one; CTranslate2 one for each thread of its own, and one
    more, so that they go on while Python reads and writes."""
    return min(pair.translator.engine.workers for pair in pairs)


def _for_other_threads(translator: Translator) -> Translator:
    """Whose weights another thread than the one that translates may use: on some devices a copy on the CPU."""
    engine = translator.engine
    if engine.device.type not in ONE_THREAD:
        return translator
    twins = [copy.deepcopy(model).to("cpu") for model in engine.models]
    return Translator(search_engine(*twins), translator.tokenizer, translator.config)


def _for_looking(translator: Translator) -> Translator:
    """The same weights in the torch engine, in modules of its own: what is looked into may compute beside the rest."""
    models = translator.engine.models
    if not models:
        return translator
    twins = [copy.deepcopy(model, {id(weight): weight for weight in model.parameters()}) for model in models]
    return Translator(search_engine(*twins), translator.tokenizer, translator.config)


def _aligner(pair: LanguagePair, translator: Translator) -> Aligner | None:
    """Says which word comes from which; an engine that shows no attention cannot."""
    if pair.folder is not None:
        return Aligner.load(pair.folder, device=translator.engine.device.type)
    looking = _for_looking(translator)
    if not looking.engine.models:
        return None
    model, tokenizer = looking.engine.models[0], looking.tokenizer
    languages = pair.source, pair.target
    return Aligner(model, tokenizer, choice_for(model, tokenizer, languages), languages)


def translate_sentences(
    translator: Translator, options: SearchOptions, texts: Sequence[str]
) -> Iterator[tuple[int, Translation]]:
    """The number of each sentence and its translation, as they are found.

    A text without a letter or a digit (a dash, a bullet, the full stop after a tag) means the same in every language
    and is kept: a model would make a sentence of it.
    """
    numbers = [number for number, text in enumerate(texts) if any(map(str.isalnum, text))]
    for place, translation in translator.translate_batch([texts[number] for number in numbers], options):
        yield numbers[place], translation
    yield from ((n, Translation(text, text, (), 0)) for n, text in enumerate(texts) if not any(map(str.isalnum, text)))


class Service:
    """Detects, translates and aligns for all clients; each kind of work has a queue."""

    def __init__(self, pairs: Sequence[LanguagePair], queue: BatchQueue) -> None:
        self.pairs = {(pair.source, pair.target): pair for pair in pairs}
        self.queue, self.looking = queue, BatchQueue(max_waiting=MOST_LOOKING, max_batch=1)
        self.aligning = BatchQueue(max_waiting=queue.max_waiting)
        self._for_others = {pair: _for_other_threads(pair.translator) for pair in self.pairs.values()}
        self._look_models: dict[LanguagePair, Translator] = {}
        self._aligners: dict[LanguagePair, Aligner | None] = {}
        self.characters = 0  # that were translated
        self.detector = language_detection.merge([pair.languages for pair in pairs])

    @property
    def languages(self) -> dict[str, list[str]]:
        """The code of each language, and the languages that it can be translated into."""
        codes = dict.fromkeys(code for pair in self.pairs for code in pair)
        return {code: [target for source, target in self.pairs if source == code] for code in codes}

    @property
    def default(self) -> LanguagePair:
        """The first language pair."""
        return next(iter(self.pairs.values()))

    def pair(self, source: str, target: str) -> LanguagePair:
        """The pair that translates this direction."""
        for code in (source, target):
            if code not in self.languages:
                raise RefusalError(400, f"{code[:20]} is not supported")
        if (source, target) not in self.pairs:
            raise RefusalError(400, f"{source} to {target} is not supported")
        return self.pairs[source, target]

    def detect(self, text: str) -> list[tuple[str, float]]:
        """The likeliest languages first; without statistics, the source language of the first pair."""
        return self.detector.detect(text) or [(self.default.source, 0.0)]

    def guesses(self, text: str, target: str) -> list[tuple[str, float]]:
        """The likeliest first of the languages that can be translated into the target, and the target itself.

        Text that is surely in another language and in another script is refused. A name may be of any language.
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
        """Whether the text is written in letters that none of these languages uses."""
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
        tasks = await _in_thread_if_long(sum(map(len, texts)), self._tasks, texts, source, target, form, division)
        pairs = dict.fromkeys(task.pair for task in tasks if task.pair)
        found = {pair: await self._solve(pair, tasks, num_alternatives) for pair in pairs}
        answers = []
        for task in tasks:
            mine = [next(found[task.pair]) for _ in task.split.units] if task.pair else []
            ranks = await _in_thread_if_long(len(task.text), best_translations, mine, num_alternatives + 1)
            alignments = await self._align(task, ranks)
            answers.append(await _in_thread_if_long(len(task.text), task.answer, ranks, target, alignments))
        self.characters += sum(map(len, texts))
        return answers

    async def translate_apart(
        self, text: str, *, source: str, target: str, division: Division | None = None
    ) -> tuple[SplitText, SplitText]:
        """A text and its translation, both in the sentences that `translate` divides the text into."""
        (task,) = await _in_thread_if_long(len(text), self._tasks, [text], source, target, "text", division)
        document = task.split
        assert isinstance(document, Document)
        translated = document
        if task.pair is not None:
            found = await self._solve(task.pair, [task], 0)
            translated = document.translated([RankedSentence(each, 0).text for each in found], target)
        self.characters += len(text)
        return SplitText(task.language, document), SplitText(target, translated)

    async def _align(
        self, task: TranslationTask, ranks: Sequence[Sequence[RankedSentence]]
    ) -> Mapping[RankedSentence, Alignment]:
        """The alignments that inline tags need; none if the queue is full or fails: tags then go word for word."""
        to_align = task.to_align(ranks)
        if not to_align or task.pair is None:
            return {}
        align = partial(self._alignments, task.pair)
        try:
            return dict(zip(to_align, await self.aligning.run(task.pair, align, to_align), strict=True))
        except (QueueFullError, QueueClosedError):
            return {}
        except Exception:
            log.exception("%s-%s: a translation could not be aligned", task.pair.source, task.pair.target)
            return {}

    def _alignments(self, pair: LanguagePair, to_align: Sequence[RankedSentence]) -> Iterator[tuple[int, Alignment]]:
        """Runs in the aligning thread, with a model of its own."""
        aligner = self._aligner(pair)
        for number, each in enumerate(to_align):
            yield number, aligner.align_translation(each.translation, each.rank) if aligner else ()

    def _aligner(self, pair: LanguagePair) -> Aligner | None:
        """The pair's aligner, loaded once by that thread; a failed load is not tried again."""
        if pair not in self._aligners:
            self._aligners[pair] = None
            try:
                self._aligners[pair] = _aligner(pair, self._for_others[pair])
            except HeedfulError as error:
                log.error("%s-%s: tags in HTML are placed word for word: %s", pair.source, pair.target, error)
            except Exception:
                log.exception("%s-%s: no model to align with", pair.source, pair.target)
        return self._aligners[pair]

    async def prepare_aligning(self) -> None:
        """Load the aligners before the first request with HTML needs one."""
        for pair in self.pairs.values():
            if has_spaces(pair.source) and has_spaces(pair.target):
                await self.aligning.call(partial(self._aligner, pair))

    async def look(self, pair: LanguagePair, function: Callable[[Translator], Result]) -> Result:
        """Call the function with a pair's model, in a queue of its own, so that no translation waits for it."""
        return await self.looking.call(lambda: function(self._look_model(pair)))

    def _look_model(self, pair: LanguagePair) -> Translator:
        """The pair's model for `look`, made by that thread when it is first needed."""
        if pair not in self._look_models:
            self._look_models[pair] = _for_looking(self._for_others[pair])
        return self._look_models[pair]

    @property
    def queues(self) -> tuple[BatchQueue, ...]:
        """All queues."""
        return self.queue, self.aligning, self.looking

    def close(self) -> None:
        """Finish all queued work."""
        for queue in self.queues:
            queue.close()

    def _tasks(
        self, texts: Sequence[str], source: str, target: str, form: str, division: Division | None
    ) -> list[TranslationTask]:
        return [self._task(text, source, target, form, division) for text in texts]

    def _task(self, text: str, source: str, target: str, form: str, division: Division | None) -> TranslationTask:
        if form not in FORMATS:
            raise RefusalError(400, f"{form[:20]} format is not supported")
        kind, confidence = Markup if form == "html" else Document, None
        if source == AUTO:
            source, confidence = self.guesses(" ".join(kind.of(text).units), target)[0]
        split = kind.of(text, source, division) if division else kind.of(text, source)
        pair = None if source == target and source in self.languages else self.pair(source, target)
        if isinstance(split, Markup) and not (has_spaces(source) and has_spaces(target)):
            split = split.divided()
        return TranslationTask(text, split, source, confidence, pair)

    async def _solve(
        self, pair: LanguagePair, tasks: Sequence[TranslationTask], num_alternatives: int
    ) -> Iterator[Translation]:
        own, n_best = pair.translator.options, num_alternatives + 1
        width = max(own.beam_size, n_best)
        options = msgspec.structs.replace(own, n_best=n_best, beam_size=width, token_scores=False)
        units = [unit for task in tasks if task.pair is pair for unit in task.split.units]
        solve = partial(translate_sentences, pair.translator, options)
        return iter(await self.queue.run((pair, options), solve, units))


async def _in_thread_if_long(size: int, function: Callable[..., Result], *arguments: Any) -> Result:
    """Call the function, in a thread if the text is long, so that it does not block other requests."""
    return await asyncio.to_thread(function, *arguments) if size > MUCH_TEXT else function(*arguments)
