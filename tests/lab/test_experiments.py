"""The experiments as they are declared: they can be run, and rows that share a name are the same."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from heedful.config.setting_layers import preset, resolve
from heedful.config.settings import Config
from heedful.errors import ConfigError
from heedful.lab.catalogue import ALL, EXPERIMENTS, chosen
from heedful.lab.experiment import BASE, Experiment, LabRequest, Row
from heedful.lab.experiments.projections import ONE, share_left
from heedful.lab.experiments.table3 import ROWS, TABLE3, claims, expected
from heedful.lab.findings import Findings
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.rows import PRESET
from heedful.model.parameter_count import count, shapes_of_new
from tests.lab.results import scored

FULL = LabRequest(Path("lab"))
TRAINED = [experiment for experiment in EXPERIMENTS if experiment.rows]


def config(experiment: Experiment, row: Row, request: LabRequest = FULL) -> Config:
    layer = experiment.settings_of(row, request)
    return resolve(preset(PRESET, layer), layer)


@pytest.mark.parametrize("experiment", TRAINED, ids=lambda each: each.name)
def test_every_row_can_be_trained_and_cools_down_over_its_last_half(experiment: Experiment) -> None:
    for request in (FULL, LabRequest(Path("lab"), is_quick=True)):
        for row in experiment.chosen_rows(request):
            train = config(experiment, row, request).train
            assert train.cooldown_steps == train.steps // 2
            assert train.average_last == 1
            assert train.steps % train.validate_steps == 0


def test_the_model_of_every_row_can_be_built() -> None:
    models = {config(experiment, row).model for experiment in TRAINED for row in experiment.rows}
    sizes = {msgspec.structs.replace(model, dropout=0.0) for model in models}
    assert len(sizes) > 30
    assert all(count(shapes_of_new(model, 400)) > 1_000 for model in sizes)


@pytest.mark.parametrize("experiment", TRAINED, ids=lambda each: each.name)
def test_claims_and_quick_rows_are_about_rows_that_there_are(experiment: Experiment) -> None:
    names = [row.name for row in experiment.rows]
    assert len(set(names)) == len(names)
    assert {name for claim in experiment.claims for name in (claim.row, claim.baseline)} <= set(names)
    assert set(experiment.quick) <= set(names)
    assert experiment.quick
    assert all(claim.margin > 0 for claim in experiment.claims if claim.expected == "same")


def test_rows_of_one_name_and_text_are_the_same_in_all_experiments() -> None:
    """They share a folder, so that no experiment trains them again."""
    seen: dict[tuple[str, bool, str], Config] = {}
    for experiment in TRAINED:
        for row in experiment.rows:
            place = (experiment.text_of(row).name, experiment.has_own_text, row.name)
            assert seen.setdefault(place, config(experiment, row)) == config(experiment, row), place


def test_names_are_told_apart_and_all_is_every_one() -> None:
    names = [experiment.name for experiment in EXPERIMENTS]
    assert len(set(names)) == len(names)
    assert ALL not in names
    assert [each.name for each in EXPERIMENTS if each not in chosen(ALL)] == ["tuning"]
    assert [each.name for each in chosen("table3")] == ["table3"]
    with pytest.raises(ConfigError, match="there is no experiment 'smothing'; did you mean smoothing"):
        chosen("smothing")


@pytest.mark.parametrize(
    ("bleu", "said"),
    [(0.0, "0% of the BLEU: impossible"), (9.0, "45% of the BLEU: impossible"), (18.0, "90% of the BLEU: not imp")],
)
def test_one_vector_is_impossible_if_less_than_half_of_the_bleu_is_left(bleu: float, said: str) -> None:
    results = {BASE: [scored(BASE, 1, 5.0, 20.0)], ONE: [scored(ONE, 1, 5.0, bleu)]}
    (note,) = share_left(results, Path()).notes
    assert said in note
    assert share_left({BASE: results[BASE]}, Path()) == Findings()


# -------------------------------------------------------------------------------------------------------------- table3


def test_the_predictions_are_the_signs_of_the_papers_large_differences() -> None:
    assert expected(PERPLEXITY, 5.29, 4.92) == "higher"
    assert expected(BLEU, 24.9, 25.8) == "lower"
    assert [claim.source for claim in claims(ROWS[0])] == ["A, h 1: 5.29 against 4.92", "A, h 1: 24.9 against 25.8"]


def test_nearly_equal_perplexities_are_the_same_and_what_lies_between_is_not_judged() -> None:
    assert expected(PERPLEXITY, 4.92, 4.92) == expected(PERPLEXITY, 4.91, 4.92) == "same"
    assert expected(PERPLEXITY, 5.00, 4.92) is expected(PERPLEXITY, 4.88, 4.92) is None
    assert expected(BLEU, 25.8, 25.8) is expected(BLEU, 25.4, 25.8) is None
    judged = {claim.row for claim in TABLE3.claims}
    assert not judged & {"h2", "N3", "dropout0.4"}
    assert {"h1", "N1", "dropout0", "learned"} <= judged


def test_no_comparison_is_judged_twice() -> None:
    """Each belongs to one family of claims, by which it is corrected."""
    seen: dict[tuple[str, ...], str] = {}
    for experiment in TRAINED:
        for claim in experiment.claims:
            comparison = (experiment.text_of(experiment.row(claim.row)).name, claim.metric)
            key = (*comparison, *sorted((claim.row, claim.baseline)))
            assert seen.setdefault(key, experiment.name) == experiment.name, key
        assert len({(claim.row, claim.baseline, claim.metric) for claim in experiment.claims}) == len(experiment.claims)


def test_each_row_of_table_3_changes_one_thing_of_the_base() -> None:
    base = TABLE3.row(BASE)
    assert base.settings == {}
    for row in TABLE3.rows[1:]:
        (fields,) = row.settings.values()
        assert len(fields) == 1
        assert config(TABLE3, row) != config(TABLE3, base)


def test_rows_of_a_group_are_in_the_papers_order() -> None:
    """Within A to E, which are in the order of the alphabet."""
    letters = [each.paper[0] for each in ROWS]
    assert all(before <= after for before, after in pairwise(letters))
    assert set(letters) == set("ABCDE")
