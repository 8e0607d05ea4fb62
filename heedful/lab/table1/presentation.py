"""What the rows of Table 1's experiment show: tables, charts, and judged claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from heedful.lab.charts.chart import Curves, Series, Spreads
from heedful.lab.findings import Findings
from heedful.lab.table1.claims import judged
from heedful.lab.table1.complexity import KERNEL, KINDS, LSTM, PATHS, RADIUS, RECURRENT
from heedful.lab.table1.growth import exponents
from heedful.lab.table1.measured_layers import VALUE_OF, Figure, MeasuredLayers, megabytes, millions, milliseconds
from heedful.score.tables import Rows, Section

SHOWN: tuple[tuple[Figure, str], ...] = (
    (millions, "Operations (millions)"),
    (milliseconds, "Time (ms)"),
    (megabytes, "Memory (MB)"),
)
AXIS_NAMES = {"d": "d", "k": "k", "r": "r (all positions that one sees)"}
NOTES = (
    "Operations are multiply-adds of one forward pass over one sentence, in float32, counted while it runs; what makes "
    "no product of matrices is left out. “Operations” are those that Table 1 counts: of attention QKᵀ and the weighted "
    "sum, without the four projections; of recurrence all.",
    "Memory is the most that the tensors of a pass took at one time, without weights and input; what a kernel uses "
    "inside is not seen. Self-attention is heedful's own, with 8 heads; written out, it holds its weights.",
    "A path is measured in layers, each of which carries what it knows; in a recurrent layer in transitions from one "
    "position to the next. It is the least number after which the Jacobian (float64, positive weights, linear "
    "activations) has no zero where a position may see another.",
)


def presented(measured: MeasuredLayers, source: str) -> Findings:
    """Tables, charts and claims; `source` says where and by what command they were measured."""
    return Findings(
        tables=tuple(_tables(measured)),
        charts=dict(_charts(measured)),
        judged=tuple(judged(measured)),
        notes=(*NOTES, f"Measured on {source}."),
    )


def _tables(measured: MeasuredLayers) -> Iterator[Section]:
    yield Section("Table 1, counted", list(_table1(measured)))
    n_at = f"d = {measured.d}, k = {KERNEL}, r = {RADIUS} on each side"
    for figure, what in SHOWN:
        yield Section(f"{what}, by n ({n_at})", _by(measured, "n", figure))
    for axis in AXIS_NAMES:
        at = measured.sweeps[axis][0]
        rest = f"n = {at.n}" if axis == "d" else f"n = {at.n}, d = {at.d}"
        for figure, what in SHOWN[:2]:
            yield Section(f"{what}, by {AXIS_NAMES[axis]} ({rest})", _by(measured, axis, figure))
    yield Section(f"Longest path, by n (k = {KERNEL}, r = {RADIUS} on each side)", list(_path_rows(measured)))


def _table1(measured: MeasuredLayers) -> Iterator[list[str]]:
    """A row for each layer: as Table 1 has it, and as it was counted."""
    n = max(n for _, n in measured.paths)
    yield [
        "layer",
        "operations (paper)",
        "counted",
        "projections",
        "time grows as",
        "memory grows as",
        "products in a row",
        f"longest path (paper), at n = {n}",
    ]
    paths = {path.name: path for path in PATHS}
    size = measured.sweeps["n"][-1]
    for kind in KINDS:
        cost, path = measured.costs[kind.name, size], paths.get(kind.name)
        yield [
            kind.name,
            f"O({kind.complexity})",
            kind.exact,
            "4·n·d²" if cost.layer_operations > cost.operations else "",
            exponents(measured.slopes(kind, milliseconds)),
            exponents(measured.slopes(kind, megabytes)),
            "n" if kind in (RECURRENT, LSTM) else str(cost.longest_chain),
            f"O({path.complexity}), {measured.paths[path.name, n]}" if path else "",
        ]


def _by(measured: MeasuredLayers, axis: str, figure: Figure) -> Rows:
    """A figure of each layer that depends on the axis, in columns."""
    heading = ["layer", *(f"{VALUE_OF[axis](size):,}" for size in measured.sweeps[axis])]
    kinds = [kind for kind in KINDS if axis in kind.varies]
    return [
        heading,
        *([kind.name, *(_figure(y) for _, y in measured.curve(kind, axis, figure))] for kind in kinds),
    ]


def _figure(value: float) -> str:
    """Three digits, and all before the point: 0.262, 16.8, 17,180."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _path_rows(measured: MeasuredLayers) -> Iterator[list[str]]:
    lengths = [n for n, _ in measured.path_curve(PATHS[0])]
    yield ["layers", "closed form", *map(str, lengths)]
    for path in PATHS:
        yield [path.name, path.exact, *(str(length) for _, length in measured.path_curve(path))]


# -------------------------------------------------------------------------------------------------------------- charts


def _charts(measured: MeasuredLayers) -> Iterator[tuple[str, Curves | Spreads]]:
    for axis in ("n", "d"):
        for figure, what in SHOWN if axis == "n" else SHOWN[:2]:
            yield f"{what.split()[0].lower()}-by-{axis}", _cost_chart(measured, axis, figure, what)
    yield "path-by-n", _path_chart(measured)


def _cost_chart(measured: MeasuredLayers, axis: str, figure: Figure, what: str) -> Curves:
    """A figure of every layer against n or d, with a line where both are equal."""
    series = _distinct(Series(kind.name, tuple(measured.curve(kind, axis, figure))) for kind in KINDS)
    values = [y for each in series for _, y in each.points]
    fixed, d = ("d", measured.d) if axis == "n" else ("n", measured.sweeps[axis][0].n)
    equal = Series("n = d", ((d, min(values)), (d, max(values))))
    return Curves(
        title=f"{what} of a layer, {fixed} = {d}",
        x=axis,
        y=what,
        series=(*series, equal),
        has_log_x=True,
        has_log_y=True,
    )


def _distinct(series: Iterable[Series]) -> list[Series]:
    """Of curves that are equal the first."""
    found: dict[object, Series] = {}
    for each in series:
        found.setdefault(each.points, each)
    return [*found.values()]


def _path_chart(measured: MeasuredLayers) -> Curves:
    series = _distinct(Series(path.name, tuple(measured.path_curve(path))) for path in PATHS)
    return Curves(
        title="Longest path between two positions",
        x="n",
        y="layers, or transitions",
        series=tuple(series),
        has_log_x=True,
        has_log_y=True,
    )
