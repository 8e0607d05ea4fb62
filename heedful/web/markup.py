"""HTML as sentences to translate and markup to keep.

Blocks, line breaks and what must not be translated (script, style, code, pre, `translate="no"`, …) divide a document
into runs of text; they stay as they were written, character for character. Within a run sentences are translated whole,
whatever inline elements (b, a, span, …) cut them up; these go around the words that come from theirs (`inline.py`).
Inline tags that do not nest, or that hold a block, divide as blocks do. A translation is escaped when it is put back,
so that no text can become markup.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from itertools import accumulate, chain
from typing import Literal

from heedful.alignment import Alignment
from heedful.web.documents import Document
from heedful.web.inline import ROOT, Element, Words, origins, put_back

NOT_TRANSLATED = {"script", "style", "code", "pre", "kbd", "samp", "var", "textarea", "svg", "math"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "img", "ins"),
    *("label", "mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "wbr"),
}
DEEPEST = 16  # inline elements within one another; more divide as blocks do
SPACE = " \t\n\f\r"
SPACES = re.compile(f"[{SPACE}]+")

Kind = Literal["text", "open", "close", "place", "keep"]


@dataclass(frozen=True, slots=True)
class Run:
    """Text between two things that divide, and the inline elements in it."""

    document: Document
    elements: tuple[Element, ...]

    def join(self, translations: Sequence[str], language: str, alignments: Sequence[Alignment | None]) -> str:
        """The run as HTML again; a translation without an alignment is taken as word for word."""
        target = Words.of(self.document.parts(translations, language))
        source = Words.of([*chain.from_iterable(zip(self.document.spaces, (*self.document.units, ""), strict=True))])
        origins_J: list[tuple[int, ...]] = []
        before = 0
        for unit, translation, alignment in zip(self.document.units, translations, alignments, strict=True):
            num_source, num_target = (len(text.split(" ")) for text in (unit, translation))
            for mine in origins(alignment or (), num_source, num_target):
                origins_J.append(tuple(before + origin for origin in mine))
            before += num_source
        return put_back(self.elements, source, target, origins_J)


@dataclass(frozen=True, slots=True)
class Markup:
    """The nodes of an HTML text: a string is kept, a run is translated."""

    nodes: tuple[str | Run, ...]

    @classmethod
    def of(cls, text: str, inline: Collection[str] = INLINE) -> Markup:
        """Split an HTML text; these elements do not divide."""
        return cls(tuple(_nodes(_Events(text, inline).parts())))

    @property
    def runs(self) -> list[Run]:
        """What is to be translated."""
        return [node for node in self.nodes if isinstance(node, Run)]

    @property
    def units(self) -> tuple[str, ...]:
        """Its sentences."""
        return tuple(unit for run in self.runs for unit in run.document.units)

    @property
    def tagged(self) -> tuple[int, ...]:
        """The numbers of the units whose alignment is wanted: those of runs with inline elements."""
        flags = [bool(run.elements) for run in self.runs for _ in run.document.units]
        return tuple(number for number, flag in enumerate(flags) if flag)

    def join(
        self, translations: Sequence[str], language: str, alignments: Mapping[int, Alignment] | None = None
    ) -> str:
        """The HTML again, with these translations in place of the units, and the alignments of some of them."""
        parts, begin = [], 0
        for node in self.nodes:
            if isinstance(node, str):
                parts.append(node)
                continue
            end = begin + len(node.document.units)
            known = [(alignments or {}).get(number) for number in range(begin, end)]
            parts.append(node.join(translations[begin:end], language, known))
            begin = end
        return "".join(parts)


# ------------------------------------------------------------------------------------------------------------ parsing


@dataclass(slots=True)
class _Part:
    """A part of the text as it was written; `partner`: of an inline tag that has one, where that stands."""

    raw: str
    kind: Kind
    tag: str = ""
    partner: int | None = None


def _nodes(parts: list[_Part]) -> list[str | Run]:
    """Runs of text with the inline tags in them, and what stands between."""
    _pair(parts)
    nodes: list[str | Run] = []
    run: list[tuple[int, _Part]] = []
    for number, part in [*enumerate(parts), (len(parts), _Part("", "keep"))]:
        if part.kind != "keep":
            run.append((number, part))
            continue
        nodes += [_run(run), part.raw]
        run = []
    return nodes


def _pair(parts: list[_Part]) -> None:
    """Find the partner of each inline tag; without one, or with something between them that divides, it divides too."""
    open_tags: list[int] = []
    count: Counter[str] = Counter()
    for number, part in enumerate(parts):
        if part.kind == "open":
            open_tags.append(number)
            count[part.tag] += 1
        elif part.kind == "close" and count[part.tag]:
            other = _opening(parts, open_tags, count, part.tag)
            if len(open_tags) < DEEPEST:
                part.partner, parts[other].partner = other, number
    alone = [part.kind == "keep" or (part.kind in ("open", "close") and part.partner is None) for part in parts]
    so_far = list(accumulate(alone, initial=0))
    for number, part in enumerate(parts):
        if alone[number] or (part.partner is not None and so_far[number] != so_far[part.partner]):
            part.kind = "keep"


def _opening(parts: list[_Part], open_tags: list[int], count: Counter[str], tag: str) -> int:
    """The last open tag of this name; those that were opened behind it are never closed."""
    while True:
        other = open_tags.pop()
        count[parts[other].tag] -= 1
        if parts[other].tag == tag:
            return other


def _run(parts: list[tuple[int, _Part]]) -> str | Run:
    """The text of these parts with their elements; what has no words stays as it was written."""
    text, elements, around, numbers = _Text(), list[Element](), [ROOT], dict[int, int]()
    for number, part in parts:
        if part.kind == "text":
            text.add(html.unescape(part.raw))
        elif part.kind == "close":
            opened = elements[around[-1]]
            elements[around.pop()] = replace(opened, end=len(text.found), closing=part.raw)
        else:
            numbers[number] = len(elements)
            elements.append(Element(len(text.found), len(text.found), part.raw, "", around[-1]))
            around += [numbers[number]] if part.kind == "open" else []
    document = Document.of(text.whole)
    return Run(document, tuple(elements)) if document.units else "".join(part.raw for _, part in parts)


class _Text:
    """Text as HTML means it: every space between words is one; those before the first and behind the last stay."""

    def __init__(self) -> None:
        self.found, self.tail = "", ""

    def add(self, more: str) -> None:
        """Put more text behind what is there."""
        words = more.strip(SPACE)
        if not self.found.strip(SPACE):
            lead = more[: len(more) - len(more.lstrip(SPACE))]
            self.found += lead
        elif not self.found.endswith(" ") and more[:1] in SPACE and more:
            self.found += " "
        self.found += SPACES.sub(" ", words)
        tail = more[len(more.rstrip(SPACE)) :]
        self.tail = tail if words else self.tail + tail
        self.found += " " if words and tail else ""

    @property
    def whole(self) -> str:
        """All of it."""
        return self.found.rstrip(SPACE) + self.tail


class _Events(HTMLParser):
    """Where each event of the parser begins, and what it is."""

    def __init__(self, text: str, inline: Collection[str]) -> None:
        super().__init__(convert_charrefs=False)
        self.text, self.inline = text, inline
        self.found: list[tuple[int, Kind, str]] = [(0, "keep", "")]
        self.line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.open: list[tuple[str, bool]] = []  # the elements around this place; is their text translated?
        self.num_open: Counter[str] = Counter()
        self.feed(text)
        self.close()

    def parse_html_declaration(self, i: int) -> int:
        """`<![` begins a comment in HTML; Python before 3.14 looks for a marked section of SGML, and may fail."""
        is_section = self.rawdata.startswith("<![", i)
        return self.parse_bogus_comment(i) if is_section else super().parse_html_declaration(i)

    def parts(self) -> list[_Part]:
        """The text in parts; neighbours that are text are one."""
        ends = [*(begin for begin, _, _ in self.found[1:]), len(self.text)]
        parts: list[_Part] = []
        for (begin, kind, tag), end in zip(self.found, ends, strict=True):
            if kind == "text" and parts and parts[-1].kind == "text":
                parts[-1].raw += self.text[begin:end]
            elif kind != "keep" or begin < end:
                parts.append(_Part(self.text[begin:end], kind, tag))
        return parts

    def _note(self, kind: Kind = "keep", tag: str = "") -> None:
        line, column = self.getpos()
        self.found.append((self.line_starts[line - 1] + column, kind if self.is_translated else "keep", tag))

    @property
    def is_translated(self) -> bool:
        """Is the text at this place to be translated?"""
        return self.open[-1][1] if self.open else True

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        inside = self._translates(tag, dict(attrs))
        kind: Kind = "place" if tag in VOID else "open"
        self._note(kind if tag in self.inline and (inside or tag in VOID) else "keep", tag)
        if tag not in VOID:
            self.open.append((tag, inside))
            self.num_open[tag] += 1

    def _translates(self, tag: str, attributes: dict[str, str | None]) -> bool:
        wish = (attributes.get("translate", "") or "").lower()
        if "notranslate" in (attributes.get("class") or "").split() or wish == "no" or tag in NOT_TRANSLATED:
            return False
        return self.is_translated or wish == "yes"

    def handle_endtag(self, tag: str) -> None:
        self._note("close" if tag in self.inline else "keep", tag)
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
        self._note("text")

    def handle_entityref(self, name: str) -> None:
        self._note("text")

    def handle_charref(self, name: str) -> None:
        self._note("text")

    def handle_comment(self, data: str) -> None:
        self._note("place")

    def handle_decl(self, decl: str) -> None:
        self._note()

    def handle_pi(self, data: str) -> None:
        self._note()

    def unknown_decl(self, data: str) -> None:
        self._note()
