"""§3.5 as an experiment: who sees the order of words, and a shuffle that is always the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedful.data.text_files import SentencePair
from heedful.lab.charts.chart import Spreads
from heedful.lab.experiments.order import ORDER, SHUFFLED, picture, shuffled
from heedful.lab.experiments.word_order import CHANGE, change, every_order
from heedful.lab.text import PreparedText, Source
from heedful.lab.trained import Trained
from tests.lab.results import row_result
from tests.small_models import small_model


def orders_of(folder: Path, **model: Any) -> dict[str, float]:
    (folder / "run").mkdir(parents=True)
    small_model(folder / "run" / "model", **model)
    return every_order(Trained(folder / "run", PreparedText(folder, ""), 1, "cpu"))


def test_without_positions_the_same_words_have_the_same_outputs_in_every_order(tmp_path: Path) -> None:
    found = orders_of(tmp_path, positions="none")
    assert found[CHANGE] == pytest.approx(0.0, abs=1e-5)


def test_with_positions_every_order_changes_the_outputs_of_every_word(tmp_path: Path) -> None:
    found = orders_of(tmp_path)
    each = {name: value for name, value in found.items() if ": " in name}
    assert len(each) == 5 * 3
    assert all(value > 0.01 for value in each.values())
    assert found[CHANGE] == pytest.approx(sum(each.values()) / 15)
    assert "you love I: I" in each


def test_a_change_is_measured_in_lengths_of_what_was_before() -> None:
    before_TD = torch.tensor([[3.0, 4.0]])
    assert change(before_TD, before_TD) == 0.0
    assert change(before_TD, torch.zeros(1, 2)) == 1.0
    assert change(2 * before_TD, before_TD) == 0.5


@given(st.lists(st.sampled_from("abcdefgh"), max_size=14))
def test_a_shuffle_keeps_all_words_and_is_the_same_for_every_full_four(words: list[str]) -> None:
    found = shuffled(" ".join(words)).split()
    assert sorted(found) == sorted(words)
    for first in range(0, len(words) - len(words) % 4, 4):
        a, b, c, d = words[first : first + 4]
        assert found[first : first + 4] == [c, a, d, b]
    assert found[len(words) - len(words) % 4 :] == words[len(words) - len(words) % 4 :]


def test_only_sources_are_shuffled_those_of_validation_too() -> None:
    pairs = [SentencePair("a b c d e", "eins zwei drei vier")]
    sets = SHUFFLED.make(Source("any", pairs, pairs, 1, 304))
    assert sets == {"train": [SentencePair("c a d b e", "eins zwei drei vier")]} | {"valid": [*sets["train"]]}


def test_the_picture_has_a_dot_for_each_word_in_each_order(tmp_path: Path) -> None:
    found = orders_of(tmp_path)

    results = {"transformer": [row_result(measured={"orders": found})], "bag": []}
    chart = picture(results, tmp_path).charts["every-order"]
    assert isinstance(chart, Spreads)
    assert {row: len(dots) for row, dots in chart.rows.items()} == {"transformer": 15}


def test_each_row_is_trained_on_both_texts_with_the_same_settings() -> None:
    plain, shuffle = ORDER.rows[::2], ORDER.rows[1::2]
    assert [row.settings for row in plain] == [row.settings for row in shuffle]
    assert {row.text for row in plain} == {None}
    assert {row.text for row in shuffle} == {SHUFFLED}
