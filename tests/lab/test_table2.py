"""Table 2 as an experiment: rivals of the same size, and scores read off at the same cost."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch

from heedful.config.setting_layers import preset, resolve
from heedful.lab.chart import Curves
from heedful.lab.experiment import LabRequest
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.row_result import Point, RowResult
from heedful.lab.rows import PRESET
from heedful.lab.speeds import FILE, PLAIN, Speeds, load_speeds, sustained_rate
from heedful.lab.table2 import COST, OPERATIONS, TABLE2, costs, operations, points, read_off
from heedful.lab.text import CAPTION_PIECES
from heedful.model.parameter_count import count, shapes_of_new
from heedful.score.provenance import Machine
from tests.lab.results import row_result


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
    found = Speeds(seconds_per_step=seconds, rate=1e9, machine=machine, threads=2, commit="abc")
    (folder / FILE).write_bytes(msgspec.json.encode(found))


def test_scores_at_equal_operations_are_those_where_the_cheapest_ends(tmp_path: Path) -> None:
    found = costs(RESULTS, tmp_path)
    (equal,) = [section for section in found.tables if section.title == "At equal operations"]
    assert equal.rows == [
        ["row, after 2e+03", PERPLEXITY, BLEU],
        ["base", "39.00", "11.00"],
        ["rival", "41.00", "9.00"],
    ]
    assert list(found.charts) == ["bleu-by-operations"]
    assert "--time" in found.notes[0]


def test_with_speeds_there_are_equal_seconds_too_and_the_papers_way_of_counting(tmp_path: Path) -> None:
    speeds(tmp_path, **{"base": 0.5, "rival": 2.0, f"base{PLAIN}": 1.0})
    found = costs(RESULTS, tmp_path)
    sections = {section.title: section.rows for section in found.tables}
    assert sections["At equal seconds"][0][0] == "row, after 100"
    assert sections["At equal seconds"][1:] == [["base", "29.00", "21.00"], ["rival", "–", "–"]]
    assert sections["Cost"][1] == ["base", "1", "4.00e+03", "0.500", "1.000", f"{0.5 * 200 * 1e9:.2e}"]
    assert sections["Cost"][2][-2:] == ["", f"{2.0 * 200 * 1e9:.2e}"]
    chart = found.charts["bleu-by-seconds"]
    assert isinstance(chart, Curves)
    assert chart.series[1].points == ((200.0, 8.0), (400.0, 9.0))


def test_speeds_of_other_rows_leave_equal_seconds_out(tmp_path: Path) -> None:
    speeds(tmp_path, base=0.5)
    assert [section.title for section in costs(RESULTS, tmp_path).tables] == ["At equal operations", "Cost"]


def test_without_speeds_there_are_none_and_a_rate_is_a_number(tmp_path: Path) -> None:
    assert load_speeds(tmp_path) is None
    assert sustained_rate(torch.device("cpu")) > 1e8
