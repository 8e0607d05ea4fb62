"""Abstract sentences: what is said, before any language says it.

A tree holds concepts of the lexicon, number, definiteness, tense, negation and how clauses hang together. It holds no
word order, no article, no case and no particle: the three linearisations add those. Two trees that are equal mean the
same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from heedful.data.grammar import parts
from heedful.data.grammar.entries import Adjective, Noun, Preposition, Time, Verb
from heedful.data.grammar.parts import under

MANY = 0
"""The count of a definite plural, "the cats"."""

Tense: TypeAlias = Literal["past", "present", "already", "yet", "never", "had", "will", "can", "must", "want"]
"""How the action is put: tense, aspect and modality in one, since the grammar does not combine them.

"already", "yet" (always with a negation) and "never" are the perfect with that adverb; "had" is the tense of a claim
about the past, and the rest are what they are called.
"""

Person: TypeAlias = Literal["I", "you", "he", "she", "we", "they"]
Degree: TypeAlias = Literal["", "very", "too"]
Agreement: TypeAlias = Literal["I", "you", "he", "they"]


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """`count` is 1, MANY (definite) or a numeral (indefinite): "the cat", "a cat", "the cats", "three cats"."""

    noun: Noun
    adjectives: tuple[Adjective, ...] = ()
    count: int = 1
    definite: bool = True
    owner: "NounPhrase | None" = None
    relative: "Relative | None" = None


@dataclass(frozen=True, slots=True)
class Relative:
    """A clause about a noun: "that saw the dog" (`gap` "subject"), "that the dog saw" (`gap` "object")."""

    gap: Literal["subject", "object"]
    verb: Verb
    other: NounPhrase


@dataclass(frozen=True, slots=True)
class Coordination:
    """Two phrases joined by "and"."""

    first: NounPhrase
    second: NounPhrase


@dataclass(frozen=True, slots=True)
class Pronoun:
    """Who speaks, who is spoken to, or someone whom the sentence does not name."""

    person: Person


@dataclass(frozen=True, slots=True)
class Anaphor:
    """A pronoun that stands for a phrase of the main clause."""

    role: Literal["subject", "object"]
    antecedent: NounPhrase


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question asks for: who, what or where, by the role it stands in."""


@dataclass(frozen=True, slots=True)
class This:
    """What the speaker points at."""


Subject: TypeAlias = NounPhrase | Coordination | Pronoun | Anaphor | Asked | This
Object: TypeAlias = NounPhrase | Pronoun | Asked


@dataclass(frozen=True, slots=True)
class Place:
    """Where, or where to."""

    preposition: Preposition
    phrase: NounPhrase


@dataclass(frozen=True, slots=True)
class Means:
    """With what or whom: "with a pencil" (a tool), "by train" (a vehicle), "with the dog" (company)."""

    kind: Literal["tool", "vehicle", "company"]
    phrase: NounPhrase


@dataclass(frozen=True, slots=True)
class Action:
    """Somebody does something."""

    subject: Subject
    verb: Verb
    object: Object | None = None
    recipient: NounPhrase | None = None
    place: Place | Asked | None = None
    means: Means | None = None
    tense: Tense = "past"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Description:
    """Something is so, too much so, or more so than something else."""

    subject: Subject
    adjective: Adjective
    degree: Degree = ""
    than: NounPhrase | None = None
    tense: Literal["past", "present"] = "past"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Naming:
    """Something is a such-and-such."""

    subject: NounPhrase | This
    phrase: NounPhrase
    tense: Literal["past", "present"] = "present"
    negated: bool = False


Clause: TypeAlias = Action | Description | Naming


@dataclass(frozen=True, slots=True)
class Sentence:
    """A main clause, perhaps a time before it, a reason ("because …") or a claim ("that …") after it."""

    main: Clause
    time: Time | None = None
    reason: Action | Description | None = None
    claim: Action | Description | None = None
    question: bool = False


def agreement(subject: Subject) -> Agreement:
    """The form of the verb that the subject asks for."""
    if isinstance(subject, Anaphor):
        subject = subject.antecedent
    if isinstance(subject, NounPhrase):
        return "he" if subject.count == 1 else "they"
    if isinstance(subject, Pronoun):
        return _AGREEMENT[subject.person]
    return "they" if isinstance(subject, Coordination) else "he"


_AGREEMENT: dict[Person, Agreement] = {"I": "I", "you": "you", "he": "he", "she": "he", "we": "they", "they": "they"}


def clauses(sentence: Sentence) -> Iterator[tuple[Clause, int]]:
    """The main clause and the one after it, each with its node."""
    yield sentence.main, parts.ROOT
    for clause in (sentence.reason, sentence.claim):
        if clause is not None:
            yield clause, under(parts.ROOT, parts.CLAUSE)


def phrases(sentence: Sentence) -> Iterator[NounPhrase]:
    """Every phrase of a sentence once, also those inside others; a pronoun is no phrase."""
    return (phrase for phrase, _ in phrases_and_nodes(sentence))


def phrases_and_nodes(sentence: Sentence) -> Iterator[tuple[NounPhrase, int]]:
    """Every phrase of a sentence with its node."""
    for clause, node in clauses(sentence):
        for part, inside in _parts(clause).items():
            yield from _phrases_in(inside, under(node, part))


_Constituent: TypeAlias = Subject | Object | Place | Means | None


def _parts(clause: Clause) -> dict[int, _Constituent]:
    if isinstance(clause, Description):
        return {parts.SUBJECT: clause.subject, parts.THAN: clause.than}
    if isinstance(clause, Naming):
        return {parts.SUBJECT: clause.subject, parts.OBJECT: clause.phrase}
    around = {parts.RECIPIENT: clause.recipient, parts.PLACE: clause.place, parts.MEANS: clause.means}
    return {parts.SUBJECT: clause.subject, parts.OBJECT: clause.object, **around}


def _phrases_in(part: _Constituent, node: int) -> Iterator[tuple[NounPhrase, int]]:
    if isinstance(part, NounPhrase):
        yield part, node
        yield from _phrases_in(part.owner, under(node, parts.OWNER))
        if part.relative:
            role = parts.OBJECT if part.relative.gap == "subject" else parts.SUBJECT
            yield from _phrases_in(part.relative.other, under(under(node, parts.RELATIVE), role))
    elif isinstance(part, Place | Means):
        yield from _phrases_in(part.phrase, node)
    elif isinstance(part, Coordination):
        yield from _phrases_in(part.first, node)
        yield from _phrases_in(part.second, under(node, parts.SECOND))


def deeds(sentence: Sentence) -> Iterator[tuple[Verb, Object | None]]:
    """Every verb of a sentence with its object, also those of relative clauses."""
    for clause, _ in clauses(sentence):
        if isinstance(clause, Action):
            yield clause.verb, clause.object
    for phrase in phrases(sentence):
        if phrase.relative is not None:
            yield phrase.relative.verb, phrase.relative.other if phrase.relative.gap == "subject" else phrase
