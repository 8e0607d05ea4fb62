"""The language pairs that are served, each with its translator; models of one pair translate as an ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heedful.data import language_detection
from heedful.data.language_detection import LanguageModel
from heedful.errors import ConfigError
from heedful.model.checkpoint import find_model, load_config
from heedful.translate.translation import Translator


@dataclass(frozen=True, slots=True, eq=False)
class LanguagePair:
    """A language pair in one direction, and its translator."""

    translator: Translator
    folder: Path | None = None  # the first of its models, as the user named it
    languages: LanguageModel = field(default_factory=LanguageModel)

    @property
    def source(self) -> str:
        """The code of the source language."""
        return self.translator.source_language

    @property
    def target(self) -> str:
        """The code of the target language."""
        return self.translator.target_language


def load_pairs(
    models: Sequence[Path | Translator], *, device: str = "auto", engine: str = "auto"
) -> list[LanguagePair]:
    """Load the models of all pairs; a `Translator` is used as it is."""
    pairs = [LanguagePair(model) for model in models if isinstance(model, Translator)]
    folders: dict[tuple[str, str], list[Path]] = {}
    for model in models:
        if isinstance(model, Path):
            data = load_config(find_model(model).config).data
            folders.setdefault((data.source_language, data.target_language), []).append(model)
    for names in folders.values():
        home = find_model(names[0]).config.parent
        translator = Translator.load(*names, device=device, engine=engine)
        pairs.append(LanguagePair(translator, names[0], language_detection.load(home)))
    _check_languages(pairs)
    return pairs


def _check_languages(pairs: Sequence[LanguagePair]) -> None:
    if not pairs:
        raise ConfigError("no model is given")
    for pair in pairs:
        if not (pair.source and pair.target):
            where = find_model(pair.folder).config if pair.folder else "a model"
            raise ConfigError(f"{where}: data.source_language or data.target_language is not set; set it there")
