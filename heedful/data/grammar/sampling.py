"""Drawing whole sentences: which construction how often.

The weights are shares of the corpus, about; the pronoun sentences have the largest. Knows no language, and nothing of
training or held-out sentences.
"""

from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import accumulate

from heedful.data.grammar import one_clause, two_clauses
from heedful.data.grammar.entries import Verb
from heedful.data.grammar.phrases import Draw
from heedful.data.grammar.trees import NounPhrase, Object, Sentence, deeds, phrases
from heedful.data.grammar.verbs import LASTING, ODD_PAIRS

CONSTRUCTIONS: dict[Callable[[Draw], Sentence], int] = {
    one_clause.transitive: 8,
    one_clause.settled: 8,
    one_clause.perfect: 5,
    one_clause.future: 5,
    one_clause.modal: 6,
    one_clause.habit: 4,
    one_clause.feeling: 2,
    one_clause.giving: 6,
    one_clause.being_somewhere: 7,
    one_clause.going_somewhere: 4,
    one_clause.travelling: 2,
    one_clause.using_a_tool: 3,
    one_clause.two_together: 3,
    one_clause.between_persons: 9,
    one_clause.question_between_persons: 1,
    one_clause.question: 4,
    one_clause.question_of_place: 2,
    one_clause.state_of_a_person: 1,
    one_clause.description: 4,
    one_clause.comparison: 7,
    one_clause.naming: 3,
    two_clauses.dilemma: 34,
    two_clauses.deed_as_reason: 6,
    two_clauses.claim: 8,
    two_clauses.with_relative: 10,
}

_DRAW = tuple(CONSTRUCTIONS)
_UP_TO = tuple(accumulate(CONSTRUCTIONS.values()))


def sentences(draw: Draw) -> Iterator[Sentence]:
    """Sentences without end, in an order that depends on nothing but the generator."""
    while True:
        sentence = _DRAW[bisect(_UP_TO, draw.random() * _UP_TO[-1])](draw)
        if _sensible(sentence):
            yield sentence


def _sensible(sentence: Sentence) -> bool:
    """No noun and no verb twice ("the king found the king's key"), and nothing that the lexicon calls odd."""
    nouns = [phrase.noun for phrase in phrases(sentence)]
    done = list(deeds(sentence))
    repeats = len(set(nouns)) < len(nouns) or len({verb.english for verb, _ in done}) < len(done)
    lasting = sentence.time is not None and any(verb.name in LASTING for verb, _ in done)
    return not repeats and not lasting and not any(_odd(verb, object_) for verb, object_ in done)


def _odd(verb: Verb, object_: Object | None) -> bool:
    return isinstance(object_, NounPhrase) and any((verb.name, a.name) in ODD_PAIRS for a in object_.adjectives)
