"""The sentences that people know from explanations of attention, as trees, for a demonstration to translate.

The first two differ in one word, and with it in what "it" stands for: the animal or the road.
"""

from heedful.data.grammar.lexicon import ADJECTIVE_NAMED, NOUN_NAMED
from heedful.data.grammar.trees import Action, Anaphor, Description, NounPhrase, Place, Pronoun, Relative, Sentence
from heedful.data.grammar.verbs import PREPOSITION_NAMED, VERB_NAMED


def _phrase(*words: str, definite: bool = True) -> NounPhrase:
    *adjectives, noun = words
    return NounPhrase(NOUN_NAMED[noun], tuple(ADJECTIVE_NAMED[name] for name in adjectives), definite=definite)


def _road(reason: str) -> Sentence:
    animal, road = _phrase("animal"), _phrase("road")
    pronoun = Anaphor("subject", animal) if reason == "tired" else Anaphor("object", road)
    crossing = Action(animal, VERB_NAMED["cross"], road, negated=True)
    return Sentence(crossing, reason=Description(pronoun, ADJECTIVE_NAMED[reason], "too"))


def _love(lover: Pronoun, loved: Pronoun) -> Sentence:
    return Sentence(Action(lover, VERB_NAMED["love"], loved, tense="present"))


_MAT = Place(PREPOSITION_NAMED["on"], _phrase("mat"))
_BUYER = NounPhrase(
    NOUN_NAMED["woman"], relative=Relative("subject", VERB_NAMED["buy"], _phrase("red", "dress", definite=False))
)
_CREATURE = _phrase("fluffy", "blue", "creature", definite=False)
_EIFFEL, _MINIATURE = _phrase("eiffel_tower"), _phrase("miniature_tower")

DEMO = (
    _road("tired"),
    _road("wide"),
    Sentence(Action(_phrase("cat"), VERB_NAMED["sit"], place=_MAT)),
    Sentence(Action(_CREATURE, VERB_NAMED["roam"], _phrase("verdant", "forest"))),
    Sentence(Description(_EIFFEL, ADJECTIVE_NAMED["tall"], than=_MINIATURE, tense="present")),
    _love(Pronoun("I"), Pronoun("you")),
    _love(Pronoun("you"), Pronoun("I")),
    Sentence(Action(_BUYER, VERB_NAMED["open"], _phrase("old", "box"))),
)
"""The demonstration's sentences."""
