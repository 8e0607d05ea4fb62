"""Table 2 as an experiment: rivals of the same size, and scores read off at the same cost."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch

from heedful.config.setting_layers import preset, resolve
from heedful.lab.charts.chart import Curves
from heedful.lab.experiment import LabRequest
from heedful.lab.experiments.systems import SYSTEMS, TUNED, row_of
from heedful.lab.experiments.table2 import (
    COST,
    OPERATIONS,
    TABLE2,
    costs,
    operations,
    points,
    read_off,
    unequal,
    without_embeddings,
)
from heedful.lab.experiments.tuning import DROPOUTS, RATES, TUNING, best, name_of
from heedful.lab.findings import Findings
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.row_result import Conditions, Point, RowResult
from heedful.lab.rows import PRESET
from heedful.lab.speeds import FILE, PLAIN, Speeds, load_speeds, sustained_rate
from heedful.lab.text import CAPTION_PIECES
from heedful.model.parameter_count import count, shapes_of_new
from heedful.score.provenance import Machine
from tests.lab.results import row_result, scored


def parameters(row: str) -> int:
    layer = TABLE2.settings_of(TABLE2.row(row), LabRequest(Path("lab")))
    return count(shapes_of_new(resolve(preset(PRESET, layer), layer).model, CAPTION_PIECES))


@pytest.mark.parametrize("row", [row.name for row in TABLE2.rows])
def test_every_family_has_as_many_parameters_as_the_transformer_within_a_tenth(row: str) -> None:
    assert parameters(row) == pytest.approx(parameters("base"), rel=0.1)


def result(row: str, per_token: float, *bleus: float) -> RowResult:
    """100 steps of 10 tokens each between two validations."""
    curve = tuple(Point(100 * n, 50.0 - bleu, bleu) for n, bleu in enumerate(bleus, 1))
    steps = 100 * len(bleus)
    measured = {COST: {OPERATIONS: per_token}}
    return row_result(row=row, curve=curve, steps=steps, target_tokens=10 * steps, measured=measured)


RESULTS = {
    "base": [result("base", 2.0, 10.0, 20.0), result("base", 2.0, 12.0, 22.0)],
    "rival": [result("rival", 1.0, 8.0, 9.0)],
}


def test_a_step_costs_the_operations_of_its_tokens() -> None:
    assert operations(RESULTS["base"][0]) == 20.0
    assert points(RESULTS["base"], operations, BLEU) == [(2000.0, 11.0), (4000.0, 21.0)]
    assert points(RESULTS["base"], operations, PERPLEXITY) == [(2000.0, 39.0), (4000.0, 29.0)]


def test_a_curve_is_read_between_its_points_and_nowhere_else() -> None:
    curve = [(10.0, 1.0), (20.0, 3.0), (40.0, 7.0)]
    assert [read_off(curve, x) for x in (9.9, 10.0, 15.0, 30.0, 40.0, 40.1)] == [None, 1.0, 2.0, 5.0, 7.0, None]


def speeds(folder: Path, **seconds: float) -> None:
    machine = Machine(processor="any", cores=2, torch="2", python="3")
    settings = {row: row_result(row=row) for row in seconds}
    conditions: dict[str, Conditions] = {**settings}
    found = Speeds(seconds_per_step=seconds, rate=1e9, machine=machine, threads=2, commit="abc", conditions=conditions)
    (folder / FILE).write_bytes(msgspec.json.encode(found))


def test_scores_at_equal_operations_are_those_where_the_cheapest_ends(tmp_path: Path) -> None:
    found = costs(RESULTS, tmp_path)
    (equal,) = [section for section in found.tables if section.title == "At equal operations"]
    assert equal.rows == [
        ["row, after 2e+03", PERPLEXITY, BLEU, "cooled down"],
        ["base", "39.00", "11.00", "no"],
        ["rival", "41.00", "9.00", "yes"],
    ]
    assert list(found.charts) == ["bleu-by-operations"]
    assert "--time" in found.notes[0]


def test_with_speeds_there_are_equal_seconds_too_and_the_papers_way_of_counting(tmp_path: Path) -> None:
    speeds(tmp_path, **{"base": 0.5, "rival": 2.0, f"base{PLAIN}": 1.0})
    found = costs(RESULTS, tmp_path)
    sections = {section.title: section.rows for section in found.tables}
    assert sections["At equal seconds"][0][0] == "row, after 100"
    assert sections["At equal seconds"][1:] == [["base", "29.00", "21.00", "yes"], ["rival", "–", "–", "no"]]
    scores, (size, inner, *figures) = sections["Cost"][1][:3], sections["Cost"][1][3:]
    assert scores == ["base", "29.00", "21.00"]
    assert (size, figures) == ("1", ["4.00e+03", "0.500", "1.000", f"{0.5 * 200 * 1e9:.2e}"])
    assert int(inner.replace(",", "")) > 1_000_000, "the default is base, whose layers have 44 million"
    assert sections["Cost"][2][-2:] == ["", f"{2.0 * 200 * 1e9:.2e}"]
    chart = found.charts["bleu-by-seconds"]
    assert isinstance(chart, Curves)
    assert chart.series[1].points == ((200.0, 8.0), (400.0, 9.0))


def test_speeds_of_other_settings_leave_equal_seconds_out(tmp_path: Path) -> None:
    speeds(tmp_path, base=0.5, rival=2.0)
    wider = {row: [msgspec.structs.replace(each[0], settings={"model": {"d_ff": 96}})] for row, each in RESULTS.items()}
    found = costs(wider, tmp_path)
    assert [section.title for section in found.tables] == ["At equal operations", "Cost"]
    assert found.notes[0].startswith("No speeds of base, rival with these settings")
    reseeded = {
        row: [msgspec.structs.replace(each[0], settings={"train": {"seed": 2}})] for row, each in RESULTS.items()
    }
    assert "At equal seconds" in [section.title for section in costs(reseeded, tmp_path).tables]


def test_rows_of_other_sizes_are_named() -> None:
    sizes = {"base": 100, "small": 72, "like": 109}
    results = {row: [row_result(row=row, parameters=size)] for row, size in sizes.items()}
    assert unequal(results) == {"small": pytest.approx(-0.28)}


def test_parameters_without_embeddings_have_no_side_of_the_vocabularys_size() -> None:
    settings = {"model": {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}}
    one, other = (row_result(settings=settings, vocab_size=size) for size in (408, 808))
    assert without_embeddings(one) == without_embeddings(other)
    shapes = shapes_of_new(resolve(settings).model, 408)
    assert without_embeddings(one) == count(shapes) - 408 * 16


def test_a_tuned_system_is_another_row_and_its_rate_follows_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TUNED, "base", (0.5, 0.1))
    row, usual = row_of("base"), TABLE2.row("base")
    assert (row.name, usual.name) == ("base-tuned", "base")
    for request in (LabRequest(Path("lab")), LabRequest(Path("lab"), is_quick=True)):
        tuned, plain = (TABLE2.settings_of(each, request) for each in (row, usual))
        assert tuned["model"]["dropout"] == 0.1
        factors = [each["train"]["learning_rate_factor"] for each in (tuned, plain)]
        assert factors[0] == pytest.approx(factors[1] / 2, abs=1e-4)


def test_the_report_of_a_grid_names_the_best_place_of_each_system() -> None:
    results = {
        name_of("gru", rate, dropout): [scored("any", 1, 20.0 + abs(rate - 0.5) + dropout, 10.0)]
        for rate in RATES
        for dropout in DROPOUTS
    }
    found = best(results, Path())
    assert found.tables[0].rows[1:] == [["gru", "0.5", "0.1"]]
    assert "`TUNED = {'gru': (0.5, 0.1)}`" in found.notes[0]
    assert best({}, Path()) == Findings()


def test_a_grid_of_all_systems_fits_three_hours() -> None:
    request = LabRequest(Path("lab"), seeds=(1,))
    assert len(TUNING.rows) == len(SYSTEMS) * len(RATES) * len(DROPOUTS)
    share = TUNING.steps / TABLE2.steps * len(TUNING.rows) / (3 * len(TABLE2.rows))
    assert share * TABLE2.minutes <= 180
    assert TUNING.minutes * len(request.seeds) / 3 <= 180


def test_speeds_of_other_rows_leave_equal_seconds_out(tmp_path: Path) -> None:
    speeds(tmp_path, base=0.5)
    assert [section.title for section in costs(RESULTS, tmp_path).tables] == ["At equal operations", "Cost"]


def test_without_speeds_there_are_none_and_a_rate_is_a_number(tmp_path: Path) -> None:
    assert load_speeds(tmp_path) is None
    assert sustained_rate(torch.device("cpu")) > 1e8
