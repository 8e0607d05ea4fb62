"""`heedful doctor`: does every way to compute a model compute the same, and what else seems wrong?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from heedful.cli.commands import options
from heedful.cli.commands.options import FILE

DEFAULT = "[default: the run's, the built-in corpus's, or random ones]"


@click.command(short_help="Does every way to compute a model agree?")
@click.argument("model", type=FILE)
@click.option("-s", "--source", type=FILE, help=f"Sentences to look at.  {DEFAULT}")
@click.option("-t", "--target", type=FILE, help="Their translations.")
@options.family
def doctor(model: Path, source: Path | None, target: Path | None) -> None:
    """Compare training graph, decoding and exports of MODEL; exit code 1 where something does not agree."""
    from heedful.inspection.doctor import examine

    if (source is None) != (target is None):
        raise click.UsageError("-s and -t go together")
    diagnosis = examine(model, source=source, target=target)
    click.echo(diagnosis.to_text())
    sys.exit(0 if diagnosis.is_sound else 1)
