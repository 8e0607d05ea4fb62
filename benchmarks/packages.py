"""A drawing of the packages: `python -m benchmarks.packages` writes docs/images/packages.svg.

Names come from README's map, in its order; what a package does and does not know, from its docstring.
"""

from __future__ import annotations

import argparse
import ast
import re
from html import escape

from benchmarks.command import run
from heedful import PACKAGE

ROOT = PACKAGE.parent
DRAWING = ROOT / "docs" / "images" / "packages.svg"
LATE = {("translate", "fast"), ("train", "fast"), ("model", "baselines")}  # imported when they are wanted
WIDTH, ROW, BOX, LEFT = 960, 46, 112, 60
FONT = 'font-family="system-ui, sans-serif"'


def packages() -> list[str]:
    """In the order of their imports."""
    return re.findall(r"^\| `heedful/(\w+)/` \|", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)


def purpose(package: str) -> str:
    """The first line of its docstring."""
    docstring = ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text(encoding="utf-8")))
    assert docstring, package
    return docstring.splitlines()[0]


def drawing() -> str:
    """Each package in a box; it imports those above it. Dashed: those that are imported late."""
    names = packages()
    middles = {name: 24 + ROW * number + ROW // 2 for number, name in enumerate(names)}
    rows = [row for name in names for row in _box(name, middles[name])]
    arrows = [_late(middles[above], middles[below], 8 + 16 * n) for n, (above, below) in enumerate(sorted(LATE))]
    height = 48 + ROW * len(names)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">',
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
            f'<text x="{LEFT}" y="18" font-size="13" fill="#555" {FONT}>A package imports those above it.</text>',
            *rows,
            *arrows,
            "</svg>\n",
        ]
    )


def _box(name: str, middle: int) -> list[str]:
    return [
        f'<rect x="{LEFT}" y="{middle - 16}" width="{BOX}" height="32" rx="6" fill="#eef3fb" stroke="#3b6db4"/>',
        f'<text x="{LEFT + BOX // 2}" y="{middle + 5}" font-size="15" text-anchor="middle" {FONT}>{name}</text>',
        f'<text x="{LEFT + BOX + 16}" y="{middle + 5}" font-size="13" {FONT}>{escape(purpose(name))}</text>',
    ]


def _late(above: int, below: int, indent: int) -> str:
    path = f"M {LEFT} {above} H {LEFT - 12 - indent} V {below} H {LEFT - 6}"
    head = f"M {LEFT - 8} {below - 4} L {LEFT} {below} L {LEFT - 8} {below + 4}"
    return f'<path d="{path} {head}" fill="none" stroke="#a33" stroke-dasharray="4 3"/>'


def main() -> None:
    """Draw."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    DRAWING.write_text(drawing(), encoding="utf-8")
    print(f"drawn in {DRAWING}")


if __name__ == "__main__":
    run(main)
