"""The German of a tree: gender, case and endings, verb second and verb last, the split perfect, nicht and kein.

A clause is cut as German grammars cut it: what stands first, the finite verb, the middle, and what closes the bracket
(participle, infinitive or separated prefix). Subordinate clauses put the finite verb behind the bracket. Questions are
asked in the perfect, as people do. Knows nothing of the other languages; what a tree may say is not decided here.
"""

from heedful.data.grammar import parts, trees
from heedful.data.grammar.entries import Adjective, Noun, Verb
from heedful.data.grammar.lexicon import ADJECTIVES, NUMBERS
from heedful.data.grammar.parts import ROOT, under
from heedful.data.grammar.verbs import VERB_NAMED
from heedful.data.grammar.words import Word, finished, time_words, word

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
# The pronoun that takes up a phrase has the gender of its noun.
_ANAPHOR = {"m": "er", "f": "sie", "n": "es", "p": "sie"}
_PRONOUN: dict[str, dict[trees.Person, str]] = {
    "nom": {"I": "ich", "you": "du", "he": "er", "she": "sie", "we": "wir", "they": "sie"},
    "acc": {"I": "mich", "you": "dich", "he": "ihn", "she": "sie", "we": "uns", "they": "sie"},
    "dat": {"I": "mir", "you": "dir", "he": "ihm", "she": "ihr", "we": "uns", "they": "ihnen"},
}
_FINITE: dict[str, dict[trees.Agreement, str]] = {
    "haben": {"I": "habe", "you": "hast", "he": "hat", "they": "haben"},
    "hatte": {"I": "hatte", "you": "hattest", "he": "hatte", "they": "hatten"},
    "sein": {"I": "bin", "you": "bist", "he": "ist", "they": "sind"},
    "war": {"I": "war", "you": "warst", "he": "war", "they": "waren"},
    "will": {"I": "werde", "you": "wirst", "he": "wird", "they": "werden"},
    "can": {"I": "kann", "you": "kannst", "he": "kann", "they": "können"},
    "must": {"I": "muss", "you": "musst", "he": "muss", "they": "müssen"},
    "want": {"I": "will", "you": "willst", "he": "will", "they": "wollen"},
}
_ADVERBS: dict[trees.Tense, str] = {"already": "schon", "yet": "noch", "never": "nie"}


def german(sentence: trees.Sentence) -> list[Word]:
    """The words of the German sentence."""
    words = _question(sentence.main) if sentence.question else _main_clause(sentence)
    for conjunction, clause in {"weil": sentence.reason, "dass": sentence.claim}.items():
        if clause is not None:
            joined = word(conjunction, ROOT, parts.CONJUNCTION)
            words = [*_comma(words), joined, *_verb_last(clause, under(ROOT, parts.CLAUSE))]
    return finished(words, "?" if sentence.question else ".")


def _comma(words: list[Word]) -> list[Word]:
    last = words[-1]
    return words if last.text.endswith(",") else [*words[:-1], Word(last.text + ",", last.nodes)]


def _main_clause(sentence: trees.Sentence) -> list[Word]:
    """Verb second: the time or the subject, the finite verb, the rest."""
    clause = sentence.main
    subject = _subject(clause.subject, under(ROOT, parts.SUBJECT))
    finite, bracket = _verb(clause, ROOT)
    middle = _middle(clause, ROOT)
    if sentence.time is None:
        return [*subject, finite, *middle, *bracket]
    time = time_words(sentence.time.german, under(ROOT, parts.TIME))
    return [*time, finite, *subject, *middle, *bracket]


def _verb_last(clause: trees.Action | trees.Description, node: int) -> list[Word]:
    """The clause behind weil and dass."""
    words = _subject(clause.subject, under(node, parts.SUBJECT)) + _middle(clause, node)
    return words + _closing(*_verb(clause, node))


def _closing(finite: Word, bracket: list[Word]) -> list[Word]:
    """The finite verb behind the bracket; a separated prefix is joined to it again."""
    if bracket and bracket[0].nodes == finite.nodes:
        return [Word(bracket[0].text + finite.text, finite.nodes)]
    return [*bracket, finite]


def _question(clause: trees.Clause) -> list[Word]:
    """Wer hat …?, Was hat sie …?, Wo hat sie …?, Hat sie …?, Liebst du mich?"""
    assert isinstance(clause, trees.Action)
    finite, bracket = _verb(clause, ROOT) if clause.tense == "present" else _perfect(clause, ROOT, "haben", "sein")
    subject = _subject(clause.subject, under(ROOT, parts.SUBJECT))
    rest = [*_middle(clause, ROOT), *bracket]
    if isinstance(clause.subject, trees.Asked):
        return [*subject, finite, *rest]
    return [*_question_word(clause), finite, *subject, *rest]


def _question_word(action: trees.Action) -> list[Word]:
    if isinstance(action.object, trees.Asked):
        return [word("was", under(ROOT, parts.OBJECT), parts.NOUN)]
    return [word("wo", under(ROOT, parts.PLACE), parts.NOUN)] if isinstance(action.place, trees.Asked) else []


def _verb(clause: trees.Clause, node: int) -> tuple[Word, list[Word]]:
    """The finite verb, and what closes the bracket."""
    person = trees.agreement(clause.subject)
    if not isinstance(clause, trees.Action):
        return word(_FINITE["war" if clause.tense == "past" else "sein"][person], node, parts.VERB), []
    if clause.tense in ("past", "present"):
        form = _past(clause.verb, person) if clause.tense == "past" else _present(clause.verb, person)
        prefix = [word(clause.verb.prefix, node, parts.VERB)] if clause.verb.prefix else []
        return word(form, node, parts.VERB), prefix
    if clause.tense in ("already", "yet", "never"):
        return _perfect(clause, node, "haben", "sein")
    if clause.tense == "had":
        return _perfect(clause, node, "hatte", "war")
    finite = word(_FINITE[clause.tense][person], node, parts.AUXILIARY)
    return finite, [word(_FORMS[clause.verb][0], node, parts.VERB)]


def _perfect(action: trees.Action, node: int, have: str, be: str) -> tuple[Word, list[Word]]:
    auxiliary = _FINITE[have if action.verb.auxiliary == "haben" else be][trees.agreement(action.subject)]
    participle = word(_FORMS[action.verb][3], node, parts.VERB)
    return word(auxiliary, node, parts.AUXILIARY), [participle]


_FORMS = {verb: tuple(verb.german.split()) for verb in VERB_NAMED.values()}


def _past(verb: Verb, person: trees.Agreement) -> str:
    form = _FORMS[verb][2]
    if person == "you":
        return form + "st"
    if person == "they":
        return form + ("n" if form.endswith("e") else "en")
    return form


def _present(verb: Verb, person: trees.Agreement) -> str:
    infinitive, form = _FORMS[verb][:2]
    infinitive = infinitive.removeprefix(verb.prefix)
    if person == "they":
        return infinitive
    if person == "he" or not form.endswith("t"):
        return form + "st" if person == "you" else form
    return form[:-1] + "st" if person == "you" else infinitive.removesuffix("n")


def _middle(clause: trees.Clause, node: int) -> list[Word]:
    """Between the finite verb and the bracket: to whom, what, not, how and where."""
    if isinstance(clause, trees.Naming):
        return noun_phrase(clause.phrase, "nom", under(node, parts.OBJECT), negation=_no(clause.phrase, clause, node))
    if isinstance(clause, trees.Description):
        return _property(clause, node)
    words = noun_phrase(clause.recipient, "dat", under(node, parts.RECIPIENT)) if clause.recipient else []
    with_preposition = bool(clause.verb.preposition)
    object_ = _object(clause, node)
    words += [] if with_preposition else object_
    words += _adverbs(clause, node)
    words += object_ if with_preposition else []
    means = _means(clause.means, under(node, parts.MEANS)) if clause.means else []
    place = _place(clause.place, under(node, parts.PLACE)) if isinstance(clause.place, trees.Place) else []
    return words + means + place


def _adverbs(action: trees.Action, node: int) -> list[Word]:
    adverb = _ADVERBS.get(action.tense)
    negation = (parts.NEGATION,) if action.tense == "never" else ()
    words = [word(adverb, node, parts.ADVERB, *negation)] if adverb else []
    if action.negated and not _no(action.object, action, node):
        words.append(word("nicht", node, parts.NEGATION))
    return words


def _no(phrase: trees.Object | None, clause: trees.Action | trees.Naming, node: int) -> int:
    """The negation's node where it is said with kein, at an indefinite phrase; else 0."""
    indefinite = isinstance(phrase, trees.NounPhrase) and not phrase.definite and phrase.count == 1
    return under(node, parts.NEGATION) if clause.negated and indefinite else 0


def _property(clause: trees.Description, node: int) -> list[Word]:
    words = [word("nicht", node, parts.NEGATION)] if clause.negated else []
    if clause.than is not None:
        words.append(word(_COMPARATIVE[clause.adjective], node, parts.PREDICATE))
        return [*words, word("als", node, parts.DEGREE), *noun_phrase(clause.than, "nom", under(node, parts.THAN))]
    if clause.degree:
        words.append(word("sehr" if clause.degree == "very" else "zu", node, parts.DEGREE))
    return [*words, word(clause.adjective.german, node, parts.PREDICATE)]


_COMPARATIVE = {adjective: adjective.comparatives.split()[1] for adjective in ADJECTIVES if adjective.comparatives}


def _object(action: trees.Action, node: int) -> list[Word]:
    case, verb = action.verb.case, action.verb
    if isinstance(action.object, trees.Pronoun):
        return [word(_PRONOUN[case][action.object.person], under(node, parts.OBJECT), parts.NOUN)]
    if not isinstance(action.object, trees.NounPhrase):
        return []
    words = noun_phrase(action.object, case, under(node, parts.OBJECT), negation=_no(action.object, action, node))
    return [word(verb.preposition, node, parts.VERB), *words] if verb.preposition else words


def _means(means: trees.Means, node: int) -> list[Word]:
    return [word("mit", node, parts.PREPOSITION), *noun_phrase(means.phrase, "dat", node)]


def _place(place: trees.Place, node: int) -> list[Word]:
    preposition = word(place.preposition.german, node, parts.PREPOSITION)
    article, *rest = noun_phrase(place.phrase, place.preposition.case, node)
    contracted = _CONTRACTED.get(f"{preposition.text} {article.text}")
    if contracted:
        return [Word(contracted, preposition.nodes + article.nodes), *rest]
    return [preposition, article, *rest]


def _subject(subject: trees.Subject, node: int) -> list[Word]:
    if isinstance(subject, trees.NounPhrase):
        return noun_phrase(subject, "nom", node)
    if isinstance(subject, trees.Coordination):
        second = noun_phrase(subject.second, "nom", under(node, parts.SECOND))
        return [*noun_phrase(subject.first, "nom", node), word("und", node, parts.AND), *second]
    if isinstance(subject, trees.Pronoun):
        return [word(_PRONOUN["nom"][subject.person], node, parts.NOUN)]
    if isinstance(subject, trees.Anaphor):
        return [word(_ANAPHOR[_gender(subject.antecedent)], node, parts.NOUN)]
    return [word("wer" if isinstance(subject, trees.Asked) else "das", node, parts.NOUN)]


def _gender(phrase: trees.NounPhrase) -> str:
    return phrase.noun.gender if phrase.count == 1 else "p"


def noun_phrase(phrase: trees.NounPhrase, case: str, node: int, *, negation: int = 0) -> list[Word]:
    """Like "ein flauschiges blaues Wesen" or "die Katze, die den Hund sah,"; with the node of a negation, kein."""
    gender = _gender(phrase)
    article, endings = _determiner(phrase, case, gender)
    words = [
        Word("k" + article, (under(node, parts.DETERMINER), negation))
        if negation
        else word(article, node, parts.DETERMINER)
    ]
    ending = endings[case][gender]
    for i, adjective in enumerate(phrase.adjectives):
        words.append(word(_STEM[adjective] + ending, node, parts.ADJECTIVE + i))
    words.append(word(_noun(phrase.noun, case, gender), node, parts.NOUN))
    if phrase.owner is not None:
        words += noun_phrase(phrase.owner, "gen", under(node, parts.OWNER))
    return _comma(_comma(words) + _relative(gender, phrase.relative, node)) if phrase.relative else words


_STEM: dict[Adjective, str] = {adjective: adjective.german_stem or adjective.german for adjective in ADJECTIVES}


def _determiner(phrase: trees.NounPhrase, case: str, gender: str) -> tuple[str, dict[str, dict[str, str]]]:
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


def _relative(gender: str, relative: trees.Relative, node: int) -> list[Word]:
    inner = under(node, parts.RELATIVE)
    case = "nom" if relative.gap == "subject" else relative.verb.case
    pronoun = "denen" if case == "dat" and gender == "p" else _DEFINITE[case][gender]
    if relative.gap == "subject":
        other, plural = noun_phrase(relative.other, relative.verb.case, under(inner, parts.OBJECT)), gender == "p"
    else:
        other, plural = noun_phrase(relative.other, "nom", under(inner, parts.SUBJECT)), relative.other.count != 1
    form = relative.verb.prefix + _past(relative.verb, "they" if plural else "he")
    return [word(pronoun, inner, parts.RELATIVE_WORD), *other, word(form, inner, parts.VERB)]
