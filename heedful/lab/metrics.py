"""The metrics that rows are compared by. `measure.name` is what an experiment measures besides these two."""

from __future__ import annotations

import math

PERPLEXITY, BLEU = "perplexity", "BLEU"


def is_perplexity(metric: str) -> bool:
    """Whether a metric is compared by its logarithm, which spreads alike at 10 and at 30."""
    return PERPLEXITY in metric


def family(metric: str) -> str:
    """The claims of an experiment about metrics of one family are corrected together."""
    return next((each for each in (PERPLEXITY, BLEU) if each in metric), "")


def scale(metric: str, value: float) -> float:
    """A value on the scale on which its metric is compared."""
    return math.log(value) if is_perplexity(metric) else value
