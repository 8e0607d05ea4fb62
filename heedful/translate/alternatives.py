"""What else a word could have been, and how sure the model is of each.

The alternatives for a word are the likeliest tokens behind all that stands before it, of those that begin a word or end
the translation; each is finished to a whole word, and to a whole translation, by the search that made the translation.
The confidence in a word is the probability of its pieces, given what stands before them. Words are those of
`data/words.py`, counted from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import compress

import msgspec

from heedful.data.tokenizer import Tokenizer
from heedful.data.words import apart, could_begin, num_words, pieces_of_words, word_of_piece
from heedful.errors import ConfigError, DataError, counted
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.search import Hypothesis
from heedful.translate.translation import TextHypothesis, Translation, Translator


@dataclass(frozen=True, slots=True)
class WordConfidence:
    """A word of a translation and the model's probability of it."""

    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class Alternative:
    """A word that could stand at a place, the probability of the piece it begins with, and the line that follows."""

    word: str  # empty: the translation ends before this place
    probability: float
    text: str


def word_confidences(hypothesis: TextHypothesis) -> list[WordConfidence]:
    """The words of a translation, each with its probability; empty where the engine gave no token scores."""
    return [word for part in hypothesis.parts for word in _words(part, hypothesis.tokenizer, hypothesis.language)]


def _words(part: Hypothesis, tokenizer: Tokenizer, language: str) -> list[WordConfidence]:
    if not part.token_log_probs:
        return []
    return [
        WordConfidence(
            tokenizer.decode([part.ids[p] for p in group]), math.exp(sum(part.token_log_probs[p] for p in group))
        )
        for group in pieces_of_words(apart(tokenizer.pieces(part.ids), language))
    ]


def alternatives_at(
    translator: Translator,
    translation: Translation,
    position: int,
    *,
    count: int = 5,
    options: SearchOptions | None = None,
) -> list[Alternative]:
    """The likeliest words at this position of the best translation, likeliest first.

    Its own word is among them, unless `count` others begin with likelier pieces.
    """
    part_number, begin = _place(translator, translation, position)
    part = translation.hypotheses[0].parts[part_number]
    request = Request(translation.source_ids[part_number], part.ids[:begin])
    eos = translator.tokenizer.eos_id
    wanted = msgspec.structs.replace(options or translator.options, n_best=1, sampling=None, token_scores=False)
    limit = min(len(request.source_ids) + wanted.max_extra, translator.config.model.position_limit - 1)
    own = (eos, *part.ids[begin : begin + 1])
    next_tokens = _next_tokens(translator, request, own, count)
    found = [each for each in next_tokens if begin < limit or each[0] == eos][:count]  # at the limit it can only end
    requests = [replace(request, prefix_ids=(*request.prefix_ids, token)) for token, _ in found if token != eos]
    finished = iter(list(translator.engine.translate(requests, wanted)))
    result = []
    for token, probability in found:
        ids = tuple(request.prefix_ids) if token == eos else next(finished)[0].ids
        word = _word_at(translator, ids, begin)
        result.append(Alternative(word, probability, _line(translator, translation, part_number, ids)))
    return result


def _next_tokens(translator: Translator, request: Request, own: tuple[int, ...], count: int) -> list[tuple[int, float]]:
    """All that begin a word, and `own`, which may come whatever they are; likeliest first."""
    if count < 1:
        raise ConfigError(f"{count} alternatives cannot be given; ask for 1 or more")
    tokenizer = translator.tokenizer
    likeliest = translator.engine.next_tokens(request, tokenizer.vocab_size)
    pieces = tokenizer.pieces(token for token, _ in likeliest)
    begins = could_begin(pieces, translator.target_language)
    may_come = [begin or token in own for (token, _), begin in zip(likeliest, begins, strict=True)]
    return list(compress(likeliest, may_come))


def _place(translator: Translator, translation: Translation, position: int) -> tuple[int, int]:
    """The part of the line, and the piece in it, at which the word begins; behind the last word: the end."""
    before = 0
    parts = translation.hypotheses[0].parts if translation.hypotheses else ()
    for number, part in enumerate(parts):
        pieces = apart(translator.tokenizer.pieces(part.ids), translator.target_language)
        words, here = word_of_piece(pieces), num_words(pieces)
        is_last = number == len(parts) - 1
        if 0 <= position - before < here:
            return number, words.index(position - before)
        if is_last and position == before + here:
            return number, len(part.ids)
        before += here
    raise DataError(f"there is no word {position} in a translation of {counted(before, 'word')}, counted from 0")


def _word_at(translator: Translator, ids: tuple[int, ...], begin: int) -> str:
    """The piece there, and all that follow until the next word."""
    words = word_of_piece(apart(translator.tokenizer.pieces(ids[begin:]), translator.target_language))
    return translator.tokenizer.decode([i for i, word in zip(ids[begin:], words, strict=True) if word == 0])


def _line(translator: Translator, translation: Translation, part_number: int, ids: tuple[int, ...]) -> str:
    """The line with one of its parts translated otherwise."""
    parts = [part.ids for part in translation.hypotheses[0].parts]
    parts[part_number] = ids
    return translator.joined(parts, translation.glues)
