"""What training never shows: the combinations of words that are kept for the held-out sentences.

A fixed rule, the same for every seed and every corpus size, reserves about one in ten of the pairs (adjective, noun)
and (verb, object), and one in six of the triples (subject, object, reason) of the pronoun sentences. A sentence with a
reserved combination is held out; all others are for training. Each word is in both, and so is each of its forms: of
the nouns of one gender that a word goes with, at most a third are reserved. The two sentences about the animal and the
road are held out on purpose.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple
from zlib import crc32

from heedful.data.grammar.entries import Noun
from heedful.data.grammar.lexicon import ADJECTIVES, select
from heedful.data.grammar.trees import Action, Anaphor, Description, NounPhrase, Sentence, deeds, phrases
from heedful.data.grammar.verbs import GIVING, VERBS

Combination = tuple[str, ...]

_PAIRS_ONE_IN, _TRIPLES_ONE_IN = 8, 6
# A noun that fewer verbs take with the same Korean particle might lose that form.
_VERBS_LEFT = 4
_ON_PURPOSE = frozenset({("animal", "road", "tired"), ("animal", "road", "wide")})


def _number(combination: Combination) -> int:
    return crc32(" ".join(combination).encode())


def _chosen(word: str, nouns: Sequence[Noun]) -> Iterator[Combination]:
    """The reserved pairs of a word with nouns of one gender."""
    pairs = sorted(((word, noun.name) for noun in nouns), key=_number)
    yield from [pair for pair in pairs if _number(pair) % _PAIRS_ONE_IN == 0][: len(pairs) // 3]


def _reserved_pairs() -> Iterator[Combination]:
    verbs = [(verb, select(verb.objects)) for verb in (*VERBS, *GIVING)]
    uses = Counter((verb.particle, noun) for verb, nouns in verbs for noun in nouns)
    words = [(adjective.name, select(adjective.fits)) for adjective in ADJECTIVES]
    words += [(verb.name, tuple(n for n in nouns if uses[verb.particle, n] >= _VERBS_LEFT)) for verb, nouns in verbs]
    for word, fitting in words:
        for gender in "mfn":
            yield from _chosen(word, [noun for noun in fitting if noun.gender == gender])


RESERVED_PAIRS = frozenset(_reserved_pairs())
"""(adjective, noun) and (verb, object), by their names in the lexicon."""


@cache
def is_reserved(combination: Combination) -> bool:
    """Whether the combination is kept from training."""
    if len(combination) == 2:
        return combination in RESERVED_PAIRS
    return combination in _ON_PURPOSE or _number(combination) % _TRIPLES_ONE_IN == 0


def is_held_out(sentence: Sentence) -> bool:
    """Whether the sentence has a combination that is kept from training."""
    return any(map(is_reserved, combinations(sentence)))


def combinations(sentence: Sentence) -> Iterator[Combination]:
    """The combinations of words by which sentences are divided."""
    for phrase in phrases(sentence):
        for adjective in phrase.adjectives:
            yield adjective.name, phrase.noun.name
    for verb, object_ in deeds(sentence):
        if isinstance(object_, NounPhrase):
            yield verb.name, object_.noun.name
    dilemma = dilemma_of(sentence)
    if dilemma is not None:
        yield dilemma.names


class DilemmaParts(NamedTuple):
    """What a pronoun sentence is about."""

    subject: NounPhrase
    object: NounPhrase
    reason: Description
    pronoun: Anaphor

    @property
    def names(self) -> Combination:
        """The words by which it is reserved or not."""
        return self.subject.noun.name, self.object.noun.name, self.reason.adjective.name


def dilemma_of(sentence: Sentence) -> DilemmaParts | None:
    """The parts of a pronoun sentence, and None of any other."""
    match sentence:
        case Sentence(
            main=Action(subject=NounPhrase() as subject, object=NounPhrase() as object_),
            reason=Description(subject=Anaphor() as pronoun) as reason,
        ):
            return DilemmaParts(subject, object_, reason, pronoun)
    return None
