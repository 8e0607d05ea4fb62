"""`heedful compare`: recipes and variants of a recipe, trained with the same seeds and tested against the first."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from heedful.cli.commands import options
from heedful.cli.commands.options import FILE
from heedful.cli.messages import say

RUNS, REPORT = Path("runs"), "comparison"


@click.command(cls=options.CommandWithSeeds, short_help="Recipes side by side, over several seeds.")
@click.argument("recipes", type=FILE, nargs=-1, required=True, metavar="RECIPE…")
@click.option("--data", type=FILE, required=True, help="Folder of train, validation and test files (.gz, .xz).")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar='"A.B=C …"',
    help="A variant of the first recipe with these settings; may be given several times.",
)
@options.seeds
@click.option("--valid", default="valid", show_default=True, help="Name of the validation set.")
@click.option("--test", "tests", multiple=True, metavar="NAME", help="Sets to score on. Default: the validation set.")
@click.option("-o", "--output", type=FILE, default=RUNS, show_default=True, help="Folder of the runs.")
@options.device
def compare(
    recipes: tuple[Path, ...],
    data: Path,
    changes: tuple[str, ...],
    seeds: tuple[int, ...],
    valid: str,
    tests: tuple[str, ...],
    output: Path,
    device: str,
) -> None:
    """Train recipes with each seed, score them, and show how each differs from the first.

    The run of a seed is in OUTPUT/RECIPE-SEED, and goes on if it was stopped. Table, curves and CSV are in
    OUTPUT/comparison. Tune on the validation set, and look at a test set once.
    """
    from heedful.cli.progress import display
    from heedful.lab.compare.compared_runs import CompareRequest, compared_runs
    from heedful.lab.compare.comparison_report import comparison_text, write_comparison
    from heedful.lab.compare.variants import variants_of
    from heedful.train.run.interruption import Interruption

    variants = variants_of(recipes, changes)
    request = CompareRequest(variants, data, seeds, output, device, valid, tests or (valid,))
    with Interruption() as interruption, display() as shown:
        runs = compared_runs(request, say=say, on_record=shown.show, stop=interruption.requested)
    if runs:
        report = write_comparison(output / REPORT, runs)
        click.echo(comparison_text(runs))
        say(f"the report is {report}")
    if len(runs) < len(variants) * len(seeds):
        say("stopped; the same command goes on from here")
        sys.exit(interruption.exit_code)
