"""The English of a tree: articles, do-support and contractions ("didn't"), subject, verb, object.

English that people write: every negation is contracted, a time comes first, "yet" last. Knows nothing of the other
languages; what a tree may say is not decided here.
"""

from heedful.data.grammar.entries import Verb
from heedful.data.grammar.lexicon import ADJECTIVES, NUMBERS
from heedful.data.grammar.trees import (
    Action,
    Agreement,
    Anaphor,
    Asked,
    Description,
    Means,
    Naming,
    NounPhrase,
    Object,
    Pair,
    Place,
    Pronoun,
    Relative,
    Sentence,
    Subject,
    Tense,
    agreement,
)
from heedful.data.grammar.verbs import VERB_NAMED
from heedful.data.grammar.words import (
    ADJECTIVE,
    ADVERB,
    AND,
    AUXILIARY,
    CLAUSE,
    CONJUNCTION,
    DEGREE,
    DETERMINER,
    MEANS,
    NEGATION,
    NOUN,
    OBJECT,
    OWNER,
    PLACE,
    PREDICATE,
    PREPOSITION,
    RECIPIENT,
    RELATIVE,
    RELATIVE_WORD,
    ROOT,
    SECOND,
    SUBJECT,
    THAN,
    TIME,
    VERB,
    Word,
    finished,
    time_words,
    under,
)

_OBJECT_FORMS = {"I": "me", "you": "you", "he": "him", "she": "her", "we": "us", "they": "them"}
_BE = {
    "present": {"I": "am", "you": "are", "he": "is", "they": "are"},
    "past": {"I": "was", "you": "were", "he": "was", "they": "were"},
}
# The auxiliaries of a tense: (he, they), and with a negation.
_AUXILIARIES: dict[Tense, tuple[str, str]] = {
    "past": ("", ""),
    "present": ("", ""),
    "already": ("has", "have"),
    "never": ("has", "have"),
    "had": ("had", "had"),
    "will": ("will", "will"),
    "can": ("can", "can"),
    "must": ("must", "must"),
    "want": ("wants to", "want to"),
}
_NEGATED: dict[Tense, tuple[str, str]] = {
    "past": ("didn't", "didn't"),
    "present": ("doesn't", "don't"),
    "yet": ("hasn't", "haven't"),
    "had": ("hadn't", "hadn't"),
    "will": ("won't", "won't"),
    "can": ("can't", "can't"),
    "want": ("doesn't want to", "don't want to"),
}
_PARTICIPLE: tuple[Tense, ...] = ("already", "never", "yet", "had")


def english(sentence: Sentence) -> list[Word]:
    """The words of the English sentence."""
    words = _time(sentence) + (_question(sentence) if sentence.question else _clause(sentence.main, ROOT))
    if sentence.reason is not None:
        words += [Word("because", (under(ROOT, CONJUNCTION),)), *_clause(sentence.reason, under(ROOT, CLAUSE))]
    if sentence.claim is not None:
        words += [Word("that", (under(ROOT, CONJUNCTION),)), *_clause(sentence.claim, under(ROOT, CLAUSE))]
    return finished(words, "?" if sentence.question else ".")


def third_person(base: str) -> str:
    """The form of a verb after he, she and it."""
    if base.endswith(("s", "sh", "ch", "x", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


_FORMS = {verb: tuple(verb.english.split()) for verb in VERB_NAMED.values()}
_THIRD = {verb: third_person(verb.english.split()[0]) for verb in VERB_NAMED.values()}
_COMPARATIVE = {
    adjective: adjective.comparatives.split()[0].replace("_", " ") for adjective in ADJECTIVES if adjective.comparatives
}


def _time(sentence: Sentence) -> list[Word]:
    return time_words(sentence.time.english, under(ROOT, TIME)) if sentence.time else []


def _spelled(words: str, *nodes: int) -> list[Word]:
    return [Word(word, nodes) for word in words.split()]


def _clause(clause: Action | Description | Naming, node: int) -> list[Word]:
    subject = _subject(clause.subject, under(node, SUBJECT))
    if isinstance(clause, Action):
        return subject + _predicate(clause, node)
    words = subject + _be(clause, node)
    if isinstance(clause, Naming):
        return words + noun_phrase(clause.phrase, under(node, OBJECT))
    return words + _property(clause, node)


def _be(clause: Description | Naming, node: int) -> list[Word]:
    form = _BE[clause.tense][agreement(clause.subject)]
    if clause.negated:
        return [Word(form + "n't", (under(node, VERB), under(node, NEGATION)))]
    return [Word(form, (under(node, VERB),))]


def _property(clause: Description, node: int) -> list[Word]:
    if clause.than is not None:
        words = _spelled(_COMPARATIVE[clause.adjective], under(node, PREDICATE))
        return [*words, Word("than", (under(node, DEGREE),)), *noun_phrase(clause.than, under(node, THAN))]
    words = [Word(clause.adjective.english, (under(node, PREDICATE),))]
    return [Word(clause.degree, (under(node, DEGREE),)), *words] if clause.degree else words


def _predicate(action: Action, node: int) -> list[Word]:
    """All that follows the subject."""
    third = agreement(action.subject) == "he"
    auxiliary = _auxiliary(action, node, third=third)
    form = _verb_form(action, third=third)
    words = [*auxiliary, *_adverb(action.tense, node), *_verb(action.verb, form, node), *_complements(action, node)]
    return [*words, Word("yet", (under(node, ADVERB),))] if action.tense == "yet" else words


def _auxiliary(action: Action, node: int, *, third: bool) -> list[Word]:
    if action.negated:
        contracted, *rest = _NEGATED[action.tense][0 if third else 1].split()
        words = [Word(contracted, (under(node, NEGATION), under(node, AUXILIARY)))]
        return words + [Word(word, (under(node, AUXILIARY),)) for word in rest]
    return _spelled(_AUXILIARIES[action.tense][0 if third else 1], under(node, AUXILIARY))


def _verb_form(action: Action, *, third: bool) -> str:
    base, past, participle = _FORMS[action.verb]
    if action.tense in _PARTICIPLE:
        return participle
    if action.negated or action.tense not in ("past", "present"):
        return base
    if action.tense == "past":
        return past
    return _THIRD[action.verb] if third else base


def _adverb(tense: Tense, node: int) -> list[Word]:
    if tense == "never":
        return [Word(tense, (under(node, ADVERB), under(node, NEGATION)))]
    return [Word(tense, (under(node, ADVERB),))] if tense == "already" else []


def _verb(verb: Verb, form: str, node: int) -> list[Word]:
    words = [Word(form, (under(node, VERB),))]
    return [*words, Word(verb.english_particle, (under(node, VERB),))] if verb.english_particle else words


def _complements(action: Action, node: int) -> list[Word]:
    words = noun_phrase(action.recipient, under(node, RECIPIENT)) if action.recipient else []
    if action.object is not None:
        words += _object(action.object, under(node, OBJECT))
    means = _means(action.means, under(node, MEANS)) if action.means else []
    place = _place(action.place, under(node, PLACE)) if isinstance(action.place, Place) else []
    by_vehicle = action.means is not None and action.means.kind == "vehicle"
    return words + (place + means if by_vehicle else means + place)


def _means(means: Means, node: int) -> list[Word]:
    if means.kind == "vehicle":
        return [Word("by", (under(node, PREPOSITION),)), Word(means.phrase.noun.english, (under(node, NOUN),))]
    return [Word("with", (under(node, PREPOSITION),)), *noun_phrase(means.phrase, node)]


def _place(place: Place, node: int) -> list[Word]:
    return _spelled(place.preposition.english, under(node, PREPOSITION)) + noun_phrase(place.phrase, node)


def _subject(subject: Subject, node: int) -> list[Word]:
    if isinstance(subject, NounPhrase):
        return noun_phrase(subject, node)
    if isinstance(subject, Pair):
        second = noun_phrase(subject.second, under(node, SECOND))
        return [*noun_phrase(subject.first, node), Word("and", (under(node, AND),)), *second]
    if isinstance(subject, Pronoun):
        return [Word(subject.person, (under(node, NOUN),))]
    if isinstance(subject, Anaphor):
        return [Word(anaphor(subject.antecedent), (under(node, NOUN),))]
    return [Word("who" if isinstance(subject, Asked) else "this", (under(node, NOUN),))]


def anaphor(antecedent: NounPhrase) -> str:
    """The pronoun that takes up a phrase."""
    return antecedent.noun.english_pronoun if antecedent.count == 1 else "they"


def _object(object_: Object, node: int) -> list[Word]:
    if isinstance(object_, NounPhrase):
        return noun_phrase(object_, node)
    return [Word(_OBJECT_FORMS[object_.person], (under(node, NOUN),))] if isinstance(object_, Pronoun) else []


def noun_phrase(phrase: NounPhrase, node: int) -> list[Word]:
    """Like "a fluffy blue creature", "the king's three horses", "the cat that saw the dog"."""
    noun = phrase.noun.english if phrase.count == 1 else phrase.noun.english_plural
    words = [Word(adjective.english, (under(node, ADJECTIVE + i),)) for i, adjective in enumerate(phrase.adjectives)]
    words += _spelled(noun, under(node, NOUN))
    words = _determiner(phrase, words[0].text, node) + words
    return words + _relative(phrase, phrase.relative, node) if phrase.relative else words


def _determiner(phrase: NounPhrase, following: str, node: int) -> list[Word]:
    if phrase.owner is not None:
        *words, last = noun_phrase(phrase.owner, under(node, OWNER))
        return [*words, Word(last.text + "'s", last.nodes)]
    if phrase.count > 1:
        article = NUMBERS[phrase.count][0]
    elif phrase.definite:
        article = "the"
    else:
        article = "an" if following[0] in "aeiou" else "a"
    return [Word(article, (under(node, DETERMINER),))]


def _relative(phrase: NounPhrase, relative: Relative, node: int) -> list[Word]:
    inner = under(node, RELATIVE)
    past = _verb(relative.verb, _FORMS[relative.verb][1], inner)
    if relative.gap == "object":
        that = Word("that", (under(inner, RELATIVE_WORD),))
        return [that, *noun_phrase(relative.other, under(inner, SUBJECT)), *past]
    who = "who" if phrase.noun.tags[0] == "people" else "that"
    return [Word(who, (under(inner, RELATIVE_WORD),)), *past, *noun_phrase(relative.other, under(inner, OBJECT))]


def _question(sentence: Sentence) -> list[Word]:
    """Who did it?, What did she see?, Where did it sleep?, Did she see it?, Do you love me?"""
    action = sentence.main
    assert isinstance(action, Action)
    if isinstance(action.subject, Asked):
        return _clause(action, ROOT)
    asked = _question_word(action)
    subject = _subject(action.subject, under(ROOT, SUBJECT))
    verb = _verb(action.verb, _FORMS[action.verb][0], ROOT)
    do = Word(_do(action.tense, agreement(action.subject)), (under(ROOT, AUXILIARY),))
    return [*asked, do, *subject, *verb, *_complements(action, ROOT)]


def _question_word(action: Action) -> list[Word]:
    if isinstance(action.object, Asked):
        return [Word("what", (under(under(ROOT, OBJECT), NOUN),))]
    return [Word("where", (under(under(ROOT, PLACE), NOUN),))] if isinstance(action.place, Asked) else []


def _do(tense: Tense, subject: Agreement) -> str:
    if tense == "past":
        return "did"
    return "does" if subject == "he" else "do"
