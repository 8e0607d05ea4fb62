"""What training never shows: the combinations of words that are kept for the held-out sentences.

A fixed rule, the same for every seed and every corpus size, reserves about one in twelve of the pairs (adjective, noun)
and (verb, object or place), and one in six of the triples (subject, object, reason) of the pronoun sentences. A
sentence with a reserved combination is held out; all others are for training. Each word by itself is in both. The two
sentences about the animal and the road are held out on purpose. Knows no language.
"""

from collections.abc import Iterator
from functools import cache
from zlib import crc32

from heedful.grammar.trees import Action, Anaphor, Description, NounPhrase, Place, Sentence, deeds, phrases

Combination = tuple[str, ...]

_ON_PURPOSE = frozenset({("animal", "road", "tired"), ("animal", "road", "wide")})
_ONE_IN = {2: 12, 3: 6}


@cache
def is_reserved(combination: Combination) -> bool:
    """Whether the combination is kept from training."""
    number = crc32(" ".join(combination).encode())
    return number % _ONE_IN[len(combination)] == 0 or combination in _ON_PURPOSE


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
    if isinstance(sentence.main, Action) and isinstance(sentence.main.place, Place):
        yield sentence.main.verb.name, sentence.main.place.phrase.noun.name
    triple = dilemma_of(sentence)
    if triple is not None:
        yield triple


def dilemma_of(sentence: Sentence) -> Combination | None:
    """Subject, object and reason of a pronoun sentence, and None of any other."""
    main, reason = sentence.main, sentence.reason
    if not isinstance(reason, Description) or not isinstance(reason.subject, Anaphor) or not isinstance(main, Action):
        return None
    assert isinstance(main.subject, NounPhrase)
    assert isinstance(main.object, NounPhrase)
    return main.subject.noun.name, main.object.noun.name, reason.adjective.name
