"""HTML as sentences to translate and markup to keep.

Blocks, line breaks and what must not be translated (script, style, code, pre, `translate="no"`, …) divide a document
into runs of text; they stay as they were written, character for character. Within a run sentences are translated whole,
whatever inline elements (b, a, span, …) cut them up; these go around the words that come from theirs (`inline.py`).
Inline tags that do not nest, that hold a block, or that are too many, divide as blocks do. What stands behind a start
tag that never ends is kept. A translation is escaped when it is put back, so that no text can become markup.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from itertools import accumulate, chain, groupby
from typing import Literal

from heedful.translate.alignment import Alignment
from heedful.translate.documents.inline import ROOT, Element, WordSpans, origins, put_back
from heedful.translate.documents.paragraphs import Division, Document

NOT_TRANSLATED = {"script", "style", "code", "pre", "kbd", "samp", "var", "textarea", "svg", "math"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "img", "ins"),
    *("label", "mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "wbr"),
}
DEEPEST = 16  # inline elements within one another; more divide as blocks do
MOST_ELEMENTS = 64  # inline elements of a run: finding each one's words takes as long as the run is
SPACE = " \t\n\f\r\xa0"  # the last is &nbsp;, which editors put anywhere, and a model has hardly seen
SPACES = re.compile(f"[{SPACE}]+")

Kind = Literal["text", "open", "close", "place", "keep"]


@dataclass(frozen=True, slots=True)
class Run:
    """Text between two things that divide, and the inline elements in it."""

    document: Document
    elements: tuple[Element, ...]

    @property
    def words(self) -> WordSpans:
        """Those of its units."""
        *spaces, last = self.document.spaces
        return WordSpans.of([*chain.from_iterable(zip(spaces, self.document.units, strict=True)), last])

    def join(self, translations: Sequence[str], language: str, alignments: Sequence[Alignment | None]) -> str:
        """The run as HTML again; a translation without an alignment is taken as word for word."""
        target = WordSpans.of(self.document.parts(translations, language))
        origins_J: list[tuple[int, ...]] = []
        before = 0
        for unit, translation, alignment in zip(self.document.units, translations, alignments, strict=True):
            num_source, num_target = (len(text.split(" ")) for text in (unit, translation))
            for mine in origins(alignment or (), num_source, num_target):
                origins_J.append(tuple(before + origin for origin in mine))
            before += num_source
        return put_back(self.elements, self.words, target, origins_J)


@dataclass(frozen=True, slots=True)
class Markup:
    """The nodes of an HTML text: a string is kept, a run is translated."""

    nodes: tuple[str | Run, ...]
    parts: tuple[_Part, ...]
    language: str
    division: Division

    @classmethod
    def of(cls, text: str, language: str = "", division: Division = "sentences") -> Markup:
        """Split an HTML text in the language of this code; a line break is a space there, unless lines are to divide.

        By lines alone, what stands between two blocks is one line.
        """
        parts = _Events(text).parts()
        if division == "lines and sentences":
            parts = [piece for part in parts for piece in _at_line_breaks(part)]
        return cls(tuple(_nodes(_paired(parts), language, division)), tuple(parts), language, division)

    def divided(self) -> Markup:
        """The same text where inline tags divide, too: for languages that have no words to put them around."""
        parts = [replace(part, kind="keep") if part.tag else part for part in self.parts]
        return Markup(tuple(_nodes(parts, self.language, self.division)), tuple(parts), self.language, self.division)

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


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the text as it was written."""

    raw: str
    kind: Kind
    tag: str = ""


def _at_line_breaks(part: _Part) -> list[_Part]:
    """A text's lines, and the breaks between them, which divide."""
    if part.kind != "text":
        return [part]
    return [_Part(raw, "text" if raw.strip("\r\n") else "keep") for raw in re.split(r"([\r\n]+)", part.raw) if raw]


def _nodes(parts: Sequence[_Part], language: str, division: Division) -> list[str | Run]:
    """Runs of text with the inline tags in them, and what stands between."""
    nodes: list[str | Run] = []
    for is_kept, group in groupby(parts, lambda part: part.kind == "keep"):
        run = list(group)
        if not is_kept and sum(part.kind in ("open", "place") for part in run) <= MOST_ELEMENTS:
            nodes.append(_run(run, language, division))
        else:
            nodes += [_run([part], language, division) if part.kind == "text" else part.raw for part in run]
    return nodes


def _paired(parts: Sequence[_Part]) -> list[_Part]:
    """Inline tags without a partner, or with something between them and theirs that divides, divide too."""
    partners = _partners(parts)
    alone = [
        part.kind == "keep" or (part.kind in ("open", "close") and n not in partners) for n, part in enumerate(parts)
    ]
    so_far = list(accumulate(alone, initial=0))
    divides = [alone[n] or so_far[n] != so_far[partners.get(n, n)] for n in range(len(parts))]
    return [replace(part, kind="keep") if flag else part for part, flag in zip(parts, divides, strict=True)]


def _partners(parts: Sequence[_Part]) -> dict[int, int]:
    """For each inline tag that has a partner, where that stands."""
    open_tags: list[int] = []
    count: Counter[str] = Counter()
    partners: dict[int, int] = {}
    for number, part in enumerate(parts):
        if part.kind == "open":
            open_tags.append(number)
            count[part.tag] += 1
        elif part.kind == "close" and count[part.tag]:
            other = _opening(parts, open_tags, count, part.tag)
            if len(open_tags) < DEEPEST:
                partners |= {number: other, other: number}
    return partners


def _opening(parts: Sequence[_Part], open_tags: list[int], count: Counter[str], tag: str) -> int:
    """The last open tag of this name; those that were opened behind it are never closed."""
    while True:
        other = open_tags.pop()
        count[parts[other].tag] -= 1
        if parts[other].tag == tag:
            return other


def _run(parts: Sequence[_Part], language: str, division: Division) -> str | Run:
    """The text of these parts with their elements; what has no words stays as it was written."""
    text, elements, around = _Text(), list[Element](), [ROOT]
    for part in parts:
        if part.kind == "text":
            text.add(html.unescape(part.raw))
        elif part.kind == "close":
            opened = elements[around[-1]]
            elements[around.pop()] = replace(opened, end=len(text.found), closing=part.raw)
        else:
            elements.append(Element(len(text.found), len(text.found), part.raw, "", around[-1]))
            around += [len(elements) - 1] if part.kind == "open" else []
    document = Document.of(text.whole, language, division)
    return Run(document, tuple(elements)) if document.units else "".join(part.raw for part in parts)


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

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.text = text
        self.found: list[tuple[int, Kind, str]] = [(0, "keep", "")]
        self.line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.open: list[tuple[str, bool]] = []  # the elements around this place; is their text translated?
        self.num_open: Counter[str] = Counter()
        self.feed(text)
        self.close()

    def parse_starttag(self, i: int) -> int:
        """A tag that never ends has all the rest in it; Python before 3.14 looks for its end again from every `<`."""
        end = super().parse_starttag(i)
        if end < 0:
            self._note()
            return len(self.rawdata)
        return end

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
                parts[-1] = _Part(parts[-1].raw + self.text[begin:end], kind)
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
        self._note(kind if tag in INLINE and (inside or tag in VOID) else "keep", tag)
        if tag not in VOID:
            self.open.append((tag, inside))
            self.num_open[tag] += 1

    def _translates(self, tag: str, attributes: dict[str, str | None]) -> bool:
        wish = (attributes.get("translate", "") or "").lower()
        if "notranslate" in (attributes.get("class") or "").split() or wish == "no" or tag in NOT_TRANSLATED:
            return False
        return self.is_translated or wish == "yes"

    def handle_endtag(self, tag: str) -> None:
        self._note("close" if tag in INLINE else "keep", tag)
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
