"""What a finished row leaves: a small JSON with its scores, and all that must agree before they are used again.

Scores of one table come from the same text, precision and torch version, and from the settings that the experiment
has now. A result that differs in one of them is refused with the difference; it is never mixed in, nor replaced
unasked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from heedful.config.setting_layers import Layer, resolve, to_layer
from heedful.config.settings import TEXT_FILES, Config
from heedful.data.atomic import explained, write_file
from heedful.errors import CheckpointError
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.score.provenance import Machine

FORMAT = 1
OF_PLACES = {"data": (*TEXT_FILES, "source_language", "target_language"), "tokenizer": ("model",)}


class Point(Struct, frozen=True):
    """A validation on the way: perplexity per piece, and BLEU of greedy translations."""

    step: int
    perplexity: float | None  # None: it was no finite number
    bleu: float | None


class Conditions(Struct, frozen=True, kw_only=True):
    """What must agree before a result is used again."""

    settings: Layer
    text_sha256: str
    precision: str
    torch: str
    vocabulary: str = ""  # its fingerprint; empty in results that are older than this field


class RowResult(Conditions, frozen=True, kw_only=True):
    """One row with one seed."""

    format: int = FORMAT
    row: str
    seed: int
    text: str
    parameters: int
    vocab_size: int
    steps: int
    target_tokens: int
    seconds: float
    curve: tuple[Point, ...]
    diverged: str = ""  # why training ended early
    measured: dict[str, dict[str, float]] = {}  # by what was measured besides
    machine: Machine
    version: str
    commit: str
    date: str
    command: str

    def value(self, metric: str) -> float | None:
        """The last perplexity or BLEU; another metric is `measure.name`."""
        if self.diverged:
            return None
        if metric == PERPLEXITY:
            return self.curve[-1].perplexity
        if metric == BLEU:
            return self.curve[-1].bleu
        measure, _, name = metric.partition(".")
        return self.measured.get(measure, {}).get(name)


def comparable(config: Config) -> Layer:
    """The settings that make a row what it is; where its text lies is not among them."""
    layer = to_layer(config)
    has_named_tokenizer = bool(config.tokenizer.model)
    for section, fields in OF_PLACES.items():
        for name in fields:
            layer[section].pop(name)
    if has_named_tokenizer:
        layer["tokenizer"].pop("vocab_size")
    return layer


def differences(kept: Conditions, wanted: Conditions) -> Iterator[str]:
    """What a kept result was made with that is now otherwise, in words."""
    yield from differing_settings(kept.settings, wanted.settings)
    facts = {
        "the text": (kept.text_sha256[:8], wanted.text_sha256[:8]),
        "the precision": (kept.precision, wanted.precision),
        "torch": (release(kept.torch), release(wanted.torch)),
    }
    if kept.vocabulary and wanted.vocabulary:
        facts["the vocabulary"] = kept.vocabulary[:8], wanted.vocabulary[:8]
    for name, (before, now) in facts.items():
        if before != now:
            yield f"{name} is {now}, was {before}"


def differing_settings(kept: Layer, wanted: Layer) -> Iterator[str]:
    """`train.steps = 800, was 600`, for each setting; one newer than the result had its default."""
    before, now = (flat(to_layer(resolve(layer), keep_none=True)) for layer in (kept, wanted))
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            yield f"{name} = {now.get(name)}, was {before.get(name)}"


def flat(layer: Layer) -> dict[str, Any]:
    """The settings of a layer by their full names."""
    return {f"{section}.{name}": value for section, fields in layer.items() for name, value in fields.items()}


def release(torch_version: str) -> str:
    """The version without the build: 2.13.0+cpu → 2.13.0."""
    return torch_version.partition("+")[0]


def save(path: Path, result: RowResult) -> None:
    """Write the JSON, whole or not at all."""
    with explained(path, CheckpointError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


def load(path: Path) -> RowResult | None:
    """The kept result, if there is one."""
    try:
        result = msgspec.json.decode(path.read_bytes(), type=RowResult)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(
            f"{path}: cannot be read as the result of a row ({reason}); --redo makes it again"
        ) from None
    if result.format != FORMAT:
        raise CheckpointError(f"{path}: a result of format {result.format}, and this version reads {FORMAT}")
    return result
