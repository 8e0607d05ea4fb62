"""Is one system better than another, or was it luck? Paired bootstrap resampling (Koehn, 2004), as sacreBLEU does it.

It needs no text, only what BLEU and chrF count in each sentence, which is small enough to keep. `packed_counts` makes
these counts from text once; `paired_bootstrap` compares two systems that translated the same lines.
"""

from __future__ import annotations

import base64
import lzma
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from heedful.errors import DataError
from heedful.score.scores import NUM_RESAMPLES, Chrf, References, bleu_metric

SEED = 12345  # sacreBLEU's
BLEU, CHRF = "BLEU", "chrF2"
_COLUMNS = {BLEU: 10, CHRF: 18}
_LIKE_COLUMNS = {BLEU: 1, CHRF: 3}  # how many columns before a number the one that it resembles stands

MetricCounts = npt.NDArray[np.int64]


class Comparison(Struct, frozen=True):
    """The difference from the baseline, and how likely it is by chance: sacreBLEU's one-sided p."""

    difference: float
    p_value: float


def packed_counts(hypotheses: Sequence[str], references: References, *, tokenizer: str) -> dict[str, str]:
    """The counts of each metric for each sentence as short text: 32-bit integers, xz, base64."""
    metrics = {BLEU: bleu_metric(tokenizer), CHRF: Chrf()}
    counts = {name: metric._extract_corpus_statistics(hypotheses, references) for name, metric in metrics.items()}
    return {name: _pack(np.array(table), distance=4 * _LIKE_COLUMNS[name]) for name, table in counts.items()}


def _pack(counts_NC: MetricCounts, *, distance: int) -> str:
    filters = [{"id": lzma.FILTER_DELTA, "dist": distance}, {"id": lzma.FILTER_LZMA2, "preset": 9}]
    return base64.b64encode(lzma.compress(counts_NC.astype("<i4").tobytes(), filters=filters)).decode()


def unpack(metric: str, packed: str) -> MetricCounts:
    """The counts of a metric, one row for each sentence."""
    try:
        numbers = np.frombuffer(lzma.decompress(base64.b64decode(packed, validate=True)), "<i4")
        return numbers.reshape(-1, _COLUMNS[metric]).astype(np.int64)
    except (ValueError, KeyError, lzma.LZMAError):
        raise DataError(f"the sentences' counts of {metric} are damaged") from None


def score(metric: str, counts_NC: MetricCounts) -> float:
    """The metric of a whole text, from the counts of its sentences."""
    return _score(_metric(metric), counts_NC.sum(0))


def paired_bootstrap(metric: str, baseline_NC: MetricCounts, system_NC: MetricCounts) -> Comparison:
    """Draw the same sentences for both systems, many times, and count how often they differ this much by chance.

    As in sacreBLEU, a draw counts if its distance exceeds the mean distance by more than the difference. For a clear
    difference that is one tail, so p is half of that of a two-sided test.
    """
    if len(baseline_NC) != len(system_NC):
        raise DataError(f"{len(baseline_NC)} and {len(system_NC)} sentences cannot be compared one by one")
    difference = score(metric, system_NC) - score(metric, baseline_NC)
    if difference == 0:
        return Comparison(0.0, 1.0)
    num, scorer = len(system_NC), _metric(metric)
    draws = np.random.default_rng(SEED).choice(num, size=(NUM_RESAMPLES, num), replace=True)
    baseline, system = (
        np.array([_score(scorer, counts_NC[draw].sum(0)) for draw in draws]) for counts_NC in (baseline_NC, system_NC)
    )
    distances = np.abs(system - baseline)
    by_chance = int(np.sum(distances - distances.mean() > abs(difference)))
    return Comparison(difference, (by_chance + 1) / (NUM_RESAMPLES + 1))


def _metric(name: str) -> Any:
    return bleu_metric("none") if name == BLEU else Chrf()  # counts are made: the tokenizer no longer matters


def _score(metric: Any, sums_C: MetricCounts) -> float:
    return float(metric._compute_score_from_stats(sums_C.tolist()).score)
