"""Drawing sentences of two clauses at random: reasons, claims and relative clauses.

Knows no language, except that object relatives which German could not tell from subject relatives are not built
(`_clear`), and nothing of training or held-out sentences.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from heedful.data.grammar.entries import Adjective, Dilemma, Noun, Verb
from heedful.data.grammar.lexicon import ADJECTIVE_NAMED, NOUNS, select
from heedful.data.grammar.one_clause import ACTIVE, DESCRIBED, deed, degree
from heedful.data.grammar.phrases import LOOKS, OBJECTS, PEOPLE, PREDICATES, SUBJECTS, Draw
from heedful.data.grammar.trees import MANY, Action, Anaphor, Degree, Description, NounPhrase, Relative, Sentence
from heedful.data.grammar.verbs import CLAIMS, CRY, DILEMMAS, LAUGH, TIMES, VERB_NAMED

Gap: TypeAlias = Literal["subject", "object"]
Reasons: TypeAlias = dict[tuple[bool, Gap], list[tuple[Adjective, Noun]]]


def _reasons(frame: Dilemma) -> Reasons:
    """By (denied, whose reason it is): the adjectives, each with an object that it is said of or with."""
    table: Reasons = {}
    of_subject = {False: frame.subject_for, True: frame.subject_against}
    of_object = {False: frame.object_for, True: frame.object_against}
    for denied in (False, True):
        states = [ADJECTIVE_NAMED[name] for name in of_subject[denied].split()]
        rows = [row.split(":") for row in of_object[denied].split(";")]
        table[denied, "subject"] = [(state, noun) for state in states for noun in select(frame.objects)]
        table[denied, "object"] = [(ADJECTIVE_NAMED[name.strip()], n) for name, nouns in rows for n in select(nouns)]
    return table


def _of_class(words: str, kind: str) -> tuple[Noun, ...]:
    return tuple(noun for noun in select(words) if noun.tags[0] == kind)


_REASONS = {frame: _reasons(frame) for frame in DILEMMAS}
_ACTORS = {
    kind: tuple((frame, nouns) for frame in DILEMMAS if (nouns := _of_class(frame.subjects, kind)))
    for kind in ("animals", "people")
}
_FEELINGS = (ADJECTIVE_NAMED["happy"], ADJECTIVE_NAMED["sad"])
_RELATIVE_VERBS = tuple(verb for verb in ACTIVE if not verb.preposition)
_GAPS: tuple[Gap, ...] = ("subject", "object")
_ABOUT: dict[Noun, tuple[tuple[Gap, Verb], ...]] = {
    noun: tuple(
        (gap, verb)
        for verb in _RELATIVE_VERBS
        for gap in _GAPS
        if noun in (SUBJECTS if gap == "subject" else OBJECTS)[verb]
    )
    for noun in NOUNS
}


def dilemma(draw: Draw) -> Sentence:
    """Like "The animal didn't cross the road because it was too tired" and "… because it was too wide"."""
    # English does not say "it" of people, which gives their sex away: the harder sentences are more frequent.
    frame, actors = draw.pick(_ACTORS["animals" if draw.chance(0.75) else "people"])
    return reasoned(draw, frame, actors)


def reasoned(draw: Draw, frame: Dilemma, actors: Sequence[Noun]) -> Sentence:
    """What one of the actors does or does not do, with a reason that lies in the subject or in the object."""
    denied = draw.chance(0.6)
    role: Gap = draw.pick(_GAPS)
    options = _REASONS[frame][denied, role]
    if not options:
        return reasoned(draw, frame, actors)
    adjective, object_ = draw.pick(options)
    subject = _looking(draw, draw.pick(actors), adjective, many=0.12)
    acted_on = _looking(draw, object_, adjective)
    how: Degree = "too" if denied else "very" if adjective.degrees and draw.chance(0.4) else ""
    reason = Description(Anaphor(role, subject if role == "subject" else acted_on), adjective, how)
    time = draw.pick(TIMES["past"]) if draw.chance(0.2) else None
    return Sentence(Action(subject, VERB_NAMED[frame.verb], acted_on, negated=denied), time, reason)


def _looking(draw: Draw, noun: Noun, reason: Adjective, *, many: float = 0.0) -> NounPhrase:
    """A definite phrase that says of the noun at most how it looks, so that the reason is news."""
    looks = tuple(adjective for adjective in LOOKS[noun] if adjective is not reason)
    chosen = (draw.pick(looks),) if looks and draw.chance(0.35) else ()
    return NounPhrase(noun, chosen, MANY if draw.chance(many) else 1)


def deed_as_reason(draw: Draw) -> Sentence:
    """Like "The king was happy because the princess found the key"."""
    verb, doer, object_ = deed(draw)
    subject = draw.pick(PEOPLE)
    if subject in (doer, object_) or doer.tags[0] != "people":
        return deed_as_reason(draw)
    reason = Action(draw.definite(doer), verb, draw.any_phrase(object_))
    phrase = NounPhrase(subject, draw.adjectives(subject, LOOKS[subject]), MANY if draw.chance(0.15) else 1)
    if draw.chance(0.5):
        return Sentence(Action(phrase, draw.pick((LAUGH, CRY))), reason=reason)
    return Sentence(Description(phrase, draw.pick(_FEELINGS)), reason=reason)


def claim(draw: Draw) -> Sentence:
    """Like "The woman said that she was tired", "… that the dog had seen the cat"."""
    noun = draw.pick(PEOPLE)
    speaker = NounPhrase(noun, draw.adjectives(noun, LOOKS[noun]))
    main = Action(speaker, draw.pick(CLAIMS))
    if draw.chance(0.5):
        return Sentence(main, claim=_claimed_state(draw, speaker))
    return Sentence(main, claim=_claimed_deed(draw, speaker))


def _claimed_state(draw: Draw, speaker: NounPhrase) -> Description:
    if "adults" in speaker.noun.tags and draw.chance(0.5):
        adjective = draw.pick(PREDICATES[speaker.noun])
        return Description(Anaphor("subject", speaker), adjective, degree(draw, adjective))
    noun = draw.other(DESCRIBED, speaker.noun)
    adjective = draw.pick(PREDICATES[noun])
    return Description(NounPhrase(noun), adjective, degree(draw, adjective))


def _claimed_deed(draw: Draw, speaker: NounPhrase) -> Action:
    verb, subject, object_ = deed(draw)
    if speaker.noun in (subject, object_):
        return _claimed_deed(draw, speaker)
    own = "adults" in speaker.noun.tags and speaker.noun in SUBJECTS[verb] and draw.chance(0.5)
    doer = Anaphor("subject", speaker) if own else draw.definite(subject)
    negated = draw.chance(0.2)
    phrase = draw.definite(object_) if negated else draw.any_phrase(object_)
    return Action(doer, verb, phrase, tense="had", negated=negated)


def with_relative(draw: Draw) -> Sentence:
    """Like "The dog that saw the cat crossed the road", "The girl bought the book that the boy read"."""
    verb, subject, object_ = deed(draw)
    if draw.chance(0.5):
        return Sentence(Action(_specified(draw, subject, object_, verb), verb, draw.definite(object_)))
    return Sentence(Action(draw.definite(subject), verb, _specified(draw, object_, subject, verb)))


def _specified(draw: Draw, noun: Noun, beside: Noun, main: Verb) -> NounPhrase:
    """A noun with a relative clause that repeats nothing of the main clause, or alone where it has none."""
    count = MANY if noun.counter and draw.chance(0.2) else 1
    phrase = draw.definite(noun)
    for _ in range(8 if _ABOUT[noun] else 0):
        gap, verb = draw.pick(_ABOUT[noun])
        third = draw.pick((OBJECTS if gap == "subject" else SUBJECTS)[verb])
        if verb is not main and third not in (noun, beside) and _clear(gap, verb, noun, count, third):
            return NounPhrase(noun, phrase.adjectives, count, relative=Relative(gap, verb, _third(draw, third)))
    return NounPhrase(noun, phrase.adjectives, count)


def _third(draw: Draw, noun: Noun) -> NounPhrase:
    return draw.single(noun) if noun.counter and draw.chance(0.6) else draw.definite(noun)


def _clear(gap: Gap, verb: Verb, noun: Noun, count: int, third: Noun) -> bool:
    """Whether German shows who does it: "die Frau, die die Katze sah" is only built as what the woman saw."""
    shown = "m" in (noun.gender, third.gender) or verb.case == "dat" or count != 1
    reversible = noun in SUBJECTS[verb] and third in OBJECTS[verb]
    return gap == "subject" or shown or not reversible
