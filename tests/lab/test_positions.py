"""§3.5 as an experiment: short sentences to train on, longer ones to measure on, and curves between them."""

from __future__ import annotations

from heedful.data.text_files import SentencePair
from heedful.lab.charts.chart import Curves
from heedful.lab.experiments.by_length import LENGTHS, curves_by_length, groups
from heedful.lab.experiments.positions import LONG, MIXED, edges, mixed_sets, short_sets
from heedful.lab.text import Source
from tests.lab.results import row_result


def pair(words: int, number: int = 0) -> SentencePair:
    return SentencePair(" ".join([f"w{number}"] * words), "ein Satz")


TRAIN = [pair(1 + n % 40, n) for n in range(4_000)]
SOURCE = Source("any", TRAIN, [pair(1 + n % 20, n) for n in range(200)], num_pairs=500, num_pieces=400, short=12)


def lengths(pairs: list[SentencePair]) -> set[int]:
    return {len(each.source.split()) for each in pairs}


def test_training_and_validation_are_short_and_what_is_measured_on_is_longer_and_not_trained_on() -> None:
    sets = short_sets(SOURCE)
    assert lengths([*sets["train"]]) == lengths([*sets["valid"]]) == set(range(1, 13))
    assert lengths([*sets[LONG]]) == set(range(13, 31))
    assert (len(sets["train"]), len(sets[LONG])) == (500, 1_000)
    assert not set(sets["train"]) & set(sets[LONG])
    assert [*sets[LONG]] == [each for each in TRAIN if 13 <= len(each.source.split()) <= 30][-1_000:]


def test_the_control_trains_on_all_lengths_has_the_same_pieces_and_is_measured_on_the_same_text() -> None:
    short, mixed = short_sets(SOURCE), mixed_sets(SOURCE)
    assert lengths([*mixed["train"]]) == set(range(1, 31))
    assert len(mixed["train"]) == len(short["train"])
    assert (mixed["valid"], mixed[LONG]) == (short["valid"], short[LONG])
    assert not {pair.source for pair in mixed["train"]} & {pair.source for pair in mixed[LONG]}
    assert MIXED.vocabulary is short_sets


def test_every_sentence_is_in_one_group_by_its_length() -> None:
    sets = short_sets(SOURCE)
    found = dict(groups([*sets["valid"], *sets[LONG]], edges(sets["valid"])))
    assert list(found) == ["1-9", "10-12", "13-15", "16-20", "21-30"]
    assert sum(map(len, found.values())) == len(sets["valid"]) + len(sets[LONG])
    for name, pairs in found.items():
        low, high = map(int, name.split("-"))
        assert lengths([*pairs]) <= set(range(low, high + 1))


def test_groups_of_few_sentences_are_left_out() -> None:
    assert list(dict(groups([*[pair(12)] * 30, *[pair(14)] * 3], [0, 9, 12, 15]))) == ["10-12"]


def test_a_curve_runs_over_the_mean_length_of_each_group() -> None:
    groups_of = {
        "1-9": {"words": 5.0, "perplexity": 8.0, "BLEU": 30.0},
        "10-12": {"words": 11.0, "perplexity": 9.0, "BLEU": 20.0},
    }
    measured = {f"{name} {group}": value for group, found in groups_of.items() for name, value in found.items()}
    results = [row_result(measured={LENGTHS: measured | {"BLEU 1-9": bleu}}) for bleu in (28.0, 32.0)]
    chart = curves_by_length("any", {"base": results, "none": []})["bleu-by-length"]
    assert isinstance(chart, Curves)
    (curve,) = chart.series
    assert (curve.name, curve.points) == ("base", ((5.0, 30.0), (11.0, 20.0)))
