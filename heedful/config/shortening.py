"""A run with fewer steps than its preset or recipe was made for: its learning rate goes the same way in fewer steps.

It knows layers of settings; no run folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from heedful.config.settings import Config, Layer, to_layer

SCALED = ("warmup_steps", "cooldown_steps")
SCHEDULE = (*SCALED, "learning_rate_factor")


class Scaled(Struct, frozen=True):
    """The settings that were scaled, as a layer, and a line on each for the user."""

    layer: Layer = {}
    lines: tuple[str, ...] = ()


def scaled_schedule(ours: Sequence[Layer], own_file: Layer, given: Sequence[Layer]) -> Scaled:
    """Warm-up and cooldown of our layers, scaled where fewer `train.steps` are given than all files say.

    By equation 3 a shorter warm-up has a higher peak, which a short run bears even less: the factor keeps the peak
    where it was. What stands in the user's own file, or was given, stays as it is.
    """
    planned, told = to_layer(Config())["train"] | _train([*ours, own_file]), _train([own_file, *given])
    steps, planned_steps = told.get("steps", planned["steps"]), planned["steps"]
    if steps >= planned_steps:
        return Scaled()
    scaled = {
        name: max(1, round(planned[name] * steps / planned_steps))
        for name in SCALED
        if planned[name] and name not in told
    }
    why = dict.fromkeys(scaled, f"scaled as train.steps is ({steps:,} of {planned_steps:,})")
    if "warmup_steps" in scaled and "learning_rate_factor" not in told:
        share = scaled["warmup_steps"] / planned["warmup_steps"]
        scaled["learning_rate_factor"] = float(f"{planned['learning_rate_factor'] * share**0.5:.4g}")
        why["learning_rate_factor"] = "scaled with the warm-up, so that the rate peaks as high"
    lines = [
        f"train.{name} = {value:,}: {planned[name]:,} {why[name]}; --set train.{name}={planned[name]} keeps it"
        for name, value in scaled.items()
        if value != planned[name]
    ]
    return Scaled({"train": scaled}, tuple(lines))


def without_schedule(layer: Layer) -> Layer:
    """The layer without the settings that may have been scaled when the run began."""
    train = {name: value for name, value in layer.get("train", {}).items() if name not in SCHEDULE}
    return layer | {"train": train}


def _train(layers: Sequence[Layer]) -> dict[str, Any]:
    return {name: value for layer in layers for name, value in layer.get("train", {}).items()}
