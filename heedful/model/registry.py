"""Which class is which family of models: `model.family` → a class.

A family of somebody else is registered by the user, never by a model's folder: opening a file imports no code.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import torch

from heedful.config.baseline_settings import BASELINES
from heedful.config.setting_names import register_settings
from heedful.config.settings import FamilyConfig
from heedful.errors import ConfigError
from heedful.model.interface import TranslationModel
from heedful.model.transformer import Transformer

_CLASSES: dict[str, type[TranslationModel]] = {Transformer.family: Transformer}
"""Those that are loaded. One of `baselines/` is, when it is first asked for."""


def register(family: type[TranslationModel]) -> None:
    """From now on `model.family` may have this class's name."""
    missing = [name for name in ("family", "settings") if not hasattr(family, name)] + sorted(
        family.__abstractmethods__
    )
    if missing:
        raise ConfigError(f"{family.__qualname__} is no whole family of models: it lacks {', '.join(missing)}")
    known = _class_of(family.family) if family.family in {*_CLASSES, *BASELINES} else None
    if known is not None and (known.__module__, known.__qualname__) != (family.__module__, family.__qualname__):
        raise ConfigError(
            f"model.family = {family.family!r} is {known.__qualname__} already; give {family.__qualname__} another name"
        )
    register_settings(family.family, family.settings)
    _CLASSES[family.family] = family


def load_family(name: str) -> type[TranslationModel]:
    """The class that MODULE:CLASS names, registered; modules are found in the working folder too."""
    module_name, colon, class_name = name.partition(":")
    if not (colon and module_name and class_name):
        raise ConfigError(f"--family {name!r} is not of the form module:Class, such as my_model:MyModel")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        family = getattr(import_module(module_name), class_name, None)
    except ModuleNotFoundError as error:
        raise ConfigError(f"--family {name}: no module {error.name} is found here or among what is installed") from None
    if family is None:
        raise ConfigError(f"--family {name}: {module_name} has no {class_name}")
    if not (isinstance(family, type) and issubclass(family, TranslationModel)):
        raise ConfigError(f"--family {name}: {class_name} does not derive from heedful.TranslationModel")
    register(family)
    return family


def new_model(config: FamilyConfig, vocab_size: int) -> TranslationModel:
    """A new model of the family that the settings name."""
    return _class_of(config.family)(config, vocab_size)


def _class_of(family: str) -> type[TranslationModel]:
    if family not in _CLASSES:
        module = import_module(f"heedful.baselines.{family}")
        _CLASSES[family] = next(
            each for each in vars(module).values() if isinstance(each, type) and vars(each).get("family") == family
        )
    return _CLASSES[family]


def empty_model(config: FamilyConfig, vocab_size: int) -> TranslationModel:
    """The same with parameters that hold no numbers yet, on torch's meta device."""
    with torch.device("meta"):
        return new_model(config, vocab_size)


def model_to_fill(config: FamilyConfig, vocab_size: int) -> TranslationModel:
    """A model whose weights are about to be read.

    Ours is spared the initial numbers, which take long. Another family may hold more than its weights, so it is made
    whole.
    """
    if config.family != Transformer.family:
        return new_model(config, vocab_size)
    return empty_model(config, vocab_size).to_empty(device="cpu")
