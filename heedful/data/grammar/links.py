"""Which adjective, verb and pronoun of a sentence belongs to which noun.

A link is found in the tree, once for all languages, and then looked up among a language's words: it runs from the first
word of the dependent to the last word of the head ("rief" of "rief … an", "Tower" of "Eiffel Tower"). A language that
has no such word, like Korean for a dropped pronoun, has no such link.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from heedful.data.grammar.trees import (
    Action,
    Anaphor,
    Description,
    Naming,
    NounPhrase,
    Pair,
    Place,
    Pronoun,
    Sentence,
    Subject,
)
from heedful.data.grammar.words import (
    ADJECTIVE,
    CLAUSE,
    MEANS,
    NOUN,
    OBJECT,
    OWNER,
    PLACE,
    PREDICATE,
    RECIPIENT,
    RELATIVE,
    ROOT,
    SECOND,
    SECOND_ADJECTIVE,
    SUBJECT,
    THAN,
    VERB,
    Word,
    under,
)


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


def relations_of(sentence: Sentence) -> list[Relation]:
    """Which adjective, verb and pronoun belongs to which noun, in any language."""
    found = _clause_relations(sentence.main, ROOT)
    for clause in (sentence.reason, sentence.claim):
        if clause is not None:
            found += _clause_relations(clause, under(ROOT, CLAUSE))
    return found


def _clause_relations(clause: Action | Description | Naming, node: int) -> list[Relation]:
    subject_heads = _heads(clause.subject, under(node, SUBJECT))
    found = [Relation("verb", under(node, VERB), head) for head in subject_heads]
    found += _subject_relations(clause.subject, under(node, SUBJECT))
    if isinstance(clause, Description):
        if isinstance(clause.subject, NounPhrase):
            found.append(Relation("adjective", under(node, PREDICATE), subject_heads[0]))
        return found + _phrase_relations(clause.than, under(node, THAN))
    if isinstance(clause, Naming):
        return found + _phrase_relations(clause.phrase, under(node, OBJECT))
    place = clause.place.phrase if isinstance(clause.place, Place) else None
    object_ = clause.object if isinstance(clause.object, NounPhrase) else None
    means = clause.means.phrase if clause.means else None
    found += _phrase_relations(object_, under(node, OBJECT)) + _phrase_relations(place, under(node, PLACE))
    return (
        found
        + _phrase_relations(clause.recipient, under(node, RECIPIENT))
        + _phrase_relations(means, under(node, MEANS))
    )


def _heads(subject: Subject, node: int) -> list[int]:
    if isinstance(subject, Pair):
        return [under(node, NOUN), under(under(node, SECOND), NOUN)]
    return [under(node, NOUN)] if isinstance(subject, NounPhrase | Pronoun | Anaphor) else []


def _subject_relations(subject: Subject, node: int) -> list[Relation]:
    if isinstance(subject, NounPhrase):
        return _phrase_relations(subject, node)
    if isinstance(subject, Pair):
        return _phrase_relations(subject.first, node) + _phrase_relations(subject.second, under(node, SECOND))
    if isinstance(subject, Anaphor):
        role = SUBJECT if subject.role == "subject" else OBJECT
        return [Relation("pronoun", under(node, NOUN), under(under(ROOT, role), NOUN))]
    return []


def _phrase_relations(phrase: NounPhrase | None, node: int) -> list[Relation]:
    if phrase is None:
        return []
    head = under(node, NOUN)
    parts = (ADJECTIVE, SECOND_ADJECTIVE)[: len(phrase.adjectives)]
    found = [Relation("adjective", under(node, part), head) for part in parts]
    found += _phrase_relations(phrase.owner, under(node, OWNER))
    if phrase.relative is not None:
        inner = under(node, RELATIVE)
        other = under(inner, OBJECT if phrase.relative.gap == "subject" else SUBJECT)
        subject = head if phrase.relative.gap == "subject" else under(other, NOUN)
        found.append(Relation("verb", under(inner, VERB), subject))
        found += _phrase_relations(phrase.relative.other, other)
    return found
