"""The best translations of a text from those of its parts."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from heedful.translate.best_combinations import best_combinations

SCORES = st.lists(st.lists(st.integers(-9, 0).map(float), min_size=1, max_size=4), max_size=4)


@given(SCORES, st.integers(1, 9))
def test_the_sums_are_the_greatest_of_all_combinations(scores: list[list[float]], count: int) -> None:
    found = best_combinations(scores, count)
    every = sorted((sum(each) for each in product(*scores)), reverse=True)
    sums = [sum(part[rank] for part, rank in zip(scores, ranks, strict=True)) for ranks in found]
    assert sums == every[:count]
    assert len(set(found)) == len(found)


def test_the_best_of_each_part_make_the_best_of_all() -> None:
    assert best_combinations([[-1.0, -1.5], [-2.0, -2.2]], 3) == [(0, 0), (0, 1), (1, 0)]
    assert best_combinations([[-1.0]] * 2000, 8) == [(0,) * 2000]
