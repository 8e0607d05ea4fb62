"""The two plain charts of the lab: curves over a number, and rows with the spread of their seeds.

They lay out lines, dots and labels; `canvas.py` draws those as SVG and PNG. An axis may be logarithmic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

from msgspec import Struct

from heedful.inspection.drawing import INK, MUTED
from heedful.lab.charts.canvas import Dot, Drawing, Label, Line, Shape

GRID = "#d9dad6"
COLOURS = ("#17408b", "#c8553d", "#2a7f62", "#8a5a9e", "#b98b1f", "#4c9bb8", "#7a7f87", "#a03060")
UNITS = (("G", 1e9), ("M", 1e6), ("k", 1e3))
LETTER = 7.2  # the usual width of a letter
WIDTH, HEIGHT, ROW = 640, 380, 26
LEFT, RIGHT, TOP, BOTTOM = 70, 24, 44, 56


class Series(Struct, frozen=True):
    """A curve: its name and its points."""

    name: str
    points: tuple[tuple[float, float], ...]


class Curves(Struct, frozen=True, kw_only=True):
    """Curves with two axes and a legend."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    has_log_x: bool = False
    has_log_y: bool = False


class Spreads(Struct, frozen=True, kw_only=True):
    """A row for each name: a dot for each seed, the mean, and one standard deviation on each side of it.

    A dashed line goes through the mean of the first row, which the others are compared with.
    """

    title: str
    x: str
    rows: dict[str, tuple[float, ...]]
    has_log_x: bool = False


class Axis(Struct, frozen=True):
    """Values from low to high, laid along pixels from begin to end."""

    low: float
    high: float
    begin: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """The pixel of a value."""
        low, high, value = (math.log(each) if self.is_log else each for each in (self.low, self.high, value))
        return self.begin + (self.end - self.begin) * (value - low) / ((high - low) or 1.0)

    def ticks(self) -> list[float]:
        """Round numbers within it: 1, 2 or 5 times a power of ten."""
        return _log_ticks(self.low, self.high) if self.is_log else _linear_ticks(self.low, self.high)


def axis(values: Sequence[float], begin: float, end: float, *, is_log: bool = False) -> Axis:
    """An axis that has room for these values and a little more."""
    low, high = min(values), max(values)
    if is_log:
        room = (high / low) ** 0.05 if high > low else 2.0
        return Axis(low / room, high * room, begin, end, is_log=True)
    room = 0.05 * (high - low) or max(abs(high), 1.0) / 2
    return Axis(low - room, high + room, begin, end)


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [n * step for n in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 in each power of ten; only 1 where there are many powers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if len(powers) > 4 else (1, 2, 5)
    found = [factor * 10.0**power for power in powers for factor in factors]
    ticks = [value for value in found if low <= value <= high]
    return ticks if len(ticks) > 1 else _linear_ticks(low, high)


def tick_text(value: float) -> str:
    """20, 0.5, 1e−5, 1.5k, 3M."""
    size = abs(value)
    if value and (size < 1e-3 or size >= 1e12):
        digits, _, power = f"{value:.0e}".partition("e")
        return f"{digits}e{int(power)}".replace("-", "−")
    letter, unit = next(((name, each) for name, each in UNITS if size >= each), ("", 1.0))
    return f"{value / unit:.4g}{letter}".replace("-", "−")


def draw(chart: Curves | Spreads) -> Drawing:
    """A chart as lines, dots and labels."""
    return _curves(chart) if isinstance(chart, Curves) else _spreads(chart)


# -------------------------------------------------------------------------------------------------------------- curves


def _curves(chart: Curves) -> Drawing:
    points = [point for series in chart.series for point in series.points]
    legend = max((LETTER * len(series.name) for series in chart.series), default=0) + 40
    right = WIDTH - RIGHT
    across = axis([x for x, _ in points], LEFT, right, is_log=chart.has_log_x)
    up = axis([y for _, y in points], HEIGHT - BOTTOM, TOP, is_log=chart.has_log_y)
    shapes: list[Shape] = [Label(LEFT, 20, chart.title), *_grid_across(across, TOP, HEIGHT - BOTTOM, chart.x)]
    shapes += _grid_up(up, LEFT, right, chart.y)
    for n, series in enumerate(chart.series):
        colour = COLOURS[n % len(COLOURS)]
        shapes += _curve(series, across, up, colour, is_dashed=n >= len(COLOURS))
        shapes += _legend(series.name, right + 14, TOP + 20 * n, colour, is_dashed=n >= len(COLOURS))
    height = max(HEIGHT, TOP + 20 * len(chart.series) + 20)
    return Drawing(WIDTH + legend, height, tuple(shapes))


def _curve(series: Series, across: Axis, up: Axis, colour: str, *, is_dashed: bool) -> Iterator[Shape]:
    places = tuple((across.place(x), up.place(y)) for x, y in series.points)
    if len(places) > 1:
        yield Line(places, colour, 2.0, is_dashed)
    for (x, y), (left, top) in zip(series.points, places, strict=True):
        yield Dot(left, top, 2.5, colour, f"{series.name}: {x:g}, {y:.4g}")


def _legend(name: str, x: float, y: float, colour: str, *, is_dashed: bool) -> Iterator[Shape]:
    yield Line(((x, y), (x + 18, y)), colour, 2.0, is_dashed)
    yield Label(x + 24, y, name)


def _grid_across(across: Axis, top: float, bottom: float, name: str) -> Iterator[Shape]:
    """Vertical lines with their numbers below, and the name of the axis."""
    for value in across.ticks():
        x = across.place(value)
        yield Line(((x, top), (x, bottom)), GRID)
        yield Label(x, bottom + 14, tick_text(value), "middle", MUTED, 12)
    yield Label((across.begin + across.end) / 2, bottom + 36, name, "middle", MUTED)


def _grid_up(up: Axis, left: float, right: float, name: str) -> Iterator[Shape]:
    for value in up.ticks():
        y = up.place(value)
        yield Line(((left, y), (right, y)), GRID)
        yield Label(left - 8, y, tick_text(value), "end", MUTED, 12)
    yield Label(18, (up.begin + up.end) / 2, name, "middle", MUTED, is_turned=True)


# ------------------------------------------------------------------------------------------------------------- spreads


def _spreads(chart: Spreads) -> Drawing:
    beside = max(LETTER * len(name) for name in chart.rows) + 28
    bottom = TOP + ROW * len(chart.rows)
    values = [value for row in chart.rows.values() for value in row]
    across = axis(values, beside, beside + WIDTH - 2 * RIGHT - LEFT, is_log=chart.has_log_x)
    shapes: list[Shape] = [Label(12, 20, chart.title), *_grid_across(across, TOP - 6, bottom, chart.x)]
    first = across.place(fmean(next(iter(chart.rows.values()))))
    shapes.append(Line(((first, TOP - 6), (first, bottom)), MUTED, 1.2, is_dashed=True))
    for n, (name, row) in enumerate(chart.rows.items()):
        shapes += _spread(name, row, across, TOP + ROW * (n + 0.5))
    return Drawing(across.end + RIGHT, bottom + BOTTOM, tuple(shapes))


def _spread(name: str, row: Sequence[float], across: Axis, y: float) -> Iterator[Shape]:
    """A name, a dot for each value, a tick at the mean, and a line of one standard deviation on each side."""
    mean = fmean(row)
    yield Label(across.begin - 12, y, name, "end")
    if len(row) > 1:
        low, high = (max(across.low, min(across.high, mean + side * stdev(row))) for side in (-1, 1))
        yield Line(((across.place(low), y), (across.place(high), y)), COLOURS[0], 3.0)
    yield Line(((across.place(mean), y - 8), (across.place(mean), y + 8)), INK, 2.0)
    for value in row:
        yield Dot(across.place(value), y, 3.5, COLOURS[1], f"{name}: {value:.4g}")
