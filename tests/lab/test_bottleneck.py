"""The bottleneck as an experiment: long sentences made of several, and where scores are read."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from heedful.data.text_files import SentencePair
from heedful.lab.experiments.bottleneck import (
    ATTENTION,
    BOTTLENECK,
    DROP,
    EDGES,
    LONG,
    LONGEST,
    ONE_VECTOR,
    SHORT,
    TEST,
    drop,
    joined,
    joined_sets,
)
from heedful.lab.experiments.by_length import LENGTHS, words
from heedful.lab.text import Source


def pairs(count: int, num_words: int = 10) -> list[SentencePair]:
    return [SentencePair(" ".join([f"s{n}"] * num_words), f"t{n}") for n in range(count)]


def test_one_to_four_pairs_are_joined_in_their_order_and_none_is_used_twice() -> None:
    found = list(joined(pairs(12)))
    assert [pair.target for pair in found] == ["t0", "t1 t2", "t3 t4 t5", "t6 t7 t8 t9", "t10"]
    assert [words(pair.source) for pair in found] == [10, 20, 30, 40, 10]
    assert [word for pair in found for word in pair.target.split()] == [f"t{n}" for n in range(11)]


def test_what_would_be_too_long_is_left_out() -> None:
    found = list(joined(pairs(100, num_words=20)))
    assert max(words(pair.source) for pair in found) == 40 <= LONGEST
    assert Counter(words(pair.source) for pair in found) == {20: 10, 40: 10}


def test_what_is_measured_on_is_held_out() -> None:
    train = pairs(10_000)
    sets = joined_sets(Source("any", train, pairs(50), num_pairs=1_000, num_pieces=400))
    trained = {word for pair in sets["train"] for word in pair.target.split()}
    tested = {word for pair in sets[TEST] for word in pair.target.split()}
    assert len(trained) == 2_000
    assert not trained & tested
    assert len(sets[TEST]) == 1_000


def test_of_a_small_text_nothing_is_both_trained_and_tested_on() -> None:
    sets = joined_sets(Source("any", pairs(1_000), pairs(50), num_pairs=1_000, num_pieces=400))
    trained, tested = ({word for pair in sets[name] for word in pair.target.split()} for name in ("train", TEST))
    assert (len(trained), len(tested)) == (750, 250)
    assert not trained & tested


def test_the_claim_is_about_the_drop_between_two_groups_that_are_measured() -> None:
    groups = {f"{low + 1}-{high}" for low, high in pairwise(EDGES)}
    assert {SHORT, LONG} <= groups
    assert drop({f"BLEU {SHORT}": 30.0, f"BLEU {LONG}": 18.0}) == {DROP: pytest.approx(40.0)}
    assert drop({f"BLEU {SHORT}": 3.0, f"BLEU {LONG}": 1.8}) == {DROP: pytest.approx(40.0)}, (
        "a poor model may drop, too"
    )
    assert drop({f"BLEU {SHORT}": 30.0}) == drop({f"BLEU {SHORT}": 0.0, f"BLEU {LONG}": 0.0}) == {}
    assert f"{LENGTHS}.{DROP}" in BOTTLENECK.metrics


def test_two_rows_differ_in_attention_alone() -> None:
    one, other = (BOTTLENECK.row(name).settings["model"] for name in (ATTENTION, ONE_VECTOR))
    assert {name for name in {**one, **other} if one.get(name) != other.get(name)} == {"attention"}
