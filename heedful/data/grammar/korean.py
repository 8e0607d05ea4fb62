"""The Korean of a tree, in the plain style (-다, and -니? for questions): verb last, particles, counters.

Korean has no articles. One rule makes definiteness visible: what is indefinite is counted (고양이 한 마리), what is not
counted is definite. A definite subject of the main clause is its topic (은/는), every other subject has 이/가. Plurals
that are not counted have -들. A pronoun in a reason is dropped; if it takes up the object, the noun itself moves into
the reason and is not said again (동물은 도로가 너무 넓어서 건너지 않았다). In a claim it is 자신. Knows nothing of the
other languages.
"""

from heedful.data.grammar import parts, trees
from heedful.data.grammar.entries import Adjective
from heedful.data.grammar.hangul import NIEUN, RIEUL, SSANGSIOS, final, soft_stem, with_final, with_particle
from heedful.data.grammar.lexicon import ADJECTIVES, NUMBERS
from heedful.data.grammar.parts import ROOT, under
from heedful.data.grammar.verbs import VERB_NAMED
from heedful.data.grammar.words import Word, finished, spelled, time_words, word

_PRONOUN: dict[trees.Person, str] = {"I": "나", "you": "너", "he": "그", "she": "그녀", "we": "우리", "they": "그들"}


def _forms(korean: str) -> tuple[str, str, str]:
    stem, connective, *soft = korean.split("/")
    return stem, connective, soft[0] if soft else soft_stem(stem)


# Stem (보), connective form (보아), stem before -ㄴ and -ㄹ (보).
_VERB_FORMS = {verb: _forms(verb.korean) for verb in VERB_NAMED.values()}
# 알다 has no negation; its opposite is 모르다.
_NEGATED_FORMS = {verb: _forms(verb.korean_negated) for verb in VERB_NAMED.values() if verb.korean_negated}
_ADJECTIVE_FORMS = {adjective: _forms(adjective.korean) for adjective in ADJECTIVES if adjective.korean}
_MODIFIER: dict[Adjective, str] = {
    adjective: adjective.modifier or with_final(_ADJECTIVE_FORMS[adjective][2], NIEUN) for adjective in ADJECTIVES
}


def korean(sentence: trees.Sentence) -> list[Word]:
    """The words of the Korean sentence."""
    words = time_words(sentence.time.korean, under(ROOT, parts.TIME)) if sentence.time else []
    words += _subject(sentence.main.subject, under(ROOT, parts.SUBJECT), topic=True)
    inner = under(ROOT, parts.CLAUSE)
    if sentence.reason is not None:
        words += _reason(sentence, inner)
    if sentence.claim is not None:
        words += _claim(sentence, inner)
    if isinstance(sentence.main, trees.Action):
        words += _complements(sentence.main, ROOT, object_said=_takes_up_object(sentence.reason))
        words += _predicate(sentence.main, ROOT, question=sentence.question)
    elif isinstance(sentence.main, trees.Naming):
        words += _naming(sentence.main)
    else:
        words += _description(sentence.main, ROOT)
    return finished(words, "?" if sentence.question else ".")


def _subject(subject: trees.Subject, node: int, *, topic: bool) -> list[Word]:
    if isinstance(subject, trees.NounPhrase):
        return noun_phrase(subject, "는" if topic and subject.definite else "가", node)
    if isinstance(subject, trees.Coordination):
        first = noun_phrase(subject.first, "와", node, under(node, parts.AND))
        return first + noun_phrase(subject.second, "는" if topic else "가", under(node, parts.SECOND))
    if isinstance(subject, trees.Pronoun):
        return [word(with_particle(_PRONOUN[subject.person], "는"), node, parts.NOUN)]
    if isinstance(subject, trees.Anaphor):
        return []
    return [word("누가" if isinstance(subject, trees.Asked) else "이것은", node, parts.NOUN)]


def noun_phrase(phrase: trees.NounPhrase, particle: str, node: int, *nodes: int) -> list[Word]:
    """Like "개가 본 고양이를", "왕의 말은", "작은 책 두 권이"; `nodes` are of what the particle stands for."""
    words = bare_phrase(phrase, node)
    if phrase.count == 1 and phrase.definite:
        return _attached(words, particle, *nodes)
    if phrase.definite:
        return _attached(_attached(words, "들"), particle, *nodes)
    number = word("한" if phrase.count == 1 else NUMBERS[phrase.count][2], node, parts.DETERMINER)
    counter = word(phrase.noun.counter, node, parts.DETERMINER)
    return words + _attached([number, counter], particle, *nodes)


def _attached(words: list[Word], particle: str, *nodes: int) -> list[Word]:
    last = words[-1]
    return [*words[:-1], Word(with_particle(last.text, particle), last.nodes + nodes)]


def bare_phrase(phrase: trees.NounPhrase, node: int) -> list[Word]:
    """A noun and what stands before it, with neither number nor particle."""
    words = _relative(phrase.relative, under(node, parts.RELATIVE)) if phrase.relative else []
    if phrase.owner is not None:
        words += noun_phrase(phrase.owner, "의", under(node, parts.OWNER))
    words += [word(_MODIFIER[adjective], node, parts.ADJECTIVE + i) for i, adjective in enumerate(phrase.adjectives)]
    return words + spelled(phrase.noun.korean, under(node, parts.NOUN))


def _relative(relative: trees.Relative, node: int) -> list[Word]:
    verb = word(with_final(_VERB_FORMS[relative.verb][2], NIEUN), node, parts.VERB, parts.RELATIVE_WORD)
    if relative.gap == "subject":
        return [*noun_phrase(relative.other, relative.verb.particle, under(node, parts.OBJECT)), verb]
    return [*noun_phrase(relative.other, "가", under(node, parts.SUBJECT)), verb]


def _complements(action: trees.Action, node: int, *, object_said: bool = False) -> list[Word]:
    """What stands between the subject and the verb."""
    words = noun_phrase(action.recipient, "에게", under(node, parts.RECIPIENT)) if action.recipient else []
    if action.means is not None:
        words += _means(action.means, under(node, parts.MEANS))
    if action.place is not None:
        words += _place(action.place, "에서" if action.object else action.verb.particle, under(node, parts.PLACE))
    if action.tense in ("already", "yet"):
        words.append(word("이미" if action.tense == "already" else "아직", node, parts.ADVERB))
    return words if object_said else words + _object(action, under(node, parts.OBJECT), under(node, parts.NEGATION))


def _object(action: trees.Action, node: int, negation: int) -> list[Word]:
    object_, particle = action.object, action.verb.particle
    if isinstance(object_, trees.Pronoun):
        return [word(with_particle(_PRONOUN[object_.person], particle), node, parts.NOUN)]
    if isinstance(object_, trees.Asked):
        return [word(with_particle("무엇", particle), node, parts.NOUN)]
    if object_ is None:
        return []
    if action.negated and not object_.definite:
        none = [
            word("한", node, parts.DETERMINER),
            Word(object_.noun.counter + "도", (under(node, parts.DETERMINER), negation)),
        ]
        return _attached(bare_phrase(object_, node), particle) + none
    return noun_phrase(object_, particle, node)


def _means(means: trees.Means, node: int) -> list[Word]:
    preposition = under(node, parts.PREPOSITION)
    if means.kind == "company":
        return [*noun_phrase(means.phrase, "와", node, preposition), Word("함께", (preposition,))]
    return _attached(bare_phrase(means.phrase, node), "로", preposition)


def _place(place: trees.Place | trees.Asked, particle: str, node: int) -> list[Word]:
    if isinstance(place, trees.Asked):
        return [word("어디" + particle, node, parts.NOUN)]
    particle, preposition = place.preposition.particle or particle, under(node, parts.PREPOSITION)
    if not place.preposition.relation:
        return noun_phrase(place.phrase, particle, node, preposition)
    relation = Word(place.preposition.relation + particle, (preposition,))
    return [*noun_phrase(place.phrase, "", node), relation]


def _predicate(action: trees.Action, node: int, *, question: bool) -> list[Word]:
    """The verb at the end of the sentence."""
    if action.tense in ("past", "already", "yet"):
        return _past(action, node, "니" if question else "다")
    if action.tense == "present":
        return _present(action, node, question=question)
    if action.tense == "never":
        verb = word(with_final(_VERB_FORMS[action.verb][2], NIEUN), node, parts.VERB)
        never = word("없다", node, parts.ADVERB, parts.NEGATION)
        return [verb, word("적이", node, parts.AUXILIARY), never]
    if action.tense == "will":
        return _future(action, node)
    return _modal(action, node)


def _past(action: trees.Action, node: int, ending: str) -> list[Word]:
    stem, connective, _ = _VERB_FORMS[action.verb]
    verb, auxiliary = under(node, parts.VERB), under(node, parts.AUXILIARY)
    if action.negated and action.verb in _NEGATED_FORMS:
        unlike = with_final(_NEGATED_FORMS[action.verb][1], SSANGSIOS)
        return [Word(unlike + ending, (verb, under(node, parts.NEGATION), auxiliary))]
    if action.negated:
        not_ = ("못했" if action.verb.cannot else "않았") + ending
        return [Word(stem + "지", (verb,)), Word(not_, (under(node, parts.NEGATION), auxiliary))]
    return spelled(with_final(connective, SSANGSIOS) + ending, verb, auxiliary)


def _present(action: trees.Action, node: int, *, question: bool) -> list[Word]:
    stem = _VERB_FORMS[action.verb][0]
    verb = under(node, parts.VERB)
    if action.negated and action.verb in _NEGATED_FORMS:
        unlike = with_final(_NEGATED_FORMS[action.verb][0], NIEUN)
        return [Word(unlike + "다", (verb, under(node, parts.NEGATION), under(node, parts.AUXILIARY)))]
    if action.negated:
        return [Word(stem + "지", (verb,)), word("않는다", node, parts.NEGATION, parts.AUXILIARY)]
    soft = final(stem) in (0, RIEUL)
    if question:
        return [Word((with_final(stem, 0) if soft else stem) + "니", (verb,))]
    return [Word(with_final(stem, NIEUN) + "다" if soft else stem + "는다", (verb,))]


def _future(action: trees.Action, node: int) -> list[Word]:
    stem, _, soft = _VERB_FORMS[action.verb]
    will = word("것이다", node, parts.AUXILIARY)
    if action.negated:
        not_ = word("못할" if action.verb.cannot else "않을", node, parts.NEGATION, parts.AUXILIARY)
        return [word(stem + "지", node, parts.VERB), not_, will]
    return [word(with_final(soft, RIEUL), node, parts.VERB), will]


def _modal(action: trees.Action, node: int) -> list[Word]:
    stem, connective, soft = _VERB_FORMS[action.verb]
    verb, modal = (under(node, parts.VERB),), (under(node, parts.AUXILIARY),)
    negated = (under(node, parts.NEGATION), under(node, parts.AUXILIARY))
    if action.tense == "must":
        return [Word(connective + "야", verb), Word("한다", modal)]
    if action.tense == "can":
        able = Word("없다", negated) if action.negated else Word("있다", modal)
        return [Word(with_final(soft, RIEUL), verb), Word("수", modal), able]
    want = [Word(stem + "고", verb), Word("싶어", modal)]
    return [*want, Word("하지", modal), Word("않는다", negated)] if action.negated else [*want, Word("한다", modal)]


def _description(description: trees.Description, node: int, *nodes: int, ending: str = "다") -> list[Word]:
    """The adjective as a predicate, with its degree; `nodes` are those of what the ending says."""
    stem, connective, _ = _ADJECTIVE_FORMS[description.adjective]
    words = _degree(description, node)
    is_so = (under(node, parts.PREDICATE), under(node, parts.VERB))
    past = description.tense == "past" and ending == "다"
    if description.negated:
        not_ = Word(("않았" if past else "않") + ending, (under(node, parts.NEGATION), under(node, parts.VERB), *nodes))
        return [*words, *spelled(stem + "지", under(node, parts.PREDICATE)), not_]
    return words + spelled((with_final(connective, SSANGSIOS) if past else stem) + ending, *is_so, *nodes)


def _degree(description: trees.Description, node: int) -> list[Word]:
    if description.than is not None:
        than = noun_phrase(description.than, "보다", under(node, parts.THAN), under(node, parts.DEGREE))
        return [*than, word("더", node, parts.PREDICATE)]
    degree = {"": "", "very": "아주", "too": "너무"}[description.degree]
    return spelled(degree, under(node, parts.DEGREE))


def _naming(naming: trees.Naming) -> list[Word]:
    phrase = bare_phrase(naming.phrase, under(ROOT, parts.OBJECT))
    copula = under(ROOT, parts.VERB)
    if naming.negated:
        is_not = "아니다" if naming.tense == "present" else "아니었다"
        return [*_attached(phrase, "가"), Word(is_not, (copula, under(ROOT, parts.NEGATION)))]
    return _attached(phrase, "다" if naming.tense == "present" else "였다", copula)


def _takes_up_object(reason: trees.Action | trees.Description | None) -> bool:
    return reason is not None and isinstance(reason.subject, trees.Anaphor) and reason.subject.role == "object"


def _reason(sentence: trees.Sentence, node: int) -> list[Word]:
    """너무 피곤해서 / 도로가 너무 넓어서 / 소녀가 열쇠를 찾았기 때문에."""
    reason, because = sentence.reason, under(ROOT, parts.CONJUNCTION)
    assert reason is not None
    words = _subject(reason.subject, under(node, parts.SUBJECT), topic=False)
    if isinstance(reason, trees.Action):
        return words + _complements(reason, node) + _past(reason, node, "기") + [Word("때문에", (because,))]
    if isinstance(reason.subject, trees.Anaphor) and _takes_up_object(reason):
        words = noun_phrase(reason.subject.antecedent, "가", under(ROOT, parts.OBJECT))
    connective = _ADJECTIVE_FORMS[reason.adjective][1]
    nodes = (under(node, parts.PREDICATE), under(node, parts.VERB), because)
    return words + _degree(reason, node) + spelled(connective + "서", *nodes)


def _claim(sentence: trees.Sentence, node: int) -> list[Word]:
    """자신이 피곤하다고 / 소녀가 열쇠를 찾았다는 것을: a claim about the past keeps the tense it was made in."""
    claim, that = sentence.claim, under(ROOT, parts.CONJUNCTION)
    assert claim is not None
    assert isinstance(sentence.main, trees.Action)
    words = _subject(claim.subject, under(node, parts.SUBJECT), topic=False)
    if isinstance(claim.subject, trees.Anaphor):
        words = [word("자신이", under(node, parts.SUBJECT), parts.NOUN)]
    ending, *rest = sentence.main.verb.particle.split()
    if isinstance(claim, trees.Action):
        *verb, last = _past(claim, node, "다" + ending)
        words += [*_complements(claim, node), *verb, Word(last.text, (*last.nodes, that))]
    else:
        words += _description(claim, node, that, ending="다" + ending)
    return words + [Word(each, (that,)) for each in rest]
