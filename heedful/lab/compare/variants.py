"""What is compared: recipes at any path, and variants of the first one, each named by the settings that it changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.config.recipe import read_recipe
from heedful.config.setting_layers import Layer, preset, resolve, setting
from heedful.config.settings import Config
from heedful.data.text_files import language_of, languages_of
from heedful.errors import ConfigError
from heedful.lab.experiment import merged
from heedful.lab.text import find_text

_NEXT_SETTING = re.compile(r"\s+(?=\w+\.\w+=)")
_NOT_IN_A_NAME = re.compile(r"[^\w.,=+-]+")


@dataclass(frozen=True, slots=True)
class Variant:
    """A recipe, and the settings that it is changed by."""

    name: str
    recipe: Path
    changes: Layer

    @property
    def config(self) -> Config:
        """Its settings for a new run."""
        name, layer = read_recipe(self.recipe)
        layers = [layer, self.changes]
        return resolve(preset(name, *layers) if name else {}, *layers)

    def languages(self, data: Path) -> tuple[str, str]:
        """Those that the recipe sets, or that its files are named after."""
        config = self.config.data
        named = languages_of(config.source, config.target) if config.source else ("", "")
        source, target = config.source_language or named[0], config.target_language or named[1]
        if not (source and target):
            there = sorted({language for path in data.glob("train.*") if (language := language_of(path))})
            raise ConfigError(
                f"{self.recipe}: names no languages, and {data} has training text in {', '.join(there) or 'none'}; set "
                f"data.source_language and data.target_language in the recipe"
            )
        return source, target


def variants_of(recipes: Sequence[Path], changes: Sequence[str]) -> list[Variant]:
    """Every recipe as it is, then the first one with each change: `model.num_heads=1`, or several apart by blanks."""
    plain = [Variant(recipe.stem, recipe, {}) for recipe in recipes]
    changed = [_changed(recipes[0], change) for change in changes]
    _refuse_two_of_a_name([*plain, *changed])
    return [*plain, *changed]


def _changed(recipe: Path, change: str) -> Variant:
    settings = _NEXT_SETTING.split(change.strip())
    fields = "+".join(each.partition(".")[2] for each in settings)
    name = _NOT_IN_A_NAME.sub("_", f"{recipe.stem}+{fields}")
    return Variant(name, recipe, merged(*map(setting, settings)))


def _refuse_two_of_a_name(variants: Sequence[Variant]) -> None:
    for n, variant in enumerate(variants):
        for other in variants[:n]:
            if variant.name == other.name:
                raise ConfigError(
                    f"{variant.recipe}: is called {variant.name}, as {other.recipe} is, and their runs would share a "
                    f"folder; give it another name"
                )


def text_files(variant: Variant, data: Path, name: str) -> tuple[Path, Path]:
    """Source and target file of a set, plain or packed."""
    source, target = variant.languages(data)
    return find_text(data, f"{name}.{source}"), find_text(data, f"{name}.{target}")
