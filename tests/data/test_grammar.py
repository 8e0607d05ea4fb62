"""The built-in corpus: right in three languages, one target to a source, and held out by unseen combinations.

What a linguist knows is written here by hand (tables of phrases, particles and verb forms); what must hold of every
sentence is checked on sentences drawn at random.
"""

import json
import os
import subprocess
import sys
import unicodedata
from itertools import islice, pairwise, permutations, product, repeat
from pathlib import Path
from typing import NamedTuple

import pytest

from heedful.data.grammar import corpus as corpus_module
from heedful.data.grammar import corpus_files, english, german, korean
from heedful.data.grammar.corpus import (
    DEMO_SENTENCES,
    LANGUAGES,
    WRITERS,
    Example,
    WrittenSentence,
    example,
    held_out_examples,
    pronoun_cases,
    training_sentences,
)
from heedful.data.grammar.corpus_files import write_corpus
from heedful.data.grammar.demo import DEMO
from heedful.data.grammar.entries import Noun
from heedful.data.grammar.hangul import with_particle
from heedful.data.grammar.lexicon import ADJECTIVE_NAMED, ADJECTIVES, NOUN_NAMED, NOUNS, select
from heedful.data.grammar.links import Link
from heedful.data.grammar.one_clause import ACTIVE
from heedful.data.grammar.parts import ROOT
from heedful.data.grammar.phrases import FITTING, OBJECTS, SUBJECTS, Draw
from heedful.data.grammar.pronouns import PronounCase
from heedful.data.grammar.reserved import RESERVED_PAIRS, combinations, dilemma_of, is_held_out, is_reserved
from heedful.data.grammar.sampling import sentences
from heedful.data.grammar.trees import MANY, Action, Anaphor, Description, NounPhrase, Sentence, Tense
from heedful.data.grammar.two_clauses import reasoned
from heedful.data.grammar.verbs import DILEMMAS, TIMES, VERB_NAMED
from heedful.data.grammar.words import text
from heedful.errors import ConfigError, DataError

pytestmark = pytest.mark.slow

TIRED = "The animal didn't cross the road because it was too tired."
WIDE = "The animal didn't cross the road because it was too wide."
PAIRS = tuple(permutations(LANGUAGES, 2))
TRAIN_PAIRS = 5_000


class BuiltInCorpus(NamedTuple):
    train: list[Example]
    valid: list[Example]
    test: list[Example]
    pronouns: list[PronounCase]


def built_in_corpus(
    source: str, target: str, *, seed: int = 1, train_pairs: int = 200_000, held_out_pairs: int = 1_000
) -> BuiltInCorpus:
    valid, test = held_out_examples(source, target, seed=seed, count=held_out_pairs)
    train = [example(written, target) for written in training_sentences(source, seed=seed, count=train_pairs)]
    return BuiltInCorpus(train, valid, test, pronoun_cases(source, target, seed=seed))


@pytest.fixture(scope="module")
def trees() -> list[Sentence]:
    return list(islice(sentences(Draw(20170612)), 8_000))


@pytest.fixture(scope="module")
def corpus() -> BuiltInCorpus:
    return built_in_corpus("en", "de", train_pairs=TRAIN_PAIRS, held_out_pairs=400)


def write(language: str, sentence: Sentence) -> str:
    return text(WRITERS[language](sentence))


def phrase(*words: str, count: int = 1, definite: bool = True, owner: str = "") -> NounPhrase:
    *adjectives, noun = words
    chosen = tuple(ADJECTIVE_NAMED[name] for name in adjectives)
    return NounPhrase(NOUN_NAMED[noun], chosen, count, definite, NounPhrase(NOUN_NAMED[owner]) if owner else None)


def has_final_consonant(word: str) -> bool:
    return len(unicodedata.normalize("NFD", word[-1])) == 3


def ends_in_rieul(word: str) -> bool:
    return unicodedata.normalize("NFD", word[-1])[2:] == "\u11af"


# The sentences that people know


def test_the_known_sentences_are_right_in_english() -> None:
    assert DEMO_SENTENCES["en"] == (
        TIRED,
        WIDE,
        "The cat sat on the mat.",
        "A fluffy blue creature roamed the verdant forest.",
        "The Eiffel Tower is taller than the miniature tower.",
        "I love you.",
        "You love me.",
        "The woman who bought a red dress opened the old box.",
    )


def test_the_known_sentences_are_right_in_german() -> None:
    assert DEMO_SENTENCES["de"] == (
        "Das Tier überquerte die Straße nicht, weil es zu müde war.",
        "Das Tier überquerte die Straße nicht, weil sie zu breit war.",
        "Die Katze saß auf der Matte.",
        "Ein flauschiges blaues Wesen streifte durch den sattgrünen Wald.",
        "Der Eiffelturm ist höher als der Miniaturturm.",
        "Ich liebe dich.",
        "Du liebst mich.",
        "Die Frau, die ein rotes Kleid kaufte, öffnete die alte Kiste.",
    )


def test_the_known_sentences_are_right_in_korean() -> None:
    assert DEMO_SENTENCES["ko"] == (
        "동물은 너무 피곤해서 도로를 건너지 않았다.",
        "동물은 도로가 너무 넓어서 건너지 않았다.",
        "고양이는 매트 위에 앉았다.",
        "복슬복슬한 파란 생물 한 마리가 푸르른 숲을 돌아다녔다.",
        "에펠탑은 모형 탑보다 더 높다.",
        "나는 너를 사랑한다.",
        "너는 나를 사랑한다.",
        "빨간 드레스 한 벌을 산 여자는 오래된 상자를 열었다.",
    )


def test_the_sentences_of_the_animal_and_the_road_are_drawn_like_any_other() -> None:
    crossing = next(frame for frame in DILEMMAS if frame.verb == "cross")
    rng = Draw(1)
    drawn = (reasoned(rng, crossing, select("animals")) for _ in range(40_000))
    about_it = [
        sentence for sentence in drawn if (parts := dilemma_of(sentence)) and parts.names[:2] == ("animal", "road")
    ]
    assert {TIRED, WIDE} <= {write("en", sentence) for sentence in about_it}


# German


@pytest.mark.parametrize(
    ("expected", "case", "given"),
    [
        ("der kleine Hund", "nom", phrase("small", "dog")),
        ("den kleinen Hund", "acc", phrase("small", "dog")),
        ("dem kleinen Hund", "dat", phrase("small", "dog")),
        ("die kleine Katze", "acc", phrase("small", "cat")),
        ("der kleinen Katze", "dat", phrase("small", "cat")),
        ("das kleine Pferd", "acc", phrase("small", "horse")),
        ("dem kleinen Pferd", "dat", phrase("small", "horse")),
        ("die kleinen Hunde", "nom", phrase("small", "dog", count=MANY)),
        ("den kleinen Hunden", "dat", phrase("small", "dog", count=MANY)),
        ("ein kleiner Hund", "nom", phrase("small", "dog", definite=False)),
        ("einen kleinen Hund", "acc", phrase("small", "dog", definite=False)),
        ("einem kleinen Hund", "dat", phrase("small", "dog", definite=False)),
        ("eine kleine Katze", "acc", phrase("small", "cat", definite=False)),
        ("einer kleinen Katze", "dat", phrase("small", "cat", definite=False)),
        ("ein kleines Pferd", "acc", phrase("small", "horse", definite=False)),
        ("drei kleine Katzen", "acc", phrase("small", "cat", count=3, definite=False)),
        ("drei kleinen Katzen", "dat", phrase("small", "cat", count=3, definite=False)),
        ("den zehn Mädchen"[4:], "dat", phrase("girl", count=10, definite=False)),
        ("der Junge", "nom", phrase("boy")),
        ("den Jungen", "acc", phrase("boy")),
        ("einem mutigen Löwen", "dat", phrase("brave", "lion", definite=False)),
        ("die alten Bären", "acc", phrase("aged", "bear", count=MANY)),
        ("den Autos", "dat", phrase("car", count=MANY)),
        ("den Äpfeln", "dat", phrase("apple", count=MANY)),
        ("der hohe Turm", "nom", phrase("tall", "tower")),
        ("das dunkle Haus", "nom", phrase("dark", "house")),
        ("ein teures rotes Kleid", "nom", phrase("expensive", "red", "dress", definite=False)),
        ("eine müde Maus", "nom", phrase("tired", "mouse", definite=False)),
        ("der alte Hund des Mädchens", "nom", phrase("aged", "dog", owner="girl")),
        ("dem Pferd der Königin", "dat", phrase("horse", owner="queen")),
        ("die Bücher des Bauern", "acc", phrase("book", count=MANY, owner="farmer")),
        ("den Brief des Arztes", "acc", phrase("letter", owner="doctor")),
    ],
)
def test_german_phrases_agree_in_gender_number_and_case(expected: str, case: str, given: NounPhrase) -> None:
    assert text(german.noun_phrase(given, case, ROOT)) == expected


def test_a_german_pronoun_has_the_gender_and_number_of_its_antecedent(trees: list[Sentence]) -> None:
    pronouns = {"m": "er", "f": "sie", "n": "es"}
    seen = set()
    for sentence in trees:
        if dilemma_of(sentence) is None or not isinstance(sentence.reason, Description):
            continue
        assert isinstance(sentence.reason.subject, Anaphor)
        noun, count = sentence.reason.subject.antecedent.noun, sentence.reason.subject.antecedent.count
        clause = write("de", sentence).split(", weil ")[1].split()
        assert clause[0] == (pronouns[noun.gender] if count == 1 else "sie")
        assert clause[-1] == ("war." if count == 1 else "waren.")
        seen.add((noun.gender, count, sentence.reason.subject.role))
    assert len(seen) == 9  # three genders in two roles, and plurals of three genders, which only subjects have


@pytest.mark.parametrize(
    ("tense", "negated", "expected"),
    [
        ("past", False, "Der Arzt rief den Jungen an."),
        ("past", True, "Der Arzt rief den Jungen nicht an."),
        ("present", False, "Der Arzt ruft den Jungen an."),
        ("already", False, "Der Arzt hat den Jungen schon angerufen."),
        ("yet", True, "Der Arzt hat den Jungen noch nicht angerufen."),
        ("never", False, "Der Arzt hat den Jungen nie angerufen."),
        ("will", False, "Der Arzt wird den Jungen anrufen."),
        ("can", True, "Der Arzt kann den Jungen nicht anrufen."),
        ("must", False, "Der Arzt muss den Jungen anrufen."),
        ("want", False, "Der Arzt will den Jungen anrufen."),
    ],
)
def test_german_main_clauses_put_the_finite_verb_second(tense: Tense, negated: bool, expected: str) -> None:
    action = Action(phrase("doctor"), VERB_NAMED["call"], phrase("boy"), tense=tense, negated=negated)
    assert write("de", Sentence(action)) == expected


def test_a_time_in_front_moves_the_german_subject_behind_the_verb() -> None:
    action = Action(phrase("girl"), VERB_NAMED["see"], phrase("cat"))
    assert write("de", Sentence(action, TIMES["past"][0])) == "Gestern sah das Mädchen die Katze."


def test_german_subordinate_clauses_put_the_finite_verb_last() -> None:
    deed = Action(phrase("princess"), VERB_NAMED["call"], phrase("king"))
    because = Sentence(Action(phrase("girl"), VERB_NAMED["laugh"]), reason=deed)
    claimed = Action(phrase("princess"), VERB_NAMED["climb"], phrase("tree"), tense="had", negated=True)
    claim = Sentence(Action(phrase("girl"), VERB_NAMED["say"]), claim=claimed)
    assert write("de", because) == "Das Mädchen lachte, weil die Prinzessin den König anrief."
    assert write("de", claim) == "Das Mädchen sagte, dass die Prinzessin nicht auf den Baum geklettert war."


def test_what_is_not_there_is_kein_and_what_is_not_done_is_nicht() -> None:
    buy = VERB_NAMED["buy"]
    some = Sentence(Action(phrase("man"), buy, phrase("new", "hat", definite=False), negated=True))
    that = Sentence(Action(phrase("man"), buy, phrase("new", "hat"), negated=True))
    assert write("de", some) == "Der Mann kaufte keinen neuen Hut."
    assert write("de", that) == "Der Mann kaufte den neuen Hut nicht."
    assert write("ko", some) == "남자는 새 모자를 한 개도 사지 않았다."


# Korean


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.name)
def test_korean_particles_follow_the_last_sound_of_every_noun(noun: Noun) -> None:
    word, closed = noun.korean, has_final_consonant(noun.korean)
    assert with_particle(word, "는") == word + ("은" if closed else "는")
    assert with_particle(word, "가") == word + ("이" if closed else "가")
    assert with_particle(word, "를") == word + ("을" if closed else "를")
    assert with_particle(word, "와") == word + ("과" if closed else "와")
    assert with_particle(word, "로") == word + ("으로" if closed and not ends_in_rieul(word) else "로")
    assert with_particle(word, "다") == word + ("이다" if closed else "다")
    assert with_particle(word, "에게") == word + "에게"


def test_no_korean_word_has_the_wrong_one_of_two_particles(trees: list[Sentence]) -> None:
    stems = {noun.korean.split()[-1] for noun in NOUNS} | {noun.counter for noun in NOUNS if noun.counter}
    stems |= {f"{noun.korean}들" for noun in NOUNS}
    behind_vowel, behind_consonant = ("는", "가", "를", "와"), ("은", "이", "을", "과", "으로")
    for sentence in trees:
        for word in write("ko", sentence).rstrip(".?").split():
            if word[:-1] in stems and word[-1] in behind_vowel:
                assert not has_final_consonant(word[:-1]), word
            if word[:-1] in stems and word[-1] in behind_consonant:
                assert has_final_consonant(word[:-1]), word


@pytest.mark.parametrize(
    ("name", "past", "present", "future", "not_yet", "must"),
    [
        ("see", "보았다", "본다", "볼 것이다", "보지 못했다", "보아야 한다"),
        ("read", "읽었다", "읽는다", "읽을 것이다", "읽지 않았다", "읽어야 한다"),
        ("write", "썼다", "쓴다", "쓸 것이다", "쓰지 않았다", "써야 한다"),
        ("draw", "그렸다", "그린다", "그릴 것이다", "그리지 않았다", "그려야 한다"),
        ("sell", "팔았다", "판다", "팔 것이다", "팔지 않았다", "팔아야 한다"),
        ("help", "도왔다", "돕는다", "도울 것이다", "돕지 않았다", "도와야 한다"),
        ("build", "지었다", "짓는다", "지을 것이다", "짓지 않았다", "지어야 한다"),
        ("pick", "주웠다", "줍는다", "주울 것이다", "줍지 않았다", "주워야 한다"),
        ("carry", "날랐다", "나른다", "나를 것이다", "나르지 않았다", "날라야 한다"),
        ("pull", "끌었다", "끈다", "끌 것이다", "끌지 않았다", "끌어야 한다"),
        ("visit", "방문했다", "방문한다", "방문할 것이다", "방문하지 않았다", "방문해야 한다"),
        ("drink", "마셨다", "마신다", "마실 것이다", "마시지 않았다", "마셔야 한다"),
        ("cross", "건넜다", "건넌다", "건널 것이다", "건너지 않았다", "건너야 한다"),
        ("roam", "돌아다녔다", "돌아다닌다", "돌아다닐 것이다", "돌아다니지 않았다", "돌아다녀야 한다"),
    ],
)
def test_korean_verbs_are_conjugated(name: str, past: str, present: str, future: str, not_yet: str, must: str) -> None:
    def ending(tense: Tense, *, negated: bool = False) -> str:
        verb = VERB_NAMED[name]
        action = Action(phrase("king"), verb, NounPhrase(OBJECTS[verb][0]), tense=tense, negated=negated)
        line = write("ko", Sentence(action)).rstrip(".")
        return line.split(" ", 3 if tense == "yet" else 2)[-1]

    forms = (ending("past"), ending("present"), ending("will"), ending("yet", negated=True), ending("must"))
    assert forms == (past, present, future, not_yet, must)


@pytest.mark.parametrize(
    ("name", "before_noun", "because"),
    [
        ("wide", "넓은", "넓어서"),
        ("big", "큰", "커서"),
        ("long", "긴", "길어서"),
        ("dark", "어두운", "어두워서"),
        ("blue", "파란", "파래서"),
        ("white", "하얀", "하얘서"),
        ("lazy", "게으른", "게을러서"),
        ("hungry", "배고픈", "배고파서"),
        ("tired", "피곤한", "피곤해서"),
        ("salty", "짠", "짜서"),
        ("bitter", "쓴", "써서"),
        ("interesting", "재미있는", "재미있어서"),
        ("empty", "빈", "비어 있어서"),
    ],
)
def test_korean_adjectives_are_conjugated(name: str, before_noun: str, because: str) -> None:
    adjective, cart, horse = ADJECTIVE_NAMED[name], phrase("cart"), phrase("horse")
    reason = Description(Anaphor("subject", horse), adjective)
    sentence = Sentence(Action(horse, VERB_NAMED["pull"], cart), reason=reason)
    assert write("ko", sentence) == f"말은 {because} 수레를 끌었다."
    assert text(korean.bare_phrase(phrase(name, "cart"), ROOT)) == f"{before_noun} 수레"


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        ("고양이 세 마리를", phrase("cat", count=3, definite=False)),
        ("작은 책 두 권을", phrase("small", "book", count=2, definite=False)),
        ("편지 한 통을", phrase("letter", definite=False)),
        ("나무 네 그루를", phrase("tree", count=4, definite=False)),
        ("왕의 집을", phrase("house", owner="king")),
        ("말들을", phrase("horse", count=MANY)),
        ("모형 탑 한 개를", phrase("miniature_tower", definite=False)),
    ],
)
def test_korean_counts_with_the_counter_of_the_noun(expected: str, given: NounPhrase) -> None:
    assert text(korean.noun_phrase(given, "를", ROOT)) == expected


def test_korean_has_one_level_of_politeness(trees: list[Sentence]) -> None:
    assert {write("ko", sentence)[-2:] for sentence in trees} == {"다.", "니?"}


# English


@pytest.mark.parametrize(
    ("tense", "negated", "expected"),
    [
        ("past", False, "The child carried an apple."),
        ("past", True, "The child didn't carry an apple."),
        ("present", False, "The child carries an apple."),
        ("present", True, "The child doesn't carry an apple."),
        ("already", False, "The child has already carried an apple."),
        ("yet", True, "The child hasn't carried an apple yet."),
        ("will", True, "The child won't carry an apple."),
        ("can", True, "The child can't carry an apple."),
        ("want", True, "The child doesn't want to carry an apple."),
    ],
)
def test_english_has_do_support_and_contractions(tense: Tense, negated: bool, expected: str) -> None:
    action = Action(phrase("child"), VERB_NAMED["carry"], phrase("apple", definite=False), tense=tense, negated=negated)
    assert write("en", Sentence(action)) == expected


def test_an_stands_before_vowels_and_only_there(trees: list[Sentence]) -> None:
    for sentence in trees:
        for article, following in pairwise(write("en", sentence).lower().split()):
            if article in ("a", "an"):
                assert (article == "an") == (following[0] in "aeiou")


def test_third_persons_are_spelled() -> None:
    bases = ("see", "cross", "catch", "carry", "buy", "go", "fly", "play")
    assert [english.third_person(base) for base in bases] == [
        "sees",
        "crosses",
        "catches",
        "carries",
        "buys",
        "goes",
        "flies",
        "plays",
    ]


# All sentences


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_line_is_written_as_people_write(language: str, trees: list[Sentence]) -> None:
    for sentence in trees:
        line = write(language, sentence)
        assert line[-1] == ("?" if sentence.question else ".")
        assert not any(mark in line[:-1] for mark in (".", "?", "  ", " ,", ",,", "_", "/"))
        assert line[0] == line[0].upper()
        assert line == unicodedata.normalize("NFC", line.strip())


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_source_text_has_one_target(source: str, target: str, trees: list[Sentence]) -> None:
    targets: dict[str, str] = {}
    for sentence in trees:
        line = write(source, sentence)
        assert targets.setdefault(line, write(target, sentence)) == targets[line] == write(target, sentence)


def test_no_sentence_names_the_same_noun_twice(trees: list[Sentence]) -> None:
    nouns = {noun.english for noun in NOUNS if " " not in noun.english}
    for sentence in trees:
        named = [word for word in words(write("en", sentence)) if word in nouns]
        assert len(named) == len(set(named)) or "tower" in named


def test_a_reason_lies_on_one_side_only() -> None:
    """An adjective that is ever said of the subject's state is never said of an object: the pronoun is decided."""
    states = {name for frame in DILEMMAS for name in f"{frame.subject_for} {frame.subject_against}".split()}
    rows = [row for frame in DILEMMAS for row in f"{frame.object_for};{frame.object_against}".split(";")]
    qualities = {row.split(":")[0].strip() for row in rows}
    assert not states & qualities
    assert states | qualities <= {adjective.name for adjective in ADJECTIVES if adjective.korean}


def test_every_restriction_names_words_of_the_lexicon() -> None:
    known = {noun.name for noun in NOUNS} | {tag for noun in NOUNS for tag in noun.tags}
    lists = [adjective.fits for adjective in ADJECTIVES]
    lists += [words for verb in VERB_NAMED.values() for words in (verb.subjects, verb.objects, *verb.places.values())]
    lists += [words for frame in DILEMMAS for words in (frame.subjects, frame.objects)]
    assert {word.removeprefix("-") for words in lists for word in words.split()} <= known


def test_select_takes_out_what_has_a_minus_wherever_it_stands() -> None:
    assert [noun.name for noun in select("-soup drinks soup -water")] == ["milk", "juice"]


def test_there_are_more_than_200000_sentences_for_training() -> None:
    """Counted on one construction alone, the plain past: "The small dog saw the old house"."""

    def ways(noun: Noun) -> int:
        return 1 + sum(not is_reserved((adjective.name, noun.name)) for adjective in FITTING[noun])

    count = sum(
        ways(subject) * ways(object_)
        for verb in ACTIVE
        for subject, object_ in product(SUBJECTS[verb], OBJECTS[verb])
        if subject is not object_ and not is_reserved((verb.name, object_.name))
    )
    assert count > 200_000


# Alignments and links


def aligned(example: Example) -> set[tuple[str, str]]:
    source, target = example.source.split(), example.target.split()
    return {(source[i].strip(".,?"), target[j].strip(".,?")) for i, j in example.alignment}


def linked(line: str, links: tuple[Link, ...]) -> set[tuple[str, str, str]]:
    words = [word.strip(".,?") for word in line.split()]
    return {(link.kind, words[link.word], words[link.head]) for link in links}


def demo(index: int, source: str, target: str) -> Example:
    written = WrittenSentence(DEMO[index], WRITERS[source](DEMO[index]), DEMO_SENTENCES[source][index])
    return example(written, target)


def test_english_and_german_words_are_aligned_across_the_sentence_bracket() -> None:
    assert aligned(demo(0, "en", "de")) == {
        ("The", "Das"),
        ("animal", "Tier"),
        ("didn't", "nicht"),
        ("cross", "überquerte"),
        ("the", "die"),
        ("road", "Straße"),
        ("because", "weil"),
        ("it", "es"),
        ("was", "war"),
        ("too", "zu"),
        ("tired", "müde"),
    }


def test_korean_endings_are_aligned_with_the_words_they_stand_for() -> None:
    assert aligned(demo(1, "ko", "en")) == {
        ("동물은", "animal"),
        ("도로가", "road"),
        ("너무", "too"),
        ("넓어서", "because"),
        ("넓어서", "was"),
        ("넓어서", "wide"),
        ("건너지", "cross"),
        ("않았다", "didn't"),
    }


def test_a_preposition_that_one_language_lacks_belongs_to_the_verb() -> None:
    assert {("roamed", "streifte"), ("roamed", "durch"), ("the", "den")} <= aligned(demo(3, "en", "de"))


def test_links_show_what_a_pronoun_stands_for() -> None:
    tired, wide = demo(0, "en", "de"), demo(1, "en", "de")
    assert linked(tired.source, tired.source_links) == {
        ("verb", "cross", "animal"),
        ("pronoun", "it", "animal"),
        ("verb", "was", "it"),
    }
    assert ("pronoun", "it", "road") in linked(wide.source, wide.source_links)
    assert ("pronoun", "es", "Tier") in linked(tired.target, tired.target_links)
    assert ("pronoun", "sie", "Straße") in linked(wide.target, wide.target_links)


def test_korean_has_no_link_for_the_pronoun_it_drops() -> None:
    dropped = demo(0, "ko", "en")
    assert linked(dropped.source, dropped.source_links) == {("verb", "건너지", "동물은")}


def test_links_lead_from_adjectives_and_verbs_to_their_nouns() -> None:
    creature, bought = demo(3, "en", "ko"), demo(7, "de", "en")
    assert linked(creature.source, creature.source_links) == {
        ("adjective", "fluffy", "creature"),
        ("adjective", "blue", "creature"),
        ("verb", "roamed", "creature"),
        ("adjective", "verdant", "forest"),
    }
    assert ("adjective", "푸르른", "숲을") in linked(creature.target, creature.target_links)
    assert linked(bought.source, bought.source_links) == {
        ("verb", "kaufte", "Frau"),
        ("adjective", "rotes", "Kleid"),
        ("verb", "öffnete", "Frau"),
        ("adjective", "alte", "Kiste"),
    }


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_alignments_and_links_stay_within_the_sentence_and_are_in_order(source: str, target: str) -> None:
    for pair in built_in_corpus(source, target, train_pairs=300, held_out_pairs=50).train:
        num_source, num_target = len(pair.source.split()), len(pair.target.split())
        assert all(0 <= i < num_source and 0 <= j < num_target for i, j in pair.alignment)
        assert list(pair.alignment) == sorted(set(pair.alignment))
        for links, num_words in ((pair.source_links, num_source), (pair.target_links, num_target)):
            assert all(0 <= link.word < num_words and 0 <= link.head < num_words for link in links)
            assert all(link.word != link.head for link in links)
            assert {link.kind for link in links} <= {"adjective", "verb", "pronoun"}


@pytest.mark.parametrize(
    ("source", "target", "alone"),
    [
        ("en", "de", "do does"),
        ("de", "en", "der die das den dem hat ist haben sind"),
        ("en", "ko", "the a an it he she they do does"),
        ("ko", "en", ""),
        ("de", "ko", "der die das den dem des ein eine einem er sie es"),
        ("ko", "de", ""),
    ],
)
def test_every_word_is_aligned_but_function_words_that_the_other_language_lacks(
    source: str, target: str, alone: str
) -> None:
    for pair in built_in_corpus(source, target, train_pairs=1_500, held_out_pairs=0).train:
        words = [word.strip(".,?").lower() for word in pair.source.split()]
        missing = set(range(len(words))) - {i for i, _ in pair.alignment}
        assert {words[i] for i in missing} <= set(alone.split()), pair


# The corpus


@pytest.mark.slow
def test_a_seed_always_gives_the_same_corpus_whatever_the_hash_seed() -> None:
    code = (
        "import hashlib; from heedful.data.grammar.corpus import *;"
        "train = [example(written, 'ko') for written in training_sentences('de', seed=3, count=300)];"
        "made = (train, held_out_examples('de', 'ko', seed=3, count=50), pronoun_cases('de', 'ko', seed=3));"
        "print(hashlib.sha256(repr(made).encode()).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_another_seed_gives_another_corpus() -> None:
    first, second = (built_in_corpus("en", "de", seed=seed, train_pairs=300, held_out_pairs=50) for seed in (1, 2))
    assert len({pair.source for pair in first.train} & {pair.source for pair in second.train}) < 30
    assert first.test != second.test
    assert first.pronouns != second.pronouns


def test_all_pairs_of_languages_say_the_same() -> None:
    english_german, korean_english = (
        built_in_corpus(*pair, train_pairs=300, held_out_pairs=50) for pair in (("en", "de"), ("ko", "en"))
    )
    assert [pair.source for pair in english_german.train] == [pair.target for pair in korean_english.train]
    assert [pair.source for pair in english_german.test] == [pair.target for pair in korean_english.test]


def test_all_sources_of_a_corpus_are_different(corpus: BuiltInCorpus) -> None:
    sources = [pair.source for part in (corpus.train, corpus.valid, corpus.test) for pair in part]
    assert len(sources) == len(set(sources)) == TRAIN_PAIRS + 800


def test_the_split_does_not_depend_on_the_number_of_training_pairs(corpus: BuiltInCorpus) -> None:
    smaller = built_in_corpus("en", "de", train_pairs=100, held_out_pairs=400)
    assert (smaller.valid, smaller.test, smaller.pronouns) == (corpus.valid, corpus.test, corpus.pronouns)
    assert smaller.train == corpus.train[:100]


def test_no_training_line_has_a_reserved_adjective_before_its_noun(corpus: BuiltInCorpus) -> None:
    """Checked in the text, so that a mistake in the trees would show."""
    reserved = {
        f"{ADJECTIVE_NAMED[word].english} {NOUN_NAMED[noun].english}"
        for word, noun in RESERVED_PAIRS
        if word in ADJECTIVE_NAMED
    }
    shown = {" ".join(pair) for line in corpus.train for pair in pairwise(words(line.source))}
    held_out = {" ".join(pair) for line in corpus.valid + corpus.test for pair in pairwise(words(line.source))}
    assert len(reserved) > 50
    assert not reserved & shown
    assert len(reserved & held_out) > len(reserved) / 2


def words(line: str) -> list[str]:
    return [word.strip(".,?").removesuffix("'s").lower() for word in line.split()]


def test_held_out_trees_have_a_combination_that_training_trees_have_not(trees: list[Sentence]) -> None:
    training = [written.sentence for written in training_sentences("en", seed=1, count=3_000)]
    shown = {combination for sentence in training for combination in combinations(sentence)}
    held_out = [sentence for sentence in trees if is_held_out(sentence)]
    assert len(held_out) > len(trees) / 20
    assert all(set(combinations(sentence)) - shown for sentence in held_out)
    assert not any(map(is_held_out, training))


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_form_of_the_held_out_sentences_is_in_training(language: str) -> None:
    """Not only every word: a model that never saw 부엌으로 or langweiliges could not be blamed for it."""
    target = "en" if language == "ko" else "ko"
    held_out = built_in_corpus(language, target, train_pairs=0, held_out_pairs=300)
    needed = {word for pair in held_out.valid + held_out.test for word in words(pair.source)}
    for written in training_sentences(language, seed=1, count=60_000):
        needed.difference_update(words(written.line))
        if not needed:
            break
    assert not needed


def test_most_sentences_are_of_the_length_of_sentences(corpus: BuiltInCorpus) -> None:
    lengths = sorted(len(pair.source.split()) for pair in corpus.train)
    assert 8.5 < sum(lengths) / len(lengths) < 12
    assert lengths[len(lengths) // 50] >= 4
    assert lengths[-1] <= 20


# Pronouns


@pytest.mark.parametrize("source", ["en", "ko"])
def test_pronoun_cases_differ_in_the_pronoun_alone_and_are_balanced(source: str) -> None:
    cases = built_in_corpus(source, "de", train_pairs=0, held_out_pairs=0).pronouns
    of_subject = 0
    for case in cases:
        right, wrong = case.right.split(), case.wrong.split()
        (different,) = [i for i in range(len(right)) if right[i] != wrong[i]]
        assert {right[different], wrong[different]} <= {"er", "sie", "es"}
        assert right[different - 1] == "weil"
        of_subject += is_about_subject(case.right)
    assert len(cases) >= 300
    assert len({case.source for case in cases}) == len(cases)
    assert of_subject == len(cases) / 2


def is_about_subject(line: str) -> bool:
    """Whether the last word but one is a state of the subject, by the tables of reasons."""
    states = {name for frame in DILEMMAS for name in f"{frame.subject_for} {frame.subject_against}".split()}
    return line.split()[-2] in {ADJECTIVE_NAMED[name].german for name in states}


def test_pronoun_cases_are_not_in_training_and_their_source_shows_the_antecedent(corpus: BuiltInCorpus) -> None:
    assert not {case.source for case in corpus.pronouns} & {pair.source for pair in corpus.train}
    animals = {noun.english for noun in select("animals")}
    for case in corpus.pronouns:
        ((_, pronoun, antecedent),) = [link for link in linked(case.source, case.source_links) if link[0] == "pronoun"]
        assert pronoun == "it"
        assert (antecedent in animals) == is_about_subject(case.right)


def test_guessing_a_gender_does_not_pay(corpus: BuiltInCorpus) -> None:
    pronouns = [word for case in corpus.pronouns for word in case.right.split() if word in ("er", "sie", "es")]
    assert all(pronouns.count(pronoun) < len(pronouns) / 2 for pronoun in ("er", "sie", "es"))


@pytest.mark.parametrize(("source", "target"), [pair for pair in PAIRS if pair[1] != "de"])
def test_only_german_has_pronoun_cases(source: str, target: str) -> None:
    assert built_in_corpus(source, target, train_pairs=0, held_out_pairs=0).pronouns == []


# Errors and files


@pytest.mark.parametrize(("source", "target", "named"), [("fr", "de", "fr"), ("en", "xx", "xx"), ("en", "en", "en-en")])
def test_an_unknown_pair_is_refused_in_one_line_that_names_the_languages(source: str, target: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named) as error:
        built_in_corpus(source, target)
    assert "en, de, ko" in str(error.value)
    assert "\n" not in str(error.value)


def test_more_sentences_than_there_are_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one = next(sentence for sentence in sentences(Draw(0)) if not is_held_out(sentence))
    monkeypatch.setattr(corpus_module, "sentences", lambda rng: repeat(one))
    monkeypatch.setattr(corpus_module, "_TRIES", 100)
    with pytest.raises(ConfigError, match="ask for 1 or fewer"):
        list(training_sentences("en", seed=1, count=2))


def test_a_negative_number_of_pairs_is_refused() -> None:
    with pytest.raises(ConfigError, match="-1"):
        built_in_corpus("en", "de", train_pairs=-1)


@pytest.mark.slow
def test_files_hold_the_corpus(tmp_path: Path) -> None:
    write_corpus(tmp_path / "new", "ko", "de", train_pairs=200)
    corpus = built_in_corpus("ko", "de", train_pairs=200)
    lines = {path.name: path.read_text(encoding="utf-8").splitlines() for path in (tmp_path / "new").iterdir()}
    parts = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
    for name, pairs in parts.items():
        assert lines.pop(f"{name}.ko") == [pair.source for pair in pairs]
        assert lines.pop(f"{name}.de") == [pair.target for pair in pairs]
    alignments = [tuple(tuple(map(int, ij.split("-"))) for ij in line.split()) for line in lines.pop("test.alignments")]
    assert alignments == [pair.alignment for pair in corpus.test]
    links = [json.loads(line) for line in lines.pop("test.links.jsonl")]
    assert [[Link(*link) for link in line["source"]] for line in links] == [list(p.source_links) for p in corpus.test]
    assert [[Link(*link) for link in line["target"]] for line in links] == [list(p.target_links) for p in corpus.test]
    cases = [tuple(line.split("\t")) for line in lines.pop("pronouns.tsv")]
    assert cases == [(case.source, case.right, case.wrong) for case in corpus.pronouns]
    assert not lines


def test_pairs_that_are_not_into_german_have_no_pronoun_file(tmp_path: Path) -> None:
    write_corpus(tmp_path, "de", "en", train_pairs=10)
    assert (tmp_path / "train.de").exists()
    assert not (tmp_path / "pronouns.tsv").exists()


@pytest.mark.slow
def test_writing_again_replaces_the_files(tmp_path: Path) -> None:
    write_corpus(tmp_path, "en", "de", train_pairs=30)
    write_corpus(tmp_path, "en", "de", train_pairs=20)
    assert len((tmp_path / "train.en").read_text(encoding="utf-8").splitlines()) == 20


def test_a_write_that_fails_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.en").write_text("mine\n", encoding="utf-8")

    def fail(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(corpus_files, "_write_training", fail)
    with pytest.raises(DataError, match="No space left on device"):
        write_corpus(tmp_path, "en", "de", train_pairs=10)
    assert [path.name for path in tmp_path.iterdir()] == ["train.en"]
    assert (tmp_path / "train.en").read_text(encoding="utf-8") == "mine\n"


def test_a_directory_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test.de").mkdir()
    with pytest.raises(DataError, match=r"test\.de is a directory"):
        write_corpus(tmp_path, "en", "de", train_pairs=10)
    assert [path.name for path in tmp_path.iterdir()] == ["test.de"]


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="out"):
        write_corpus(tmp_path / "out", "en", "de", train_pairs=10)
