"""Models and settings with the types of the Transformer, for tests that look inside."""

from __future__ import annotations

from heedful.config.settings import Config, ModelConfig
from heedful.model.interface import TranslationModel
from heedful.model.transformer import Transformer


def as_transformer(model: TranslationModel) -> Transformer:
    """The same model."""
    assert isinstance(model, Transformer)
    return model


def model_config(config: Config) -> ModelConfig:
    """Its settings under [model]."""
    assert isinstance(config.model, ModelConfig)
    return config.model
