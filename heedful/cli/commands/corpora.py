"""`heedful fetch`, `corpus` and `demo`: text to train on, public or built in, and a first training on it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from heedful.cli.commands.options import FILE
from heedful.cli.messages import say
from heedful.data.data_sets import CATALOGUE, data_set
from heedful.errors import DataError


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


@click.command(short_help="Write the built-in corpus as files.")
@click.option("--pair", default="en-de", show_default=True, help="Source and target: two of en, de, ko.")
@click.option("-o", "--output", type=FILE, required=True, help="Folder to write to.")
@click.option("--pairs", type=click.IntRange(1), default=200_000, show_default=True, help="Training pairs.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def corpus(pair: str, output: Path, pairs: int, seed: int) -> None:
    """Write the built-in corpus as files: train, valid, test, alignments, pronouns."""
    from heedful.cli.demo import split_pair
    from heedful.data.grammar.corpus_files import write_corpus

    source, target = split_pair(pair)
    files = [output / f"{part}.{language}" for part in ("train", "valid", "test") for language in (source, target)]
    if there := next((file for file in files if file.exists()), None):
        raise DataError(f"{there}: is there already, and stays as it is; name a new folder, or remove the file")
    write_corpus(output, source, target, seed=seed, train_pairs=pairs)
    say(f"the built-in corpus {source}-{target} is in {output}")


@click.command(short_help="Train on the built-in corpus, score and translate.")
@click.option("--pair", default="en-de", show_default=True, help="Source and target: two of en, de, ko.")
@click.option(
    "-o", "--output", type=FILE, default=None, help="Folder of its corpus and its run.  [default: demo/PAIR-SEED]"
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--steps", type=click.IntRange(1), default=None, help="train.steps of the preset tiny, unless told.")
def demo(pair: str, output: Path | None, seed: int, steps: int | None) -> None:
    """Train on the built-in corpus, score, and translate a few sentences: minutes on two cores."""
    from heedful.cli.demo import run_demo

    sys.exit(run_demo(pair, output or Path("demo") / f"{pair}-{seed}", seed=seed, steps=steps))
