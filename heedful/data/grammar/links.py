"""Which adjective, verb and pronoun of a sentence belongs to which noun.

A link is found in the tree, once for all languages, and then looked up among a language's words: it runs from the first
word of the dependent to the last word of the head ("rief" of "rief … an", "Tower" of "Eiffel Tower"). A language that
has no such word, like Korean for a dropped pronoun, has no such link.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from heedful.data.grammar import parts, trees
from heedful.data.grammar.parts import ROOT, under
from heedful.data.grammar.words import Word


@dataclass(frozen=True, slots=True)
class Link:
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
    found = _clause_relations(sentence.main, ROOT)
    for clause in (sentence.reason, sentence.claim):
        if clause is not None:
            found += _clause_relations(clause, under(ROOT, parts.CLAUSE))
    return found


def _clause_relations(clause: trees.Clause, node: int) -> list[Relation]:
    subject_heads = _heads(clause.subject, under(node, parts.SUBJECT))
    found = [Relation("verb", under(node, parts.VERB), head) for head in subject_heads]
    found += _subject_relations(clause.subject, under(node, parts.SUBJECT))
    if isinstance(clause, trees.Description):
        if isinstance(clause.subject, trees.NounPhrase):
            found.append(Relation("adjective", under(node, parts.PREDICATE), subject_heads[0]))
        return found + _phrase_relations(clause.than, under(node, parts.THAN))
    if isinstance(clause, trees.Naming):
        return found + _phrase_relations(clause.phrase, under(node, parts.OBJECT))
    place = clause.place.phrase if isinstance(clause.place, trees.Place) else None
    object_ = clause.object if isinstance(clause.object, trees.NounPhrase) else None
    means = clause.means.phrase if clause.means else None
    phrases = {parts.OBJECT: object_, parts.PLACE: place, parts.RECIPIENT: clause.recipient, parts.MEANS: means}
    for part, phrase in phrases.items():
        found += _phrase_relations(phrase, under(node, part))
    return found


def _heads(subject: trees.Subject, node: int) -> list[int]:
    if isinstance(subject, trees.Pair):
        return [under(node, parts.NOUN), under(under(node, parts.SECOND), parts.NOUN)]
    return [under(node, parts.NOUN)] if isinstance(subject, trees.NounPhrase | trees.Pronoun | trees.Anaphor) else []


def _subject_relations(subject: trees.Subject, node: int) -> list[Relation]:
    if isinstance(subject, trees.NounPhrase):
        return _phrase_relations(subject, node)
    if isinstance(subject, trees.Pair):
        return _phrase_relations(subject.first, node) + _phrase_relations(subject.second, under(node, parts.SECOND))
    if isinstance(subject, trees.Anaphor):
        role = parts.SUBJECT if subject.role == "subject" else parts.OBJECT
        return [Relation("pronoun", under(node, parts.NOUN), under(under(ROOT, role), parts.NOUN))]
    return []


def _phrase_relations(phrase: trees.NounPhrase | None, node: int) -> list[Relation]:
    if phrase is None:
        return []
    head = under(node, parts.NOUN)
    places = (parts.ADJECTIVE, parts.SECOND_ADJECTIVE)[: len(phrase.adjectives)]
    found = [Relation("adjective", under(node, part), head) for part in places]
    found += _phrase_relations(phrase.owner, under(node, parts.OWNER))
    if phrase.relative is not None:
        inner = under(node, parts.RELATIVE)
        other = under(inner, parts.OBJECT if phrase.relative.gap == "subject" else parts.SUBJECT)
        subject = head if phrase.relative.gap == "subject" else under(other, parts.NOUN)
        found.append(Relation("verb", under(inner, parts.VERB), subject))
        found += _phrase_relations(phrase.relative.other, other)
    return found
