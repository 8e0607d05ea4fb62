"""Tables as plain text and as Markdown. It knows rows of strings only."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

Rows: TypeAlias = list[list[str]]  # the first is the heading


class Section(Struct, frozen=True):
    """A title with a table or with plain lines."""

    title: str
    rows: Rows = []
    lines: tuple[str, ...] = ()


def show_text(section: Section) -> str:
    """A section for a terminal."""
    body = section.lines or plain_table([row for row in section.rows if any(row)])
    return "\n".join([section.title, *(f"  {line}" for line in body)])


def show_markdown(section: Section) -> str:
    """A section as Markdown."""
    body = [*markdown_table(section.rows)] if section.rows else ["```toml", *section.lines, "```"]
    return "\n".join([f"## {section.title}", "", *body])


def markdown_table(rows: Rows) -> list[str]:
    """The lines of a Markdown table."""
    heading, *rest = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [heading, "|" + "---|" * len(rows[0]), *rest]


def plain_table(rows: Rows) -> list[str]:
    """The lines of a table whose columns are as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
