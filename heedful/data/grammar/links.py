"""Which adjective, verb and pronoun of a sentence belongs to which noun.

A link is found in the tree, once for all languages, and then looked up among a language's words: it runs from the first
word of the dependent to the last word of the head ("rief" of "rief … an", "Tower" of "Eiffel Tower"). A language that
has no such word, like Korean for a dropped pronoun, has no such link.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from heedful.data.grammar import parts, trees
from heedful.data.grammar.parts import ROOT, under
from heedful.data.grammar.words import Word


class Link(NamedTuple):
    """The word at index `word` belongs to the noun at index `head`; kind is "adjective", "verb" or "pronoun"."""

    kind: str
    word: int
    head: int


class Relation(NamedTuple):
    """A link before it is looked up in a language: from the first word of a node to the last word of another."""

    kind: str
    node: int
    head: int


def links(relations: Iterable[Relation], words: Sequence[Word]) -> tuple[Link, ...]:
    """The relations of a sentence among its words in one language, in the order of the words."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, word in enumerate(words):
        for node in word.nodes:
            first.setdefault(node, i)
            last[node] = i
    found = [_link(kind, first[node], last[head]) for kind, node, head in relations if node in first and head in last]
    return tuple(sorted(found, key=lambda link: (link.word, link.head, link.kind)))


@cache
def _link(kind: str, word: int, head: int) -> Link:
    """One object for equal links, of which a corpus has few."""
    return Link(kind, word, head)


def relations_of(sentence: trees.Sentence) -> list[Relation]:
    """Which adjective, verb and pronoun belongs to which noun, in any language."""
    found = [each for clause, node in trees.clauses(sentence) for each in _clause_relations(clause, node)]
    return found + [each for phrase, node in trees.phrases_and_nodes(sentence) for each in _relations_in(phrase, node)]


def _clause_relations(clause: trees.Clause, node: int) -> Iterator[Relation]:
    subject, place = clause.subject, under(node, parts.SUBJECT)
    for head in _heads(subject, place):
        yield Relation("verb", under(node, parts.VERB), head)
    if isinstance(subject, trees.Anaphor):
        role = parts.SUBJECT if subject.role == "subject" else parts.OBJECT
        yield Relation("pronoun", under(place, parts.NOUN), under(under(ROOT, role), parts.NOUN))
    if isinstance(clause, trees.Description) and isinstance(subject, trees.NounPhrase):
        yield Relation("adjective", under(node, parts.PREDICATE), under(place, parts.NOUN))


def _heads(subject: trees.Subject, node: int) -> list[int]:
    if isinstance(subject, trees.Coordination):
        return [under(node, parts.NOUN), under(under(node, parts.SECOND), parts.NOUN)]
    return [under(node, parts.NOUN)] if isinstance(subject, trees.NounPhrase | trees.Pronoun | trees.Anaphor) else []


def _relations_in(phrase: trees.NounPhrase, node: int) -> Iterator[Relation]:
    """Those of a phrase itself, without the phrases inside it."""
    for part in (parts.ADJECTIVE, parts.SECOND_ADJECTIVE)[: len(phrase.adjectives)]:
        yield Relation("adjective", under(node, part), under(node, parts.NOUN))
    if phrase.relative is not None:
        inner = under(node, parts.RELATIVE)
        subject = node if phrase.relative.gap == "subject" else under(inner, parts.SUBJECT)
        yield Relation("verb", under(inner, parts.VERB), under(subject, parts.NOUN))
