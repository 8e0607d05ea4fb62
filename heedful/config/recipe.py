"""A recipe, or a config.toml: a TOML that people write in. A mistake is told with the file, the line and the setting.

It does not know what the settings mean, nor whether they go together: that is `settings.py`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heedful import PACKAGE
from heedful.config.setting_layers import Layer, preset, read_toml
from heedful.config.setting_names import check_value, refuse_unknown
from heedful.errors import ConfigError

OURS = PACKAGE.parent / "recipes"  # in a clone


def is_ours(path: Path) -> bool:
    """Whether a file is one of the recipes that we ship; else its settings are the user's own."""
    return path.resolve().parent == OURS.resolve()


def read_recipe(path: Path) -> tuple[str | None, Layer]:
    """The preset that it names, if any, and its settings: each of them known, with a value that it can have."""
    name, layer = read_toml(path)
    if name is not None:
        with _told_of(path, "preset"):
            preset(name)
    for section, fields in layer.items():
        with _told_of(path, section):
            refuse_unknown({section: {} if isinstance(fields, dict) else fields})
        for field, value in fields.items():
            with _told_of(path, f"{section}.{field}"):
                refuse_unknown({section: {field: value}})
                check_value(section, field, value)
    return name, layer


@contextmanager
def _told_of(path: Path, name: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        line = _line_of(path.read_text(encoding="utf-8-sig"), name)
        raise ConfigError(f"{path}{f', line {line}' if line else ''}: {error}") from None


def _line_of(text: str, name: str) -> int | None:
    """The first line that speaks of a section, or sets a field `section.field`."""
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := re.match(r"\s*\[([^]=]+)\]", line):
            table = said = header[1].strip()
        elif key := re.match(r"\s*([\w.\s-]+?)\s*=", line):
            said = ".".join(filter(None, (table, re.sub(r"\s", "", key[1]))))
        else:
            continue
        if said == name or said.startswith(f"{name}."):
            return number
    return None
