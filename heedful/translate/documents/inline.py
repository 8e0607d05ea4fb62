"""Inline tags in a translation: around the words that come from the words they stood around.

An element of the source covers some of its words; in the translation it goes around the run of words that has the most
of theirs and the fewest of others, within its parent's run and beside its siblings'. What covers no word (an image, an
empty element) goes before the word that it stood before. So every tag comes back once, and elements nest as they did.
A translation whose alignment is unknown is taken as word for word. Nothing here knows HTML's syntax or a model: tags
are strings, and which word comes from which is given.
"""

from __future__ import annotations

import html
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from heedful.translate.alignment import Alignment

ROOT = -1


@dataclass(frozen=True, slots=True)
class Element:
    """A pair of tags around a part of the source text, or one tag at a place (then `closing` is empty)."""

    begin: int
    end: int
    opening: str
    closing: str
    parent: int  # its number, or ROOT; parents stand before their children


@dataclass(frozen=True, slots=True)
class WordSpans:
    """A text, and where its words begin and end."""

    text: str
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, parts: Sequence[str]) -> WordSpans:
        """Of spaces and units in turn, a space first and last; the words of a unit stand between spaces."""
        spans: list[tuple[int, int]] = []
        for begin, unit in zip(list(accumulate(map(len, parts), initial=0))[1::2], parts[1::2], strict=False):
            starts = accumulate((len(word) + 1 for word in unit.split(" ")), initial=begin)
            spans += [(here, there - 1) for here, there in pairwise(starts)]
        return cls("".join(parts), tuple(begin for begin, _ in spans), tuple(end for _, end in spans))

    def within(self, begin: int, end: int) -> tuple[int, int]:
        """The words of which some letter lies there: the first, and the one behind the last."""
        first = bisect_right(self.ends, begin)
        return first, max(first, bisect_left(self.begins, end))


def origins(alignment: Alignment, num_source: int, num_target: int) -> list[tuple[int, ...]]:
    """For each target word its source words; one that has none goes with the next that has some, or the last."""
    found: list[tuple[int, ...]] = [()] * num_target
    for source, target in alignment:
        if source < num_source and target < num_target:
            found[target] = (*found[target], source)
    if not any(found):
        return [(min(num_source - 1, word * num_source // num_target),) for word in range(num_target)]
    following = list(accumulate(reversed(found), _or))[::-1]
    return list(accumulate(following, _or))


def _or(other: tuple[int, ...], own: tuple[int, ...]) -> tuple[int, ...]:
    return own or other


def put_back(
    elements: Sequence[Element], source: WordSpans, target: WordSpans, origins_J: Sequence[tuple[int, ...]]
) -> str:
    """The target as HTML, with these elements of the source."""
    placing = _Placing(elements, source, target, origins_J)
    for parent in range(ROOT, len(elements)):
        placing.place_children(parent)
    return _written(target.text, elements, placing.children, placing.ranges)


class _Placing:
    """Finds the range of letters of each element, parents before their children."""

    def __init__(
        self, elements: Sequence[Element], source: WordSpans, target: WordSpans, origins_J: Sequence[tuple[int, ...]]
    ) -> None:
        self.elements, self.source, self.target, self.origins_J = elements, source, target, origins_J
        self.targets: list[list[int]] = [[] for _ in source.begins]  # of each source word
        for word, mine in enumerate(origins_J):
            for origin in mine:
                self.targets[origin].append(word)
        self.children: dict[int, list[int]] = {}
        for number, element in enumerate(elements):
            self.children.setdefault(element.parent, []).append(number)
        self.covered = {ROOT: (0, len(source.begins))} | {
            number: source.within(element.begin, element.end) for number, element in enumerate(elements)
        }
        self.words = {ROOT: (0, len(target.begins))}
        self.ranges = {ROOT: (0, len(target.text))}

    def place_children(self, parent: int) -> None:
        """Those whose words are there first, then those that must make do with others' words, then places."""
        children = self.children.get(parent, [])
        low, high = self.words[parent]
        taken = bytearray(len(self.target.begins)) if children else bytearray()
        covering = [child for child in children if self.covered[child][0] < self.covered[child][1]]
        found = {child: self._run(child, parent, taken) for child in covering}
        for child in covering:
            if run := found[child] or self._nearest(child, low, high, taken):
                self.words[child], self.ranges[child] = run, self._letters(child, parent, run)
        spans = sorted(self.ranges[child] for child in children if child in self.ranges)
        for child in children:
            if child not in self.ranges:
                self.words[child], self.ranges[child] = (low, low), self._place(child, parent, spans)

    def _run(self, child: int, parent: int, taken: bytearray) -> tuple[int, int] | None:
        """The free run with the most of its words and the fewest of others; of equal ones the longest."""
        (first, last), (low, high) = self.covered[child], self.words[parent]
        if self.covered[child] == self.covered[parent] and low < high and not any(taken[low:high]):
            taken[low:high] = b"\1" * (high - low)
            return low, high
        own = [word for origin in range(first, last) for word in self.targets[origin] if low <= word < high]
        best, gain, begin, total = (0, 0), 0, 0, -1
        for word in range(min(own, default=0), max(own, default=-1) + 1):
            if taken[word]:
                total = -1
                continue
            begin, total = (begin, total) if total >= 0 else (word, 0)
            total += 1 if any(first <= origin < last for origin in self.origins_J[word]) else -1
            if total > gain or (total == gain > 0 and word + 1 - begin > best[1] - best[0]):
                best, gain = (begin, word + 1), total
        taken[best[0] : best[1]] = b"\1" * (best[1] - best[0])
        return best if gain > 0 else None

    def _nearest(self, child: int, low: int, high: int, taken: bytearray) -> tuple[int, int] | None:
        """One free word whose origin is next to what the element covers: a link without a word would be lost."""
        free = [word for word in range(low, high) if not taken[word]]
        if not free:
            return None
        first, _ = self.covered[child]
        word = min(free, key=lambda each: min(abs(origin - first) for origin in self.origins_J[each]))
        taken[word] = 1
        return word, word + 1

    def _letters(self, child: int, parent: int, run: tuple[int, int]) -> tuple[int, int]:
        """From the first word to the last; marks at the ends only where the element had some in the source."""
        element, text = self.elements[child], self.target.text
        inside = self.source.text[element.begin : element.end].strip()
        begin, end = self.target.begins[run[0]], self.target.ends[run[1] - 1]
        spoken = [place for place in range(begin, end) if not _is_mark(text[place])] or [begin, end - 1]
        begin = begin if _is_mark(inside[:1]) else spoken[0]
        end = end if _is_mark(inside[-1:]) else spoken[-1] + 1
        low, high = self.ranges[parent]
        begin = min(max(begin, low), high)
        return begin, max(begin, min(end, high))

    def _place(self, child: int, parent: int, siblings: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Before the word that it stood before; at the parent's beginning or end if it stood there."""
        (first, last), (low, high) = self.covered[parent], self.ranges[parent]
        following = bisect_right(self.source.ends, self.elements[child].begin)
        if following <= first:
            return low, low
        words = (word for origin in range(following, last) for word in self.targets[origin])
        begin, end = self.words[parent]
        place = next((self.target.begins[word] for word in words if begin <= word < end), high)
        place = min(max(place, low), high)
        before = bisect_left(siblings, (place, place)) - 1
        if before >= 0 and place < siblings[before][1]:  # not within a sibling
            place = siblings[before][0]
        return place, place


def _is_mark(letter: str) -> bool:
    return bool(letter) and unicodedata.category(letter).startswith("P")


def _written(
    text: str, elements: Sequence[Element], children: dict[int, list[int]], ranges: dict[int, tuple[int, int]]
) -> str:
    """The text, escaped, with the tags in it."""
    parts: list[str] = []
    done = 0
    stack = list(reversed(_in_order(children.get(ROOT, []), ranges)))  # ~n: the end of element n

    def write(until: int, tag: str) -> None:
        nonlocal done
        parts.append(html.escape(text[done:until], quote=False) + tag)
        done = max(done, until)

    while stack:
        number = stack.pop()
        if number < 0:
            write(ranges[~number][1], elements[~number].closing)
            continue
        write(ranges[number][0], elements[number].opening)
        stack.append(~number)
        stack += reversed(_in_order(children.get(number, []), ranges))
    write(len(text), "")
    return "".join(parts)


def _in_order(children: Sequence[int], ranges: dict[int, tuple[int, int]]) -> list[int]:
    return sorted(children, key=lambda child: (*ranges[child], child))
