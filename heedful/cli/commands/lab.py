"""`heedful lab`: the paper's claims as experiments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heedful.cli.commands import options
from heedful.cli.commands.options import FILE
from heedful.cli.messages import say
from heedful.errors import ConfigError, about, counted

if TYPE_CHECKING:
    from heedful.lab.experiment import Experiment, LabRequest

OUTPUT, QUICK_OUTPUT = Path("runs/lab"), Path("runs/lab-quick")


@click.command(cls=options.CommandWithSeeds, short_help="The paper's claims as experiments.")
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="One seed, few steps, fewer rows, the built-in corpus, no verdicts.")
@click.option("--data", type=FILE, help="Folder of train.en, train.de, valid.en and valid.de (.gz, .xz).")
@options.seeds
@click.option("-o", "--output", type=FILE, help=f"Folder of the lab. Default: {OUTPUT}, or {QUICK_OUTPUT}.")
@click.option("--redo", multiple=True, metavar="ROW", help="Make this row again, with all these seeds.")
@click.option("--time", is_flag=True, help="Only time a step of each row, with nothing beside it.")
@options.device
def lab(
    name: str | None,
    quick: bool,
    data: Path | None,
    seeds: tuple[int, ...],
    output: Path | None,
    redo: tuple[str, ...],
    time: bool,
    device: str,
) -> None:
    """Run an experiment, or all; without a name list them, with what each costs here.

    An experiment leaves a report: its predictions beside what was measured, tables and pictures. Stop it at any time:
    the same command goes on, and finished rows are used again.
    """
    from heedful.lab.catalogue import chosen
    from heedful.lab.experiment import LabRequest

    if quick:
        options.refuse_given(
            "seeds", "data", reason="does not go with --quick, which is one seed of the built-in corpus"
        )
    request = LabRequest(
        output=output or (QUICK_OUTPUT if quick else OUTPUT),
        data=data,
        seeds=(1,) if quick else seeds,
        device=device,
        is_quick=quick,
        command=_command(),
    )
    if name is None:
        options.refuse_given("redo", "time", reason="needs the name of an experiment")
        return _list(request)
    if time:
        options.refuse_given("redo", reason="does not go with --time, which makes no row")
        return _time(chosen(name), request)
    sys.exit(_run(chosen(name), request, redo))


def _command() -> str:
    """What was typed; of a folder only its name, as results are published."""
    return " ".join(["heedful", *(Path(word).name if "/" in word else word for word in sys.argv[1:])])


def _list(request: LabRequest) -> None:
    from heedful.lab.catalogue import EXPERIMENTS
    from heedful.lab.cost import seconds_here
    from heedful.score.tables import plain_table

    rows = [[each.name, about(seconds_here(each, request)), each.section, each.question] for each in EXPERIMENTS]
    click.echo("\n".join(plain_table([["name", "time here", "paper", "question"], *rows])))
    click.echo("\nheedful lab NAME runs one of them, heedful lab NAME --quick a small form of it, heedful lab all all.")


def _time(experiments: Sequence[Experiment], request: LabRequest) -> None:
    from heedful.lab.speeds import FILE, measure_speeds

    with_rows = [experiment for experiment in experiments if experiment.rows]
    if not with_rows:
        raise ConfigError(f"{experiments[0].name} trains nothing, so that there is no step to time; leave --time out")
    for experiment in with_rows:
        measure_speeds(experiment, request, say)
        say(
            f"the speeds are in {request.output / experiment.name / FILE}; the same command without --time reports them"
        )


def _run(experiments: Sequence[Experiment], request: LabRequest, redo: Sequence[str]) -> int:
    """Run experiments until one is stopped; the exit code."""
    from heedful.cli.progress import display
    from heedful.lab.report import report_text
    from heedful.lab.running import forget_rows, run_experiment
    from heedful.train.run.interruption import Interruption

    forget_rows(experiments, request, redo)
    with Interruption() as interruption:
        for n, experiment in enumerate(experiments):
            say(f"{experiment.name} ({n + 1} of {counted(len(experiments), 'experiment')})")
            if experiment.has_own_text and request.data:
                say(f"{experiment.name} is about the built-in corpus: --data is not read")
            with display() as shown:
                done = run_experiment(experiment, request, say=say, on_record=shown.show, stop=interruption.requested)
            if not done.is_whole:
                say(f"stopped; the same command goes on from here. What there is so far: {done.report}")
                return interruption.exit_code
            click.echo("\n\n".join(report_text(experiment, done.findings)))
            say(f"the report is {done.report}")
    return 0
