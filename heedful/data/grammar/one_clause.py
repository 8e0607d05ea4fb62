"""Drawing sentences of one clause at random: one small function per construction.

Each takes the random generator and gives a whole sentence. Knows no language, and nothing of training or held-out
sentences.
"""

from typing import Literal

from heedful.data.grammar import lexicon, verbs
from heedful.data.grammar.entries import Adjective, Noun, Preposition, Time, Verb
from heedful.data.grammar.lexicon import GROWING, SHRINKING, select
from heedful.data.grammar.phrases import ANIMALS, FITTED, FITTING, OBJECTS, OWNED, PEOPLE, PREDICATES, SUBJECTS, Draw
from heedful.data.grammar.trees import (
    Action,
    Asked,
    Coordination,
    Degree,
    Description,
    Means,
    Naming,
    NounPhrase,
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
_PERSONAL_STATIVE: tuple[Tense, ...] = (*5 * ("present",), "past")
_PERSONS: tuple[Person, ...] = ("I", "I", "you", "you", "he", "she", "we", "they")
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


def _time(draw: Draw, tense: str, probability: float) -> Time | None:
    return draw.pick(verbs.TIMES[tense]) if draw.chance(probability) else None


def deed(draw: Draw) -> tuple[Verb, Noun, Noun]:
    """A verb with a subject and an object."""
    verb = draw.pick(ACTIVE)
    return verb, *draw.subject_and_object(verb)


def transitive(draw: Draw) -> Sentence:
    """Like "Yesterday the girl saw a cat", "The girl didn't buy the hat"."""
    verb, subject, object_ = deed(draw)
    time = _time(draw, "past", 0.3)
    if draw.chance(0.25):
        return Sentence(Action(draw.known(subject), verb, _deniable(draw, verb, object_), negated=True), time)
    return Sentence(Action(draw.any_phrase(subject), verb, draw.any_phrase(object_)), time)


def settled(draw: Draw) -> Sentence:
    """Like "The girl read the book in the garden"."""
    verb, objects = draw.pick(_SETTLED)
    subject = draw.pick(SUBJECTS[verb])
    object_ = draw.other(objects, subject)
    preposition, noun = draw.pick(_SETTINGS)
    place = Place(preposition, draw.definite(noun))
    return Sentence(
        Action(draw.any_phrase(subject), verb, draw.any_phrase(object_), place=place), _time(draw, "past", 0.2)
    )


def _deniable(draw: Draw, verb: Verb, noun: Noun) -> NounPhrase:
    """A known object, or a single unknown one (German kein); a numeral would leave open what is denied."""
    if noun.counter and verb.particle == "를" and not verb.preposition and draw.chance(0.3):
        return draw.single(noun)
    return draw.known(noun)


def perfect(draw: Draw) -> Sentence:
    """Like "The girl has already read the book", "… hasn't read the book yet", "… has never read the book"."""
    verb, subject, object_ = deed(draw)
    tense = draw.pick(_PERFECTS)
    return Sentence(Action(draw.known(subject), verb, draw.known(object_), tense=tense, negated=tense == "yet"))


def future(draw: Draw) -> Sentence:
    """Like "Tomorrow the girl will read the book"."""
    verb, subject, object_ = deed(draw)
    time = _time(draw, "will", 0.6)
    negated = draw.chance(0.25)
    phrase = draw.known(object_) if negated else draw.any_phrase(object_)
    return Sentence(Action(draw.known(subject), verb, phrase, tense="will", negated=negated), time)


def modal(draw: Draw) -> Sentence:
    """Like "The girl wants to read the book", "… can't read …", "… must read …"."""
    verb, subject, object_ = deed(draw)
    tense = draw.pick(_MODALS)
    negated = tense != "must" and draw.chance(0.3)
    phrase = draw.known(object_) if negated else draw.any_phrase(object_)
    return Sentence(Action(draw.known(subject), verb, phrase, tense=tense, negated=negated))


def habit(draw: Draw) -> Sentence:
    """Like "Every day the girl reads the book"; always with a time, or "the girls read" could be the past."""
    verb = draw.pick(_HABITS)
    subject, object_ = draw.subject_and_object(verb)
    action = Action(draw.known(subject), verb, draw.known(object_), tense="present")
    return Sentence(action, draw.pick(verbs.TIMES["present"]))


def feeling(draw: Draw) -> Sentence:
    """Like "The girl loves the cat"."""
    verb = verbs.VERB_NAMED[draw.pick(verbs.STATIVE)]
    subject, object_ = draw.subject_and_object(verb)
    tense: Tense = "past" if draw.chance(0.3) else "present"
    negated = draw.chance(0.25)
    return Sentence(Action(draw.known(subject), verb, draw.known(object_), tense=tense, negated=negated))


def giving(draw: Draw) -> Sentence:
    """Like "The man gave the child a book"."""
    verb = draw.pick(verbs.GIVING)
    subject, object_ = draw.subject_and_object(verb)
    recipient = draw.known(draw.other(PEOPLE, subject))
    time = _time(draw, "past", 0.2)
    if draw.chance(0.2):
        given = _deniable(draw, verb, object_)
        return Sentence(Action(draw.definite(subject), verb, given, recipient, negated=True), time)
    return Sentence(Action(draw.any_phrase(subject), verb, draw.any_phrase(object_), recipient), time)


def being_somewhere(draw: Draw) -> Sentence:
    """Like "The cat sat on the mat", "The boy played with the dog in the garden"."""
    verb = draw.pick(verbs.BEING)
    subject, place = draw.pick(SUBJECTS[verb]), _place(draw, verb)
    time = _time(draw, "past", 0.2)
    if draw.chance(0.15):
        return Sentence(Action(draw.known(subject), verb, place=place, negated=True), time)
    company = _company(draw, subject) if draw.chance(0.25) else None
    return Sentence(Action(draw.any_phrase(subject), verb, place=place, means=company), time)


def _place(draw: Draw, verb: Verb) -> Place:
    preposition, noun = draw.pick(_PLACES[verb])
    return Place(preposition, draw.definite(noun))


def _company(draw: Draw, subject: Noun) -> Means:
    nouns = PEOPLE if subject.tags[0] == "people" and draw.chance(0.6) else ANIMALS
    return Means("company", draw.known(draw.other(nouns, subject)))


def going_somewhere(draw: Draw) -> Sentence:
    """Like "A bird flew over the river"."""
    verb = draw.pick(verbs.MOVING)
    subject, place = draw.pick(SUBJECTS[verb]), _place(draw, verb)
    return Sentence(Action(draw.any_phrase(subject), verb, place=place), _time(draw, "past", 0.2))


def travelling(draw: Draw) -> Sentence:
    """Like "The woman went to the castle by train"."""
    vehicle = Means("vehicle", NounPhrase(draw.pick(_TRANSPORT)))
    subject, place = draw.any_phrase(draw.pick(PEOPLE)), _place(draw, verbs.GO)
    return Sentence(Action(subject, verbs.GO, place=place, means=vehicle), _time(draw, "past", 0.3))


def using_a_tool(draw: Draw) -> Sentence:
    """Like "The boy wrote the letter with a pencil"."""
    verb, tools, objects = draw.pick(_TOOLS)
    tool = Means("tool", NounPhrase(draw.pick(tools), definite=False))
    subject, object_ = draw.pick(SUBJECTS[verb]), draw.pick(objects)
    return Sentence(Action(draw.any_phrase(subject), verb, draw.any_phrase(object_), means=tool))


def two_together(draw: Draw) -> Sentence:
    """Like "The cat and the dog crossed the road"."""
    verb, first, object_ = deed(draw)
    second = draw.other(SUBJECTS[verb], first)
    if second is object_:
        return two_together(draw)
    pair = Coordination(draw.definite(first), draw.definite(second))
    return Sentence(Action(pair, verb, draw.any_phrase(object_)))


def between_persons(draw: Draw) -> Sentence:
    """Like "I love you", "You love me", "Tomorrow she will call us"."""
    verb = verbs.VERB_NAMED[draw.pick(verbs.STATIVE if draw.chance(0.5) else verbs.RECIPROCAL)]
    subject, object_ = _persons(draw)
    phrase = draw.known(draw.pick(OBJECTS[verb])) if draw.chance(0.5) else object_
    tense = draw.pick(_PERSONAL_STATIVE if verb.name in verbs.STATIVE else _PERSONAL)
    negated = tense != "must" and draw.chance(0.25)
    time = _time(draw, tense, 0.4) if tense in ("past", "will") and verb.name not in verbs.STATIVE else None
    return Sentence(Action(subject, verb, phrase, tense=tense, negated=negated), time)


def question_between_persons(draw: Draw) -> Sentence:
    """Like "Do you love me?", "Did he see the cat?"; nobody asks what I or we do."""
    verb = verbs.VERB_NAMED[draw.pick(verbs.RECIPROCAL)]
    subject, object_ = _persons(draw)
    if subject.person in ("I", "we"):
        return question_between_persons(draw)
    phrase = draw.known(draw.pick(OBJECTS[verb])) if draw.chance(0.6) else object_
    tense: Tense = "present" if verb.name in verbs.STATIVE and draw.chance(0.7) else "past"
    return Sentence(Action(subject, verb, phrase, tense=tense), question=True)


def _persons(draw: Draw) -> tuple[Pronoun, Pronoun]:
    """Two who are not the same, nor one of them part of the other."""
    subject, object_ = draw.pick(_PERSONS), draw.pick(_ADDRESSED)
    if subject == object_ or (subject, object_) in _OVERLAPPING:
        return _persons(draw)
    return Pronoun(subject), Pronoun(object_)


def question(draw: Draw) -> Sentence:
    """Like "Did the girl see the cat?", "Who saw the cat?", "What did the girl see?"."""
    verb, subject, object_ = deed(draw)
    asked = draw.random()
    if asked < 0.25 and subject.tags[0] == "people":
        return Sentence(Action(Asked(), verb, draw.any_phrase(object_)), question=True)
    if asked < 0.45 and verb.particle == "를" and not verb.preposition and object_.tags[0] != "people":
        return Sentence(Action(draw.known(subject), verb, Asked()), question=True)
    return Sentence(Action(draw.known(subject), verb, draw.any_phrase(object_)), question=True)


def question_of_place(draw: Draw) -> Sentence:
    """Like "Where did the cat sleep?", "Did the cat sleep under the table?"."""
    verb = draw.pick(verbs.BEING)
    subject = draw.known(draw.pick(SUBJECTS[verb]))
    return Sentence(Action(subject, verb, place=Asked() if draw.chance(0.5) else _place(draw, verb)), question=True)


def state_of_a_person(draw: Draw) -> Sentence:
    """Like "I am hungry", "They were very tired"."""
    person = draw.pick(_PERSONS)
    adjective = draw.pick(PREDICATES[lexicon.NOUN_NAMED["man"]])
    return _described(draw, Pronoun(person), adjective, deniable=person != "I")


def description(draw: Draw) -> Sentence:
    """Like "The road is too wide", "The king's horse wasn't tired"."""
    noun = draw.pick(DESCRIBED)
    adjective = draw.pick(PREDICATES[noun])
    phrase = draw.known(noun)
    # Beside the predicate only a colour, so that nothing is said twice ("the tired cat was tired") or denied.
    colours = () if adjective.kind == "colour" else tuple(a for a in phrase.adjectives if a.kind == "colour")
    return _described(draw, NounPhrase(noun, colours, phrase.count, owner=phrase.owner), adjective, deniable=True)


def _described(draw: Draw, subject: NounPhrase | Pronoun, adjective: Adjective, *, deniable: bool) -> Sentence:
    tense = draw.pick(_TENSES)
    if deniable and draw.chance(0.25):
        return Sentence(Description(subject, adjective, tense=tense, negated=True))
    return Sentence(Description(subject, adjective, degree(draw, adjective), tense=tense))


def degree(draw: Draw, adjective: Adjective) -> Degree:
    """Plain, or in one of the degrees that the adjective has."""
    return draw.pick(_DEGREES[adjective.degrees])


def comparison(draw: Draw) -> Sentence:
    """Like "The dog is bigger than the cat"."""
    adjective = draw.pick(_COMPARABLE)
    first, second = draw.pick(FITTED[adjective]), draw.pick(FITTED[adjective])
    if first is second or first.tags[0] != second.tags[0]:
        return comparison(draw)
    if _contradicts(adjective, first, second):
        first, second = second, first
    subject, than = _compared(draw, first), _compared(draw, second)
    return Sentence(Description(subject, adjective, than=than, tense=draw.pick(_TENSES)))


def _compared(draw: Draw, noun: Noun) -> NounPhrase:
    owner = NounPhrase(draw.pick(PEOPLE)) if noun in OWNED and draw.chance(0.3) else None
    return NounPhrase(noun, draw.adjectives(noun, _INCOMPARABLE[noun]), owner=owner)


def _contradicts(adjective: Adjective, first: Noun, second: Noun) -> bool:
    """Whether the comparison says the opposite of what everybody knows."""
    for row in _SIZES:
        if first.name in row and second.name in row:
            bigger = row.index(first.name) > row.index(second.name)
            return (adjective.name in GROWING and not bigger) or (adjective.name in SHRINKING and bigger)
    return False


def naming(draw: Draw) -> Sentence:
    """Like "This is a miniature tower", "This is the Eiffel Tower", "The cat is a clever animal"."""
    tense, roll = draw.pick(_TENSES), draw.random()
    if roll < 0.05:
        return Sentence(Naming(This(), NounPhrase(lexicon.NOUN_NAMED["eiffel_tower"]), tense))
    negated = draw.chance(0.25)
    if roll < 0.6:
        return Sentence(Naming(This(), draw.single(draw.pick(_POINTED_AT)), tense, negated))
    trait, kinds = draw.pick(_TRAITS)
    kind = draw.pick(tuple(noun for noun in _KINDS if (noun in kinds) != negated))
    phrase = NounPhrase(lexicon.NOUN_NAMED["animal"], (trait,), definite=False)
    return Sentence(Naming(NounPhrase(kind), phrase, tense, negated))
