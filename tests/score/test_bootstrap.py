"""Paired bootstrap from kept counts is sacreBLEU's own, which needs the text."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from heedful.errors import DataError
from heedful.score.bootstrap import packed_counts, paired_bootstrap, score, unpack
from heedful.score.scores import bleu, chrf

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "tree", "blue", "old", ",", ".", "-"]


def lines(seed: int, num: int = 80) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 14))) for _ in range(num)]


def damaged(text: list[str], share: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(w if draw.random() > share else draw.choice(WORDS) for w in line.split()) for line in text]


REFERENCE = lines(1)
BASELINE, SYSTEM = damaged(REFERENCE, 0.35, 2), damaged(REFERENCE, 0.3, 3)


def test_the_kept_counts_give_the_scores_of_the_text() -> None:
    packed = packed_counts(SYSTEM, [REFERENCE], tokenizer="13a")
    assert score("BLEU", unpack("BLEU", packed["BLEU"])) == pytest.approx(bleu(SYSTEM, [REFERENCE]).value, abs=1e-12)
    assert score("chrF2", unpack("chrF2", packed["chrF2"])) == pytest.approx(chrf(SYSTEM, [REFERENCE]).value, abs=1e-12)


def test_the_kept_counts_are_short() -> None:
    packed = packed_counts(lines(4, 1000), [lines(5, 1000)], tokenizer="13a")
    assert sum(map(len, packed.values())) < 15_000


def test_paired_bootstrap_equals_sacrebleus() -> None:
    packed = [packed_counts(text, [REFERENCE], tokenizer="13a") for text in (BASELINE, SYSTEM)]
    metrics = {"BLEU": BLEU(force=True), "chrF2": CHRF()}
    _, theirs = PairedTest([("a", BASELINE), ("b", SYSTEM)], metrics, [REFERENCE], test_type="bs", n_samples=1000)()
    for name in metrics:
        ours = paired_bootstrap(name, *(unpack(name, each[name]) for each in packed))
        baseline, system = theirs[name]
        assert ours.p_value == pytest.approx(system.p_value)
        assert ours.difference == pytest.approx(system.score - baseline.score)
        assert 0 < ours.p_value < 1


def test_a_system_against_itself_is_no_better() -> None:
    counts = unpack("BLEU", packed_counts(SYSTEM, [REFERENCE], tokenizer="13a")["BLEU"])
    same = paired_bootstrap("BLEU", counts, counts)
    assert (same.difference, same.p_value) == (0.0, 1.0)


def test_what_cannot_be_compared_or_read_is_refused() -> None:
    counts = np.ones((3, 10), dtype=np.int64)
    with pytest.raises(DataError, match="3 and 2 sentences"):
        paired_bootstrap("BLEU", counts, counts[:2])
    with pytest.raises(DataError, match="damaged"):
        unpack("BLEU", "bm9uc2Vuc2U=")
