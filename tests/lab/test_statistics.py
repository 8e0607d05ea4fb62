"""Verdicts on a difference: by known formulas, and by how often they are wrong in simulated experiments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heedful.lab.statistics import (
    ALPHA,
    Difference,
    Expected,
    Spread,
    Verdict,
    chances,
    difference,
    holm,
    pooled_spread,
    verdicts,
)


def spread_of(*rows: list[float]) -> Spread:
    found = pooled_spread(rows)
    assert found
    return found


def test_the_pooled_spread_of_one_row_is_its_standard_deviation() -> None:
    found = spread_of([1.0, 2.0, 4.0])
    assert found.deviation == pytest.approx(np.std([1, 2, 4], ddof=1))
    assert found.freedom == 2


def test_the_pooled_spread_weighs_each_row_by_its_degrees_of_freedom() -> None:
    rows = [[1.0, 3.0], [10.0, 11.0, 15.0], [7.0]]
    variance = (1 * 2.0 + 2 * 7.0) / 3
    found = spread_of(*rows)
    assert found.deviation == pytest.approx(math.sqrt(variance))
    assert found.freedom == 3


def test_there_is_no_spread_without_a_second_seed() -> None:
    assert pooled_spread([[1.0], [2.0]]) is None


def test_with_two_rows_alone_the_test_is_students_for_two_samples() -> None:
    """The example of Student's t for equal variances: t = 1.959 for these two samples, with ν = 10."""
    one, other = [30.02, 29.99, 30.11, 29.97, 30.01, 29.99], [29.89, 29.93, 29.72, 29.98, 30.02, 29.98]
    found = difference(other, one, spread_of(one, other))
    assert found.freedom == 10
    assert found.value == pytest.approx(0.095)
    assert found.value / found.error == pytest.approx(1.959, abs=5e-4)
    agreeing, disagreeing = chances(found, "higher")
    assert 2 * agreeing == pytest.approx(0.07857, abs=1e-5)
    assert agreeing + disagreeing == pytest.approx(1.0)


def test_the_interval_has_the_margin_of_the_t_table() -> None:
    """t for 4 degrees of freedom and 95 % is 2.776."""
    margin = 2.7764 * 0.5
    assert Difference(1.0, 0.5, 4).interval() == pytest.approx((1 - margin, 1 + margin), abs=1e-4)


def test_the_smallest_difference_adds_the_quantiles_of_level_and_power() -> None:
    """t for 10 degrees of freedom: above 2.228 lie 2.5 %, above 0.879 20 %, and above 3.169 0.5 % (five claims)."""
    found = Difference(0.0, 2.0, 10)
    assert found.smallest() == pytest.approx(2 * (2.2281 + 0.8791), abs=1e-3)
    assert found.smallest(num_claims=5) == pytest.approx(2 * (3.1693 + 0.8791), abs=1e-3)


def test_lower_is_higher_mirrored() -> None:
    found, mirrored = Difference(0.7, 0.5, 6), Difference(-0.7, 0.5, 6)
    assert chances(found, "higher") == chances(mirrored, "lower")
    assert chances(found, "lower") == chances(found, "higher")[::-1]


def test_the_same_is_a_pair_of_one_sided_tests_against_the_margin() -> None:
    found = Difference(0.2, 0.5, 6)
    inside, outside = chances(found, "same", margin=1.0)
    assert inside == pytest.approx(chances(Difference(0.2 - 1.0, 0.5, 6), "lower")[0])
    assert outside == pytest.approx(chances(Difference(0.2 - 1.0, 0.5, 6), "higher")[0])
    assert chances(Difference(-0.2, 0.5, 6), "same", margin=1.0) == (inside, outside)


def test_without_any_spread_a_difference_is_certain_and_none_is_not() -> None:
    assert chances(Difference(0.1, 0.0, 4), "higher") == (0.0, 1.0)
    assert chances(Difference(0.0, 0.0, 4), "higher") == (0.5, 0.5)
    assert verdicts([(0.0, 1.0), (0.5, 0.5)]) == ["agrees", "cannot be told"]


def test_holm_multiplies_the_smallest_by_all_the_next_by_one_less_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == [pytest.approx(each) for each in (0.03, 0.06, 0.06, 0.02)]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_claim_alone_is_told_and_among_many_it_is_not() -> None:
    pair = (0.01, 0.99)
    assert verdicts([pair]) == ["agrees"]
    assert verdicts([pair] * 20)[0] == "cannot be told"
    assert verdicts([pair[::-1]]) == ["disagrees"]


# ---------------------------------------------------------------------------------------------------------- simulation

ROWS, SEEDS, TRIALS = 8, 3, 400


def told(trues: list[float], expected: Expected, margin: float = 0.0) -> list[list[Verdict]]:
    """The verdicts of many simulated experiments: a base at 0 and rows at these true differences, deviation 1."""
    random, found = np.random.default_rng(1), []
    for _ in range(TRIALS):
        base, *rows = (list(random.normal(true, 1, SEEDS)) for true in (0.0, *trues))
        spread = spread_of(base, *rows)
        found.append(verdicts([chances(difference(base, row, spread), expected, margin) for row in rows]))
    return found


def share(found: list[list[Verdict]], verdict: Verdict) -> float:
    """In how many experiments any claim gets this verdict."""
    return sum(verdict in each for each in found) / len(found)


def test_where_nothing_differs_few_experiments_tell_of_any_difference() -> None:
    found = told([0.0] * ROWS, "higher")
    assert share(found, "agrees") + share(found, "disagrees") < ALPHA + 0.03


def test_a_difference_of_the_smallest_size_is_told_in_four_experiments_of_five() -> None:
    size = Difference(0.0, math.sqrt(2 / SEEDS), 2 * SEEDS - 2).smallest()
    assert share(told([size], "higher"), "agrees") == pytest.approx(0.8, abs=0.08)
    assert share(told([size], "lower"), "disagrees") == pytest.approx(0.8, abs=0.08)


def test_two_rows_that_just_differ_by_the_margin_are_seldom_called_the_same_or_not() -> None:
    found = told([3.0], "same", margin=3.0)
    assert share(found, "agrees") + share(found, "disagrees") < ALPHA + 0.03
    assert share(told([0.0], "same", margin=5.0), "agrees") > 0.9
    assert share(told([9.0], "same", margin=3.0), "disagrees") > 0.9


def test_the_interval_holds_the_true_difference_as_often_as_it_says() -> None:
    random, held = np.random.default_rng(2), 0
    for _ in range(TRIALS):
        base, row, other = (list(random.normal(true, 1, SEEDS)) for true in (0.0, 1.0, 5.0))
        low, high = difference(base, row, spread_of(base, row, other)).interval()
        held += low <= 1.0 <= high
    assert held / TRIALS == pytest.approx(1 - ALPHA, abs=0.025)
