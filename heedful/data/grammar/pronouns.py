"""Pronoun sentences for a contrastive score: the right translation must be likelier than one with the wrong pronoun.

The antecedent follows from the adjective (a road is too wide, an animal too tired), and the two nouns differ in German
gender, so that er, sie or es shows which one was understood. All are held out: training never shows the subject, the
object and the reason together.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from heedful.data.grammar.links import Link
from heedful.data.grammar.phrases import Draw
from heedful.data.grammar.reserved import dilemma_of, is_reserved
from heedful.data.grammar.trees import Anaphor, Sentence
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


def pronoun_sentences(draw: Draw, role: Role) -> Iterator[Sentence]:
    """Held-out sentences about one animal, with a pronoun for the noun in the role."""
    while True:
        sentence = dilemma(draw)
        parts = dilemma_of(sentence)
        assert parts is not None
        subject = parts.subject
        is_one_animal = subject.noun.tags[0] == "animals" and subject.count == 1
        decisive = is_one_animal and subject.noun.gender != parts.object.noun.gender
        if parts.pronoun.role == role and decisive and is_reserved(parts.names):
            yield sentence


def wrong_pronoun(sentence: Sentence) -> Sentence:
    """The same sentence with the other noun as the pronoun's antecedent."""
    parts = dilemma_of(sentence)
    assert parts is not None
    is_subject = parts.pronoun.role == "subject"
    other = Anaphor("object", parts.object) if is_subject else Anaphor("subject", parts.subject)
    return replace(sentence, reason=replace(parts.reason, subject=other))
