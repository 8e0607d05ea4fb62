"""The settings of a start: a new run takes what it is given; one that exists keeps its own, and a few may change.

A new run with fewer steps than its preset or recipe was made for gets a shorter warm-up and cooldown. This module knows
layers of settings and a run's config.toml; no model, no text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heedful.config.setting_layers import DEFAULT_PRESET, Layer, differences, located_files, preset, resolve, to_layer
from heedful.config.settings import TEXT_FILES, Config
from heedful.data.run_folder import CONFIG, TOKENIZER, has_begun
from heedful.errors import ConfigError
from heedful.model.checkpoint import load_config

# What may change between two starts of a run, by section. Files may move: their content counts.
MAY_CHANGE = {
    "data": TEXT_FILES,
    "train": (
        *("steps", "cooldown_steps", "patience", "validate_steps"),
        *("checkpoint_steps", "checkpoint_minutes", "keep_checkpoints", "average_last"),
    ),
    "decode": ("beam_size", "alpha", "max_extra"),
}
MAY_BE_ADDED = frozenset(["data.source_language", "data.target_language"])  # to a run that did not know them
SCALED = ("warmup_steps", "cooldown_steps")
SCHEDULE = (*SCALED, "learning_rate_factor")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a start, and how they came about."""

    config: Config
    given: frozenset[str]  # by name; those of a preset are not
    changed: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # since the last start: before and now
    scaled: Sequence[str] = ()  # a line for the user on each setting that was scaled


def settings_of_start(
    run: Path, preset_name: str | None, given: Sequence[Layer], *, ours: Sequence[Layer] = (), own_file: Layer
) -> Settings:
    """For a new run: preset < ours < the user's file < given. One that exists has its own in place of the defaults.

    `ours` is what the user did not write: a recipe that we ship, the sizes of a model to fine-tune.
    """
    layers = [*ours, own_file, *given]
    names = frozenset(f"{section}.{field}" for layer in layers for section in layer for field in layer[section])
    if has_begun(run):
        config, changed = _of_existing_run(run, preset_name, ours, [own_file, *given], names)
        return Settings(config, names, changed)
    ours = [preset(preset_name or DEFAULT_PRESET, *layers), *ours]
    resolve(*ours, own_file, *given)  # a mistake is reported before anything is scaled
    schedule, lines = scaled_schedule(ours, own_file, given)
    return Settings(located_files(resolve(*ours, schedule, own_file, *given)), names, scaled=lines)


# ------------------------------------------------------------------------------------------------ a run that exists


def _of_existing_run(
    run: Path, preset_name: str | None, ours: Sequence[Layer], given: Sequence[Layer], names: frozenset[str]
) -> tuple[Config, dict[str, tuple[Any, Any]]]:
    """Its settings now, and those that changed since the last start."""
    before = located_files(load_config(run / CONFIG))
    chosen = [_whole_model(preset_name, before), preset(preset_name, to_layer(before))] if preset_name else []
    config = located_files(resolve(to_layer(before), *map(_without_schedule, (*chosen, *ours)), *given))
    changed = differences(before, config)
    if config.tokenizer.model:
        changed.pop("tokenizer.vocab_size", None)  # that of the tokenizer holds, whatever a preset says
    for name, (old, new) in changed.items():
        if not _may_change(run, name, old, config):
            origin = f" (preset {preset_name})" if preset_name and name not in names else ""
            remedy = "leave --preset out" if origin else f"leave {name} as it was"
            raise ConfigError(
                f"{name} = {new!r}{origin}, but the run {run} has {old!r}; take a new folder (-o), or {remedy}"
            )
    return config, changed


def _whole_model(preset_name: str, config: Config) -> Layer:
    """All sizes of a preset's model of the run's family, also those that are the defaults."""
    family = {"model": {"family": config.model.family}}
    return {"model": to_layer(resolve(preset(preset_name, family), family))["model"]}


def _without_schedule(layer: Layer) -> Layer:
    """The layer without the settings that may have been scaled when the run began."""
    return layer | {"train": {name: value for name, value in layer.get("train", {}).items() if name not in SCHEDULE}}


def _may_change(run: Path, name: str, before: Any, config: Config) -> bool:
    if name == "tokenizer.model":
        return _is_tokenizer_of(run, Path(config.tokenizer.model))
    section, _, field = name.partition(".")
    return field in MAY_CHANGE.get(section, ()) or (name in MAY_BE_ADDED and not before)


def _is_tokenizer_of(run: Path, given: Path) -> bool:
    """Whether this file holds the tokenizer that the run has, wherever it lies."""
    own = run / TOKENIZER
    return given.is_file() and own.is_file() and given.read_bytes() == own.read_bytes()


# ------------------------------------------------------------------------------------------------- a shorter schedule


def scaled_schedule(ours: Sequence[Layer], own_file: Layer, given: Sequence[Layer]) -> tuple[Layer, Sequence[str]]:
    """Our warm-up and cooldown, scaled if fewer `train.steps` are given than the files say; and a line on each.

    By equation 3 a shorter warm-up has a higher peak, which a short run bears even less: the factor keeps the peak
    where it was. What the user's own file says, or what was given, is never scaled.
    """
    planned, chosen = to_layer(Config())["train"] | _train([*ours, own_file]), _train([own_file, *given])
    steps, planned_steps = chosen.get("steps", planned["steps"]), planned["steps"]
    if steps >= planned_steps:
        return {}, ()
    scaled = {
        name: max(1, round(planned[name] * steps / planned_steps))
        for name in SCALED
        if planned[name] and name not in chosen
    }
    why = dict.fromkeys(scaled, f"scaled as train.steps is ({steps:,} of {planned_steps:,})")
    if "warmup_steps" in scaled and "learning_rate_factor" not in chosen:
        ratio = scaled["warmup_steps"] / planned["warmup_steps"]
        scaled["learning_rate_factor"] = float(f"{planned['learning_rate_factor'] * ratio**0.5:.4g}")
        why["learning_rate_factor"] = "scaled with the warm-up, so that the rate peaks as high"
    return {"train": scaled}, [
        f"train.{name} = {value:,}: {planned[name]:,} {why[name]}; --set train.{name}={planned[name]} keeps it"
        for name, value in scaled.items()
        if value != planned[name]
    ]


def _train(layers: Iterable[Layer]) -> dict[str, Any]:
    return {name: value for layer in layers for name, value in layer.get("train", {}).items()}
