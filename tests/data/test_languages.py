"""Codes of languages."""

import pytest

from heedful.data.languages import are_side_by_side, base_language, has_spaces


@pytest.mark.parametrize("code", ["de", "DE", "de-AT", "de_CH", " de-Latn-DE ", "deu_Latn", "ger"])
def test_a_variety_of_a_language_is_that_language(code: str) -> None:
    assert base_language(code) == "de"


@pytest.mark.parametrize(
    ("code", "spaces"),
    [("zh", False), ("zh_Hans", False), ("ZH-TW", False), ("zho_Hans", False), ("ko", True), ("", True)],
)
def test_a_variety_is_written_as_its_language(code: str, spaces: bool) -> None:
    assert has_spaces(code) == spaces


def test_thai_puts_spaces_between_sentences_alone() -> None:
    assert [are_side_by_side(code) for code in ("zh", "jpn_Jpan", "th", "de")] == [True, True, False, False]
    assert not has_spaces("th")
