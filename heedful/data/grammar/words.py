"""Words that know which part of the tree they come from, and the alignments that follow.

Words of two languages that come from the same node (`parts.py`) are aligned. The rules where languages differ in their
function words:

- an English and a German article are aligned; "the" has no Korean word and stays alone; "a" is 한 and its counter;
- a preposition that only one language needs belongs to the verb ("roamed" is "streifte durch", "looked at" "sah an");
- a Korean particle or ending is part of its word, so that word also has the node of the preposition, the conjunction,
  the copula or the auxiliary that it stands for;
- a pronoun that Korean drops stays alone in the other language;
- a time of two words ("this morning", "heute Morgen") goes word by word with one of two, as a whole with one of one.

This module knows no language, no concept and no kind of tree.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from heedful.data.grammar.parts import under


class Word(NamedTuple):
    """A word of a sentence, with its punctuation, and the nodes it comes from."""

    text: str
    nodes: tuple[int, ...]


def word(text: str, node: int, *parts: int) -> Word:
    """The word that comes from these parts of a node."""
    return Word(text, tuple([under(node, part) for part in parts]))


def spelled(words: str, *nodes: int) -> list[Word]:
    """Each of the words, from the same nodes."""
    return [Word(each, nodes) for each in words.split()]


def time_words(phrase: str, node: int) -> list[Word]:
    """The one or two words of a time, each with a node of its own; a single word has both."""
    words = phrase.split()
    if len(words) == 1:
        return [word(words[0], node, 1, 2)]
    return [word(each, node, part) for part, each in enumerate(words, start=1)]


def finished(words: list[Word], mark: str) -> list[Word]:
    """The words as a written sentence: a capital at the start, the mark at the end."""
    first, last = words[0], words[-1]
    words[-1] = Word(last.text.rstrip(",") + mark, last.nodes)
    words[0] = Word(words[0].text[0].upper() + words[0].text[1:], first.nodes)
    return words


def text(words: Iterable[Word]) -> str:
    """The words as a line of text."""
    return " ".join([word.text for word in words])


def alignment(source: Sequence[Word], target: Sequence[Word]) -> tuple[tuple[int, int], ...]:
    """The pairs (source word, target word) that come from the same node, in order."""
    places: dict[int, list[int]] = {}
    for j, word in enumerate(target):
        for node in word.nodes:
            places.setdefault(node, []).append(j)
    pairs = {(i, j) for i, word in enumerate(source) for node in word.nodes for j in places.get(node, ())}
    return tuple(map(_shared, sorted(pairs)))


@cache
def _shared(pair: tuple[int, int]) -> tuple[int, int]:
    """One object for equal pairs: a corpus has millions of pairs, and few hundred different ones."""
    return pair
