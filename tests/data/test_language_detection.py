"""Language identification: what it tells apart, how sure it is, and what it keeps in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.data.grammar.corpus_files import write_corpus
from heedful.data.language_detection import FILE, KEPT, LanguageModel, fit, load, merge
from heedful.errors import CheckpointError

SAMPLES = {
    "en": [
        "The cat sat on the mat.",
        "She has never seen the old house.",
        "This is what they thought.",
    ],
    "de": ["Die Katze saß auf der Matte.", "Sie hat das alte Haus nie gesehen.", "Das ist, was sie dachten."],
    "ko": ["고양이가 매트 위에 앉았다.", "나는 그 집을 본 적이 없다."],
}


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return fit(SAMPLES)


def test_it_knows_what_it_was_fitted_on(model: LanguageModel) -> None:
    for language, lines in SAMPLES.items():
        for line in lines:
            assert model.detect(line)[0][0] == language


@pytest.mark.parametrize(("text", "language"), [("the house", "en"), ("집", "ko"), ("Straße", "de")])
def test_it_knows_other_text(model: LanguageModel, text: str, language: str) -> None:
    assert model.detect(text)[0][0] == language


def test_it_knows_every_letter_of_a_script_of_thousands() -> None:
    letters = [chr(code) for code in range(0x4E00, 0x4E00 + 3 * KEPT)]
    model = fit(SAMPLES | {"zh": letters * 2 + ["年"]})
    assert all(model.detect(letter)[0][0] == "zh" for letter in [*letters, "年"])


def test_it_is_surer_of_a_sentence_than_of_a_word(model: LanguageModel) -> None:
    sentence, word = model.detect("the cat has seen the house"), model.detect("in")
    assert sentence[0][1] > 0.9
    assert sentence[0][1] > word[0][1]


@given(st.text(max_size=30))
def test_confidences_are_ordered_and_at_most_one_together(text: str) -> None:
    found = fit(SAMPLES).detect(text)
    confidences = [confidence for _, confidence in found]
    assert sorted(confidences, reverse=True) == confidences
    assert min(confidences) >= 0
    assert sum(confidences) <= 1 + 1e-9


@pytest.mark.parametrize("text", ["", "   ", "12345", "Привет", "!?"])
def test_of_what_it_never_saw_it_is_not_sure(model: LanguageModel, text: str) -> None:
    assert model.detect(text)[0][1] == 0


def test_it_comes_back_from_its_file(model: LanguageModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    assert load(tmp_path) == model


def test_without_a_file_it_knows_nothing(tmp_path: Path) -> None:
    assert load(tmp_path).detect("the cat") == []


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"log_probs": {"en": {}}, "unseen": {}, "version": 1}',
        '{"log_probs": {"en": {}}, "unseen": {"en": -1.0}, "version": 2}',
        '{"log_probs": {"en": {"a": "b"}}, "unseen": {"en": -1.0}, "version": 1}',
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(CheckpointError, match=r"languages\.json"):
        load(tmp_path)


def test_several_models_know_their_languages_together() -> None:
    first = fit({language: SAMPLES[language] for language in ("en", "de")})
    second = fit({language: SAMPLES[language] for language in ("ko", "en")})
    both = merge([first, second])
    assert list(both.log_probs) == ["ko", "en", "de"]
    assert both.log_probs["en"] == first.log_probs["en"]
    assert both.detect("고양이")[0][0] == "ko"
    assert merge([]).detect("x") == []


def test_it_tells_the_languages_of_the_built_in_corpus_apart(tmp_path: Path) -> None:
    write_corpus(tmp_path, "en", "de", seed=1, train_pairs=500)
    lines = {code: (tmp_path / f"train.{code}").read_text(encoding="utf-8").splitlines() for code in ("en", "de")}
    model = fit({code: texts[:400] for code, texts in lines.items()})
    assert all(model.detect(text)[0][0] == code for code, texts in lines.items() for text in texts[400:])
