"""Drawing phrases at random: which adjective a noun gets, how many there are, whether they are known.

Every choice is `pick` or `chance`, which use nothing of the generator but `random()`: that sequence is the same on
every platform and in every version of Python. What may go with what comes from the lexicon; the tables here are its
restrictions, resolved once. Knows no language and no clause.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

from heedful.data.grammar.entries import Adjective, Noun, Verb
from heedful.data.grammar.lexicon import ADJECTIVES, NOUNS, NUMBERS, select
from heedful.data.grammar.trees import MANY, NounPhrase
from heedful.data.grammar.verbs import VERB_NAMED

T = TypeVar("T")

SUBJECTS = {verb: select(verb.subjects) for verb in VERB_NAMED.values()}
OBJECTS = {verb: select(verb.objects) for verb in VERB_NAMED.values()}
FITTED = {adjective: select(adjective.fits) for adjective in ADJECTIVES}
PREDICATES = {noun: tuple(a for a in ADJECTIVES if a.korean and noun in FITTED[a]) for noun in NOUNS}
# A proper name is described, but has no adjective before it.
FITTING = {noun: tuple(a for a in ADJECTIVES if noun in FITTED[a] and "sights" not in noun.tags) for noun in NOUNS}
LOOKS = {noun: tuple(adjective for adjective in FITTING[noun] if adjective.kind != "state") for noun in NOUNS}
# What may follow another adjective, as English orders them.
_SECOND = ("age", "colour")
PEOPLE, ANIMALS = select("people"), select("animals")
OWNED = select("animals things texts furniture vehicles house castle garden miniature_tower")
_NUMBERS = tuple(NUMBERS)


class Draw(random.Random):
    """A generator of random phrases; equal seeds give equal ones."""

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, each equally likely."""
        return options[int(self.random() * len(options))]

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.random() < probability

    def other(self, nouns: Sequence[Noun], taken: Noun) -> Noun:
        """One of the nouns, but not the one that is taken."""
        while (noun := self.pick(nouns)) is taken:
            pass
        return noun

    def subject_and_object(self, verb: Verb) -> tuple[Noun, Noun]:
        """Two nouns that a verb can join."""
        subject = self.pick(SUBJECTS[verb])
        return subject, self.other(OBJECTS[verb], subject)

    def adjectives(self, noun: Noun, options: Sequence[Adjective]) -> tuple[Adjective, ...]:
        """None, one, or two: a quality before an age or a colour ("fluffy blue", "expensive new")."""
        roll = self.random()
        if roll > 0.6 or not options:
            return ()
        first = tuple(adjective for adjective in options if adjective.kind not in _SECOND)
        second = tuple(adjective for adjective in options if adjective.kind in _SECOND)
        if roll < 0.25 and first and second:
            return self.pick(first), self.pick(second)
        return (self.pick(options),)

    def definite(self, noun: Noun) -> NounPhrase:
        """Like "the cat", "the small cat"."""
        return NounPhrase(noun, self.adjectives(noun, FITTING[noun]))

    def known(self, noun: Noun) -> NounPhrase:
        """A definite phrase of any kind: one, many, or somebody's."""
        chosen = self.adjectives(noun, FITTING[noun])
        roll = self.random()
        if roll < 0.15 and noun.counter:
            return NounPhrase(noun, chosen, MANY)
        if roll < 0.28 and noun in OWNED:
            return NounPhrase(noun, chosen, owner=NounPhrase(self.pick(PEOPLE)))
        return NounPhrase(noun, chosen)

    def single(self, noun: Noun) -> NounPhrase:
        """Like "a cat", "a small cat"."""
        return NounPhrase(noun, self.adjectives(noun, FITTING[noun]), definite=False)

    def any_phrase(self, noun: Noun) -> NounPhrase:
        """A phrase of any kind: also "a cat" and "three cats"."""
        roll = self.random()
        if roll > 0.5 or not noun.counter:
            return self.known(noun)
        if roll < 0.35:
            return self.single(noun)
        return NounPhrase(noun, self.adjectives(noun, FITTING[noun]), self.pick(_NUMBERS), definite=False)
