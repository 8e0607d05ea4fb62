"""Parameters besides a text and its languages: which work, which are refused by name, and which are ignored.

An unsupported parameter that would change the translation is refused, because a client cannot see that its glossary was
ignored. Unknown names are ignored, as DeepL and LibreTranslate do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from heedful.serve.limits import RefusalError
from heedful.serve.parameters import Parameters
from heedful.translate.documents.paragraphs import Division

DIVISIONS: dict[str, Division] = {"0": "lines", "1": "lines and sentences", "nonewlines": "sentences"}
NO, YES = ("0", "false"), ("1", "true")
# Parameters of DeepL and of /api/trace that are refused whatever their value.
_DEEPL = (
    "context custom_instructions glossary_id glossary_ids ignore_tags non_splitting_tags splitting_tags style_id "
    "translation_memory_id translation_memory_threshold"
)
_OF_TRACE = "alpha beam_size prefix"
# Unsupported parameters, and the values of each that change nothing.
UNSUPPORTED: Mapping[str, Collection[str]] = {
    "formality": ("default", "prefer_more", "prefer_less"),
    "model_type": ("latency_optimized", "prefer_quality_optimized"),
    "outline_detection": YES,
    "preserve_formatting": NO,
    "tag_handling_version": ("v2",),
    **dict.fromkeys(_DEEPL.split() + _OF_TRACE.split(), ()),
}


def refuse_unsupported(given: Parameters, others: Mapping[str, Collection[str]]) -> None:
    """Refuse the first unsupported parameter that asks for a different translation."""
    for name, harmless in (*UNSUPPORTED.items(), *others.items()):
        for value in map(_plain, given.values.get(name, [])):
            if value and value not in harmless:
                raise RefusalError(400, _not_supported(name, value if harmless else ""))


def division(given: Parameters) -> Division | None:
    """How to divide the text, from `split_sentences`; None: by the default of its format."""
    value = ",".join(map(_plain, given.values.get("split_sentences", [])))
    value = {"false": "0", "true": "1"}.get(value, value)
    if value and value not in DIVISIONS:
        raise RefusalError(400, _not_supported("split_sentences", value))
    return DIVISIONS.get(value)


def _not_supported(name: str, value: str) -> str:
    return f"Value for '{name}' not supported: {value[:20]}" if value else f"Parameter '{name}' not supported"


def _plain(value: Any) -> str:
    """A value as a form would send it; null and empty values become an empty string."""
    return "" if value in (None, [], {}) else str(value).strip().lower()
