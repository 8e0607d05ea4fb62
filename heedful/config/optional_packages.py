"""Packages that heedful can do without: which are missing, and the line that installs them.

The line names the packages themselves and the Python that runs, so it works from a clone and from a wheel, with and
without an activated environment. heedful is on no package index, so pip finds none of its extras by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec
from shlex import quote

SERVER = ("starlette", "uvicorn", "python-multipart")


def missing(packages: Iterable[str]) -> list[str]:
    """Those that are not installed; nothing is imported."""
    return [package for package in packages if find_spec(package.replace("-", "_")) is None]


def install_line(*packages: str) -> str:
    """What to type to install them."""
    return f"{quote(sys.executable)} -m pip install {' '.join(packages)}"
