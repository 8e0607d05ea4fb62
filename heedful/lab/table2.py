"""Table 2 (§6.1): the Transformer against the systems that it replaces, at equal parameters, seconds and operations.

Every family reads the same pieces, trains on the same batches for the same number of steps, and has as many parameters
as the tiny Transformer (`systems.py`). Operations are counted of a batch. Seconds are those of `heedful lab table2
--time`, times the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from heedful.data.run_folder import CONFIG
from heedful.errors import counted
from heedful.lab.chart import Curves, Series, Spreads
from heedful.lab.experiment import BASE, Claim, Experiment, Results, Row
from heedful.lab.findings import Findings
from heedful.lab.flops import training_flops
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.row_result import RowResult
from heedful.lab.speeds import PLAIN, Speeds, load_speeds
from heedful.lab.systems import SYSTEMS, settings_of
from heedful.lab.trained import Trained
from heedful.model.checkpoint import load_config
from heedful.score.tables import Rows, Section

COST, OPERATIONS = "cost", "operations per target token"
Points = list[tuple[float, float]]


def training_cost(trained: Trained) -> dict[str, float]:
    """Operations of training, forward and backward, for one target token."""
    return {OPERATIONS: training_flops(trained.run, load_config(trained.run / CONFIG), 1)}


def costs(results: Results, folder: Path) -> Findings:
    """BLEU and perplexity over what they cost: a table at equal cost, and curves."""
    done = {row: each for row, each in results.items() if each and COST in each[0].measured}
    speeds = load_speeds(folder)
    axes: dict[str, Axis] = {"operations": operations}
    if speeds and set(done) <= set(speeds.seconds_per_step):
        axes["seconds"] = seconds(speeds)
    charts: dict[str, Curves | Spreads] = {f"bleu-by-{name}": _chart(done, name, axis) for name, axis in axes.items()}
    tables = [Section(f"At equal {name}", _equal(done, axis)) for name, axis in axes.items() if done]
    tables += [Section("Cost", _costs(done, speeds))] if done else []
    return Findings(tables=tuple(tables), charts=charts, notes=_notes(speeds))


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
        [row, *(_shown(read_off(curve[metric], budget)) for metric in (PERPLEXITY, BLEU))]
        for row, curve in curves.items()
    ]
    return [[f"row, after {budget:.3g}", PERPLEXITY, BLEU], *rows]


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _costs(results: Results, speeds: Speeds | None) -> Rows:
    """Operations as counted, and in the paper's way: seconds × a sustained rate."""
    timed = ["s a step", "s a step, plain torch", "seconds × rate"] if speeds else []
    heading = ["row", "parameters", "operations, counted", *timed]
    return [heading, *(_cost(row, each, speeds) for row, each in results.items())]


def _cost(row: str, results: Sequence[RowResult], speeds: Speeds | None) -> list[str]:
    result = results[0]
    cells = [row, f"{result.parameters:,}", f"{operations(result) * result.steps:.2e}"]
    if speeds is None:
        return cells
    each, plain = speeds.seconds_per_step.get(row), speeds.seconds_per_step.get(f"{row}{PLAIN}")
    paper = "" if each is None else f"{each * result.steps * speeds.rate:.2e}"
    return [*cells, *("" if value is None else f"{value:.3f}" for value in (each, plain)), paper]


def _chart(results: Results, name: str, axis: Axis) -> Curves:
    series = (Series(row, tuple(points(each, axis, BLEU))) for row, each in results.items())
    return Curves(
        title=f"table2: BLEU by {name} of training, mean over seeds",
        x=name,
        y="BLEU, validation",
        series=tuple(each for each in series if each.points),
    )


def _notes(speeds: Speeds | None) -> tuple[str, ...]:
    if speeds is None:
        return ("No speeds: `heedful lab table2 --time`, with nothing beside it, adds equal seconds.",)
    where = f"{speeds.machine.describe()}, {counted(speeds.threads, 'thread')}"
    return (f"Speeds: {where}; a large product sustains {speeds.rate / 1e9:.0f} GFLOP/s; code {speeds.commit}.",)


def _claims() -> Iterator[Claim]:
    """The order of Table 2, of what stands there and is here."""
    for row, baseline in CLAIMED:
        theirs, ours = SYSTEMS[row].bleu, SYSTEMS[baseline].bleu
        yield Claim(
            row=row, baseline=baseline, metric=BLEU, expected="lower", source=f"Table 2: {theirs} against {ours}"
        )
    yield Claim(row="gru", metric=BLEU, expected="lower", source="§1: recurrent models are surpassed")
    yield Claim(row="one-vector", baseline="gru", metric=BLEU, expected="lower", source="Bahdanau 2015")


CLAIMED = (("bytenet", BASE), ("lstm", BASE), ("convs2s", BASE), ("bytenet", "lstm"), ("lstm", "convs2s"))

TABLE2 = Experiment(
    name="table2",
    question="Does the Transformer beat the systems of its time at equal parameters, seconds and operations?",
    section="§6.1, Table 2",
    minutes=110,
    rows=tuple(Row(name, system.change, settings_of(name)) for name, system in SYSTEMS.items()),
    claims=tuple(_claims()),
    measures={COST: training_cost},
    more=costs,
    quick=(BASE, "convs2s", "gru"),
)
