"""Layers of settings: presets, TOML files, flags and `--set`, as plain dictionaries; and a `Config` as a layer again.

`resolve` lays them over one another (preset < TOML file < flags < `--set`) and makes a `Config` at the end, so that
every check runs once, on the whole. Nothing here imports torch.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from heedful.config.setting_names import converted, refuse_unknown, sections, settings_of
from heedful.config.settings import DEFAULT_FAMILY, TEXT_FILES, Config, FamilyConfig
from heedful.errors import ConfigError

Layer: TypeAlias = dict[str, dict[str, Any]]

DEFAULT_PRESET = "base"
PRESETS: dict[str, Layer] = {
    # The built-in corpus in minutes on two cores.
    "tiny": {
        "data": {"max_length": 128},
        "tokenizer": {"vocab_size": 1600},
        "model": {"d_model": 128, "d_ff": 512, "num_layers": 2, "num_heads": 4},
        "train": {
            "steps": 750,
            "batch_tokens": 2048,
            "warmup_steps": 300,
            "checkpoint_steps": 50,
            "validate_steps": 250,
        },
    },
    # Some ten thousand pairs on one machine.
    "small": {
        "tokenizer": {"vocab_size": 10_000},
        "model": {"d_model": 256, "d_ff": 1024, "num_layers": 4, "num_heads": 4, "dropout": 0.3},
        "train": {
            "steps": 8000,
            "batch_tokens": 8192,
            "warmup_steps": 2000,
            "learning_rate_factor": 2.0,
            "checkpoint_steps": 400,
            "validate_steps": 400,
        },
    },
    # Table 3, base and big. A checkpoint every 10 minutes of the paper's machine is one every 1,389 (base) and 600
    # (big) steps; base takes 1,250, so that the last step is among them.
    "base": {"model": {}, "train": {}},
    "big": {
        "model": {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3},
        "train": {"steps": 300_000, "checkpoint_steps": 600, "average_last": 20},
    },
}


def preset(name: str, *over: Mapping[str, Mapping[str, Any]]) -> Layer:
    """The settings of a preset that differ from base, but those that the family named in later layers lacks."""
    if name not in PRESETS:
        raise ConfigError(f"preset {name!r} is unknown; choose one of {', '.join(PRESETS)}")
    layer, known = PRESETS[name], family_of(*over).__struct_fields__
    return layer | {"model": {field: value for field, value in layer["model"].items() if field in known}}


def resolve(*layers: Mapping[str, Mapping[str, Any]]) -> Config:
    """Lay the layers over one another, later ones winning, and check the whole."""
    merged: Layer = {}
    for layer in layers:
        refuse_unknown(layer)
        for section, fields in layer.items():
            merged[section] = merged.get(section, {}) | dict(fields)
    kinds = sections(family_of(merged))
    parts: dict[str, Any] = {name: converted(name, fields, kinds[name]) for name, fields in merged.items()}
    return Config(**parts)


def family_of(*layers: Mapping[str, Mapping[str, Any]]) -> type[FamilyConfig]:
    """The settings of the family that the layers name, the last one winning."""
    models = [model for layer in layers if isinstance(model := layer.get("model"), Mapping)]
    names = [model["family"] for model in models if "family" in model]
    return settings_of(names[-1] if names else DEFAULT_FAMILY)


def setting(text: str) -> Layer:
    """`--set a.b=c` → a layer; the value is read as TOML, and what is not TOML is a string."""
    name, equals, value = text.partition("=")
    section, dot, field = name.strip().partition(".")
    if not (equals and dot and section and field):
        raise ConfigError(f"--set {text!r} is not of the form section.field=value, such as model.d_ff=1024")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    return {section: {field: parsed}}


def read_toml(path: Path) -> tuple[str | None, Layer]:
    """A recipe or a run's config.toml: the preset it names, if any, and its settings."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({_reason(error)})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML ({error})") from None
    name = content.pop("preset", None)
    if name is not None and not isinstance(name, str):
        raise ConfigError(f"{path}: preset = {name!r} is not a name; choose one of {', '.join(PRESETS)}")
    return name, content


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "not UTF-8"


def to_layer(config: Config, *, keep_none: bool = False) -> Layer:
    """The configuration as a layer; a field that is None is left out unless asked for."""
    sections: Layer = msgspec.to_builtins(config)
    return {s: {f: v for f, v in fields.items() if keep_none or v is not None} for s, fields in sections.items()}


def named_files(config: Config) -> Layer:
    """The configuration with the names of its files instead of their places: what is handed on does not tell them."""
    layer = to_layer(config)
    layer["data"] |= {field: [Path(name).name for name in layer["data"][field]] for field in TEXT_FILES}
    layer["tokenizer"]["model"] = Path(layer["tokenizer"]["model"]).name
    return layer


def located_files(config: Config) -> Config:
    """The configuration with the places of its text, which are the same in any working folder."""
    places = {field: tuple(str(Path(name).absolute()) for name in getattr(config.data, field)) for field in TEXT_FILES}
    return msgspec.structs.replace(config, data=msgspec.structs.replace(config.data, **places))


def to_toml(config: Config) -> str:
    """The whole configuration as TOML, which `read_toml` gives back unchanged."""
    return layer_to_toml(to_layer(config))


def all_settings(config: Config) -> str:
    """The configuration as people read it: sizes that follow from others are there too, as comments."""
    layer = to_layer(config)
    model = layer_to_toml({"model": layer["model"]})
    sizes = to_layer(msgspec.structs.replace(config, model=config.model.spelled_out))["model"]
    follow = [f"# {field} = {_toml_value(size)}\n" for field, size in sizes.items() if field not in layer["model"]]
    return to_toml(config).replace(model, model + "".join(follow))


def layer_to_toml(layer: Layer) -> str:
    """Settings as TOML, known to this version or not."""
    blocks = []
    for section, fields in layer.items():
        lines = [f"{field} = {_toml_value(value)}" for field, value in fields.items()]
        blocks.append("\n".join([f"[{section}]", *lines]) + "\n")
    return "\n".join(blocks)


def _toml_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    if isinstance(value, str | bool):
        # JSON escapes are TOML escapes, but for DEL, which TOML wants escaped too.
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
    assert not isinstance(value, float) or math.isfinite(value), "the fields' bounds admit finite numbers only"
    return repr(value)


def differences(before: Config, after: Config) -> dict[str, tuple[Any, Any]]:
    """`section.field` → (before, after), for the settings that differ."""
    old, new = to_layer(before, keep_none=True), to_layer(after, keep_none=True)
    names = [(section, field) for section in new for field in new[section]]
    return {f"{s}.{f}": (old[s][f], new[s][f]) for s, f in names if old[s][f] != new[s][f]}
