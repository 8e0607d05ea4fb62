"""The German of a tree: gender, case and endings, verb second and verb last, the split perfect, nicht and kein.

A clause is cut as German grammars cut it: what stands first, the finite verb, the middle, and what closes the bracket
(participle, infinitive or separated prefix). Subordinate clauses put the finite verb behind the bracket. Questions are
asked in the perfect, as people do. Knows nothing of the other languages; what a tree may say is not decided here.
"""

from heedful.data.grammar.entries import Adjective, Noun, Verb
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
    Person,
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

# By gender and number: masculine, feminine, neuter, plural.
_DEFINITE = {
    "nom": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
    "gen": {"m": "des", "f": "der", "n": "des", "p": "der"},
}
_INDEFINITE = {
    "nom": {"m": "ein", "f": "eine", "n": "ein"},
    "acc": {"m": "einen", "f": "eine", "n": "ein"},
    "dat": {"m": "einem", "f": "einer", "n": "einem"},
}
# Adjective endings: behind der/die/das (weak), behind ein and kein (mixed), behind a numeral (strong; plural only).
_WEAK = {
    "nom": {"m": "e", "f": "e", "n": "e", "p": "en"},
    "acc": {"m": "en", "f": "e", "n": "e", "p": "en"},
    "dat": {"m": "en", "f": "en", "n": "en", "p": "en"},
    "gen": {"m": "en", "f": "en", "n": "en", "p": "en"},
}
_MIXED = {
    "nom": {"m": "er", "f": "e", "n": "es"},
    "acc": {"m": "en", "f": "e", "n": "es"},
    "dat": {"m": "en", "f": "en", "n": "en"},
}
_STRONG = {"nom": {"p": "e"}, "acc": {"p": "e"}, "dat": {"p": "en"}}
_CONTRACTED = {"in dem": "im", "in das": "ins", "zu dem": "zum", "zu der": "zur"}
_ANAPHOR = {"m": "er", "f": "sie", "n": "es", "p": "sie"}
_PRONOUN: dict[str, dict[Person, str]] = {
    "nom": {"I": "ich", "you": "du", "he": "er", "she": "sie", "we": "wir", "they": "sie"},
    "acc": {"I": "mich", "you": "dich", "he": "ihn", "she": "sie", "we": "uns", "they": "sie"},
    "dat": {"I": "mir", "you": "dir", "he": "ihm", "she": "ihr", "we": "uns", "they": "ihnen"},
}
_FINITE: dict[str, dict[Agreement, str]] = {
    "haben": {"I": "habe", "you": "hast", "he": "hat", "they": "haben"},
    "hatte": {"I": "hatte", "you": "hattest", "he": "hatte", "they": "hatten"},
    "sein": {"I": "bin", "you": "bist", "he": "ist", "they": "sind"},
    "war": {"I": "war", "you": "warst", "he": "war", "they": "waren"},
    "will": {"I": "werde", "you": "wirst", "he": "wird", "they": "werden"},
    "can": {"I": "kann", "you": "kannst", "he": "kann", "they": "können"},
    "must": {"I": "muss", "you": "musst", "he": "muss", "they": "müssen"},
    "want": {"I": "will", "you": "willst", "he": "will", "they": "wollen"},
}
_ADVERBS: dict[Tense, str] = {"already": "schon", "yet": "noch", "never": "nie"}


def german(sentence: Sentence) -> list[Word]:
    """The words of the German sentence."""
    words = _question(sentence.main) if sentence.question else _main_clause(sentence)
    node = under(ROOT, CLAUSE)
    if sentence.reason is not None:
        words = [*_comma(words), Word("weil", (under(ROOT, CONJUNCTION),)), *_verb_last(sentence.reason, node)]
    if sentence.claim is not None:
        words = [*_comma(words), Word("dass", (under(ROOT, CONJUNCTION),)), *_verb_last(sentence.claim, node)]
    return finished(words, "?" if sentence.question else ".")


def _comma(words: list[Word]) -> list[Word]:
    last = words[-1]
    return words if last.text.endswith(",") else [*words[:-1], Word(last.text + ",", last.nodes)]


def _main_clause(sentence: Sentence) -> list[Word]:
    """Verb second: the time or the subject, the finite verb, the rest."""
    clause = sentence.main
    subject = _subject(clause.subject, under(ROOT, SUBJECT))
    finite, bracket = _verb(clause, ROOT)
    middle = _middle(clause, ROOT)
    if sentence.time is None:
        return [*subject, finite, *middle, *bracket]
    time = time_words(sentence.time.german, under(ROOT, TIME))
    return [*time, finite, *subject, *middle, *bracket]


def _verb_last(clause: Action | Description, node: int) -> list[Word]:
    """The clause behind weil and dass."""
    words = _subject(clause.subject, under(node, SUBJECT)) + _middle(clause, node)
    return words + _closing(*_verb(clause, node))


def _closing(finite: Word, bracket: list[Word]) -> list[Word]:
    """The finite verb behind the bracket; a separated prefix is joined to it again."""
    if bracket and bracket[0].nodes == finite.nodes:
        return [Word(bracket[0].text + finite.text, finite.nodes)]
    return [*bracket, finite]


def _question(clause: Action | Description | Naming) -> list[Word]:
    """Wer hat …?, Was hat sie …?, Wo hat sie …?, Hat sie …?, Liebst du mich?"""
    assert isinstance(clause, Action)
    finite, bracket = _verb(clause, ROOT) if clause.tense == "present" else _perfect(clause, ROOT, "haben", "sein")
    subject = _subject(clause.subject, under(ROOT, SUBJECT))
    rest = [*_middle(clause, ROOT), *bracket]
    if isinstance(clause.subject, Asked):
        return [*subject, finite, *rest]
    return [*_question_word(clause), finite, *subject, *rest]


def _question_word(action: Action) -> list[Word]:
    if isinstance(action.object, Asked):
        return [Word("was", (under(under(ROOT, OBJECT), NOUN),))]
    return [Word("wo", (under(under(ROOT, PLACE), NOUN),))] if isinstance(action.place, Asked) else []


def _verb(clause: Action | Description | Naming, node: int) -> tuple[Word, list[Word]]:
    """The finite verb, and what closes the bracket."""
    person = agreement(clause.subject)
    if not isinstance(clause, Action):
        return Word(_FINITE["war" if clause.tense == "past" else "sein"][person], (under(node, VERB),)), []
    if clause.tense in ("past", "present"):
        form = _past(clause.verb, person) if clause.tense == "past" else _present(clause.verb, person)
        prefix = [Word(clause.verb.prefix, (under(node, VERB),))] if clause.verb.prefix else []
        return Word(form, (under(node, VERB),)), prefix
    if clause.tense in ("already", "yet", "never"):
        return _perfect(clause, node, "haben", "sein")
    if clause.tense == "had":
        return _perfect(clause, node, "hatte", "war")
    finite = Word(_FINITE[clause.tense][person], (under(node, AUXILIARY),))
    return finite, [Word(_FORMS[clause.verb][0], (under(node, VERB),))]


def _perfect(action: Action, node: int, have: str, be: str) -> tuple[Word, list[Word]]:
    auxiliary = _FINITE[have if action.verb.auxiliary == "haben" else be][agreement(action.subject)]
    participle = Word(_FORMS[action.verb][3], (under(node, VERB),))
    return Word(auxiliary, (under(node, AUXILIARY),)), [participle]


_FORMS = {verb: tuple(verb.german.split()) for verb in VERB_NAMED.values()}


def _past(verb: Verb, person: Agreement) -> str:
    form = _FORMS[verb][2]
    if person == "you":
        return form + "st"
    if person == "they":
        return form + ("n" if form.endswith("e") else "en")
    return form


def _present(verb: Verb, person: Agreement) -> str:
    infinitive, form = _FORMS[verb][:2]
    infinitive = infinitive.removeprefix(verb.prefix)
    if person == "they":
        return infinitive
    if person == "he" or not form.endswith("t"):
        return form + "st" if person == "you" else form
    return form[:-1] + "st" if person == "you" else infinitive.removesuffix("n")


def _middle(clause: Action | Description | Naming, node: int) -> list[Word]:
    """Between the finite verb and the bracket: to whom, what, not, how and where."""
    if isinstance(clause, Naming):
        return noun_phrase(clause.phrase, "nom", under(node, OBJECT), negation=_no(clause.phrase, clause, node))
    if isinstance(clause, Description):
        return _property(clause, node)
    words = noun_phrase(clause.recipient, "dat", under(node, RECIPIENT)) if clause.recipient else []
    with_preposition = bool(clause.verb.preposition)
    object_ = _object(clause, node)
    words += [] if with_preposition else object_
    words += _adverbs(clause, node)
    words += object_ if with_preposition else []
    means = _means(clause.means, under(node, MEANS)) if clause.means else []
    return words + means + (_place(clause.place, under(node, PLACE)) if isinstance(clause.place, Place) else [])


def _adverbs(action: Action, node: int) -> list[Word]:
    adverb = _ADVERBS.get(action.tense)
    nodes = (under(node, ADVERB), under(node, NEGATION)) if action.tense == "never" else (under(node, ADVERB),)
    words = [Word(adverb, nodes)] if adverb else []
    if action.negated and not _no(action.object, action, node):
        words.append(Word("nicht", (under(node, NEGATION),)))
    return words


def _no(phrase: Object | None, clause: Action | Naming, node: int) -> int:
    """The negation's node where it is said with kein, at an indefinite phrase; else 0."""
    indefinite = isinstance(phrase, NounPhrase) and not phrase.definite and phrase.count == 1
    return under(node, NEGATION) if clause.negated and indefinite else 0


def _property(clause: Description, node: int) -> list[Word]:
    words = [Word("nicht", (under(node, NEGATION),))] if clause.negated else []
    if clause.than is not None:
        words.append(Word(_COMPARATIVE[clause.adjective], (under(node, PREDICATE),)))
        return [*words, Word("als", (under(node, DEGREE),)), *noun_phrase(clause.than, "nom", under(node, THAN))]
    if clause.degree:
        words.append(Word("sehr" if clause.degree == "very" else "zu", (under(node, DEGREE),)))
    return [*words, Word(clause.adjective.german, (under(node, PREDICATE),))]


_COMPARATIVE = {adjective: adjective.comparatives.split()[1] for adjective in ADJECTIVES if adjective.comparatives}


def _object(action: Action, node: int) -> list[Word]:
    case, verb = action.verb.case, action.verb
    if isinstance(action.object, Pronoun):
        return [Word(_PRONOUN[case][action.object.person], (under(under(node, OBJECT), NOUN),))]
    if not isinstance(action.object, NounPhrase):
        return []
    words = noun_phrase(action.object, case, under(node, OBJECT), negation=_no(action.object, action, node))
    return [Word(verb.preposition, (under(node, VERB),)), *words] if verb.preposition else words


def _means(means: Means, node: int) -> list[Word]:
    return [Word("mit", (under(node, PREPOSITION),)), *noun_phrase(means.phrase, "dat", node)]


def _place(place: Place, node: int) -> list[Word]:
    preposition = Word(place.preposition.german, (under(node, PREPOSITION),))
    article, *rest = noun_phrase(place.phrase, place.preposition.case, node)
    contracted = _CONTRACTED.get(f"{preposition.text} {article.text}")
    if contracted:
        return [Word(contracted, preposition.nodes + article.nodes), *rest]
    return [preposition, article, *rest]


def _subject(subject: Subject, node: int) -> list[Word]:
    if isinstance(subject, NounPhrase):
        return noun_phrase(subject, "nom", node)
    if isinstance(subject, Pair):
        second = noun_phrase(subject.second, "nom", under(node, SECOND))
        return [*noun_phrase(subject.first, "nom", node), Word("und", (under(node, AND),)), *second]
    if isinstance(subject, Pronoun):
        return [Word(_PRONOUN["nom"][subject.person], (under(node, NOUN),))]
    if isinstance(subject, Anaphor):
        return [Word(anaphor(subject.antecedent), (under(node, NOUN),))]
    return [Word("wer" if isinstance(subject, Asked) else "das", (under(node, NOUN),))]


def anaphor(antecedent: NounPhrase) -> str:
    """The pronoun that takes up a phrase: it has the gender of its noun."""
    return _ANAPHOR[_gender(antecedent)]


def _gender(phrase: NounPhrase) -> str:
    return phrase.noun.gender if phrase.count == 1 else "p"


def noun_phrase(phrase: NounPhrase, case: str, node: int, *, negation: int = 0) -> list[Word]:
    """Like "ein flauschiges blaues Wesen" or "die Katze, die den Hund sah,"; with the node of a negation, kein."""
    gender = _gender(phrase)
    article, endings = _determiner(phrase, case, gender)
    words = [
        Word("k" + article, (under(node, DETERMINER), negation))
        if negation
        else Word(article, (under(node, DETERMINER),))
    ]
    ending = endings[case][gender]
    for i, adjective in enumerate(phrase.adjectives):
        words.append(Word(_STEM[adjective] + ending, (under(node, ADJECTIVE + i),)))
    words.append(Word(_noun(phrase.noun, case, gender), (under(node, NOUN),)))
    if phrase.owner is not None:
        words += noun_phrase(phrase.owner, "gen", under(node, OWNER))
    return _comma(_comma(words) + _relative(gender, phrase.relative, node)) if phrase.relative else words


_STEM: dict[Adjective, str] = {adjective: adjective.german_stem or adjective.german for adjective in ADJECTIVES}


def _determiner(phrase: NounPhrase, case: str, gender: str) -> tuple[str, dict[str, dict[str, str]]]:
    if phrase.count > 1:
        return NUMBERS[phrase.count][1], _STRONG
    if phrase.definite:
        return _DEFINITE[case][gender], _WEAK
    return _INDEFINITE[case][gender], _MIXED


def _noun(noun: Noun, case: str, gender: str) -> str:
    if gender == "p":
        return noun.german_plural + ("n" if case == "dat" and noun.german_plural[-1] not in "ns" else "")
    if case == "nom":
        return noun.german
    return noun.genitive if case == "gen" else noun.oblique or noun.german


def _relative(gender: str, relative: Relative, node: int) -> list[Word]:
    inner = under(node, RELATIVE)
    case = "nom" if relative.gap == "subject" else relative.verb.case
    word = "denen" if case == "dat" and gender == "p" else _DEFINITE[case][gender]
    if relative.gap == "subject":
        other, plural = noun_phrase(relative.other, relative.verb.case, under(inner, OBJECT)), gender == "p"
    else:
        other, plural = noun_phrase(relative.other, "nom", under(inner, SUBJECT)), relative.other.count != 1
    form = relative.verb.prefix + _past(relative.verb, "they" if plural else "he")
    return [Word(word, (under(inner, RELATIVE_WORD),)), *other, Word(form, (under(inner, VERB),))]
