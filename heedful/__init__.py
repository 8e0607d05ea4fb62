"""heedful: the system of "Attention Is All You Need", from two text files to a translator.

    heedful.train(source, target, output)           two text files → a run folder with a model in it
    heedful.Translator.load(path).translate(texts)  text → text
    heedful.evaluate(hypotheses, references)        BLEU, chrF, TER with signatures
    heedful.evaluate_saved(path, source, reference) the same of a model's translations, kept on its card
    heedful.load_card(path)                         what a model was made from, and its scores

Names are imported when they are first used (PEP 562), so that `heedful --help` does not wait for torch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heedful.api import evaluate_saved, train
    from heedful.config.settings import FamilyConfig
    from heedful.data.run_metrics import run_metrics
    from heedful.errors import CheckpointError, ConfigError, DataError, DeviceError, HeedfulError, TrainingError
    from heedful.inspection.attention_map import attention_map
    from heedful.inspection.drawing import attention_view
    from heedful.model.interface import Memory, TranslationModel
    from heedful.model.packed import Packed
    from heedful.score.card import Card, load_card
    from heedful.score.evaluation import evaluate, evaluate_files, evaluate_model
    from heedful.score.report import Report
    from heedful.train.loop import CheckpointRecord, EndRecord, PaceRecord, Scores, StepRecord, ValidationRecord
    from heedful.train.run.start import Outcome
    from heedful.translate.alignment import Aligner, pharaoh
    from heedful.translate.alternatives import alternatives_at, word_confidences
    from heedful.translate.engine import Sampling, SearchOptions
    from heedful.translate.translation import Translation, Translator

__version__ = "0.1.0"
PACKAGE = Path(__file__).parent

__all__ = [
    "Aligner",
    "Card",
    "CheckpointError",
    "CheckpointRecord",
    "ConfigError",
    "DataError",
    "DeviceError",
    "EndRecord",
    "FamilyConfig",
    "HeedfulError",
    "Memory",
    "Outcome",
    "PaceRecord",
    "Packed",
    "Report",
    "Sampling",
    "Scores",
    "SearchOptions",
    "StepRecord",
    "TrainingError",
    "Translation",
    "TranslationModel",
    "Translator",
    "ValidationRecord",
    "__version__",
    "alternatives_at",
    "attention_map",
    "attention_view",
    "evaluate",
    "evaluate_files",
    "evaluate_model",
    "evaluate_saved",
    "load_card",
    "pharaoh",
    "run_metrics",
    "train",
    "word_confidences",
]

_HOME = {
    "heedful.translate.alignment": ("Aligner", "pharaoh"),
    "heedful.translate.alternatives": ("alternatives_at", "word_confidences"),
    "heedful.api": ("evaluate_saved", "train"),
    "heedful.data.run_metrics": ("run_metrics",),
    "heedful.inspection.attention_map": ("attention_map",),
    "heedful.inspection.drawing": ("attention_view",),
    "heedful.score.card": ("Card", "load_card"),
    "heedful.translate.engine": ("Sampling", "SearchOptions"),
    "heedful.config.settings": ("FamilyConfig",),
    "heedful.model.interface": ("Memory", "TranslationModel"),
    "heedful.model.packed": ("Packed",),
    "heedful.errors": ("CheckpointError", "ConfigError", "DataError", "DeviceError", "HeedfulError", "TrainingError"),
    "heedful.score.evaluation": ("evaluate", "evaluate_files", "evaluate_model"),
    "heedful.score.report": ("Report",),
    "heedful.train.run.start": ("Outcome",),
    "heedful.train.loop": ("CheckpointRecord", "EndRecord", "PaceRecord", "Scores", "StepRecord", "ValidationRecord"),
    "heedful.translate.translation": ("Translation", "Translator"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'heedful' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """`heedful.train` is the function, also when the package of that name has been imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "train":
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
