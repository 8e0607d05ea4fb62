"""How many parameters a model has, one that exists or one that its settings describe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from heedful.config.settings import FamilyConfig
from heedful.model.device import explained_out_of_memory
from heedful.model.interface import TranslationModel
from heedful.model.registry import empty_model

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""The shape of each parameter, by its name in the model."""


def shapes_of(model: TranslationModel) -> Shapes:
    """The shapes of a model that exists."""
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def shapes_of_new(model: FamilyConfig, vocab_size: int) -> Shapes:
    """The shapes of a model that these settings describe. It is built on torch's meta device, without numbers."""
    with explained_out_of_memory("no machine holds a model of these sizes; lower those of model, such as model.d_ff"):
        return shapes_of(empty_model(model, vocab_size))


def count(shapes: Shapes, prefix: str = "") -> int:
    """How many numbers are in the parameters whose names begin with the prefix."""
    return sum(math.prod(shape) for name, shape in shapes.items() if name.startswith(prefix))
