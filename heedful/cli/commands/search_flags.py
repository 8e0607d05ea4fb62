"""The options of a search and of its output, which every command that translates shares."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import click

from heedful.cli.commands import options

if TYPE_CHECKING:
    from heedful.translate.engine import SearchOptions

ALTERNATIVES = (
    "With --format jsonl: the N likeliest words at the place of each word of the best translation, most often itself "
    "among them, with the probability of the piece that they begin with."
)

_FLAGS = (
    click.option("-b", "--beam-size", type=int, help="Default: decode.beam_size of the model."),
    click.option("--alpha", type=float, help="Length penalty. Default: decode.alpha of the model."),
    click.option("--max-extra", type=int, help="Default: decode.max_extra of the model."),
    click.option("--greedy", is_flag=True, help="The likeliest token at each step: a beam of 1."),
    click.option("--n-best", type=int, default=1, show_default=True, help="So many hypotheses of each line."),
    click.option(
        "--format",
        "form",
        type=click.Choice(["text", "nbest", "jsonl"]),
        default=None,
        help="Default: text; nbest with --n-best over 1.",
    ),
    click.option("--sample", is_flag=True, help="Draw tokens instead of searching."),
    click.option("--temperature", type=float, default=1.0, show_default=True, help="With --sample."),
    click.option("--top-k", type=int, default=0, help="With --sample: of the K likeliest tokens; 0: of all."),
    click.option("--top-p", type=float, default=1.0, help="With --sample: of the likeliest with this share."),
    click.option("--seed", type=int, default=1, show_default=True, help="With --sample."),
)
alternatives_option = click.option("--alternatives", type=click.IntRange(0), default=0, help=ALTERNATIVES)


def search_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with all these options."""
    return reduce(lambda decorated, option: option(decorated), reversed(_FLAGS), command)


def output_form(form: str | None, search: dict[str, Any], alternatives: int) -> str:
    """The form that was asked for, or that goes with the other options."""
    form = form or ("text" if search["n_best"] == 1 else "nbest")
    if alternatives and form != "jsonl":
        raise click.UsageError("--alternatives goes with --format jsonl")
    if form == "text" and search["n_best"] > 1:
        raise click.UsageError(
            f"--n-best {search['n_best']} goes with --format nbest or jsonl; text has the best one alone"
        )
    return form


def refuse_what_would_not_count(search: dict[str, Any]) -> None:
    """Refuse options of another way to search than the one that was asked for."""
    if search["sample"]:
        options.refuse_given("greedy", "beam_size", reason="does not go with --sample, which has no beam")
    else:
        options.refuse_given("temperature", "top_k", "top_p", "seed", reason="goes with --sample")
    if search["greedy"] and search["beam_size"] not in (None, 1):
        raise click.UsageError(f"--greedy is a beam of 1; leave it or --beam-size {search['beam_size']} out")


def search_options(model: SearchOptions, *, greedy: bool, sample: bool, **flags: Any) -> SearchOptions:
    """The model's options, changed by the flags that are given."""
    import msgspec

    from heedful.translate.engine import Sampling

    drawing = {name: flags.pop(name) for name in Sampling.__struct_fields__}
    sampling = Sampling(**drawing) if sample else None
    default_beam = 1 if greedy else max(model.beam_size, flags["n_best"])
    given = {"beam_size": default_beam} | {name: value for name, value in flags.items() if value is not None}
    return msgspec.structs.replace(model, sampling=sampling, **given)
