"""t-tests over seeds give the numbers of statistical tables, and no p where there are too few seeds."""

from __future__ import annotations

import math
import random
import statistics

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.score.t_test import compare_seeds, t_quantile, two_sided_p


@pytest.mark.parametrize(
    ("freedom", "p_value", "t"),
    [(1, 0.05, 12.706), (2, 0.05, 4.303), (2, 0.01, 9.925), (4, 0.05, 2.776), (10, 0.1, 1.812), (30, 0.05, 2.042)],
)
def test_quantiles_are_those_of_the_printed_table(freedom: int, p_value: float, t: float) -> None:
    assert t_quantile(freedom, p_value) == pytest.approx(t, abs=5e-4)
    assert two_sided_p(t, freedom) == pytest.approx(p_value, rel=1e-3)


@given(t=st.floats(-50, 50), freedom=st.floats(2, 200))
def test_p_is_the_incomplete_beta_function(t: float, freedom: float) -> None:
    expected = mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + t * t), regularized=True)
    assert two_sided_p(t, freedom) == pytest.approx(float(expected), rel=1e-5, abs=1e-12)


def test_the_same_seeds_are_compared_in_pairs_in_whatever_order() -> None:
    found = compare_seeds({"1": 40.0, "2": 50.0, "3": 60.0}, {"3": 61.5, "1": 41.0, "2": 50.5})
    # differences 1, 0.5 and 1.5: mean 1, standard error 0.5 / √3, two degrees of freedom
    t, margin = 1 / (0.5 / math.sqrt(3)), 4.302653 * 0.5 / math.sqrt(3)
    assert (found.test, found.num_seeds, found.difference) == ("paired t", (3, 3), 1.0)
    assert found.p_value == pytest.approx(1 - t / math.sqrt(2 + t * t))  # with two degrees there is a closed form
    assert found.interval == pytest.approx((1 - margin, 1 + margin))


def test_other_seeds_are_compared_by_welchs_test() -> None:
    found = compare_seeds({"1": 1.0, "2": 2.0, "3": 3.0}, {"4": 4.0, "5": 8.0, "6": 6.0, "7": 10.0})
    # variances 1 and 20/3: standard error √(1/3 + 5/3) = √2; (2)² / (1/9/2 + 25/9/3) = 4.0755 degrees of freedom
    freedom = 4 / (1 / 18 + 25 / 27)
    assert (found.test, found.num_seeds, found.difference) == ("Welch", (3, 4), 5.0)
    assert found.p_value == pytest.approx(two_sided_p(5 / math.sqrt(2), freedom))
    assert found.interval == pytest.approx(
        (5 - t_quantile(freedom) * math.sqrt(2), 5 + t_quantile(freedom) * math.sqrt(2))
    )


@pytest.mark.parametrize(("num", "other"), [(1, 1), (2, 2), (2, 5), (5, 2)])
def test_two_seeds_have_neither_p_nor_interval(num: int, other: int) -> None:
    found = compare_seeds({str(n): 1.0 + n for n in range(num)}, {str(n): 5.0 + n for n in range(other)})
    assert (found.p_value, found.interval, found.num_seeds) == (None, None, (num, other))


def test_scores_that_do_not_spread_are_equal_or_not() -> None:
    one, two = {"1": 1.0, "2": 1.0, "3": 1.0}, {"1": 2.0, "2": 2.0, "3": 2.0}
    assert (compare_seeds(one, one).p_value, compare_seeds(one, two).p_value) == (1.0, 0.0)
    assert compare_seeds(one, two | {"4": 2.0}).p_value == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("is_paired", [True, False])
def test_equal_recipes_differ_significantly_in_one_comparison_of_twenty(is_paired: bool) -> None:
    draw, found = random.Random(1), []
    for _ in range(2000):
        baseline, system = ({str(n + k): draw.gauss(0, 1) for n in range(4)} for k in (0, 0 if is_paired else 9))
        found.append(compare_seeds(baseline, system).p_value or 0.0)
    assert statistics.fmean(p < 0.05 for p in found) == pytest.approx(0.05, abs=0.015)
