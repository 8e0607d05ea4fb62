"""`heedful train`: text files → a translator."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from heedful.cli.commands import options
from heedful.cli.commands.models import echo_sizes
from heedful.cli.commands.options import FILE
from heedful.cli.messages import say

if TYPE_CHECKING:
    from heedful.config.setting_layers import Layer
    from heedful.train.run.plan import Plan, TrainingRequest


_TEXT_OPTIONS = (
    click.option(
        "-s", "--source", type=FILE, multiple=True, help="Training text, one sentence a line (.gz, .xz, .zst); or TSV."
    ),
    click.option("-t", "--target", type=FILE, multiple=True, help="Its translation, line by line."),
    click.option("--valid-source", type=FILE, multiple=True, help="Text to validate on."),
    click.option("--valid-target", type=FILE, multiple=True, help="Its translation."),
)


def text_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the options that name text files."""
    return reduce(lambda decorated, option: option(decorated), reversed(_TEXT_OPTIONS), command)


@click.command(short_help="Train from aligned text files, or go on.")
@options.recipe
@text_options
@click.option("-o", "--output", "run", type=FILE, required=True, help="Run folder; one that exists is gone on with.")
@options.preset
@options.settings
@click.option("--steps", type=int, help="train.steps")
@click.option("--precision", type=click.Choice(["fp32", "bf16", "fp64"]), help="train.precision")
@options.device
@click.option("--from", "from_model", type=FILE, metavar="MODEL", help="Fine-tune this model.")
@click.option("--nproc", type=click.IntRange(1), default=1, help="Processes on this machine (one for each GPU).")
@click.option("--dry-run", is_flag=True, help="Print settings, sizes, memory, time and warnings, and leave.")
@options.family
def train(
    recipe: Path | None,
    run: Path,
    preset: str | None,
    settings: tuple[str, ...],
    device: str,
    from_model: Path | None,
    nproc: int,
    dry_run: bool,
    **flags: Any,
) -> None:
    """Train a translator from aligned text files, or go on with a run."""
    from heedful.train.run.plan import TrainingRequest, decide

    layers = tuple(options.flag_layers(flag_layer(flags), settings))
    request = TrainingRequest(run, preset, layers, from_model, device, recipe)
    if dry_run:
        return _dry_run(decide(request), nproc)
    sys.exit(_launch(request, nproc) if nproc > 1 else _train_here(request))


def flag_layer(flags: Mapping[str, Any]) -> Layer:
    """The flags that are settings, under the settings' names."""
    from heedful.config.settings import TEXT_FILES

    data = {name: [str(path) for path in flags[name]] for name in TEXT_FILES if flags[name]}
    train = {name: flags[name] for name in ("steps", "precision") if flags.get(name) is not None}
    return {"data": data, "train": train}


def _train_here(request: TrainingRequest) -> int:
    """Train in this process; a signal ends the run after a checkpoint."""
    from heedful.cli.progress import display
    from heedful.train.run.interruption import leave_with_launcher
    from heedful.train.run.plan import decide
    from heedful.train.run.start import carry_out, interruptible

    leave_with_launcher()
    with interruptible(request.run, say=say) as interruption, display() as shown:
        outcome = carry_out(decide(request), say=say, on_record=shown.show, stop=interruption.requested)
    if outcome.model is None:
        return interruption.exit_code
    if int(os.environ.get("RANK", "0")) == 0:
        say(f'the model is in {outcome.model}; try: echo "…" | heedful translate -m {quote(str(outcome.run))}')
    return 0


def _launch(request: TrainingRequest, nproc: int) -> int:
    """Prepare here, where an error is one line; then let torchrun start the processes."""
    from heedful.model.device import choose_device
    from heedful.train.processes import World, check_micro_batches
    from heedful.train.run.interruption import run_torchrun
    from heedful.train.run.plan import decide
    from heedful.train.run.start import interruptible, prepare_run

    choose_device(request.device, local_rank=nproc - 1)
    with interruptible(request.run, say=say):
        plan = decide(request)
        check_micro_batches(World(size=nproc), plan.config.train.micro_batches)
        prepare_run(plan, say=say)
    return run_torchrun(nproc, sys.argv[1:], say=say)


def _dry_run(plan: Plan, nproc: int) -> None:
    from heedful.config.setting_layers import to_toml
    from heedful.model.parameter_count import shapes_of_new
    from heedful.train.memory_estimate import memory_estimate
    from heedful.train.processes import World, check_micro_batches

    config = plan.config
    check_micro_batches(World(size=nproc), config.train.micro_batches)
    vocab_size = _vocab_size(plan)
    click.echo(to_toml(config))
    echo_sizes(config.model, vocab_size, shapes_of_new(config.model, vocab_size))
    memory = memory_estimate(config, vocab_size, device=plan.device_type)
    kept = (
        "activations, which are not counted"
        if memory.activations is None
        else f"{memory.activations / 1e9:.1f} activations"
    )
    click.echo(
        f"memory        about {memory.total / 1e9:.1f} GB a process in fp32: {memory.parameters / 1e9:.1f} weights and "
        f"optimizer, {kept}, {memory.logits / 1e9:.1f} logits"
    )
    click.echo(f"time          {_time(plan, vocab_size, nproc)}")
    for message in plan.messages:
        say(message)


def _time(plan: Plan, vocab_size: int, nproc: int) -> str:
    """How long this machine will take for the steps that are to be done, if it has the device."""
    from heedful.errors import DeviceError, about, counted
    from heedful.model.checkpoint import resume_step
    from heedful.model.device import choose_device
    from heedful.train.time_estimate import estimate

    steps = plan.config.train.steps - resume_step(plan.run)
    if steps <= 0:
        return f"none: all {counted(plan.config.train.steps, 'step')} are done"
    try:
        device = choose_device(plan.device)
        measured = estimate(plan.config, vocab_size, device)
    except DeviceError as error:
        return f"not measured: {error}"
    seconds = measured.seconds_per_step / (nproc if device.type == "cuda" else 1)  # a CPU is shared by all processes
    digits = 2 if seconds < 10 else 0
    return (
        f"about {about(steps * seconds)} on this machine: {counted(steps, 'step')} of {seconds:,.{digits}f} s on "
        f"{measured.where}, scaled from a slice of {measured.rows:,} tokens; validations and checkpoints come on top"
    )


def _vocab_size(plan: Plan) -> int:
    """The size of the run's tokenizer, or the configured size if it is still to be learned."""
    from heedful.data.run_folder import TOKENIZER
    from heedful.data.tokenizer import Tokenizer

    own = plan.run / TOKENIZER
    return Tokenizer.load(own).vocab_size if own.exists() else plan.config.tokenizer.vocab_size
