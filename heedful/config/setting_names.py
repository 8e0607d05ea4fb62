"""Settings by name: which there are, which values they have, and what is said of a wrong one.

A setting has one name everywhere, `section.field`: in TOML, in `--set`, in error messages. Nothing here imports torch.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from heedful.config.baseline_settings import BASELINES
from heedful.config.settings import DEFAULT_FAMILY, Config, FamilyConfig, ModelConfig
from heedful.errors import ConfigError

FAMILIES: dict[str, type[FamilyConfig]] = {DEFAULT_FAMILY: ModelConfig, **BASELINES}
"""The settings under [model], by `model.family`."""


def register_settings(family: str, settings: type[FamilyConfig]) -> None:
    """From now on `model.family` may have this name."""
    FAMILIES[family] = settings


def settings_of(family: object) -> type[FamilyConfig]:
    """What stands under [model] for a family."""
    if not isinstance(family, str) or family not in FAMILIES:
        raise ConfigError(
            f"model.family = {family!r} is unknown; choose one of {', '.join(FAMILIES)}, "
            f"or name its code with --family module:Class"
        )
    return FAMILIES[family]


def sections(model: type[FamilyConfig]) -> dict[str, type[Struct]]:
    """The settings of each section, for a family of models."""
    return {field.name: type(field.default) for field in msgspec.structs.fields(Config)} | {"model": model}


def converted(section: str, fields: Mapping[str, Any], kind: type[Struct]) -> Struct:
    """The settings of one section as its struct, which checks them."""
    for field in fields:
        if issubclass(kind, FamilyConfig) and field not in kind.__struct_fields__:
            names = ", ".join(kind.__struct_fields__)
            raise ConfigError(f"model.family = {kind().family!r} has no setting {section}.{field}; it has {names}")
    try:
        return msgspec.convert(fields, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(_readable(error, section, fields)) from None


def refuse_unknown(layer: Mapping[str, Mapping[str, Any]]) -> None:
    """A section or a field that is none of ours."""
    known = {section: list(kind.__struct_fields__) for section, kind in sections(ModelConfig).items()}
    known["model"] = list(dict.fromkeys(field for kind in FAMILIES.values() for field in kind.__struct_fields__))
    for section, fields in layer.items():
        if not isinstance(fields, Mapping):
            raise ConfigError(f"{section} = {fields!r} stands alone; settings are written section.field")
        if section not in known:
            raise ConfigError(f"there is no section {section!r}{nearest(section, known)}")
        for field in fields:
            if field not in known[section]:
                names = [f"{s}.{f}" for s in known for f in known[s]]
                raise ConfigError(f"there is no setting {section}.{field}{nearest(f'{section}.{field}', names)}")


def check_value(section: str, field: str, value: object) -> None:
    """Is it one that this field can have? Whether it goes with the others `resolve` says."""
    name = f"{section}.{field}"
    if name == "model.family":
        settings_of(value)
    try:
        msgspec.convert(value, _kind(name), strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(_wrong_value(name, _kind(name), value, str(error))) from None


def check_fields(struct: Struct) -> None:
    """Check a struct made in Python, as `resolve` checks settings; numpy's numbers become Python's."""
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        value = value.item() if hasattr(value, "item") else value
        try:
            plain = msgspec.convert(value, field.type, strict=True)
        except msgspec.ValidationError as error:
            raise ConfigError(_wrong_value(field.name, field.type, value, str(error))) from None
        msgspec.structs.force_setattr(struct, field.name, plain)


def nearest(name: str, known: Iterable[str]) -> str:
    """The name that was probably meant, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(names)}"


def _kind(name: str) -> Any:
    """The type of a setting's values, in the first family that has it."""
    section, _, field = name.partition(".")
    kinds = FAMILIES.values() if section == "model" else [sections(ModelConfig)[section]]
    fields = [each for kind in kinds for each in msgspec.structs.fields(kind)]
    return next((each.type for each in fields if each.name == field), None)


def _readable(error: msgspec.ValidationError, section: str, fields: Mapping[str, Any]) -> str:
    """msgspec's «Expected `int`, got `str` - at `$.d_ff`» with our name and the value in front."""
    problem, _, path = str(error).partition(" - at ")
    field = path.strip("`").removeprefix("$.").split("[")[0]
    if not field:
        return problem
    name = f"{section}.{field}"
    return _wrong_value(name, _kind(name), fields.get(field), problem)


def _wrong_value(name: str, kind: Any, value: object, problem: str) -> str:
    if get_origin(kind) is Literal:
        return f"{name} = {value!r} is unknown; choose one of {', '.join(get_args(kind))}"
    problem = problem.partition(" - at ")[0].replace("`", "")
    problem = re.sub(r"\barray\b", 'a list such as ["train.en"]', problem)
    return f"{name} = {value!r}: {problem[:1].lower()}{problem[1:]}"
