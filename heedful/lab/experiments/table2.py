"""Table 2 (§6.1): the Transformer against the systems that it replaces, at equal parameters, seconds and operations.

Every family reads the same pieces, trains on the same batches for the same number of steps, and has as many parameters
as the tiny Transformer (`systems.py`), embeddings included. Operations are counted of a batch. Seconds are those of
`heedful lab table2 --time`, times the steps. Scores at equal cost are read off the curves, where only the cheapest row
has cooled down: that favours it, and no claim is judged by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from heedful.config.setting_layers import resolve
from heedful.data.run_folder import CONFIG
from heedful.errors import counted
from heedful.lab.charts.chart import Curves, Series, Spreads
from heedful.lab.experiment import BASE, Claim, Experiment, Results
from heedful.lab.experiments.systems import SYSTEMS, TUNED, name_of, row_of
from heedful.lab.findings import Findings
from heedful.lab.flops import training_flops
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.row_result import RowResult
from heedful.lab.speeds import PLAIN, Speeds, is_timed, load_speeds
from heedful.lab.trained import Trained
from heedful.model.checkpoint import load_config
from heedful.model.parameter_count import count, shapes_of_new
from heedful.score.tables import Rows, Section

COST, OPERATIONS = "cost", "operations per target token"
Points = list[tuple[float, float]]


def training_cost(trained: Trained) -> dict[str, float]:
    """Operations of training, forward and backward, for one target token."""
    return {OPERATIONS: training_flops(trained.run, load_config(trained.run / CONFIG), 1)}


def costs(results: Results, folder: Path) -> Findings:
    """BLEU and perplexity over what they cost: a table at equal cost, and curves."""
    done = {row: each for row, each in results.items() if each and COST in each[0].measured}
    found = load_speeds(folder)
    untimed = [row for row, each in done.items() if not (found and is_timed(found, each[0]))]
    speeds = None if untimed else found
    axes: dict[str, Axis] = {"operations": operations}
    if speeds:
        axes["seconds"] = seconds(speeds)
    charts: dict[str, Curves | Spreads] = {f"bleu-by-{name}": _chart(done, name, axis) for name, axis in axes.items()}
    tables = [Section(f"At equal {name}", _equal(done, axis)) for name, axis in axes.items() if done]
    tables += [Section("Cost", _costs(done, speeds))] if done else []
    return Findings(tables=tuple(tables), charts=charts, notes=(*_notes(speeds, untimed), *_bias(done)))


Axis = Callable[[RowResult], float]  # what a step of a row costs


def operations(result: RowResult) -> float:
    """Of one step."""
    return result.measured[COST][OPERATIONS] * result.target_tokens / max(1, result.steps)


def seconds(speeds: Speeds) -> Axis:
    """Of one step, as timed apart from the training."""
    return lambda result: speeds.seconds_per_step[result.row]


def points(results: Sequence[RowResult], axis: Axis, metric: str) -> Points:
    """The mean score over the seeds by what has been spent."""
    found: dict[int, list[tuple[float, float]]] = {}
    for result in results:
        for point in result.curve:
            value = point.perplexity if metric == PERPLEXITY else point.bleu
            if value is not None:
                found.setdefault(point.step, []).append((point.step * axis(result), value))
    return [(fmean(x for x, _ in each), fmean(y for _, y in each)) for _, each in sorted(found.items())]


def read_off(curve: Points, x: float) -> float | None:
    """The height of a curve, on a line between its points; None before the first and after the last."""
    for (left, low), (right, high) in pairwise(curve):
        if left <= x <= right:
            return low + (high - low) * (x - left) / ((right - left) or 1.0)
    return None


def _equal(results: Results, axis: Axis) -> Rows:
    """Every row where the cheapest ends: what the others have for the same."""
    curves = {
        row: {metric: points(each, axis, metric) for metric in (PERPLEXITY, BLEU)} for row, each in results.items()
    }
    budget = min(curve[BLEU][-1][0] for curve in curves.values())
    rows = [
        [
            row,
            *(_shown(read_off(curve[metric], budget)) for metric in (PERPLEXITY, BLEU)),
            "yes" if curve[BLEU][-1][0] == budget else "no",
        ]
        for row, curve in curves.items()
    ]
    return [[f"row, after {budget:.3g}", PERPLEXITY, BLEU, "cooled down"], *rows]


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _costs(results: Results, speeds: Speeds | None) -> Rows:
    """The cooled-down scores with what they cost: operations as counted, and in the paper's way, seconds × a rate."""
    timed = ["s a step", "s a step, plain torch", "seconds × rate"] if speeds else []
    heading = ["row", PERPLEXITY, BLEU, "parameters", "without embeddings", "operations, counted", *timed]
    return [heading, *(_cost(row, each, speeds) for row, each in results.items())]


def _cost(row: str, results: Sequence[RowResult], speeds: Speeds | None) -> list[str]:
    result = results[0]
    scores = [_shown(_mean(results, metric)) for metric in (PERPLEXITY, BLEU)]
    sizes = [f"{result.parameters:,}", f"{without_embeddings(result):,}"]
    cells = [row, *scores, *sizes, f"{operations(result) * result.steps:.2e}"]
    if speeds is None:
        return cells
    each, plain = speeds.seconds_per_step.get(row), speeds.seconds_per_step.get(f"{row}{PLAIN}")
    paper = "" if each is None else f"{each * result.steps * speeds.rate:.2e}"
    return [*cells, *("" if value is None else f"{value:.3f}" for value in (each, plain)), paper]


def _mean(results: Sequence[RowResult], metric: str) -> float | None:
    values = [value for result in results if (value := result.value(metric)) is not None]
    return fmean(values) if values else None


def without_embeddings(result: RowResult) -> int:
    """The parameters that are no table with a row for each piece."""
    shapes = shapes_of_new(resolve(result.settings).model, result.vocab_size)
    return count({name: shape for name, shape in shapes.items() if result.vocab_size not in shape})


def unequal(results: Results) -> dict[str, float]:
    """The rows whose parameters differ from the first row's by more than a tenth, and by how much."""
    sizes = {row: each[0].parameters for row, each in results.items()}
    changes = {row: size / next(iter(sizes.values())) - 1 for row, size in sizes.items()}
    return {row: change for row, change in changes.items() if abs(change) > EQUAL}


def _bias(results: Results) -> Iterator[str]:
    """What must be known before the rows are compared."""
    yield (
        "At equal cost scores are read off the curves; a row that has not cooled down there would be better if it had "
        "been trained for just that cost. The cooled-down scores stand in the table of costs."
    )
    if rows := unequal(results):
        shown = ", ".join(f"{row} {100 * change:+.1f} %" for row, change in rows.items())
        yield f"Parameters are not equal within 10 % with this vocabulary: {shown}."
    if not TUNED:
        yield "Nothing is tuned: every system has the Transformer's learning rate and dropout (`heedful lab tuning`)."


def _chart(results: Results, name: str, axis: Axis) -> Curves:
    series = (Series(row, tuple(points(each, axis, BLEU))) for row, each in results.items())
    return Curves(
        title=f"table2: BLEU by {name} of training, mean over seeds",
        x=name,
        y="BLEU, validation",
        series=tuple(each for each in series if each.points),
    )


def _notes(speeds: Speeds | None, untimed: Sequence[str]) -> tuple[str, ...]:
    if speeds is None:
        of = f" of {', '.join(untimed)} with these settings" if untimed else ""
        return (f"No speeds{of}: `heedful lab table2 --time`, with nothing beside it, adds equal seconds.",)
    where = f"{speeds.machine.describe()}, {counted(speeds.threads, 'thread')}"
    return (f"Speeds: {where}; a large product sustains {speeds.rate / 1e9:.0f} GFLOP/s; code {speeds.commit}.",)


def _claims() -> Iterator[Claim]:
    """The order of Table 2, of what stands there and is here."""
    for row, baseline in CLAIMED:
        source = f"Table 2: {_printed(row)} against {_printed(baseline)}"
        yield _lower(row, baseline, source)
    yield _lower("gru", BASE, "§1: recurrent models are surpassed")
    yield _lower("one-vector", "gru", "Bahdanau 2015")


def _lower(system: str, than: str, source: str) -> Claim:
    return Claim(row=name_of(system), baseline=name_of(than), metric=BLEU, expected="lower", source=source)


def _printed(system: str) -> str:
    """`24.6 (GNMT + RL, another system)`."""
    found = SYSTEMS[system]
    return f"{found.bleu} ({found.stands_for})" if found.stands_for else f"{found.bleu}"


EQUAL = 0.1
CLAIMED = (("bytenet", BASE), ("lstm", BASE), ("convs2s", BASE), ("bytenet", "lstm"), ("lstm", "convs2s"))

TABLE2 = Experiment(
    name="table2",
    question="Does the Transformer beat the systems of its time at equal parameters, seconds and operations?",
    section="§6.1, Table 2",
    minutes=110,
    rows=tuple(map(row_of, SYSTEMS)),
    claims=tuple(_claims()),
    measures={COST: training_cost},
    more=costs,
    quick=tuple(map(name_of, (BASE, "convs2s", "gru"))),
)
