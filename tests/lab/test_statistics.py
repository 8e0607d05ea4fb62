"""Verdicts on a difference: by known formulas, and by how often they are wrong in simulated experiments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heedful.lab.statistics import (
    ALPHA,
    Difference,
    Expected,
    Row,
    Spread,
    Verdict,
    chances,
    difference,
    holm,
    noise,
    noisy,
    verdicts,
)
from heedful.score.t_test import compare_seeds


def noise_of(*rows: Row) -> Spread:
    found = noise(rows)
    assert found
    return found


def test_the_noise_is_the_residual_of_least_squares_for_rows_and_seeds() -> None:
    """By the normal equations of value = row + seed, with a column for each."""
    values_RS = np.random.default_rng(3).normal(size=(4, 3))
    columns = [np.indices((4, 3))[axis].ravel() == level for axis in (0, 1) for level in range(4 - axis)]
    design = np.stack(columns, axis=1).astype(float)
    solution = np.linalg.lstsq(design, values_RS.ravel(), rcond=None)[0]
    squares = ((values_RS.ravel() - design @ solution) ** 2).sum()
    found = noise_of(*values_RS.tolist())
    assert found.freedom == 12 - np.linalg.matrix_rank(design) == 6
    assert found.deviation == pytest.approx(math.sqrt(squares / 6))


def test_what_seeds_share_is_no_noise() -> None:
    rows = [[1.0, 3.0, 4.0], [2.0, 2.5, 5.0], [0.0, 1.0, 0.5]]
    luck = [7.0, -3.0, 20.0]
    shifted = [[value + each for value, each in zip(row, luck, strict=True)] for row in rows]
    assert noise_of(*shifted).deviation == pytest.approx(noise_of(*rows).deviation)


def test_there_is_no_noise_with_one_seed_or_one_row() -> None:
    assert noise([[1.0], [2.0]]) is None
    assert noise([[1.0, 2.0]]) is None
    assert noise([]) is None


def test_with_two_rows_alone_the_test_is_the_paired_t_test() -> None:
    one, other = [30.02, 29.99, 30.11, 29.97, 30.01, 29.99], [29.89, 29.93, 29.72, 29.98, 30.02, 29.98]
    found = difference(other, one, noise_of(one, other))
    paired = compare_seeds(*({str(n): value for n, value in enumerate(row)} for row in (other, one)))
    assert found.freedom == 5
    assert found.value == pytest.approx(paired.difference)
    assert found.interval() == pytest.approx(paired.interval)
    agreeing, disagreeing = chances(found, "higher")
    assert 2 * agreeing == pytest.approx(paired.p_value)
    assert agreeing + disagreeing == pytest.approx(1.0)


def test_a_row_is_noisy_if_its_seeds_scatter_far_more_than_those_of_the_usual_row() -> None:
    random = np.random.default_rng(1)
    rows: dict[str, list[float]] = {name: (5 * random.normal(size=3)).tolist() for name in "abcdef"}
    assert noisy(rows) == set()
    assert noisy(rows | {"wild": [0.0, 90.0, 20.0]}) == {"wild"}
    assert noisy({"a": rows["a"], "wild": [0.0, 90.0, 20.0]}) == set(), "of two rows none is the usual one"
    assert noisy({}) == set()


def test_the_interval_has_the_margin_of_the_t_table() -> None:
    """t for 4 degrees of freedom and 95 % is 2.776."""
    margin = 2.7764 * 0.5
    assert Difference(1.0, 0.5, 4).interval() == pytest.approx((1 - margin, 1 + margin), abs=1e-4)


def test_the_smallest_difference_adds_the_quantiles_of_level_and_power() -> None:
    """t for 10 degrees of freedom: above 2.228 lie 2.5 %, above 0.879 20 %, and above 3.169 0.5 % (five claims)."""
    found = Difference(0.0, 2.0, 10)
    assert found.smallest() == pytest.approx(2 * (2.2281 + 0.8791), abs=1e-3)
    assert found.smallest(num_claims=5) == pytest.approx(2 * (3.1693 + 0.8791), abs=1e-3)


def test_the_smallest_margin_leaves_half_of_the_failures_to_either_side() -> None:
    """t for 10 degrees of freedom: above 1.372 lie 10 %."""
    assert Difference(0.0, 2.0, 10).smallest_margin() == pytest.approx(2 * (2.2281 + 1.3722), abs=1e-3)


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
    assert chances(Difference(1e-15, 1e-17, 4), "higher") == (0.5, 0.5), "a rounding error is no difference"
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
LUCKS = (0.0, 3.0)
"""The deviation of what the rows share with a seed, where that of the noise is 1."""


def draws(trues: list[float], luck: float, *, wild: float = 1.0) -> list[list[list[float]]]:
    """Simulated experiments: a base at 0 and rows at these true differences; the deviation of the last is `wild`."""
    random = np.random.default_rng(1)
    scales_R1 = np.array([1.0] * len(trues) + [wild])[:, None]
    means_R1 = np.array([0.0, *trues])[:, None]
    shape = (len(trues) + 1, SEEDS)
    return [
        (means_R1 + luck * random.normal(size=SEEDS) + scales_R1 * random.normal(size=shape)).tolist()
        for _ in range(TRIALS)
    ]


def told(
    trues: list[float], expected: Expected, margin: float = 0.0, *, luck: float = 0.0, wild: float = 1.0
) -> list[list[Verdict]]:
    """The verdicts on every row against the base in many simulated experiments."""
    return [_verdicts(rows, expected, margin) for rows in draws(trues, luck, wild=wild)]


def _verdicts(rows: list[list[float]], expected: Expected, margin: float) -> list[Verdict]:
    outliers = noisy({str(n): row for n, row in enumerate(rows)})
    steady = [row for n, row in enumerate(rows) if str(n) not in outliers]
    pools = [[rows[0], row] if {"0", str(n)} & outliers else steady for n, row in enumerate(rows)]
    found = [difference(rows[0], row, noise_of(*pools[n])) for n, row in enumerate(rows) if n]
    return verdicts([chances(each, expected, margin) for each in found])


def share(found: list[list[Verdict]], verdict: Verdict) -> float:
    """In how many experiments any claim gets this verdict."""
    return sum(verdict in each for each in found) / len(found)


@pytest.mark.parametrize("luck", LUCKS)
@pytest.mark.parametrize(("num_rows", "wild"), [(1, 10.0), (2, 1.0), (4, 1.0), (ROWS, 1.0), (ROWS, 10.0), (17, 1.0)])
def test_where_nothing_differs_few_experiments_tell_of_any_difference(luck: float, num_rows: int, wild: float) -> None:
    """Whether seeds share their luck or not, and whether one row is far noisier than the others or not."""
    found = told([0.0] * num_rows, "higher", luck=luck, wild=wild)
    assert share(found, "agrees") + share(found, "disagrees") < ALPHA + 0.04


@pytest.mark.parametrize("luck", LUCKS)
def test_a_difference_of_the_smallest_size_is_told_in_four_experiments_of_five(luck: float) -> None:
    size = Difference(0.0, math.sqrt(2 / SEEDS), ROWS * (SEEDS - 1)).smallest(ROWS)
    found = told([size] + [0.0] * (ROWS - 1), "higher", luck=luck)
    assert np.mean([each[0] == "agrees" for each in found]) == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize("luck", LUCKS)
def test_two_rows_that_just_differ_by_the_margin_are_seldom_called_the_same_or_not(luck: float) -> None:
    found = told([3.0] * 4, "same", margin=3.0, luck=luck)
    assert share(found, "agrees") + share(found, "disagrees") < ALPHA + 0.03


@pytest.mark.parametrize("luck", LUCKS)
def test_the_smallest_margin_is_confirmed_in_four_experiments_of_five(luck: float) -> None:
    margin = Difference(0.0, math.sqrt(2 / SEEDS), ROWS * (SEEDS - 1)).smallest_margin(ROWS)
    found = told([0.0, *[50.0] * (ROWS - 1)], "same", margin=margin, luck=luck)
    assert np.mean([each[0] == "agrees" for each in found]) > 0.7


@pytest.mark.parametrize("luck", LUCKS)
def test_the_interval_holds_the_true_difference_as_often_as_it_says(luck: float) -> None:
    held = 0
    for rows in draws([1.0, 5.0], luck):
        low, high = difference(rows[0], rows[1], noise_of(*rows)).interval()
        held += low <= 1.0 <= high
    assert held / TRIALS == pytest.approx(1 - ALPHA, abs=0.03)
