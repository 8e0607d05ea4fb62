"""The settings of the systems that the paper argues against, a struct for each family of `baselines/`.

Nothing here imports torch.
"""

from __future__ import annotations

from heedful.config.settings import FamilyConfig, ModelConfig, Positive


class MixerConfig(ModelConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An MLP-Mixer (Tolstikhin 2021) as the encoder; the other settings are the Transformer's, for the decoder."""

    family: str = "mixer"
    max_positions: Positive = 256  # of a source sentence, its eos included: the token weights have this many rows
    token_width: Positive = 256  # of the hidden layer that mixes positions

    @property
    def decoder_config(self) -> ModelConfig:
        """The settings of the Transformer whose decoder this family has."""
        return ModelConfig(**{name: getattr(self, name) for name in ModelConfig.__struct_fields__ if name != "family"})

    @property
    def position_limit(self) -> int:
        """How many tokens a sentence may have, its eos included."""
        return self.max_positions


BASELINES: dict[str, type[FamilyConfig]] = {"mixer": MixerConfig}
"""By `model.family`, which is also the name of the module in `baselines/`."""
