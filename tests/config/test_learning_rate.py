"""§5.3: the learning rate."""

import pytest

from heedful.config.learning_rate import cooldown, learning_rate


def rate(step: int) -> float:
    return learning_rate(step, d_model=512, warmup_steps=4000)


def test_the_peak_of_base_is_at_step_4000() -> None:
    rates = [rate(step) for step in range(1, 12_001)]
    assert rates.index(max(rates)) + 1 == 4000
    assert max(rates) == pytest.approx(7.0e-4, rel=0.01)


def test_it_rises_linearly_and_falls_with_the_inverse_square_root() -> None:
    assert rate(2000) == pytest.approx(rate(4000) / 2)
    assert rate(1) == pytest.approx(rate(4000) / 4000)
    assert rate(16_000) == pytest.approx(rate(4000) / 2)


def test_a_wider_model_learns_more_slowly() -> None:
    assert learning_rate(9, d_model=2048, warmup_steps=4) == pytest.approx(
        learning_rate(9, d_model=512, warmup_steps=4) / 2
    )


def test_the_last_steps_take_the_rate_down_in_equal_parts_and_never_to_nothing() -> None:
    left = [cooldown(step, steps=10, cooldown_steps=4) for step in range(1, 11)]
    assert left == [1, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25]


def test_without_cooldown_the_rate_is_the_papers_at_every_step() -> None:
    assert {cooldown(step, steps=10, cooldown_steps=0) for step in range(1, 11)} == {1.0}
