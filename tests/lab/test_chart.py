"""Charts: every value has its place on the axis, and everything is on the paper."""

from __future__ import annotations

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.lab.charts.canvas import Dot, Label, Line, png, svg
from heedful.lab.charts.chart import Curves, Series, Spreads, axis, draw, tick_text

VALUES = st.lists(st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 6)), min_size=1, max_size=8)
POSITIVE = st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=8)


@given(VALUES)
def test_an_axis_has_room_for_its_values_and_round_numbers_between(values: list[float]) -> None:
    shown = axis(values, 0.0, 100.0)
    assert all(0 <= shown.place(value) <= 100 for value in values)
    ticks = shown.ticks()
    assert 2 <= len(ticks) <= 11
    assert all(0 <= shown.place(tick) <= 100 for tick in ticks)
    steps = [after - before for before, after in pairwise(ticks)]
    assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-3)


@given(POSITIVE)
def test_a_logarithmic_axis_gives_equal_ratios_equal_lengths(values: list[float]) -> None:
    shown = axis(values, 0.0, 100.0, is_log=True)
    assert all(0 <= shown.place(value) <= 100 for value in values)
    middle = math.sqrt(shown.low * shown.high)
    assert shown.place(middle) == pytest.approx(50)
    assert shown.ticks()
    assert all(-1e-6 <= shown.place(tick) <= 100 + 1e-6 for tick in shown.ticks())


def test_an_axis_that_runs_upwards_puts_more_higher() -> None:
    shown = axis([1.0, 2.0], 300.0, 20.0)
    assert shown.place(2.0) < shown.place(1.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [(20.0, "20"), (0.5, "0.5"), (-0.25, "−0.25"), (1e-5, "1e−5"), (40_000.0, "40k"), (3e6, "3M"), (0.0, "0")],
)
def test_a_tick_is_written_short(value: float, text: str) -> None:
    assert tick_text(value) == text


CURVES = Curves(
    title="cost <of> layers",
    x="n",
    y="operations",
    series=(Series("a & b", ((16.0, 1e3), (4096.0, 1e8))), Series("one point", ((64.0, 1e5),))),
    has_log_x=True,
    has_log_y=True,
)
SPREADS = Spreads(title="rows", x="BLEU", rows={"base": (20.0, 21.0, 22.5), "h1: 1 head": (18.0,)})


@pytest.mark.parametrize("chart", [CURVES, SPREADS])
def test_everything_is_on_the_paper(chart: Curves | Spreads) -> None:
    drawing = draw(chart)
    for shape in drawing.shapes:
        points = shape.points if isinstance(shape, Line) else ((shape.x, shape.y),)
        assert all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in points)


def test_each_seed_is_a_dot_and_the_first_rows_mean_a_dashed_line() -> None:
    shapes = draw(SPREADS).shapes
    assert len([shape for shape in shapes if isinstance(shape, Dot)]) == 4
    (line,) = [shape for shape in shapes if isinstance(shape, Line) and shape.is_dashed]
    dots = [shape.x for shape in shapes if isinstance(shape, Dot)][:3]
    assert line.points[0][0] == line.points[1][0] == pytest.approx(min(dots) + (max(dots) - min(dots)) * 7 / 15)


def test_each_curve_is_in_the_legend() -> None:
    labels = [shape.text for shape in draw(CURVES).shapes if isinstance(shape, Label)]
    assert {"a & b", "one point", "n", "operations", CURVES.title} <= set(labels)


@pytest.mark.parametrize("chart", [CURVES, SPREADS])
def test_the_same_drawing_becomes_svg_and_png(chart: Curves | Spreads) -> None:
    drawing = draw(chart)
    root = ElementTree.fromstring(svg(drawing))
    texts = [text.text for text in root.iter() if text.tag.endswith("text")]
    assert texts == [shape.text for shape in drawing.shapes if isinstance(shape, Label)]
    assert png(drawing).startswith(b"\x89PNG")
