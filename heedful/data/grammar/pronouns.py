"""Pronoun sentences for a contrastive score: the right translation must be likelier than one with the wrong pronoun.

The antecedent follows from the adjective (a road is too wide, an animal too tired), and the two nouns differ in German
gender, so that er, sie or es shows which one was understood. All are held out: training never shows the subject, the
object and the reason together.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from heedful.data.grammar.links import Link
from heedful.data.grammar.reserved import dilemma_of, is_reserved
from heedful.data.grammar.trees import Action, Anaphor, Description, NounPhrase, Sentence
from heedful.data.grammar.two_clauses import dilemma

Role = Literal["subject", "object"]


@dataclass(frozen=True, slots=True)
class PronounCase:
    """A sentence, its translation, and the same translation with the pronoun that the other noun would ask for."""

    source: str
    right: str
    wrong: str
    source_links: tuple[Link, ...]
    target_links: tuple[Link, ...]  # of the right one


def pronoun_sentences(rng: random.Random, role: Role) -> Iterator[Sentence]:
    """Held-out sentences about one animal, with a pronoun for the noun in the role."""
    while True:
        sentence = dilemma(rng)
        subject, object_, pronoun = _parts(sentence)
        triple = dilemma_of(sentence)
        decisive = (
            subject.noun.gender != object_.noun.gender and subject.noun.tags[0] == "animals" and subject.count == 1
        )
        if pronoun.role == role and decisive and triple is not None and is_reserved(triple):
            yield sentence


def wrong_pronoun(sentence: Sentence) -> Sentence:
    """The same sentence with the other noun as the pronoun's antecedent."""
    subject, object_, pronoun = _parts(sentence)
    other = Anaphor("object", object_) if pronoun.role == "subject" else Anaphor("subject", subject)
    assert isinstance(sentence.reason, Description)
    return replace(sentence, reason=replace(sentence.reason, subject=other))


def _parts(sentence: Sentence) -> tuple[NounPhrase, NounPhrase, Anaphor]:
    assert isinstance(sentence.main, Action)
    assert isinstance(sentence.reason, Description)
    subject, object_, pronoun = sentence.main.subject, sentence.main.object, sentence.reason.subject
    assert isinstance(subject, NounPhrase)
    assert isinstance(object_, NounPhrase)
    assert isinstance(pronoun, Anaphor)
    return subject, object_, pronoun
