"""Words that know which part of the tree they come from, and the alignments that follow.

A node is a number: the path from the root, one hexadecimal digit a step. Words of two languages that come from the same
node are aligned. The rules where languages differ in their function words:

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

# Parts of a clause. Every part is one hexadecimal digit of a path.
SUBJECT, OBJECT, RECIPIENT, PLACE, MEANS, VERB, AUXILIARY, NEGATION, ADVERB = range(1, 10)
TIME, CONJUNCTION, CLAUSE, PREDICATE, DEGREE, THAN = range(10, 16)
# Parts of a phrase.
NOUN, DETERMINER, ADJECTIVE, SECOND_ADJECTIVE, OWNER, RELATIVE, SECOND, AND, PREPOSITION, RELATIVE_WORD = range(1, 11)

ROOT = 1


class Word(NamedTuple):
    """A word of a sentence, with its punctuation, and the nodes it comes from."""

    text: str
    nodes: tuple[int, ...]


def under(node: int, part: int) -> int:
    """The node of a part of a node."""
    return node * 16 + part


def time_words(phrase: str, node: int) -> list[Word]:
    """The one or two words of a time, each with a node of its own; a single word has both."""
    words, parts = phrase.split(), (under(node, 1), under(node, 2))
    if len(words) == 1:
        return [Word(words[0], parts)]
    return [Word(word, (part,)) for word, part in zip(words, parts, strict=True)]


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
