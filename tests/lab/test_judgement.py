"""From results to verdicts: what is told, by how much, and what is not."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from heedful.lab.charts.chart import Spreads
from heedful.lab.experiment import BASE, Claim, Experiment, Row
from heedful.lab.judgement import Measured, findings_of, judged
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.row_result import Point, RowResult
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


def test_could_have_confirmed_a_margin_is_said_of_what_is_to_be_the_same() -> None:
    *_, alike = judged(Measured.of(EXPERIMENT, RESULTS))
    assert alike.predicted == "same within 3.00 (paper)"
    assert re.search(r"; could have confirmed ± \d+\.\d\d$", alike.measured)


def test_one_seed_of_a_row_says_nothing_of_it_and_the_others_are_still_told() -> None:
    assert verdicts([*RESULTS[:4], *RESULTS[6:]]) == ["cannot be told", "cannot be told", "agrees"]
    assert verdicts([]) == ["cannot be told"] * 3
    (perplexity, *_) = judged(Measured.of(EXPERIMENT, [each for each in RESULTS if each.seed == 1]))
    assert perplexity.measured == "too few seeds"


def test_a_row_with_a_seed_that_diverged_is_marked_and_not_judged_by_the_others() -> None:
    results = [*RESULTS[:5], row_result(row="worse", seed=3, diverged="not finite"), *RESULTS[6:]]
    assert verdicts(results) == ["cannot be told", "cannot be told", "agrees"]
    (perplexity, *_) = judged(Measured.of(EXPERIMENT, results))
    assert perplexity.measured == "a worse one: diverged with seed 3"
    table = findings_of(EXPERIMENT, results, Path()).tables[0].rows
    assert table[2] == ["worse", "a worse one", "1", "30.15 ± 0.07", "9.85 ± 0.07", "1", "1, 2, 3 (diverged)"]


def test_a_row_with_a_perplexity_that_is_no_number_is_not_judged_by_it() -> None:
    infinite = row_result(row="worse", seed=3, curve=(Point(100, None, 9.7),))
    results = [*RESULTS[:5], infinite, *RESULTS[6:]]
    assert verdicts(results) == ["cannot be told", "disagrees", "agrees"]
    (perplexity, *_) = judged(Measured.of(EXPERIMENT, results))
    assert perplexity.measured == "a worse one: no value with seed 3"


def test_where_every_seed_diverged_nothing_is_claimed_of_any_metric() -> None:
    claims = tuple(
        Claim(row="worse", metric=metric, expected=expected, source="paper")
        for metric in (PERPLEXITY, "softmax.gradient", "heads.mean loss of BLEU")
        for expected in ("higher", "lower")
    )
    results = [*RESULTS[:3], *(row_result(row="worse", seed=seed, diverged="not finite") for seed in (1, 2, 3))]
    found = [*judged(Measured.of(msgspec.structs.replace(EXPERIMENT, claims=claims), results))]
    assert {each.verdict for each in found} == {"cannot be told"}
    assert found[0].measured == "a worse one: diverged with every seed"


def test_claims_about_bleu_cost_claims_about_perplexity_nothing() -> None:
    """Each family is corrected by itself."""
    bleu = Claim(row="alike", metric=BLEU, expected="higher", source="paper")
    more = msgspec.structs.replace(EXPERIMENT, claims=(*EXPERIMENT.claims, *[bleu] * 50))
    few, many = (next(judged(Measured.of(each, RESULTS))) for each in (EXPERIMENT, more))
    assert few == many


def test_a_noisy_row_does_not_blur_the_others_and_is_judged_with_its_baseline_alone() -> None:
    rows = (*EXPERIMENT.rows, Row("fourth"), Row("wild"))
    wild = Claim(row="wild", metric=PERPLEXITY, expected="higher", source="paper")
    experiment = msgspec.structs.replace(EXPERIMENT, rows=rows, claims=(*EXPERIMENT.claims, wild))
    fourth = [scored("fourth", seed, value, 12.0) for seed, value in ((1, 21.0), (2, 21.2), (3, 20.9))]
    results = [*RESULTS, *fourth, *(scored("wild", seed, (25.0, 60.0, 22.0)[seed - 1], 10.0) for seed in (1, 2, 3))]
    measured = Measured.of(experiment, results)
    assert [each.verdict for each in judged(measured)][::3] == ["agrees", "cannot be told"]
    alone, steady = (measured.difference(row, BASE, PERPLEXITY) for row in ("wild", "worse"))
    assert alone
    assert steady
    assert (alone.freedom, steady.freedom) == (2, 6)
    assert any("noisier: wild" in note for note in findings_of(experiment, results, Path()).notes)


def test_what_is_measured_besides_is_judged_with_the_two_rows_alone() -> None:
    measured = Measured.of(
        EXPERIMENT,
        [
            msgspec.structs.replace(result, measured={"any": {"value": 0.0 if result.row == "alike" else result.seed}})
            for result in RESULTS
        ],
    )
    found = measured.difference("alike", BASE, "any.value")
    assert found
    assert (found.value, found.freedom) == (-2.0, 2)
    assert found.error == pytest.approx(1 / 3**0.5), "the paired t-test: a row without noise lends none to the other"


def test_seeds_come_in_their_order_and_without_verdicts_there_are_no_claims() -> None:
    found = findings_of(EXPERIMENT, RESULTS, Path(), has_verdicts=False)
    assert found.judged == ()
    chart = found.charts["bleu"]
    assert isinstance(chart, Spreads)
    assert chart.rows["alike"] == pytest.approx((15.2, 15.3, 15.4))
    assert list(chart.rows) == ["base", "worse: a worse one", "alike"]


def test_the_notes_tell_the_noise_and_the_digest_of_the_claims() -> None:
    notes = findings_of(EXPERIMENT, RESULTS, Path()).notes
    assert any(note.startswith("Noise of BLEU") and "(4 degrees of freedom; rows from " in note for note in notes)
    other = msgspec.structs.replace(EXPERIMENT, claims=EXPERIMENT.claims[:2])
    assert findings_of(other, RESULTS, Path()).notes[-1] != notes[-1]
    assert re.search(r"Claims: SHA-256 [0-9a-f]{8}\.$", notes[-1])


def test_a_metrics_chart_has_a_name_for_a_file() -> None:
    claim = Claim(row="worse", metric="heads.pronouns, %", expected="lower", source="paper")
    experiment = msgspec.structs.replace(EXPERIMENT, claims=(claim,))
    measured = {"heads": {"pronouns, %": 80.0}}
    results = [msgspec.structs.replace(result, measured=measured) for result in RESULTS]
    assert "heads-pronouns" in findings_of(experiment, results, Path()).charts
