"""`heedful corpus` and `heedful demo`: the built-in corpus, and training on it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from heedful.cli.commands.options import FILE
from heedful.cli.messages import say
from heedful.errors import DataError


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
