"""The experiment of Table 1: what it measures is kept, and its verdicts follow from what was measured."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from heedful.lab.experiment import LabRequest
from heedful.lab.findings import Judged
from heedful.lab.running import run_experiment
from heedful.lab.table1 import measuring as table1
from heedful.lab.table1.claims import judged
from heedful.lab.table1.complexity import KINDS, LSTM, PATHS, RECURRENT, SELF_ATTENTION, Kind, PathKind, Size
from heedful.lab.table1.growth import crossing, slope
from heedful.lab.table1.layer_costs import LayerCost
from heedful.lab.table1.measured_layers import MeasuredLayers

TINY = table1.Plan(table1.sweeps((16, 256, 288), (8, 16), (3, 5), d=16), (4, 9), seconds=0.0)


def predicted_cost(kind: Kind, size: Size) -> LayerCost:
    return LayerCost(
        operations=kind.operations(size),
        layer_operations=kind.operations(size) + kind.projections(size),
        longest_chain=kind.sequential(size),
        peak_bytes=1,
        seconds=kind.operations(size) / 1e9,
    )


def as_predicted() -> MeasuredLayers:
    """What would be measured if each closed form held."""
    plan = table1.FULL
    costs = {(kind.name, size): predicted_cost(kind, size) for kind, size in table1.layers(plan)}
    return MeasuredLayers(plan.sweeps, costs, {(path.name, n): path.length(n) for path, n in table1.paths(plan)})


def changed(
    measured: MeasuredLayers, kind: Kind, change: Callable[[Size, LayerCost], dict[str, float]]
) -> MeasuredLayers:
    """The same, where all costs of one kind are otherwise."""
    costs = {
        (name, size): structs.replace(cost, **change(size, cost)) if name == kind.name else cost
        for (name, size), cost in measured.costs.items()
    }
    return replace(measured, costs=costs)


def disagreeing(measured: MeasuredLayers) -> set[str]:
    return {each.claim for each in judged(measured) if each.verdict == "disagrees"}


def claim(words: str) -> Judged:
    (found,) = (each for each in judged(as_predicted()) if words in each.claim)
    return found


def test_the_closed_forms_disagree_with_the_paper_in_three_claims() -> None:
    assert disagreeing(as_predicted()) == {
        "ByteNet's dilations, which begin again at 1 after 16: longest path O(log_k n)",
        "while n < d, self-attention takes fewer operations, projections included, than a recurrent layer",
        "a convolutional layer is more expensive than a recurrent one by a factor of k",
    }


def test_self_attention_and_recurrence_cost_the_same_at_n_equal_to_d() -> None:
    assert claim("takes fewer operations than a recurrent").measured.endswith("equal at n = 512")
    assert claim("takes fewer operations than an LSTM").measured.endswith("equal at n = 2,048")
    assert claim("projections included, than an LSTM").measured.endswith("equal at n = 1,024")


def test_other_counts_than_predicted_disagree() -> None:
    """Each change turns its own claim, and no other."""
    measured, expected = as_predicted(), disagreeing(as_predicted())
    steeper = changed(measured, RECURRENT, lambda size, cost: {"operations": round(cost.operations * size.n**0.06)})
    assert "recurrent: O(n·d²) operations" in disagreeing(steeper)
    within = changed(measured, LSTM, lambda size, cost: {"operations": round(cost.operations * size.n**0.04)})
    assert disagreeing(within) == expected
    in_parallel = changed(measured, LSTM, lambda _size, _cost: {"longest_chain": 1})
    assert disagreeing(in_parallel) - expected == {"O(n) sequential operations: recurrent, LSTM"}
    waiting = changed(measured, SELF_ATTENTION, lambda size, _cost: {"longest_chain": size.n})
    assert [name.split(":")[0] for name in disagreeing(waiting) - expected] == ["O(1) sequential operations"]
    slow = changed(measured, SELF_ATTENTION, lambda _size, cost: {"seconds": 1e3 * cost.seconds})
    assert disagreeing(slow) == expected, "a time that was measured once decides nothing"
    times = {each.verdict for each in judged(slow) if "less time" in each.claim}
    assert times == {""}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_a_path_of_another_length_disagrees(path: PathKind) -> None:
    measured = as_predicted()
    longer = replace(measured, paths={**measured.paths, (path.name, 100): path.length(100) + 1})
    (turned,) = disagreeing(longer) - disagreeing(measured)
    assert turned == f"{path.name}: longest path {path.exact}"


def test_every_kind_is_measured_in_all_that_its_formula_depends_on() -> None:
    size, larger = Size(64, 32, 4, 8), {"n": 128, "d": 64, "k": 8, "r": 16}
    for kind in KINDS:
        orders = {name: kind.order(structs.replace(size, **{name: value})) for name, value in larger.items()}
        assert "".join(name for name, order in orders.items() if order != kind.order(size)) == kind.varies


@pytest.mark.slow
def test_a_lab_measures_each_row_once_and_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table1, "QUICK", TINY)
    monkeypatch.setattr("heedful.lab.report.missing", list)  # matplotlib: a second for the pictures
    request = LabRequest(output=tmp_path, is_quick=True, device="cpu", command="heedful lab table1 --quick")

    def run() -> str:
        done = run_experiment(table1.TABLE1, request, say=print, on_record=print, stop=lambda: False)
        assert done.is_whole
        return done.report.read_text(encoding="utf-8")

    report = run()
    assert "| self-attention: O(n²·d) operations | n^2.00 d^1.00 | n^2.00 d^1.00 | agrees |" in report
    assert "`heedful lab table1 --quick`" in report
    assert {path.name for path in (tmp_path / "table1").glob("*.svg")} >= {"operations-by-n.svg", "path-by-n.svg"}
    assert table1.measure(request, print, lambda: True) is None
    for measure in ("layer_cost", "path_length"):
        monkeypatch.delattr(table1, measure)
    assert run() == report


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_the_slope_of_a_power_is_its_exponent(exponent: float) -> None:
    assert slope([(x, 3 * x**exponent) for x in (16, 64, 100)]) == pytest.approx(exponent)


def test_a_crossing_lies_where_two_powers_are_equal() -> None:
    xs = (16, 64, 256, 1024)
    linear = [(x, 100.0 * x) for x in xs]
    assert crossing([(x, x**2) for x in xs], linear) == pytest.approx(100)
    assert crossing(linear, linear) is None
    assert crossing([(x, x) for x in xs], linear) is None
    assert crossing(linear, [(x, x**2) for x in xs]) is None
