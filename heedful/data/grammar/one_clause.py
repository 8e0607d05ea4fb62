"""Drawing sentences of one clause at random: one small function per construction.

Each takes the random generator and gives a whole sentence. Knows no language, and nothing of training or held-out
sentences.
"""

import random
from typing import Literal

from heedful.data.grammar import lexicon, verbs
from heedful.data.grammar.entries import Adjective, Noun, Preposition, Time, Verb
from heedful.data.grammar.lexicon import GROWING, SHRINKING, select
from heedful.data.grammar.phrases import (
    ANIMALS,
    FITTED,
    FITTING,
    OBJECTS,
    OWNED,
    PEOPLE,
    PREDICATES,
    SUBJECTS,
    adjectives,
    any_phrase,
    chance,
    definite,
    known,
    other,
    pick,
    single,
    subject_and_object,
)
from heedful.data.grammar.trees import (
    Action,
    Asked,
    Degree,
    Description,
    Means,
    Naming,
    NounPhrase,
    Pair,
    Person,
    Place,
    Pronoun,
    Sentence,
    Tense,
    This,
)

ACTIVE = tuple(verb for verb in verbs.VERBS if verb.name not in verbs.STATIVE)
DESCRIBED = tuple(noun for noun in lexicon.NOUNS if PREDICATES[noun])

_HABITS = tuple(verb for verb in ACTIVE if verb.habitual)
_PERFECTS: tuple[Tense, ...] = ("already", "yet", "never")
_MODALS: tuple[Tense, ...] = ("can", "must", "want")
_TENSES: tuple[Literal["past", "present"], ...] = ("past", "present")
_DEGREES: dict[str, tuple[Degree, ...]] = {"": ("",), "very": ("", "very"), "very too": ("", "very", "too")}
_PERSONAL: tuple[Tense, ...] = ("past", "past", "will", "can", "must")
_PERSONAL_STATIVE: tuple[Tense, ...] = ("present", "present", "present", "past")
_PERSONS: tuple[Person, ...] = ("I", "you", "he", "she", "we", "they")
# "them" is missing: German could not tell it from "her".
_ADDRESSED: tuple[Person, ...] = ("I", "you", "he", "she", "we")
_OVERLAPPING = (("I", "we"), ("we", "I"), ("you", "we"), ("we", "you"))
_COMPARABLE = tuple(adjective for adjective in lexicon.ADJECTIVES if adjective.comparatives)
# Beside a comparative, only adjectives that have none: nothing is big and bigger, or big and smaller.
_INCOMPARABLE = {noun: tuple(a for a in FITTING[noun] if not a.comparatives) for noun in lexicon.NOUNS}
_KINDS = tuple(noun for noun in ANIMALS if noun.name not in ("animal", "creature"))
_POINTED_AT = tuple(noun for noun in lexicon.NOUNS if noun.counter and noun.tags[0] != "people")


def _resolved(places: dict[str, str]) -> tuple[tuple[Preposition, Noun], ...]:
    return tuple((verbs.PREPOSITION_NAMED[name], noun) for name, nouns in places.items() for noun in select(nouns))


_PLACES = {verb: _resolved(verb.places) for verb in (*verbs.BEING, *verbs.MOVING, verbs.GO)}
_SETTINGS = _resolved(verbs.SETTINGS)
_SETTLED = tuple((verbs.VERB_NAMED[name], select(objects)) for name, objects in verbs.SETTLED.items())
_TOOLS = tuple((verbs.VERB_NAMED[verb], select(tools), select(objects)) for verb, tools, objects in verbs.TOOLS)
_TRANSPORT = select(verbs.TRANSPORT)
_TRAITS = tuple((lexicon.ADJECTIVE_NAMED[name], select(kinds)) for name, kinds in lexicon.TRAITS.items())
_SIZES = tuple(row.split() for row in lexicon.SIZES)


def _time(rng: random.Random, tense: str, probability: float) -> Time | None:
    return pick(rng, verbs.TIMES[tense]) if chance(rng, probability) else None


def transitive(rng: random.Random) -> Sentence:
    """Like "Yesterday the girl saw a cat", "The girl didn't buy the hat"."""
    verb = pick(rng, ACTIVE)
    subject, object_ = subject_and_object(rng, verb)
    time = _time(rng, "past", 0.3)
    if chance(rng, 0.25):
        return Sentence(Action(known(rng, subject), verb, _deniable(rng, verb, object_), negated=True), time)
    return Sentence(Action(any_phrase(rng, subject), verb, any_phrase(rng, object_)), time)


def settled(rng: random.Random) -> Sentence:
    """Like "The girl read the book in the garden"."""
    verb, objects = pick(rng, _SETTLED)
    subject = pick(rng, SUBJECTS[verb])
    object_ = other(rng, objects, subject)
    preposition, noun = pick(rng, _SETTINGS)
    place = Place(preposition, definite(rng, noun))
    return Sentence(
        Action(any_phrase(rng, subject), verb, any_phrase(rng, object_), place=place), _time(rng, "past", 0.2)
    )


def _deniable(rng: random.Random, verb: Verb, noun: Noun) -> NounPhrase:
    """A known object, or a single unknown one (German kein); a numeral would leave open what is denied."""
    if noun.counter and verb.particle == "를" and not verb.preposition and chance(rng, 0.3):
        return single(rng, noun)
    return known(rng, noun)


def perfect(rng: random.Random) -> Sentence:
    """Like "The girl has already read the book", "… hasn't read the book yet", "… has never read the book"."""
    verb = pick(rng, ACTIVE)
    subject, object_ = subject_and_object(rng, verb)
    tense = pick(rng, _PERFECTS)
    return Sentence(Action(known(rng, subject), verb, known(rng, object_), tense=tense, negated=tense == "yet"))


def future(rng: random.Random) -> Sentence:
    """Like "Tomorrow the girl will read the book"."""
    verb = pick(rng, ACTIVE)
    subject, object_ = subject_and_object(rng, verb)
    time = _time(rng, "will", 0.6)
    negated = chance(rng, 0.25)
    phrase = known(rng, object_) if negated else any_phrase(rng, object_)
    return Sentence(Action(known(rng, subject), verb, phrase, tense="will", negated=negated), time)


def modal(rng: random.Random) -> Sentence:
    """Like "The girl wants to read the book", "… can't read …", "… must read …"."""
    verb = pick(rng, ACTIVE)
    subject, object_ = subject_and_object(rng, verb)
    tense = pick(rng, _MODALS)
    negated = tense != "must" and chance(rng, 0.3)
    phrase = known(rng, object_) if negated else any_phrase(rng, object_)
    return Sentence(Action(known(rng, subject), verb, phrase, tense=tense, negated=negated))


def habit(rng: random.Random) -> Sentence:
    """Like "Every day the girl reads the book"; always with a time, or "the girls read" could be the past."""
    verb = pick(rng, _HABITS)
    subject, object_ = subject_and_object(rng, verb)
    action = Action(known(rng, subject), verb, known(rng, object_), tense="present")
    return Sentence(action, pick(rng, verbs.TIMES["present"]))


def feeling(rng: random.Random) -> Sentence:
    """Like "The girl loves the cat"."""
    verb = verbs.VERB_NAMED[pick(rng, verbs.STATIVE)]
    subject, object_ = subject_and_object(rng, verb)
    tense: Tense = "past" if chance(rng, 0.3) else "present"
    negated = chance(rng, 0.25)
    return Sentence(Action(known(rng, subject), verb, known(rng, object_), tense=tense, negated=negated))


def giving(rng: random.Random) -> Sentence:
    """Like "The man gave the child a book"."""
    verb = pick(rng, verbs.GIVING)
    subject, object_ = subject_and_object(rng, verb)
    recipient = known(rng, other(rng, PEOPLE, subject))
    time = _time(rng, "past", 0.2)
    if chance(rng, 0.2):
        given = _deniable(rng, verb, object_)
        return Sentence(Action(definite(rng, subject), verb, given, recipient, negated=True), time)
    return Sentence(Action(any_phrase(rng, subject), verb, any_phrase(rng, object_), recipient), time)


def being_somewhere(rng: random.Random) -> Sentence:
    """Like "The cat sat on the mat", "The boy played with the dog in the garden"."""
    verb = pick(rng, verbs.BEING)
    subject, place = pick(rng, SUBJECTS[verb]), _place(rng, verb)
    time = _time(rng, "past", 0.2)
    if chance(rng, 0.15):
        return Sentence(Action(known(rng, subject), verb, place=place, negated=True), time)
    company = _company(rng, subject) if chance(rng, 0.25) else None
    return Sentence(Action(any_phrase(rng, subject), verb, place=place, means=company), time)


def _place(rng: random.Random, verb: Verb) -> Place:
    preposition, noun = pick(rng, _PLACES[verb])
    return Place(preposition, definite(rng, noun))


def _company(rng: random.Random, subject: Noun) -> Means:
    nouns = PEOPLE if subject.tags[0] == "people" and chance(rng, 0.6) else ANIMALS
    return Means("company", known(rng, other(rng, nouns, subject)))


def going_somewhere(rng: random.Random) -> Sentence:
    """Like "A bird flew over the river"."""
    verb = pick(rng, verbs.MOVING)
    subject, place = pick(rng, SUBJECTS[verb]), _place(rng, verb)
    return Sentence(Action(any_phrase(rng, subject), verb, place=place), _time(rng, "past", 0.2))


def travelling(rng: random.Random) -> Sentence:
    """Like "The woman went to the castle by train"."""
    vehicle = Means("vehicle", NounPhrase(pick(rng, _TRANSPORT)))
    subject, place = any_phrase(rng, pick(rng, PEOPLE)), _place(rng, verbs.GO)
    return Sentence(Action(subject, verbs.GO, place=place, means=vehicle), _time(rng, "past", 0.3))


def using_a_tool(rng: random.Random) -> Sentence:
    """Like "The boy wrote the letter with a pencil"."""
    verb, tools, objects = pick(rng, _TOOLS)
    tool = Means("tool", NounPhrase(pick(rng, tools), definite=False))
    subject, object_ = pick(rng, SUBJECTS[verb]), pick(rng, objects)
    return Sentence(Action(any_phrase(rng, subject), verb, any_phrase(rng, object_), means=tool))


def two_together(rng: random.Random) -> Sentence:
    """Like "The cat and the dog crossed the road"."""
    verb = pick(rng, ACTIVE)
    first, object_ = subject_and_object(rng, verb)
    second = other(rng, SUBJECTS[verb], first)
    if second is object_:
        return two_together(rng)
    pair = Pair(definite(rng, first), definite(rng, second))
    return Sentence(Action(pair, verb, any_phrase(rng, object_)))


def between_persons(rng: random.Random) -> Sentence:
    """Like "I love you", "You love me", "Tomorrow she will call us"."""
    verb = verbs.VERB_NAMED[pick(rng, verbs.RECIPROCAL)]
    subject, object_ = _persons(rng)
    phrase = known(rng, pick(rng, OBJECTS[verb])) if chance(rng, 0.6) else object_
    tense = pick(rng, _PERSONAL_STATIVE if verb.name in verbs.STATIVE else _PERSONAL)
    negated = tense != "must" and chance(rng, 0.25)
    time = _time(rng, tense, 0.4) if tense in ("past", "will") and verb.name not in verbs.STATIVE else None
    return Sentence(Action(subject, verb, phrase, tense=tense, negated=negated), time)


def question_between_persons(rng: random.Random) -> Sentence:
    """Like "Do you love me?", "Did he see the cat?"; nobody asks what I or we do."""
    verb = verbs.VERB_NAMED[pick(rng, verbs.RECIPROCAL)]
    subject, object_ = _persons(rng)
    if subject.person in ("I", "we"):
        return question_between_persons(rng)
    phrase = known(rng, pick(rng, OBJECTS[verb])) if chance(rng, 0.6) else object_
    tense: Tense = "present" if verb.name in verbs.STATIVE and chance(rng, 0.7) else "past"
    return Sentence(Action(subject, verb, phrase, tense=tense), question=True)


def _persons(rng: random.Random) -> tuple[Pronoun, Pronoun]:
    """Two who are not the same, nor one of them part of the other."""
    subject, object_ = pick(rng, _PERSONS), pick(rng, _ADDRESSED)
    if subject == object_ or (subject, object_) in _OVERLAPPING:
        return _persons(rng)
    return Pronoun(subject), Pronoun(object_)


def question(rng: random.Random) -> Sentence:
    """Like "Did the girl see the cat?", "Who saw the cat?", "What did the girl see?"."""
    verb = pick(rng, ACTIVE)
    subject, object_ = subject_and_object(rng, verb)
    asked = rng.random()
    if asked < 0.25 and subject.tags[0] == "people":
        return Sentence(Action(Asked(), verb, any_phrase(rng, object_)), question=True)
    if asked < 0.45 and verb.particle == "를" and not verb.preposition and object_.tags[0] != "people":
        return Sentence(Action(known(rng, subject), verb, Asked()), question=True)
    return Sentence(Action(known(rng, subject), verb, any_phrase(rng, object_)), question=True)


def question_of_place(rng: random.Random) -> Sentence:
    """Like "Where did the cat sleep?", "Did the cat sleep under the table?"."""
    verb = pick(rng, verbs.BEING)
    subject = known(rng, pick(rng, SUBJECTS[verb]))
    return Sentence(Action(subject, verb, place=Asked() if chance(rng, 0.5) else _place(rng, verb)), question=True)


def state_of_a_person(rng: random.Random) -> Sentence:
    """Like "I am hungry", "They were very tired"."""
    person = pick(rng, _PERSONS)
    adjective = pick(rng, PREDICATES[lexicon.NOUN_NAMED["man"]])
    return _described(rng, Pronoun(person), adjective, deniable=person != "I")


def description(rng: random.Random) -> Sentence:
    """Like "The road is too wide", "The king's horse wasn't tired"."""
    noun = pick(rng, DESCRIBED)
    adjective = pick(rng, PREDICATES[noun])
    phrase = known(rng, noun)
    # Beside the predicate only a colour, so that nothing is said twice ("the tired cat was tired") or denied.
    colours = () if adjective.kind == "colour" else tuple(a for a in phrase.adjectives if a.kind == "colour")
    return _described(rng, NounPhrase(noun, colours, phrase.count, owner=phrase.owner), adjective, deniable=True)


def _described(rng: random.Random, subject: NounPhrase | Pronoun, adjective: Adjective, *, deniable: bool) -> Sentence:
    tense = pick(rng, _TENSES)
    if deniable and chance(rng, 0.25):
        return Sentence(Description(subject, adjective, tense=tense, negated=True))
    return Sentence(Description(subject, adjective, degree(rng, adjective), tense=tense))


def degree(rng: random.Random, adjective: Adjective) -> Degree:
    """Plain, or in one of the degrees that the adjective has."""
    return pick(rng, _DEGREES[adjective.degrees])


def comparison(rng: random.Random) -> Sentence:
    """Like "The dog is bigger than the cat"."""
    adjective = pick(rng, _COMPARABLE)
    first, second = pick(rng, FITTED[adjective]), pick(rng, FITTED[adjective])
    if first is second or first.tags[0] != second.tags[0]:
        return comparison(rng)
    if _contradicts(adjective, first, second):
        first, second = second, first
    subject, than = _compared(rng, first), _compared(rng, second)
    return Sentence(Description(subject, adjective, than=than, tense=pick(rng, _TENSES)))


def _compared(rng: random.Random, noun: Noun) -> NounPhrase:
    owner = NounPhrase(pick(rng, PEOPLE)) if noun in OWNED and chance(rng, 0.3) else None
    return NounPhrase(noun, adjectives(rng, noun, _INCOMPARABLE[noun]), owner=owner)


def _contradicts(adjective: Adjective, first: Noun, second: Noun) -> bool:
    """Whether the comparison says the opposite of what everybody knows."""
    for row in _SIZES:
        if first.name in row and second.name in row:
            bigger = row.index(first.name) > row.index(second.name)
            return (adjective.name in GROWING and not bigger) or (adjective.name in SHRINKING and bigger)
    return False


def naming(rng: random.Random) -> Sentence:
    """Like "This is a miniature tower", "This is the Eiffel Tower", "The cat is a clever animal"."""
    tense, roll = pick(rng, _TENSES), rng.random()
    if roll < 0.05:
        return Sentence(Naming(This(), NounPhrase(lexicon.NOUN_NAMED["eiffel_tower"]), tense))
    negated = chance(rng, 0.25)
    if roll < 0.6:
        return Sentence(Naming(This(), single(rng, pick(rng, _POINTED_AT)), tense, negated))
    trait, kinds = pick(rng, _TRAITS)
    kind = pick(rng, tuple(noun for noun in _KINDS if (noun in kinds) != negated))
    phrase = NounPhrase(lexicon.NOUN_NAMED["animal"], (trait,), definite=False)
    return Sentence(Naming(NounPhrase(kind), phrase, tense, negated))
