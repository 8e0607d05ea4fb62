"""The English of a tree: articles, do-support and contractions ("didn't"), subject, verb, object.

English that people write: every negation is contracted, a time comes first, "yet" last. Knows nothing of the other
languages; what a tree may say is not decided here.
"""

from heedful.data.grammar import parts, trees
from heedful.data.grammar.entries import Verb
from heedful.data.grammar.lexicon import ADJECTIVES, NUMBERS
from heedful.data.grammar.parts import ROOT, under
from heedful.data.grammar.verbs import VERB_NAMED
from heedful.data.grammar.words import Word, finished, spelled, time_words, word

_OBJECT_FORMS = {"I": "me", "you": "you", "he": "him", "she": "her", "we": "us", "they": "them"}
_BE = {
    "present": {"I": "am", "you": "are", "he": "is", "they": "are"},
    "past": {"I": "was", "you": "were", "he": "was", "they": "were"},
}
# The auxiliaries of a tense: (he, they), and with a negation.
_AUXILIARIES: dict[trees.Tense, tuple[str, str]] = {
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
_NEGATED: dict[trees.Tense, tuple[str, str]] = {
    "past": ("didn't", "didn't"),
    "present": ("doesn't", "don't"),
    "yet": ("hasn't", "haven't"),
    "had": ("hadn't", "hadn't"),
    "will": ("won't", "won't"),
    "can": ("can't", "can't"),
    "want": ("doesn't want to", "don't want to"),
}
_PARTICIPLE: tuple[trees.Tense, ...] = ("already", "never", "yet", "had")


def english(sentence: trees.Sentence) -> list[Word]:
    """The words of the English sentence."""
    words = _time(sentence) + (_question(sentence) if sentence.question else _clause(sentence.main, ROOT))
    for conjunction, clause in {"because": sentence.reason, "that": sentence.claim}.items():
        if clause is not None:
            words += [word(conjunction, ROOT, parts.CONJUNCTION), *_clause(clause, under(ROOT, parts.CLAUSE))]
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


def _time(sentence: trees.Sentence) -> list[Word]:
    return time_words(sentence.time.english, under(ROOT, parts.TIME)) if sentence.time else []


def _clause(clause: trees.Clause, node: int) -> list[Word]:
    subject = _subject(clause.subject, under(node, parts.SUBJECT))
    if isinstance(clause, trees.Action):
        return subject + _predicate(clause, node)
    words = subject + _be(clause, node)
    if isinstance(clause, trees.Naming):
        return words + noun_phrase(clause.phrase, under(node, parts.OBJECT))
    return words + _property(clause, node)


def _be(clause: trees.Description | trees.Naming, node: int) -> list[Word]:
    form = _BE[clause.tense][trees.agreement(clause.subject)]
    if clause.negated:
        return [word(form + "n't", node, parts.VERB, parts.NEGATION)]
    return [word(form, node, parts.VERB)]


def _property(clause: trees.Description, node: int) -> list[Word]:
    if clause.than is not None:
        words = spelled(_COMPARATIVE[clause.adjective], under(node, parts.PREDICATE))
        return [*words, word("than", node, parts.DEGREE), *noun_phrase(clause.than, under(node, parts.THAN))]
    words = [word(clause.adjective.english, node, parts.PREDICATE)]
    return [word(clause.degree, node, parts.DEGREE), *words] if clause.degree else words


def _predicate(action: trees.Action, node: int) -> list[Word]:
    """All that follows the subject."""
    third = trees.agreement(action.subject) == "he"
    auxiliary = _auxiliary(action, node, third=third)
    form = _verb_form(action, third=third)
    words = [*auxiliary, *_adverb(action.tense, node), *_verb(action.verb, form, node), *_complements(action, node)]
    return [*words, word("yet", node, parts.ADVERB)] if action.tense == "yet" else words


def _auxiliary(action: trees.Action, node: int, *, third: bool) -> list[Word]:
    if action.negated:
        contracted, *rest = _NEGATED[action.tense][0 if third else 1].split()
        words = [word(contracted, node, parts.NEGATION, parts.AUXILIARY)]
        return words + [word(each, node, parts.AUXILIARY) for each in rest]
    return spelled(_AUXILIARIES[action.tense][0 if third else 1], under(node, parts.AUXILIARY))


def _verb_form(action: trees.Action, *, third: bool) -> str:
    base, past, participle = _FORMS[action.verb]
    if action.tense in _PARTICIPLE:
        return participle
    if action.negated or action.tense not in ("past", "present"):
        return base
    if action.tense == "past":
        return past
    return _THIRD[action.verb] if third else base


def _adverb(tense: trees.Tense, node: int) -> list[Word]:
    if tense == "never":
        return [word(tense, node, parts.ADVERB, parts.NEGATION)]
    return [word(tense, node, parts.ADVERB)] if tense == "already" else []


def _verb(verb: Verb, form: str, node: int) -> list[Word]:
    words = [word(form, node, parts.VERB)]
    return [*words, word(verb.english_particle, node, parts.VERB)] if verb.english_particle else words


def _complements(action: trees.Action, node: int) -> list[Word]:
    words = noun_phrase(action.recipient, under(node, parts.RECIPIENT)) if action.recipient else []
    if action.object is not None:
        words += _object(action.object, under(node, parts.OBJECT))
    means = _means(action.means, under(node, parts.MEANS)) if action.means else []
    place = _place(action.place, under(node, parts.PLACE)) if isinstance(action.place, trees.Place) else []
    by_vehicle = action.means is not None and action.means.kind == "vehicle"
    return words + (place + means if by_vehicle else means + place)


def _means(means: trees.Means, node: int) -> list[Word]:
    if means.kind == "vehicle":
        return [word("by", node, parts.PREPOSITION), word(means.phrase.noun.english, node, parts.NOUN)]
    return [word("with", node, parts.PREPOSITION), *noun_phrase(means.phrase, node)]


def _place(place: trees.Place, node: int) -> list[Word]:
    return spelled(place.preposition.english, under(node, parts.PREPOSITION)) + noun_phrase(place.phrase, node)


def _subject(subject: trees.Subject, node: int) -> list[Word]:
    if isinstance(subject, trees.NounPhrase):
        return noun_phrase(subject, node)
    if isinstance(subject, trees.Coordination):
        second = noun_phrase(subject.second, under(node, parts.SECOND))
        return [*noun_phrase(subject.first, node), word("and", node, parts.AND), *second]
    if isinstance(subject, trees.Pronoun):
        return [word(subject.person, node, parts.NOUN)]
    if isinstance(subject, trees.Anaphor):
        return [word(anaphor(subject.antecedent), node, parts.NOUN)]
    return [word("who" if isinstance(subject, trees.Asked) else "this", node, parts.NOUN)]


def anaphor(antecedent: trees.NounPhrase) -> str:
    """The pronoun that takes up a phrase."""
    return antecedent.noun.english_pronoun if antecedent.count == 1 else "they"


def _object(object_: trees.Object, node: int) -> list[Word]:
    if isinstance(object_, trees.NounPhrase):
        return noun_phrase(object_, node)
    return [word(_OBJECT_FORMS[object_.person], node, parts.NOUN)] if isinstance(object_, trees.Pronoun) else []


def noun_phrase(phrase: trees.NounPhrase, node: int) -> list[Word]:
    """Like "a fluffy blue creature", "the king's three horses", "the cat that saw the dog"."""
    noun = phrase.noun.english if phrase.count == 1 else phrase.noun.english_plural
    words = [word(adjective.english, node, parts.ADJECTIVE + i) for i, adjective in enumerate(phrase.adjectives)]
    words += spelled(noun, under(node, parts.NOUN))
    words = _determiner(phrase, words[0].text, node) + words
    return words + _relative(phrase, phrase.relative, node) if phrase.relative else words


def _determiner(phrase: trees.NounPhrase, following: str, node: int) -> list[Word]:
    if phrase.owner is not None:
        *words, last = noun_phrase(phrase.owner, under(node, parts.OWNER))
        return [*words, Word(last.text + "'s", last.nodes)]
    if phrase.count > 1:
        article = NUMBERS[phrase.count][0]
    elif phrase.definite:
        article = "the"
    else:
        article = "an" if following[0] in "aeiou" else "a"
    return [word(article, node, parts.DETERMINER)]


def _relative(phrase: trees.NounPhrase, relative: trees.Relative, node: int) -> list[Word]:
    inner = under(node, parts.RELATIVE)
    past = _verb(relative.verb, _FORMS[relative.verb][1], inner)
    if relative.gap == "object":
        that = word("that", inner, parts.RELATIVE_WORD)
        return [that, *noun_phrase(relative.other, under(inner, parts.SUBJECT)), *past]
    who = "who" if phrase.noun.tags[0] == "people" else "that"
    return [word(who, inner, parts.RELATIVE_WORD), *past, *noun_phrase(relative.other, under(inner, parts.OBJECT))]


def _question(sentence: trees.Sentence) -> list[Word]:
    """Who did it?, What did she see?, Where did it sleep?, Did she see it?, Do you love me?"""
    action = sentence.main
    assert isinstance(action, trees.Action)
    if isinstance(action.subject, trees.Asked):
        return _clause(action, ROOT)
    asked = _question_word(action)
    subject = _subject(action.subject, under(ROOT, parts.SUBJECT))
    verb = _verb(action.verb, _FORMS[action.verb][0], ROOT)
    do = word(_do(action.tense, trees.agreement(action.subject)), ROOT, parts.AUXILIARY)
    return [*asked, do, *subject, *verb, *_complements(action, ROOT)]


def _question_word(action: trees.Action) -> list[Word]:
    if isinstance(action.object, trees.Asked):
        return [word("what", under(ROOT, parts.OBJECT), parts.NOUN)]
    return [word("where", under(ROOT, parts.PLACE), parts.NOUN)] if isinstance(action.place, trees.Asked) else []


def _do(tense: trees.Tense, subject: trees.Agreement) -> str:
    if tense == "past":
        return "did"
    return "does" if subject == "he" else "do"
