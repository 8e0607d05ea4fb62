"""Lines of code: `python -m benchmarks.code_lines [FOLDER …]`. Docstrings, comments and blank lines do not count.

A line counts if a token of code lies on it. For heedful, each package by itself.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

from benchmarks.command import run

SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """How many lines hold code."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for token in tokens if token.type not in SILENT for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - docstring_lines(ast.parse(text)))


def docstring_lines(tree: ast.Module) -> set[int]:
    """The lines of strings that stand alone: docstrings, and those behind a constant."""
    alone = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    return {line for node in alone for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def main() -> None:
    """Count, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*", default=[Path("heedful")], metavar="FOLDER")
    for folder in parser.parse_args().folders:
        files, lines = Counter[str](), Counter[str]()
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).parts
            package = parts[0] if len(parts) > 1 else "."
            files[package] += 1
            lines[package] += code_lines(path.read_text(encoding="utf-8"))
        for package in files:
            print(f"{folder}/{package:12} {files[package]:4} files {lines[package]:7,} lines")
        print(f"{folder}/{'':12} {files.total():4} files {lines.total():7,} lines")


if __name__ == "__main__":
    run(main)
