"""Free text as units to translate and what stands between them.

A text is split into lines, a line into sentences (as everywhere, by `data/sentence_splitting.py`), and a sentence that
is longer than any should be at its spaces. What lies between the units (line breaks, blank lines, indents, runs of
spaces) is kept as it is. With each unit as its own translation the text comes back unchanged. Documents know no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Literal, TypeAlias

from heedful.data.languages import are_side_by_side
from heedful.data.sentence_splitting import sentences

LONGEST_UNIT = 1000  # characters
Division: TypeAlias = Literal["lines and sentences", "lines", "sentences"]
"""What divides a text. By sentences alone, a line break is a space, but for a blank line."""


@dataclass(frozen=True, slots=True)
class Document:
    """The units of a text, and the spaces before, between and behind them: one more than units."""

    units: tuple[str, ...]
    spaces: tuple[str, ...]

    @classmethod
    def of(cls, text: str, language: str = "", division: Division = "lines and sentences") -> Document:
        """Split a text in the language of this code."""
        units: list[str] = []
        spaces: list[str] = []
        end = 0
        for unit in _units(text, language, division):
            begin = text.index(unit, end)
            spaces.append(text[end:begin])
            units.append(unit)
            end = begin + len(unit)
        return cls(tuple(units), (*spaces, text[end:]))

    def join(self, translations: Sequence[str], language: str) -> str:
        """The text again, with these translations in place of the units."""
        return "".join(self.parts(translations, language))

    def translated(self, translations: Sequence[str], language: str) -> Document:
        """The same units in another language."""
        parts = self.parts(translations, language)
        return Document(tuple(parts[1::2]), tuple(parts[::2]))

    def parts(self, translations: Sequence[str], language: str) -> list[str]:
        """Spaces and translations in turn.

        Where the source sets sentences side by side (as Chinese does) and the target's language does not, a space comes
        between them.
        """
        between = "" if are_side_by_side(language) else " "
        first, *spaces = self.spaces
        last = len(spaces) - 1
        pairs = zip(translations, [space or between * (n < last) for n, space in enumerate(spaces)], strict=True)
        return [first, *chain.from_iterable(pairs)]


def _units(text: str, language: str, division: Division) -> Iterator[str]:
    if division == "lines":
        yield from filter(None, map(str.strip, text.splitlines()))  # what is too long for the model is cut there
        return
    for part in _paragraphs(text) if division == "sentences" else text.splitlines():
        for sentence in sentences(part, language):
            yield from _short(sentence)


def _paragraphs(text: str) -> Iterator[str]:
    """The lines between blank ones, together."""
    for has_words, lines in groupby(text.splitlines(keepends=True), lambda line: bool(line.strip())):
        if has_words:
            yield "".join(lines)


def _short(sentence: str) -> Iterator[str]:
    """The sentence in parts that are no longer than a unit may be, cut at the last space if there is one."""
    while len(sentence) > LONGEST_UNIT:
        cut = sentence.rfind(" ", 1, LONGEST_UNIT)
        cut = cut if cut > 0 else LONGEST_UNIT
        yield sentence[:cut].strip()
        sentence = sentence[cut:].strip()
    if sentence:
        yield sentence
