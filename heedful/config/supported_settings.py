"""What an exporter or a fast twin can compute: a list of the model's settings, and of the values that each may have.

What a list does not name is refused, whatever it means: another value, and any value but the default of a setting that
is not there. So a new kind of model goes to the plain code, or to an error, until somebody has compared the twin with
it and has added it to the list. It knows settings; no model, no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from heedful.config.settings import DEFAULT_FAMILY, FamilyConfig, ModelConfig
from heedful.errors import ConfigError

ValueCheck: TypeAlias = Callable[[Any, Any], str]
"""A value, and all settings → what could be computed in its place, in words; "" if the value itself can."""


def anything(_value: Any, _model: Any) -> str:
    """Every value."""
    return ""


def one_of(*values: Any) -> ValueCheck:
    """These values."""
    return lambda value, _: "" if value in values else " or ".join(map(_as_written, values))


def _as_written(value: Any) -> str:
    """In TOML."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def at_most(limit: int) -> ValueCheck:
    """Numbers up to this one."""
    return lambda value, _: "" if value <= limit else f"at most {limit}"


def share_of_d_model(width: int, model: ModelConfig) -> str:
    """The width that makes all heads together as wide as the model, as in §3.2.2."""
    share = model.d_model / model.num_heads
    return "" if width == share else f"model.d_model / model.num_heads = {share:g}"


NUMBERS: Mapping[str, ValueCheck] = dict.fromkeys(
    (
        "d_model",
        "d_ff",
        "num_layers",
        "num_encoder_layers",
        "num_decoder_layers",
        "num_heads",
        "d_k",
        "d_v",
        "dropout",
        "max_positions",
    ),
    anything,
)
"""The settings that are numbers, for lists that take all of them."""


@dataclass(frozen=True, slots=True)
class UnsupportedSetting:
    """The first setting that stands in the way."""

    setting: str
    value: str
    works: str  # in words


@dataclass(frozen=True, slots=True)
class SupportedSettings:
    """What one exporter or fast twin can compute. Its error is «setting = value», `refusal`, what works, `remedy`."""

    refusal: str
    settings: Mapping[str, ValueCheck]
    remedy: str = ""

    def unsupported(self, model: FamilyConfig) -> UnsupportedSetting | None:
        """Why a model with these settings cannot be computed; None: it can."""
        if not isinstance(model, ModelConfig) or model.family != DEFAULT_FAMILY:
            return UnsupportedSetting("model.family", model.family, DEFAULT_FAMILY)
        model, default = model.spelled_out, type(model)()
        for name in model.__struct_fields__:
            value, check = getattr(model, name), self.settings.get(name, one_of(getattr(default, name)))
            if works := check(value, model):
                return UnsupportedSetting(f"model.{name}", _as_written(value), works)
        return None

    def reason(self, model: FamilyConfig) -> str:
        """The same in words; "": it can."""
        unsupported = self.unsupported(model)
        return f"{unsupported.setting} = {unsupported.value} {self.refusal} {unsupported.works}" if unsupported else ""

    def refuse(self, model: FamilyConfig) -> None:
        """An error for a model that cannot be computed."""
        if reason := self.reason(model):
            raise ConfigError(f"{reason}{self.remedy}")


# The kernels hold 64 tokens of a whole head in shared memory: heads of 256 do not fit the 99 KB of smaller GPUs, and
# those of 512 no GPU.
WIDEST_HEAD = 128
KERNELS = SupportedSettings(  # of a step of training, and of decoding from captured graphs
    "cannot be computed by our kernels: they take",
    {
        **NUMBERS,
        "d_k": at_most(WIDEST_HEAD),
        "d_v": at_most(WIDEST_HEAD),
        "positions": one_of("sinusoidal", "learned"),
    },
)
