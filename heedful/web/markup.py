"""HTML as text to translate and markup to keep, character for character.

Every character of the input belongs to one event of the parser; text outside of what must not be translated (script,
style, code, pre, `translate="no"`, …) is translated node by node, everything else stays as it was written. A
translation is escaped when it is put back, so that no text can become markup.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import accumulate

from heedful.web.documents import Document

NOT_TRANSLATED = {"script", "style", "code", "pre", "kbd", "samp", "var", "textarea", "svg", "math"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}


@dataclass(frozen=True, slots=True)
class Markup:
    """The nodes of an HTML text: a string is kept, a document is translated."""

    nodes: tuple[str | Document, ...]

    @classmethod
    def of(cls, text: str) -> Markup:
        """Split an HTML text."""
        return cls(tuple(Document.of(html.unescape(raw)) if is_text else raw for raw, is_text in _split(text)))

    @property
    def units(self) -> tuple[str, ...]:
        """What is to be translated."""
        return tuple(unit for node in self.nodes if isinstance(node, Document) for unit in node.units)

    def join(self, translations: Sequence[str], language: str) -> str:
        """The HTML again, with these translations in place of the units."""
        parts, begin = [], 0
        for node in self.nodes:
            if isinstance(node, str):
                parts.append(node)
                continue
            end = begin + len(node.units)
            parts.append(html.escape(node.join(translations[begin:end], language), quote=False))
            begin = end
        return "".join(parts)


def _split(text: str) -> list[tuple[str, bool]]:
    """The text in parts, and whether each is text to translate."""
    events = _Events(text).found
    ends = [*(begin for begin, _ in events[1:]), len(text)]
    parts: list[tuple[str, bool]] = []
    for (begin, is_text), end in zip(events, ends, strict=True):
        if is_text and parts and parts[-1][1]:
            parts[-1] = (parts[-1][0] + text[begin:end], True)
        else:
            parts.append((text[begin:end], is_text))
    return parts


class _Events(HTMLParser):
    """Where each event of the parser begins, and whether it is text to translate."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[int, bool]] = [(0, False)]
        self.line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.open: list[tuple[str, bool]] = []  # the elements around this place; is their text translated?
        self.num_open: Counter[str] = Counter()
        self.feed(text)
        self.close()

    def _note(self, is_text: bool = False) -> None:
        line, column = self.getpos()
        self.found.append((self.line_starts[line - 1] + column, is_text))

    @property
    def is_translated(self) -> bool:
        """Is the text at this place to be translated?"""
        return self.open[-1][1] if self.open else True

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note()
        if tag not in VOID:
            self.open.append((tag, self._translates(tag, dict(attrs))))
            self.num_open[tag] += 1

    def _translates(self, tag: str, attributes: dict[str, str | None]) -> bool:
        wish = (attributes.get("translate", "") or "").lower()
        if "notranslate" in (attributes.get("class") or "").split() or wish == "no" or tag in NOT_TRANSLATED:
            return False
        return self.is_translated or wish == "yes"

    def handle_endtag(self, tag: str) -> None:
        self._note()
        if self.num_open[tag]:  # else nothing of that name is open
            while self.open:
                name, _ = self.open.pop()
                self.num_open[name] -= 1
                if name == tag:
                    return

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """<br/>. Elsewhere the slash means nothing in HTML; foreign content (svg) is kept as it is anyway."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        self._note(self.is_translated)

    def handle_entityref(self, name: str) -> None:
        self._note(self.is_translated)

    def handle_charref(self, name: str) -> None:
        self._note(self.is_translated)

    def handle_comment(self, data: str) -> None:
        self._note()

    def handle_decl(self, decl: str) -> None:
        self._note()

    def handle_pi(self, data: str) -> None:
        self._note()

    def unknown_decl(self, data: str) -> None:
        self._note()
