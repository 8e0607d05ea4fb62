"""The output of a line: its translation, an n-best list, or a JSON record."""

from __future__ import annotations

import json

from heedful.translate.json_records import Details
from heedful.translate.translation import Translation

FORMS = ("text", "nbest", "jsonl")


def formatted(form: str, number: int, translation: Translation, details: Details | None) -> list[str]:
    """text: the best one; nbest: `i ||| text ||| features ||| score` as Moses writes it; jsonl: all there is."""
    if form == "text":
        return [translation.text]
    if details is not None and form == "jsonl":
        return [json.dumps(details.record(translation), ensure_ascii=False)]
    # A blank line has one translation, a blank one, which is certain: no number is missing.
    found = [(h.text, h.log_prob, h.score) for h in translation.hypotheses] or [("", 0.0, 0.0)]
    return [f"{number} ||| {text} ||| logprob={log_prob:.4f} ||| {score:.4f}" for text, log_prob, score in found]
