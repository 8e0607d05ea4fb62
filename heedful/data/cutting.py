"""Text that is too long for a model (`data.max_length`), cut into parts.

It is cut at the ends of its sentences, failing that between words, failing that anywhere. Published scores rest on
these cuts, so what finds sentences here stays as it is; what divides every line into its sentences is `splitting.py`.
Nothing here translates.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from heedful.data.languages import has_spaces
from heedful.data.tokenizer import Tokenizer

_STOPS, _FULL_STOPS, _CLOSING = ".!?…؟۔।॥։።", "。｡！？။។", '"”’」』）'


def marks_at_an_end(closing: str) -> re.Pattern[str]:
    """What may end a sentence, with the quotes and brackets that close after it.

    A full stop before a space (or that of Arabic, Urdu, Hindi, Armenian, Amharic), after which `closing` marks close;
    or its East Asian, Khmer and Burmese brothers before anything, but for what says in Japanese that it was a quote
    (「…。」と言った). A run of marks is looked at from its first one only: no other could end elsewhere.
    """
    return re.compile(
        rf"""(?<![{_STOPS}])[{_STOPS}]+[{re.escape(closing)}]*(?=\s)"""
        rf"""|(?<![{_FULL_STOPS}])[{_FULL_STOPS}]++(?:[{_CLOSING}]++(?!と|って|など|[、，])|(?![{_CLOSING}]))"""
    )


_END = marks_at_an_end("\"'”’»“)]")
_WORD_BEFORE_STOP = re.compile(r"(\w+)\.$")
# A full stop behind these is no end, as far as one can tell (English and German).
_ABBREVIATIONS = re.compile(
    "abs|art|bspw|bzw|ca|dr|etc|evtl|fr|ggf|hr|inc|inkl|jr|mio|mr|mrd|mrs|ms|nr|prof|sr|st|str|usw|vgl|vs"
)


class Part(NamedTuple):
    """A part of a line as the model gets it, and what stands between its translation and the one before it."""

    ids: list[int]
    glue: str


class Cutter:
    """Cuts what is too long for a model: into sentences; a sentence into halves, and these into halves again."""

    def __init__(self, tokenizer: Tokenizer, max_length: int, language: str = "") -> None:
        self.tokenizer, self.max_length = tokenizer, max_length
        self.has_spaces = has_spaces(language)

    def parts(self, text: str, ids: list[int]) -> tuple[Part, ...]:
        """A text, whose ids these are, as the model gets it: in one part if it is not too long; in none if blank."""
        if not ids or not text.strip():
            return ()
        if len(ids) <= self.max_length:
            return (Part(ids, ""),)
        return tuple(chain.from_iterable(self._halves(sentence, " ") for sentence in at_sentence_ends(text)))

    def _halves(self, text: str, glue: str) -> Iterator[Part]:
        ids = self.tokenizer.encode(text)
        if len(ids) <= self.max_length or len(text) < 2:
            yield from [Part(ids, glue)] if ids else []
            return
        space = _nearest_space(text)
        cut = space or _middle(text)
        left, right = text[:cut], text[cut:]
        is_between_words = space or not self.has_spaces or unicodedata.east_asian_width(right[0]) in "FW"
        inner = " " if is_between_words else ""
        yield from self._halves(left.strip(), glue)
        yield from self._halves(right.strip(), inner)


def at_sentence_ends(text: str) -> list[str]:
    """A text that is too long, cut at the ends of its sentences. In doubt two stay together."""
    cuts = [match.end() for match in _END.finditer(text) if _is_end(text, match)]
    parts = [text[begin:end].strip() for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return [part for part in parts if part]


def _is_end(text: str, match: re.Match[str]) -> bool:
    """Not where the text goes on in small letters, nor behind an initial, an ordinal or an abbreviation."""
    if text[match.end() : match.end() + 40].lstrip()[:1].islower():
        return False
    before = _WORD_BEFORE_STOP.search(text[max(0, match.end() - 40) : match.end()])
    if before is None:
        return True
    word = before[1].lower()
    initial = len(word) == 1 and word != word.upper()
    ordinal = len(word) <= 2 and word.isdecimal()
    return not (initial or ordinal or _ABBREVIATIONS.fullmatch(word))


def _middle(text: str) -> int:
    """The middle, but not before an accent, or a vowel that is written upon its letter."""
    places = range(len(text) // 2, len(text))
    return next((place for place in places if not unicodedata.category(text[place]).startswith("M")), len(text) // 2)


def _nearest_space(text: str) -> int:
    """The white space next to the middle, or 0."""
    spaces = [match.start() for match in re.finditer(r"\s", text)]
    return min(spaces, key=lambda place: abs(place - len(text) // 2), default=0)
