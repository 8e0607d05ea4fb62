"""The sentences of a text, in any language.

A model trained on single sentences loses the second of two, so a line is translated sentence by sentence. Only a full
stop is ambiguous: it may belong to an abbreviation, an initial or a number. sentencex knows the abbreviations of some
30 languages, and which of them to use for 250 others; this module adds what it lacks. In doubt two sentences stay
together. Text that is too long for a model is cut by `long_text.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sentencex import segment

from heedful.data.languages import base_language
from heedful.data.long_text import cut_at, marks_at_an_end

_END = marks_at_an_end("\"'”’»“«›‹)]")
# Languages that write "the 3rd" as "3." (and "Karl IV." likewise).
_WITH_ORDINALS = re.compile("bs|cs|da|de|dsb|et|eu|fi|fo|hr|hsb|hu|is|lb|lv|nb|nds|nn|no|pl|sh|sk|sl|sr|tr")
# A full stop after these does not end a sentence. sentencex lacks them: in all languages (""), and in some.
_ABBREVIATIONS = {
    "": "dr jr mr mrs ms prof st vs",
    "de": "abb abs bd bspw bzgl dez dipl geb hrsg inkl jh jhd okt phil sog tel",
    "en": "ft",
    "fr": "mlle mme",
    "pl": "godz inż mgr np tj tzw ul św",
    "ru": "акад им проф см ул",
    "uk": "акад вул див ім проф",
}
_BRACKETS = "([{"
_OPENING = " \t\n\r\f\v\u00a0\u3000\"'„“”«»‘’「『([{¿¡-–—"
# Hidden from sentencex, which keeps a quotation together however many sentences are in it, takes a number for a
# continuation, and fails on some white space and on lone surrogates.
_UNSEEN = re.compile(r"""[\s\ud800-\udfff"“”„«»「」『』()\[\]{}]|(?<!\w)['‘’]|['’](?!\w)""")
_NUMBER = re.compile(r"(?<= )\d")
_LETTER = re.compile(r"[^\W\d_]")
_WORD_AT_END = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff]+$")  # Chinese and Japanese may stand before it
_ORDINAL = re.compile(r"\d\d?|[IVX]+")
_CLOSING_APART = re.compile(r"""\s[»”")\]](?=\s|$)""")  # « Oui. »
_MARK = re.compile(r"""[.!?…؟۔।॥։።。｡！？។](?!["'”’»“«›‹)\]」』）]*\s*$)""")  # but the last one


def sentences(text: str, language: str = "") -> list[str]:
    """The sentences of a text in the language of this code, without the white space around them."""
    if _MARK.search(text) is None:  # true for most lines, and fast
        return [text.strip()] if text.strip() else []
    language = base_language(language)
    ends = [match for match in _END.finditer(text) if _may_end(text, match, language)]
    if any(map(_is_full_stop, ends)):
        known = _known_ends(text, language)
        ends = [m for m in ends if not _is_full_stop(m) or not known.isdisjoint(range(m.start() + 1, m.end() + 1))]
    return cut_at(text, _between_words(text, [_end(text, match) for match in ends]))


def _may_end(text: str, match: re.Match[str], language: str) -> bool:
    """No sentence ends before a small letter or at a mark in brackets; three dots end one only before a capital."""
    following = text[match.end() : match.end() + 40].lstrip(_OPENING)[:1]
    if following.islower() or text[match.start() - 1 : match.start()] in _BRACKETS:
        return False
    if match[0][0] == "…" or match[0].startswith(".."):
        return following.isupper()
    return not _is_full_stop(match) or _may_stop(text[max(0, match.start() - 40) : match.start()], following, language)


def _may_stop(before: str, following: str, language: str) -> bool:
    """A full stop after an initial, an ordinal or an abbreviation, or within a date, does not end a sentence."""
    found = _WORD_AT_END.search(before)
    if found is None:
        return True
    word = found[0]
    if word.isdecimal() and following.isdecimal():
        return False
    if _ORDINAL.fullmatch(word) and _WITH_ORDINALS.fullmatch(language):
        return False
    is_letter = len(word) == 1 and word.upper() != word.lower() and before[: found.start()][-1:] != "."  # but in U.S.
    if is_letter and language != "en":  # in English sentencex knows J. Smith from vitamin C
        return False
    return word.lower() not in f"{_ABBREVIATIONS['']} {_ABBREVIATIONS.get(language, '')}".split()


def _end(text: str, match: re.Match[str]) -> int:
    closing = _CLOSING_APART.match(text, match.end())
    return closing.end() if closing else match.end()


def _is_full_stop(match: re.Match[str]) -> bool:
    return match[0].startswith(".") and not match[0].startswith("..")


def _known_ends(text: str, language: str) -> set[int]:
    """Where sentencex ends a sentence."""
    plain = _NUMBER.sub("X", _UNSEEN.sub(" ", text))
    ends, begin = set[int](), 0
    for part in segment(language or "en", plain):
        ends.add(begin + len(part.rstrip()))
        begin += len(part)
    return ends


def _between_words(text: str, ends: Sequence[int]) -> list[int]:
    """The ends with a letter between each two, and a letter or digit after the last: "1." is no sentence."""
    last = next((place for place in range(len(text) - 1, -1, -1) if text[place].isalnum()), 0)
    cuts, begin, has_letter = list[int](), 0, False
    for end in ends:
        has_letter = has_letter or _LETTER.search(text, begin, end) is not None
        if has_letter and end <= last:
            cuts.append(end)
            has_letter = False
        begin = end
    return cuts
