"""From results to verdicts: what is told, by how much, and what is not."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from heedful.lab.chart import Spreads
from heedful.lab.experiment import BASE, Claim, Experiment, Row
from heedful.lab.judgement import Measured, findings_of, judged
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.row_result import RowResult
from tests.lab.results import row_result, scored

EXPERIMENT = Experiment(
    name="any",
    question="?",
    section="§1",
    minutes=1,
    rows=(Row(BASE), Row("worse", "a worse one"), Row("alike")),
    claims=(
        Claim(row="worse", metric=PERPLEXITY, expected="higher", source="paper"),
        Claim(row="worse", metric=BLEU, expected="higher", source="paper"),
        Claim(row="alike", metric=BLEU, expected="same", source="paper", margin=3.0),
    ),
    quick=(BASE,),
)
RESULTS = [
    *(scored(BASE, seed, 20.0 + 0.1 * seed, 15.0 + 0.1 * seed) for seed in (1, 2, 3)),
    *(scored("worse", seed, 30.0 + 0.1 * seed, 10.0 - 0.1 * seed) for seed in (1, 2, 3)),
    *(scored("alike", seed, 20.1 - 0.1 * seed, 15.1 + 0.1 * seed) for seed in (3, 1, 2)),
]


def verdicts(results: list[RowResult]) -> list[str]:
    return [each.verdict for each in judged(Measured.of(EXPERIMENT, results))]


def test_a_claim_agrees_disagrees_or_cannot_be_told() -> None:
    assert verdicts(RESULTS) == ["agrees", "disagrees", "agrees"]
    noisy = [
        *RESULTS[:3],
        *(scored("worse", seed, 10.0 + 5 * seed, 9.0 + 3 * seed) for seed in (1, 2, 3)),
        *RESULTS[6:],
    ]
    assert verdicts(noisy) == ["cannot be told"] * 3


def test_what_was_measured_is_a_difference_with_its_interval_of_perplexities_in_percent() -> None:
    perplexity, bleu, _ = judged(Measured.of(EXPERIMENT, RESULTS))
    change, low, high = map(float, re.findall(r"([+-]\d+\.\d+)", perplexity.measured))
    assert low < change < high
    assert change == pytest.approx(100 * (30.2 / 20.2 - 1), abs=0.1)
    assert bleu.measured.startswith("-5.40 [")
    assert "could have shown" in bleu.measured
    assert (perplexity.claim, perplexity.predicted) == ("a worse one: perplexity against base", "higher (paper)")


def test_one_seed_of_a_row_says_nothing_of_it_and_the_others_are_still_told() -> None:
    assert verdicts([*RESULTS[:4], *RESULTS[6:]]) == ["cannot be told", "cannot be told", "agrees"]
    assert verdicts([]) == ["cannot be told"] * 3


def test_a_seed_that_diverged_is_left_out_and_marked() -> None:
    results = [*RESULTS, row_result(row="worse", seed=4, diverged="not finite")]
    assert verdicts(results) == verdicts(RESULTS)
    table = findings_of(EXPERIMENT, results, Path()).tables[0].rows
    assert table[2] == ["worse", "a worse one", "1", "30.20 ± 0.10", "9.80 ± 0.10", "1", "1, 2, 3, 4 (diverged)"]


def test_seeds_come_in_their_order_and_without_verdicts_there_are_no_claims() -> None:
    found = findings_of(EXPERIMENT, RESULTS, Path(), has_verdicts=False)
    assert found.judged == ()
    chart = found.charts["bleu"]
    assert isinstance(chart, Spreads)
    assert chart.rows["alike"] == pytest.approx((15.2, 15.3, 15.4))
    assert list(chart.rows) == ["base", "worse: a worse one", "alike"]


def test_the_notes_tell_the_pooled_spread() -> None:
    notes = findings_of(EXPERIMENT, RESULTS, Path()).notes
    assert "Spread of BLEU between seeds, pooled over all rows: 0.10 (6 degrees of freedom)." in notes


def test_a_metrics_chart_has_a_name_for_a_file() -> None:
    claim = Claim(row="worse", metric="heads.pronouns, %", expected="lower", source="paper")
    experiment = msgspec.structs.replace(EXPERIMENT, claims=(claim,))
    measured = {"heads": {"pronouns, %": 80.0}}
    results = [msgspec.structs.replace(result, measured=measured) for result in RESULTS]
    assert "heads-pronouns" in findings_of(experiment, results, Path()).charts
