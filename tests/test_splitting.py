"""Text that is too long for a model: where it is cut, and what stands between the translations of its parts."""

from __future__ import annotations

import time
import unicodedata

import pytest

from heedful.splitting import Splitter, sentences
from heedful.tokenizer import Tokenizer

THAI = "ครูรักแมวที่บ้านสีแดงและซื้อจดหมาย"
CHINESE = "今天老师喜欢书"


@pytest.mark.parametrize(
    "text",
    [
        "यह घर है।| वह किताब है।| क्या?",
        "آپ کیسے ہیں؟| میں ٹھیک ہوں۔| شکریہ۔",
        "هل هذا بيت؟| هذا بيت.",
        "「はい。」|「いいえ。」",
        "「行こう。」と彼は言った。|「え？』』って。|「はい。」、「いいえ。」など。|本当！？|そう。",
        "ខ្ញុំ។|ទៅ។",
        'He said "Stop." |Then he left.',
    ],
)
def test_sentences_end_as_their_language_ends_them(text: str) -> None:
    assert sentences(text.replace("|", "")) == [part.strip() for part in text.split("|")]


@pytest.mark.parametrize(
    "text", ["！" * 100_000 + "」a", "." * 100_000 + "a", "。」" * 50_000 + "a", "！" * 100_000 + "」と"]
)
def test_marks_without_end_take_no_time(text: str) -> None:
    began = time.monotonic()
    sentences(text)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(("text", "language"), [(THAI, "th"), (CHINESE + "2024" + CHINESE, "zh"), (CHINESE, "en")])
def test_parts_of_a_text_without_spaces_are_translated_into_words_apart(text: str, language: str) -> None:
    tokenizer = Tokenizer.learn_at_most([text], 400, seed=1)
    long = text * 20
    parts = Splitter(tokenizer, 20, language).parts(long, tokenizer.encode(long))
    assert len(parts) > 3
    assert {part.glue for part in parts} == {" "}
    assert "".join(tokenizer.decode(part.ids) for part in parts) == long


def test_no_part_begins_with_a_vowel_that_stands_upon_the_letter_before() -> None:
    tokenizer = Tokenizer.learn_at_most([THAI], 400, seed=1)
    for text in (THAI * 9 + "ก" * n for n in range(8)):
        parts = Splitter(tokenizer, 12, "th").parts(text, tokenizer.encode(text))
        firsts = [tokenizer.decode(part.ids)[0] for part in parts]
        assert not [letter for letter in firsts if unicodedata.category(letter).startswith("M")]


def test_a_word_that_is_cut_stays_one() -> None:
    tokenizer = Tokenizer.learn_at_most(["abcdefghij"], 400, seed=1)
    parts = Splitter(tokenizer, 8, "de").parts("abcdefghij" * 9, tokenizer.encode("abcdefghij" * 9))
    assert [part.glue for part in parts] == [" ", *[""] * (len(parts) - 1)]
