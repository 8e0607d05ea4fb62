"""Where sentences end, language by language; `|` marks the places."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heedful.data.sentence_splitting import sentences

TEXTS = [
    ("en", "The cat sat on the mat.| The king was rich."),
    ("en", "Mr. Smith and J. Doe, Ph.D., saw Dr. Who.| They met in Washington D.C. on Jan. 11, i.e. late.| OK."),
    ("en", "She was 33.| He was 32.| I like vitamin C.| It helps.| See No. 5, fig. 3 and pp. 7-9."),
    ("en", "Cats, dogs etc.| They are here at 5 p.m. or so."),
    ("en", "Use ASP.NET, .NET Core, Node.js or www.Example.com.| Version 2.0 is here."),
    ("en", "1. First item.| 2. Second item.| (3) Third item."),
    ("en", 'He said "Stop."| Then he left.| "Is it?" he asked.| (It was.)| Yes.'),
    ("en", "Wait… what?| It is... maybe.| Well...| Then he went! - or not."),
    ("en", "'I went home.| It was late.'| Don't go."),
    ("de", "Am 3. Mai 1990 kam Dr. Weiß, z. B. mit Nr. 512.| Das war im 19. Jahrhundert.| Er blieb bis 1990.| Ja."),
    ("de", "Die sog. Regel gilt bzgl. Müller.| Karl IV. Kaiser war ca. 3 Mio. Euro wert.| 24 Häuser stehen."),
    ("de", "Er sagte: „Halt!“| (Das war alles.)| »Ja.«| »Nein.«"),
    ("fr", "M. Dupont et J.-P. Martin sont venus.| Il a dit : « Oui. »| Puis il partit.| Vraiment !| Oui."),
    ("fr", "« Oui. » dit-il."),
    ("es", "El Sr. García vive en EE. UU. y J. Pérez aquí.| ¿Y tú?| ¡Hola!"),
    ("pl", "Dr. Nowak i J. Kowalski, np. tu.| Potem poszli."),
    ("da", "Den 2. Verdenskrig sluttede.| Så kom han."),
    ("fi", "Hän tuli 5. Toukokuuta.| Sitten hän lähti."),
    ("tr", "2. Dünya Savaşı bitti.| Prof. Dr. Ali geldi."),
    ("ru", "А. С. Пушкин жил в г. Москве.| Это был он.| И всё."),
    ("ko", "그는 집에 갔다.| 네.| 정말요?| 음... 그게 2024. 3. 5. 회의였다.| 점(.) 형태로 쓴다."),
    ("ko", "1. 첫째.| 2. 둘째.| .NET Core를 쓴다.| “안녕.”| 그가 말했다."),
    ("zh", "动物。|「道路！」|终。|他叫J. Smith。|真的吗？！|是的……好。"),
    ("ja", "「行こう。」と彼は言った。|「え？』』って。|「はい。」、「いいえ。」など。|本当！？|そう。"),
    ("hi", "यह घर है।| वह किताब है।| क्या?"),
    ("ur", "آپ کیسے ہیں؟| میں ٹھیک ہوں۔| شکریہ۔"),
    ("ar", "هل هذا بيت؟| هذا بيت."),
    ("km", "ខ្ញុំ។|ទៅ។"),
    ("hy", "Սա տուն է։| Սա գիրք է։"),
    ("am", "ይህ ቤት ነው።| ያ መጽሐፍ ነው።"),
    ("", "One is here.| Two is there."),
]


@pytest.mark.parametrize(("language", "text"), TEXTS)
def test_sentences_end_as_their_language_ends_them(language: str, text: str) -> None:
    assert sentences(text.replace("|", ""), language) == [part.strip() for part in text.split("|")]


@pytest.mark.parametrize("code", ["de", "de-AT", "deu_Latn"])
def test_a_variety_of_a_language_has_its_abbreviations(code: str) -> None:
    assert sentences("Die sog. Regel gilt. Sie ist gut.", code) == ["Die sog. Regel gilt.", "Sie ist gut."]


def test_what_has_no_letter_is_no_sentence_of_its_own() -> None:
    assert sentences("* * *") == ["* * *"]
    assert sentences("Hello. 1. * !") == ["Hello.", "1. * !"]
    assert sentences("Hello. … !") == ["Hello. … !"]
    assert sentences(" \t\u3000") == []


LETTERS = st.text(st.characters(exclude_categories=[]), max_size=30)
MARKS = st.text(st.sampled_from(".!?…\"')”»（） 。！？」Ab1\n\u2028\u3000\x85\xa0\ud800ÉЖ-"), max_size=30)


@given(st.one_of(LETTERS, MARKS), st.sampled_from(["en", "de", "fr", "ru", "ja", "ko", "hi", "xx", ""]))
@example("A\u2028.“\u200d🦊．", "fr")
@settings(max_examples=400)
def test_nothing_but_white_space_is_lost(text: str, language: str) -> None:
    found = sentences(text, language)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(each == each.strip() != "" for each in found)


@pytest.mark.parametrize("text", ["." * 99_999, "。」" * 50_000, "1. " * 50_000, "Dr. A" * 50_000, '"A b. ' * 20_000])
def test_odd_texts_take_no_time(text: str) -> None:
    began = time.process_time()
    sentences(text, "de")
    assert time.process_time() - began < 5
