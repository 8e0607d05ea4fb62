"""heedful: the system of "Attention Is All You Need", from two text files to a translator.

    heedful.train(source, target, output)           two text files → a run folder with a model in it
    heedful.Translator.load(path).translate(texts)  text → text
    heedful.evaluate(hypotheses, references)        BLEU, chrF, TER with signatures
    heedful.evaluate_saved(path, source, reference) the same of a model's translations, kept on its card
    heedful.load_card(path)                         what a model was made from, and its scores

Names are imported when they are first used (PEP 562), so that `heedful --help` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heedful.alignment import Aligner, pharaoh
    from heedful.alternatives import alternatives_at, word_confidences
    from heedful.api import evaluate_saved, train
    from heedful.card import Card, load_card
    from heedful.engines import Sampling, SearchOptions
    from heedful.errors import (
        CheckpointError,
        ConfigError,
        DataError,
        DeviceError,
        HeedfulError,
        TrainingError,
    )
    from heedful.evaluation import Report, evaluate, evaluate_files, evaluate_model
    from heedful.pipeline import Outcome
    from heedful.training import CheckpointRecord, EndRecord, PaceRecord, Scores, StepRecord, ValidationRecord
    from heedful.translation import Translation, Translator

__version__ = "0.1.0"

__all__ = [
    "Aligner",
    "Card",
    "CheckpointError",
    "CheckpointRecord",
    "ConfigError",
    "DataError",
    "DeviceError",
    "EndRecord",
    "HeedfulError",
    "Outcome",
    "PaceRecord",
    "Report",
    "Sampling",
    "Scores",
    "SearchOptions",
    "StepRecord",
    "TrainingError",
    "Translation",
    "Translator",
    "ValidationRecord",
    "__version__",
    "alternatives_at",
    "evaluate",
    "evaluate_files",
    "evaluate_model",
    "evaluate_saved",
    "load_card",
    "pharaoh",
    "train",
    "word_confidences",
]

_HOME = {
    "alignment": ("Aligner", "pharaoh"),
    "alternatives": ("alternatives_at", "word_confidences"),
    "api": ("evaluate_saved", "train"),
    "card": ("Card", "load_card"),
    "engines": ("Sampling", "SearchOptions"),
    "errors": ("CheckpointError", "ConfigError", "DataError", "DeviceError", "HeedfulError", "TrainingError"),
    "evaluation": ("Report", "evaluate", "evaluate_files", "evaluate_model"),
    "pipeline": ("Outcome",),
    "training": ("CheckpointRecord", "EndRecord", "PaceRecord", "Scores", "StepRecord", "ValidationRecord"),
    "translation": ("Translation", "Translator"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'heedful' has no attribute {name!r}")
    return getattr(import_module(f"heedful.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
