"""How a measurement is called: its docstring is its help, what it finds is kept only when --keep asks for it, and a
user's mistake is one line and exit code 2, as in the commands of heedful.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

from benchmarks.record import save
from heedful.errors import DeviceError, HeedfulError


def parser(doc: str | None) -> argparse.ArgumentParser:
    """With the docstring of a measurement as its help."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def keeping_parser(doc: str | None) -> argparse.ArgumentParser:
    """The same, of a measurement whose figures can be kept."""
    made = parser(doc)
    made.add_argument("--keep", action="store_true", help="write the result to benchmarks/results/")
    return made


def keep(given: argparse.Namespace, name: str, figures: dict[str, Any]) -> None:
    """Write the figures to results/ if that was asked for: a file of the same day gives way."""
    if given.keep:
        print(f"kept in {save(name, figures)}")


def run(main: Callable[[], None]) -> None:
    """The measurement, and no traceback for what the user can mend."""
    try:
        return main()
    except HeedfulError as error:
        problem = str(error)
    except OSError as error:
        if error.filename is None:
            raise
        problem = f"{error.filename}: {error.strerror}"
    print(problem, file=sys.stderr)
    sys.exit(2)


def need_gpu() -> None:
    """An error where there is none, before anything is made."""
    if not torch.cuda.is_available():
        raise DeviceError(f"this measurement is one of a GPU, and torch {torch.__version__} finds none")


def names(known: Iterable[str]) -> Callable[[str], list[str]]:
    """The type of an option that takes several names, as a,b,c."""
    choices = list(known)

    def read(text: str) -> list[str]:
        if unknown := [name for name in text.split(",") if name not in choices]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(choices)}")
        return text.split(",")

    return read
