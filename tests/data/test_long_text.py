"""Text that is too long for a model: where it is cut, and what stands between the translations of its parts."""

from __future__ import annotations

import re
import time
import unicodedata
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.data.long_text import _END, Cutter, TextPart, at_sentence_ends
from heedful.data.tokenizer import Tokenizer

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
    assert at_sentence_ends(text.replace("|", "")) == [part.strip() for part in text.split("|")]


@pytest.mark.parametrize(
    "text", ["！" * 100_000 + "」a", "." * 100_000 + "a", "。」" * 50_000 + "a", "！" * 100_000 + "」と"]
)
def test_marks_without_end_take_no_time(text: str) -> None:
    began = time.monotonic()
    at_sentence_ends(text)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(("text", "language"), [(THAI, "th"), (CHINESE + "2024" + CHINESE, "zh"), (CHINESE, "en")])
def test_parts_of_a_text_without_spaces_are_translated_into_words_apart(text: str, language: str) -> None:
    tokenizer = Tokenizer.learn_at_most([text], 400, seed=1)
    long = text * 20
    parts = Cutter(tokenizer, 20, language).parts(long, tokenizer.encode(long))
    assert len(parts) > 3
    assert {part.glue for part in parts} == {" "}
    assert "".join(tokenizer.decode(part.ids) for part in parts) == long


def test_no_part_begins_with_a_vowel_that_stands_upon_the_letter_before() -> None:
    tokenizer = Tokenizer.learn_at_most([THAI], 400, seed=1)
    for text in (THAI * 9 + "ก" * n for n in range(8)):
        parts = Cutter(tokenizer, 12, "th").parts(text, tokenizer.encode(text))
        firsts = [tokenizer.decode(part.ids)[0] for part in parts]
        assert not [letter for letter in firsts if unicodedata.category(letter).startswith("M")]


def test_a_word_that_is_cut_stays_one() -> None:
    tokenizer = Tokenizer.learn_at_most(["abcdefghij"], 400, seed=1)
    parts = Cutter(tokenizer, 8, "de").parts("abcdefghij" * 9, tokenizer.encode("abcdefghij" * 9))
    assert [part.glue for part in parts] == [" ", *[""] * (len(parts) - 1)]


@pytest.mark.parametrize(
    "expected",
    [
        ["It was late.", "We went home!", "Why?"],
        ["Am 3. Mai kam Dr. Weiß, z. B. mit Nr. 512.", "Er blieb bis 1990.", "Dann ging er."],
        ["그는 집에 갔다.", "네.", "정말요?"],
        ["He said: “Stop!”", "Then… nothing."],
        ["Er sagte: „Halt!“", "(Das war alles.)", "Ende"],
        ["version 2.0 costs 3.50 euros e.g. here"],
    ],
)
def test_sentences_end_where_a_reader_would_say_so(expected: list[str]) -> None:
    assert at_sentence_ends(" ".join(expected)) == expected


def test_sentences_of_east_asian_text_need_no_space() -> None:
    assert at_sentence_ends("動物。「道路！」終") == ["動物。", "「道路！」", "終"]


PLAIN_END = re.compile(r"""[.!?…]+["'”’»“)\]]*(?=\s)|[。｡！？]+["”’」』）]*""")


@settings(max_examples=500)
@given(st.text(".!?…\"')” 。！？」ab\n", max_size=14))
def test_marks_end_a_sentence_wherever_one_begins_to_read_them(text: str) -> None:
    assert [m.span() for m in _END.finditer(text)] == [m.span() for m in PLAIN_END.finditer(text)]


def test_a_long_run_of_marks_takes_no_time() -> None:
    begin = time.process_time()
    assert at_sentence_ends("." * 30_000 + "so. B") == ["." * 30_000 + "so.", "B"]
    assert time.process_time() - begin < 2  # each mark once: milliseconds; each with all that follow it: 12 s


# The parts of what is too long, as published scores had them: of 30 letters at most, each with what stands before it.
CUTS = {
    "en": (
        ' The king saw Dr. Smith| at 3. He left in 1990.| "Stop."| Then (no.| 5) he came back, etc.'
        "| The end... and more!| Why?| Because it was late| in the evening of| a long and tiring| d"
        "ay without an end"
    ),
    "de": (
        " Am 3. Mai kam Dr. Weiß,| z. B. mit Nr. 512.| Er blieb bis 1990.| Sie sagte: „Halt!“| (Das"
        " war alles.)| Donaudampfschifffahrtsgesells|chaftskapitänsmützenabzeichen"
    ),
    "ko": (
        " 그는 집에 갔다.| 네.| 정말요?| 그 동물은 너무 피곤해서 길을 건너지 않았다."
        "| 선생님은 빨간 집에 있는 고양이를 사랑하고 편지를 샀다"
    ),
    "zh": (" 今天老师喜欢书。| 「道路！」| 他说。| 真的吗？！| 2024年今天老师喜欢书今天老师喜欢书今天老师喜欢书"),
    "ja": (
        " 「行こう。」と彼は言った。| 「はい。」、「いいえ。」など。| 本当！？| そう。"
        "| 先生は赤い家の猫が好きで手紙を買った"
    ),
    "th": (" ครูรักแมวที่บ้านสี| แดงและซื้อจดหมาย| ครูรักแมวที่บ้านสี| แดงและซื้อจดหมาย"),
    "ar": (" هل هذا بيت؟| هذا بيت.| آپ کیسے ہیں؟| میں ٹھیک ہوں۔| شکریہ۔"),
}


class Letters:
    """A tokenizer whose pieces are letters, so that the cuts rest on no training."""

    def encode(self, text: str) -> list[int]:
        return list(map(ord, text))


@pytest.mark.parametrize("language", CUTS)
def test_what_is_too_long_is_cut_where_it_always_was(language: str) -> None:
    expected, tokenizer = CUTS[language].split("|"), cast(Tokenizer, Letters())
    text = "".join(expected).strip()
    ids = tokenizer.encode(text)
    parts = Cutter(tokenizer, 30, language).parts(text, ids)
    assert [part.glue + "".join(map(chr, part.ids)) for part in parts] == expected
    assert Cutter(tokenizer, len(ids), language).parts(text, ids) == (TextPart(ids, ""),), (
        "what is short enough is whole"
    )
