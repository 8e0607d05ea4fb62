"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from heedful.config.setting_layers import Layer

FILE = click.Path(path_type=Path)
MODEL_HELP = "Run folder, model folder or checkpoint; several make an ensemble."
DEVICES, ENGINES = click.Choice(["auto", "cpu", "cuda", "mps"]), click.Choice(["auto", "torch", "ctranslate2"])


def _the_only(context: click.Context, parameter: click.Parameter, models: tuple[Path, ...]) -> Path:
    """Refuse several models, which translate together in other commands, but not in this one."""
    if len(models) > 1:
        raise click.BadParameter(f"one model is asked for here, and {len(models)} are given; leave out all but one")
    return models[0]


def _load_family(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """A model's folder never says which code to load: only the user does."""
    for name in names:
        from heedful.model.registry import load_family

        load_family(name)
    return names


_family: dict[str, Any] = {
    "multiple": True,
    "metavar": "MODULE:CLASS",
    "is_eager": True,
    "callback": _load_family,
    "help": "The code of a model that is not ours.",
}
family = click.option("--family", expose_value=False, **_family)
families = click.option("--family", "families", **_family)  # for a command that starts processes, which load it too
model = click.option("-m", "--model", "models", type=FILE, required=True, multiple=True, help=MODEL_HELP)
one_model = click.option(
    "-m",
    "--model",
    type=FILE,
    required=True,
    multiple=True,
    callback=_the_only,
    help="Run folder, model folder or checkpoint.",
)
device = click.option("--device", type=DEVICES, default="auto", show_default=True)
engine = click.option("--engine", type=ENGINES, default="auto", show_default=True)
precision = click.option(
    "--precision",
    type=click.Choice(["auto", "fp32"]),
    default="auto",
    show_default=True,
    help="auto is bf16 on CUDA, and int8 by ctranslate2; in fp32 a line hardly depends on the others.",
)
split = click.option(
    "--no-split",
    "split",
    is_flag=True,
    flag_value=False,
    default=True,
    help="One segment a line, whatever sentences it holds.",
)
settings = click.option("--set", "settings", multiple=True, metavar="A.B=C", help="A setting: model.d_ff=1024.")
preset = click.option("--preset", metavar="NAME", help="tiny, small, base (the default: the paper's) or big.")
seeds = click.option(
    "--seeds",
    type=click.IntRange(0, 2**32 - 1),
    multiple=True,
    default=(1, 2, 3),
    show_default="1 2 3",
    metavar="SEED…",
    help="One training for each.",
)
recipe = click.argument("recipe", type=FILE, required=False)


def flag_layers(flags: Layer, settings: tuple[str, ...]) -> list[Layer]:
    """The flags that are settings, and what `--set` says, which comes last."""
    from heedful.config.setting_layers import setting

    layers = [setting(text) for text in settings]
    _refuse_two_values(flags, layers)
    return [flags, *layers]


def _refuse_two_values(flags: Layer, settings: list[Layer]) -> None:
    """A setting that is given twice on one command line must be given alike."""
    from heedful.errors import ConfigError

    given = {(section, field): (value, _flag(field)) for section in flags for field, value in flags[section].items()}
    for layer in settings:
        ((section, fields),) = layer.items()
        ((field, value),) = fields.items()
        before, option = given.setdefault((section, field), (value, "--set"))
        if before is not value and before != value:  # NaN, which is refused later, is not equal to itself
            name = f"{section}.{field}"
            raise ConfigError(f"{name} is given twice: {before!r} by {option} and {value!r} by --set; leave one out")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def refuse_given(*names: str, reason: str) -> None:
    """Refuse the first of these options that stands on the command line."""
    source = click.get_current_context().get_parameter_source
    for name in names:
        if source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{_flag(name)} {reason}")


class CommandWithSeeds(click.Command):
    """A command that takes `--seeds 1 2 3` for `--seeds 1 --seeds 2 --seeds 3`."""

    def parse_args(self, context: click.Context, words: list[str]) -> list[str]:
        """Parse with one option for each seed."""
        return super().parse_args(context, list(_one_each("--seeds", words)))


def _one_each(option: str, words: Sequence[str]) -> Iterator[str]:
    """The words, with the option before each of the numbers that follow it."""
    is_listing = False
    for before, word in zip(["", *words], words, strict=False):
        is_listing = before == option or (is_listing and word.isdecimal())
        if is_listing and before != option:
            yield option
        yield word
