"""How a measurement is called: its docstring is its help, and what it finds is kept only when --keep asks for it."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.record import save


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
