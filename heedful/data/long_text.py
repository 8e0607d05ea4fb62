"""Text that is too long for a model (`data.max_length`), cut into parts.

It is cut at the ends of sentences, else between words, else anywhere. Published scores depend on these cuts, so the
rules that find sentences here must not change; `sentence_splitting.py` divides ordinary lines into sentences. Nothing
here translates.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from heedful.data.languages import has_spaces
from heedful.data.tokenizer import Tokenizer

_STOPS, _FULL_STOPS, _CLOSING = ".!?…؟۔।॥։።", "。｡！？။។", '"”’」』）'


def marks_at_an_end(closing: str) -> re.Pattern[str]:
    """Marks that may end a sentence, with the quotes and brackets that close after them.

    Either a full stop (or that of Arabic, Urdu, Hindi, Armenian, Amharic) with `closing` marks before a space; or an
    East Asian, Khmer or Burmese full stop before anything, except before a Japanese word that marks a quotation
    (「…。」と言った). A run of marks is matched from its first mark only.
    """
    return re.compile(
        rf"""(?<![{_STOPS}])[{_STOPS}]+[{re.escape(closing)}]*(?=\s)"""
        rf"""|(?<![{_FULL_STOPS}])[{_FULL_STOPS}]++(?:[{_CLOSING}]++(?!と|って|など|[、，])|(?![{_CLOSING}]))"""
    )


_END = marks_at_an_end("\"'”’»“)]")
_WORD_BEFORE_STOP = re.compile(r"(\w+)\.$")
# A full stop after these does not end a sentence (English and German).
_ABBREVIATIONS = re.compile(
    "abs|art|bspw|bzw|ca|dr|etc|evtl|fr|ggf|hr|inc|inkl|jr|mio|mr|mrd|mrs|ms|nr|prof|sr|st|str|usw|vgl|vs"
)


class TextPart(NamedTuple):
    """A part of a line as the model gets it, and the text between its translation and the one before."""

    ids: list[int]
    glue: str


class Cutter:
    """Cuts text that is too long: into sentences, and a sentence into halves until they are short enough."""

    def __init__(self, tokenizer: Tokenizer, max_length: int, language: str = "") -> None:
        self.tokenizer, self.max_length = tokenizer, max_length
        self.has_spaces = has_spaces(language)

    def parts(self, text: str, ids: list[int]) -> tuple[TextPart, ...]:
        """The parts of a text, given its ids: one if it is short enough, none if it is blank."""
        if not ids or not text.strip():
            return ()
        if len(ids) <= self.max_length:
            return (TextPart(ids, ""),)
        return tuple(chain.from_iterable(self._halves(sentence, " ") for sentence in at_sentence_ends(text)))

    def _halves(self, text: str, glue: str) -> Iterator[TextPart]:
        ids = self.tokenizer.encode(text)
        if len(ids) <= self.max_length or len(text) < 2:
            yield from [TextPart(ids, glue)] if ids else []
            return
        space = _nearest_space(text)
        cut = space or _middle(text)
        left, right = text[:cut], text[cut:]
        is_between_words = space or not self.has_spaces or unicodedata.east_asian_width(right[0]) in "FW"
        inner = " " if is_between_words else ""
        yield from self._halves(left.strip(), glue)
        yield from self._halves(right.strip(), inner)


def at_sentence_ends(text: str) -> list[str]:
    """A text cut at the ends of its sentences. In doubt two sentences stay together."""
    return cut_at(text, [match.end() for match in _END.finditer(text) if _is_end(text, match)])


def cut_at(text: str, places: Sequence[int]) -> list[str]:
    """The parts between these places, without the white space around them; blank ones are left out."""
    parts = (text[begin:end].strip() for begin, end in pairwise([0, *places, len(text)]))
    return [part for part in parts if part]


def _is_end(text: str, match: re.Match[str]) -> bool:
    """No sentence ends before a small letter, or after an initial, an ordinal or an abbreviation."""
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
    """The middle of a text, but not before a combining mark."""
    places = range(len(text) // 2, len(text))
    return next((place for place in places if not unicodedata.category(text[place]).startswith("M")), len(text) // 2)


def _nearest_space(text: str) -> int:
    """The white space nearest to the middle; 0 if there is none."""
    spaces = [match.start() for match in re.finditer(r"\s", text)]
    return min(spaces, key=lambda place: abs(place - len(text) // 2), default=0)
