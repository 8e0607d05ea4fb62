"""Alternatives and confidence: both engines tell the same, and what they tell are probabilities."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from heedful.errors import ConfigError, DataError
from heedful.translate.alternatives import alternatives_at, word_confidences
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.translation import Translation, Translator
from tests.small_models import TEXT, small_model
from tests.translate.test_translation import Echo


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("alternatives") / "model", seed=1)


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.load(model, device="cpu", engine="torch")


@pytest.fixture(scope="module")
def translation(translator: Translator) -> Translation:
    return translator.translate([TEXT[0]])[0]


def words_of(translation: Translation) -> int:
    return len(word_confidences(translation.hypotheses[0]))


def test_the_confidence_of_words_is_that_of_their_pieces(translation: Translation) -> None:
    (hypothesis,) = translation.hypotheses
    words = word_confidences(hypothesis)
    assert "".join(word.text for word in words) == hypothesis.text.replace(" ", "")
    product = math.prod(word.probability for word in words) * math.exp(hypothesis.token_log_probs[-1])
    assert math.log(product) == pytest.approx(hypothesis.log_prob)


def test_without_token_scores_there_is_no_confidence(model: Path) -> None:
    pytest.importorskip("ctranslate2")
    fast = Translator.load(model, device="cpu", engine="ctranslate2")
    (found,) = fast.translate([TEXT[0]], options=SearchOptions(token_scores=False))
    assert word_confidences(found.hypotheses[0]) == []


def test_alternatives_are_the_likeliest_words_at_their_place(translator: Translator, translation: Translation) -> None:
    found = alternatives_at(translator, translation, 0, count=4)
    assert len(found) == 4
    probabilities = [one.probability for one in found]
    assert probabilities == sorted(probabilities, reverse=True)
    assert 0 < sum(probabilities) <= 1
    for one in found:
        assert one.text.startswith(one.word)


def test_words_before_the_place_stay(translator: Translator, translation: Translation) -> None:
    last = words_of(translation) - 1
    before = " ".join(word.text for word in word_confidences(translation.hypotheses[0])[:last])
    found = alternatives_at(translator, translation, last, count=3)
    assert len(found) == 3
    for one in found:
        assert one.text.startswith(before)
        assert one.text[len(before) :].strip().startswith(one.word)


def test_behind_the_last_word_the_end_is_an_alternative(translator: Translator, translation: Translation) -> None:
    found = alternatives_at(translator, translation, words_of(translation), count=40)
    assert [one.text for one in found if not one.word] == [translation.text]


def test_at_the_length_limit_the_end_is_the_only_alternative(translator: Translator, tmp_path: Path) -> None:
    few = small_model(tmp_path / "few", positions="learned", max_positions=4, data={"max_length": 3})
    for each, max_extra in ((translator, 0), (Translator.load(few, device="cpu"), 50)):
        longest = SearchOptions(alpha=9.0, max_extra=max_extra, token_scores=True)
        (full,) = each.translate(["it"], options=longest)
        limit = 3 if max_extra else len(full.source_ids[0])
        assert len(full.hypotheses[0].parts[0].ids) == limit, "it was cut short"
        (end,) = alternatives_at(each, full, words_of(full), options=longest)
        assert (end.word, end.text) == ("", full.text)
    (long,) = translator.translate(["it"], options=SearchOptions(alpha=9.0, max_extra=9, token_scores=True))
    (end,) = alternatives_at(translator, long, words_of(long), options=SearchOptions(max_extra=0))
    assert end.text == long.text, "a limit that came later does not shorten it"


@pytest.mark.parametrize(
    ("line", "target"),
    [(" ".join(TEXT[:1] * 2), "de"), ("x" * 60, "de"), (" ".join(TEXT[:1] * 2), "zh")],
    ids=["sentences", "within a word", "a language without spaces"],
)
def test_the_parts_of_a_split_line_are_joined_as_in_its_translation(
    translator: Translator, line: str, target: str
) -> None:
    data = msgspec.structs.replace(translator.config.data, max_length=20, target_language=target)
    config = msgspec.structs.replace(translator.config, data=data)
    split = Translator(translator.engine, translator.tokenizer, config)
    (translation,) = split.translate([line])
    assert translation.num_parts > 1
    found = alternatives_at(split, translation, words_of(translation), count=40)
    assert [one.text for one in found if not one.word] == [translation.text]


def test_in_a_language_without_spaces_every_piece_is_a_word(translator: Translator) -> None:
    data = msgspec.structs.replace(translator.config.data, target_language="zh")
    into = Translator(translator.engine, translator.tokenizer, msgspec.structs.replace(translator.config, data=data))
    (translation,) = into.translate([TEXT[0]])
    (hypothesis,) = translation.hypotheses
    words = word_confidences(hypothesis)
    assert len(words) == len(hypothesis.pieces) - 1
    assert [word.probability for word in words] == pytest.approx([math.exp(p) for p in hypothesis.token_log_probs[:-1]])
    inside = next(place for place, piece in enumerate(hypothesis.pieces) if place and not piece.startswith("▁"))
    before = into.tokenizer.decode(hypothesis.parts[0].ids[:inside])
    found = alternatives_at(into, translation, inside, count=4)
    assert len(found) == 4
    assert all(one.text.startswith(before) for one in found)
    (own,) = [one for one in found if one.text == translation.text]
    assert own.word == words[inside].text


def test_a_place_that_is_not_there_is_named(translator: Translator, translation: Translation) -> None:
    for position in (-1, words_of(translation) + 1):
        with pytest.raises(DataError, match=f"no word {position}"):
            alternatives_at(translator, translation, position)
    with pytest.raises(DataError, match="no word 0 in a translation of 0 words"):
        alternatives_at(translator, translator.translate([""])[0], 0)
    with pytest.raises(ConfigError, match="0 alternatives"):
        alternatives_at(translator, translation, 0, count=0)


def test_any_engine_that_knows_the_next_token_gives_alternatives(translator: Translator) -> None:
    echo = Translator(Echo(), translator.tokenizer, translator.config)
    (translation,) = echo.translate([TEXT[0]])
    for place, word in enumerate(TEXT[0].split()):
        (own,) = alternatives_at(echo, translation, place)
        assert own.probability == 1.0
        assert own.word
        assert word.startswith(own.word)
        assert own.text.startswith(" ".join([*TEXT[0].split()[:place], own.word]))


def test_both_engines_expect_the_same_tokens(model: Path, translator: Translator) -> None:
    pytest.importorskip("ctranslate2")
    fast = Translator.load(model, device="cpu", engine="ctranslate2")
    for prefix in ((), (10,), (10, 11, 12)):
        request = Request([5, 6, 7], prefix)
        exact = dict(translator.engine.next_tokens(request, 400))
        found = fast.engine.next_tokens(request, 5)
        assert len(found) == 5
        for token, probability in found:
            assert probability == pytest.approx(exact[token], rel=0.2)  # the export is int8
