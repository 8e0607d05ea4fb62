"""`heedful card`: what a model was made from and how good it is; several models side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heedful.cli.commands.options import FILE

if TYPE_CHECKING:
    from heedful.score.card_comparison import Over


@click.command(short_help="What a model was made from, and its scores.")
@click.argument("cards", type=FILE, nargs=-1, required=True, metavar="MODEL_OR_CARD…")
@click.option(
    "--seeds",
    "by_recipe",
    is_flag=True,
    help="One row for cards that differ in the seed alone: mean, spread, and t-tests against the first row.",
)
@click.option("--format", "form", type=click.Choice(["text", "md", "json"]), default="text", show_default=True)
def card(cards: tuple[Path, ...], by_recipe: bool, form: str) -> None:
    """The reproduction card of a model; several side by side, each tested against the first.

    A p-value of single cards is over the sentences of the test set (paired bootstrap) and says nothing about other
    seeds. With --seeds it is over seeds: a paired t-test where the seeds are the same, else Welch's.
    """
    from heedful.score.card import load_card
    from heedful.score.card_comparison import rows_by_recipe, rows_of, side_by_side, to_builtins, told_apart
    from heedful.score.card_tables import to_markdown, to_text

    loaded = [load_card(path) for path in cards]
    if len(loaded) == 1:
        (one,) = loaded
        shown = {"text": to_text(one), "md": to_markdown(one), "json": one.to_json()}[form]
        return click.echo(shown.rstrip())
    named = told_apart(loaded, [str(path) for path in cards])
    rows = rows_by_recipe(named) if by_recipe else rows_of(named)
    over: Over = "seeds" if by_recipe else "sentences"
    if form == "json":
        return click.echo(json.dumps(to_builtins(rows, over), indent=1, ensure_ascii=False))
    click.echo(side_by_side(rows, "md" if form == "md" else "text", over))
