"""`heedful fetch`: public data sets as aligned text files."""

from __future__ import annotations

from pathlib import Path

import click

from heedful.cli.commands.options import FILE
from heedful.cli.messages import say
from heedful.data.data_sets import CATALOGUE, data_set


@click.command(short_help="Fetch a public data set as aligned files.")
@click.argument("name", metavar="|".join(CATALOGUE))
@click.option("-o", "--output", type=FILE, required=True, help="Folder to write to; downloads lie in its downloads/.")
@click.option("--mirror", default="", metavar="URL", help="Fetch the files, by their own names, from below this URL.")
def fetch(name: str, output: Path, mirror: str) -> None:
    """Fetch a public data set, check it, and write it as aligned files (train.en, train.de, …).

    A broken download goes on; what is in DIR/downloads already is not fetched again, so that it works offline.
    """
    from heedful.data.fetch import fetch as fetch_texts

    wanted = data_set(name)
    say(f"{wanted.name}: {wanted.about}")
    texts = fetch_texts(wanted, output, mirror=mirror, say=say)
    for path in texts.values():
        click.echo(path)
