"""The command line: one short command per verb. Text goes to stdout, everything said to the user to stderr.

Exit codes: 0; 1 a run failed; 2 the user can mend it, and one line says how; 130 Ctrl-C; 143 SIGTERM. Nothing here
computes: commands call the functions that `import heedful` offers. torch is imported inside commands, so that `--help`
answers at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from heedful import __version__
from heedful.errors import HeedfulError, TrainingError

if TYPE_CHECKING:
    from heedful.config import Layer
    from heedful.pipeline import Order

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
FILE = click.Path(path_type=Path)
model_option = click.option(
    "-m",
    "--model",
    "models",
    type=FILE,
    required=True,
    multiple=True,
    help="Run folder, model folder or checkpoint; several make an ensemble.",
)
device_option = click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda", "mps"]), default="auto", show_default=True
)
set_option = click.option(
    "--set", "settings", multiple=True, metavar="A.B=C", help="Any setting by its name, e.g. model.d_ff=1024."
)
preset_option = click.option("--preset", metavar="NAME", help="tiny, small, base (the default: the paper's) or big.")
recipe_argument = click.argument("recipe", type=FILE, required=False)


def say(text: str) -> None:
    """One line for the user, beside the output proper."""
    click.echo(text, err=True)


def main() -> NoReturn:
    """Run the command; a user's mistake is one line and an exit code, never a traceback."""
    try:
        code = commands.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except HeedfulError as error:
        say(f"heedful: {error}")
        code = 1 if isinstance(error, TrainingError) else 2
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python must not complain of it when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code or 0)


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, prog_name="heedful")
def commands() -> None:
    """From two text files to a translator: the system of "Attention Is All You Need"."""


# -------------------------------------------------------------------------------------------------------- training


@commands.command()
@recipe_argument
@click.option("-s", "--source", type=FILE, multiple=True, help="Training text, one sentence a line (.gz, .xz); or TSV.")
@click.option("-t", "--target", type=FILE, multiple=True, help="Its translation, line by line.")
@click.option("--valid-source", type=FILE, multiple=True, help="Text to validate on.")
@click.option("--valid-target", type=FILE, multiple=True, help="Its translation.")
@click.option("-o", "--output", "run", type=FILE, required=True, help="Run folder; one that exists is gone on with.")
@preset_option
@set_option
@click.option("--steps", type=int, help="train.steps")
@click.option("--precision", type=click.Choice(["fp32", "bf16", "fp64"]), help="train.precision")
@device_option
@click.option("--from", "from_model", type=FILE, metavar="MODEL", help="Fine-tune this model.")
@click.option("--nproc", type=click.IntRange(1), default=1, help="Processes on this machine (one for each GPU).")
@click.option("--dry-run", is_flag=True, help="Print the settings, sizes and memory, and leave.")
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
    from heedful.pipeline import Order

    name, layers = _layers(recipe, preset, _flag_layer(**flags), settings)
    order = Order(run, name, tuple(layers), from_model, device)
    if dry_run:
        return _dry_run(order)
    sys.exit(_launch(order, nproc) if nproc > 1 else _train_here(order))


def _flag_layer(
    source: tuple[Path, ...],
    target: tuple[Path, ...],
    valid_source: tuple[Path, ...],
    valid_target: tuple[Path, ...],
    steps: int | None,
    precision: str | None,
) -> Layer:
    """The flags that are settings, under the settings' names."""
    files = {"source": source, "target": target, "valid_source": valid_source, "valid_target": valid_target}
    data = {name: [str(path) for path in paths] for name, paths in files.items() if paths}
    training = {"steps": steps, "precision": precision}
    return {"data": data, "train": {name: value for name, value in training.items() if value is not None}}


def _layers(
    recipe: Path | None, preset: str | None, flags: Layer, settings: tuple[str, ...]
) -> tuple[str | None, list[Layer]]:
    """Preset < recipe < flags < --set."""
    from heedful.config import read_toml, setting

    named, recipe_layer = read_toml(recipe) if recipe else (None, {})
    return preset or named, [recipe_layer, flags, *map(setting, settings)]


def _train_here(order: Order) -> int:
    """Train in this process; a signal ends the run after a checkpoint."""
    from heedful.interruption import Interruption
    from heedful.pipeline import run_training
    from heedful.progress import display

    with Interruption() as interruption, display() as shown:
        outcome = run_training(order, say=say, on_record=shown.show, stop=interruption.requested)
    if outcome.model is None:
        return interruption.exit_code
    if int(os.environ.get("RANK", "0")) == 0:
        say(f'the model is in {outcome.model}; try: echo "…" | heedful translate -m {outcome.run}')
    return 0


def _launch(order: Order, nproc: int) -> int:
    """Prepare here, where an error is one line; then let torchrun start the processes."""
    from heedful.distributed import World, check_micro_batches
    from heedful.interruption import run_torchrun
    from heedful.pipeline import plan, prepare_run

    check_micro_batches(World(size=nproc), plan(order).config.train.micro_batches)
    prepare_run(order, say=say)
    return run_torchrun(nproc, sys.argv[1:])


def _dry_run(order: Order) -> None:
    from heedful.config import to_toml
    from heedful.pipeline import plan
    from heedful.sizes import memory_estimate

    config = plan(order).config
    click.echo(to_toml(config))
    _echo_sizes(config.model, config.tokenizer.vocab_size)
    memory = memory_estimate(config, config.tokenizer.vocab_size)
    click.echo(
        f"memory        about {memory.total / 1e9:.1f} GB a process in fp32: {memory.parameters / 1e9:.1f} weights and "
        f"optimizer, {memory.activations / 1e9:.1f} activations, {memory.logits / 1e9:.1f} logits"
    )


def _echo_sizes(model: Any, vocab_size: int) -> None:
    from heedful import sizes

    layers = {"encoder": (model.encoder_layers, 1), "decoder": (model.decoder_layers, 2)}
    click.echo(
        f"vocabulary    {vocab_size:,} word pieces, {sizes.embedding_parameters(model, vocab_size):,} parameters"
    )
    for name, (num, attentions) in layers.items():
        click.echo(f"{name}       {num} layers of {sizes.layer_parameters(model, attentions):,} parameters")
    click.echo(f"heads         {model.num_heads} with d_k {model.head_d_k} and d_v {model.head_d_v}")
    click.echo(f"parameters    {sizes.num_parameters(model, vocab_size):,}")


@commands.command()
@click.argument("model", type=FILE, required=False)
@preset_option
@set_option
def info(model: Path | None, preset: str | None, settings: tuple[str, ...]) -> None:
    """Sizes and parameter counts of a MODEL, or of a preset."""
    from heedful.checkpoint import find_model, load_config
    from heedful.config import DEFAULT_PRESET, resolve, setting
    from heedful.config import preset as preset_layer
    from heedful.tokenizer import Tokenizer

    if model is None:
        config = resolve(preset_layer(preset or DEFAULT_PRESET), *map(setting, settings))
        return _echo_sizes(config.model, config.tokenizer.vocab_size)
    files = find_model(model)
    config = load_config(files.config)
    click.echo(f"weights       {files.weights}")
    click.echo(f"languages     {config.data.source_language or '?'} → {config.data.target_language or '?'}")
    _echo_sizes(config.model, Tokenizer.load(files.tokenizer).vocab_size)


@commands.command()
@recipe_argument
@preset_option
@set_option
def config(recipe: Path | None, preset: str | None, settings: tuple[str, ...]) -> None:
    """All settings as TOML: of a preset, a recipe, or both with --set over them."""
    from heedful.config import DEFAULT_PRESET, resolve, to_toml
    from heedful.config import preset as preset_layer

    name, layers = _layers(recipe, preset, {}, settings)
    click.echo(to_toml(resolve(preset_layer(name or DEFAULT_PRESET), *layers)), nl=False)


@commands.command()
@click.argument("checkpoints", type=FILE, nargs=-1, required=True)
@click.option("-o", "--output", type=FILE, required=True, help="Model folder to write.")
def average(checkpoints: tuple[Path, ...], output: Path) -> None:
    """Average the weights of several CHECKPOINTS of one run into a model folder."""
    from heedful.checkpoint import average as mean
    from heedful.checkpoint import find_model, load_config, save_model
    from heedful.errors import CheckpointError

    if output.exists():
        raise CheckpointError(f"{output}: is there already; name a new folder")
    files = [find_model(path) for path in checkpoints]
    save_model(output, mean([f.weights for f in files]), load_config(files[0].config), files[0].tokenizer)
    say(f"the average of {len(files)} checkpoints is in {output}")


@commands.command()
@click.option("--pair", default="en-de", show_default=True, help="Source and target: two of en, de, ko.")
@click.option("-o", "--output", type=FILE, required=True, help="Folder to write to.")
@click.option("--pairs", type=click.IntRange(1), default=200_000, show_default=True, help="Training pairs.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def corpus(pair: str, output: Path, pairs: int, seed: int) -> None:
    """Write the built-in corpus as files: train, valid, test, alignments, pronouns."""
    from heedful.demo import split_pair
    from heedful.grammar import write_corpus

    source, target = split_pair(pair)
    write_corpus(output, source, target, seed=seed, train_pairs=pairs)
    say(f"the built-in corpus {source}-{target} is in {output}")


@commands.command()
@click.option("--pair", default="en-de", show_default=True, help="Source and target: two of en, de, ko.")
@click.option("-o", "--output", type=FILE, default=None, help="Run folder.  [default: demo/PAIR-SEED]")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--steps", type=click.IntRange(1), default=None, help="train.steps of the preset tiny, unless told.")
def demo(pair: str, output: Path | None, seed: int, steps: int | None) -> None:
    """Train on the built-in corpus, score, and translate a few sentences: minutes on two cores."""
    from heedful.demo import run_demo

    sys.exit(run_demo(pair, output or Path("demo") / f"{pair}-{seed}", seed=seed, steps=steps))
