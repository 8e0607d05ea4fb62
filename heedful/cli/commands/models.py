"""`heedful info`, `config` and `average`: what a model is, what its settings are, and the mean of several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heedful.cli.commands import options
from heedful.cli.commands.options import FILE
from heedful.cli.messages import say
from heedful.errors import counted

if TYPE_CHECKING:
    from heedful.config.settings import FamilyConfig
    from heedful.model.parameter_count import Shapes


def echo_sizes(model: FamilyConfig, vocab_size: int, shapes: Shapes, *above: tuple[str, str]) -> None:
    """Where the parameters are, below the rows `above`; `shapes` are those of the parameters."""
    rows = [*above, *_size_rows(model, vocab_size, shapes)]
    width = max(13, *(len(name) for name, _ in rows))
    for name, text in rows:
        click.echo(f"{name:{width}} {text}")


def _size_rows(model: FamilyConfig, vocab_size: int, shapes: Shapes) -> Iterator[tuple[str, str]]:
    from heedful.config.settings import DEFAULT_FAMILY, ModelConfig
    from heedful.model.parameter_count import count

    if model.family != DEFAULT_FAMILY:
        yield "family", model.family
    yield "vocabulary", f"{vocab_size:,} word pieces"
    for part in dict.fromkeys(map(_part, shapes)):
        inside = {name: shape for name, shape in shapes.items() if _part(name) == part}
        num = len({name.split(".")[1] for name in inside if re.match(rf"{part}\.\d+\.", name)})
        of = f"{counted(num, 'layer')} of {count(inside, f'{part}.0.'):,}" if num else f"{count(inside):,}"
        yield part, f"{of} parameters"
    if isinstance(model, ModelConfig):
        yield "heads", f"{model.num_heads} with d_k {model.head_d_k} and d_v {model.head_d_v}"
    yield "parameters", f"{count(shapes):,}"


def _part(name: str) -> str:
    """Which part of the model a parameter belongs to; positions are one of their own."""
    return "positions" if ".positions." in name else name.partition(".")[0]


@click.command(short_help="Sizes and parameter counts of a model.")
@click.argument("model", type=FILE, required=False)
@options.preset
@options.settings
@options.family
def info(model: Path | None, preset: str | None, settings: tuple[str, ...]) -> None:
    """Sizes and parameter counts of a MODEL, or of a preset."""
    from heedful.config.setting_layers import DEFAULT_PRESET, PRESETS, resolve, setting
    from heedful.config.setting_layers import preset as preset_layer
    from heedful.data.tokenizer import Tokenizer
    from heedful.errors import ConfigError
    from heedful.model.checkpoint import find_model, load_config, load_shapes
    from heedful.model.parameter_count import shapes_of_new

    if model is None:
        layers = list(map(setting, settings))
        config = resolve(preset_layer(preset or DEFAULT_PRESET, *layers), *layers)
        vocab_size = config.tokenizer.vocab_size
        return echo_sizes(config.model, vocab_size, shapes_of_new(config.model, vocab_size))
    if preset or settings:
        raise click.UsageError("--preset and --set show what a new model would be; they go without MODEL")
    if str(model) in PRESETS and not model.exists():
        raise ConfigError(f"{model}: no such folder; the sizes of the preset are shown by --preset {model}")
    files = find_model(model)
    config = load_config(files.config)
    pair = f"{config.data.source_language or '?'} → {config.data.target_language or '?'}"
    above = ("weights", str(files.weights)), ("languages", pair)
    echo_sizes(config.model, Tokenizer.load(files.tokenizer).vocab_size, load_shapes(files.weights), *above)


@click.command(short_help="All settings, as TOML.")
@options.recipe
@options.preset
@options.settings
@options.family
def config(recipe: Path | None, preset: str | None, settings: tuple[str, ...]) -> None:
    """All settings as TOML: of a preset, a recipe, or both with --set over them.

    Sizes that follow from others unless they are set stand behind a #.
    """
    from heedful.config.recipe import read_recipe
    from heedful.config.setting_layers import DEFAULT_PRESET, all_settings, resolve
    from heedful.config.setting_layers import preset as preset_layer

    named, of_recipe = read_recipe(recipe) if recipe else (None, {})
    layers = [of_recipe, *options.flag_layers({}, settings)]
    of_preset = preset_layer(preset or named or DEFAULT_PRESET, *layers)
    click.echo(all_settings(resolve(of_preset, *layers)), nl=False)


@click.command(short_help="Average the weights of several checkpoints.")
@click.argument("checkpoints", type=FILE, nargs=-1, required=True)
@click.option("-o", "--output", type=FILE, required=True, help="Model folder to write.")
@options.family
def average(checkpoints: tuple[Path, ...], output: Path) -> None:
    """Average the weights of several CHECKPOINTS of one run into a model folder."""
    from heedful.errors import CheckpointError
    from heedful.model.checkpoint import average as mean
    from heedful.model.checkpoint import check_same_model, find_model, load_config, save_model

    if output.exists():
        raise CheckpointError(f"{output}: is there already; name a new folder")
    files = [find_model(path) for path in checkpoints]
    if len(files) == 1:
        raise CheckpointError(_no_average(checkpoints[0]))
    check_same_model(files)
    save_model(output, mean([f.weights for f in files]), load_config(files[0].config), files[0].tokenizer)
    say(f"the average of {counted(len(files), 'checkpoint')} is in {output}")


def _no_average(path: Path) -> str:
    """A run's model is the average of its last checkpoints already; a copy is not what was asked for."""
    from heedful.data.run_folder import CHECKPOINTS

    run = path.parent.parent if path.parent.name == CHECKPOINTS else path
    several = run / CHECKPOINTS / "step-*" if (run / CHECKPOINTS).is_dir() else f"RUN/{CHECKPOINTS}/step-*"
    return f"{path}: one model alone has no average; name several checkpoints of a run, such as {several}"
