"""`heedful translate`: one line out for each line in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedful.commands.options import FILE, device_option, engine_option, model_option, say

if TYPE_CHECKING:
    from heedful.engines import SearchOptions
    from heedful.translation import Translation, Translator


@click.command()
@model_option
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default="-")
@click.option("-o", "--output", type=FILE, help="Write here instead of to stdout.")
@click.option("-b", "--beam-size", type=int, help="Default: decode.beam_size of the model.")
@click.option("--alpha", type=float, help="Length penalty. Default: decode.alpha of the model.")
@click.option("--max-extra", type=int, help="Default: decode.max_extra of the model.")
@click.option("--greedy", is_flag=True, help="The likeliest token at each step: a beam of 1.")
@click.option("--n-best", type=int, default=1, show_default=True, help="So many hypotheses of each line.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "nbest", "jsonl"]),
    default=None,
    help="Default: text; nbest with --n-best over 1.",
)
@click.option("--sample", is_flag=True, help="Draw tokens instead of searching.")
@click.option("--temperature", type=float, default=1.0, show_default=True, help="With --sample.")
@click.option("--top-k", type=int, default=0, help="With --sample: of the K likeliest tokens; 0: of all.")
@click.option("--top-p", type=float, default=1.0, help="With --sample: of the likeliest with this share.")
@click.option("--seed", type=int, default=1, show_default=True, help="With --sample.")
@click.option("--prefix", type=FILE, help="File with what each translation must begin with, line by line.")
@engine_option
@device_option
def translate(
    models: tuple[Path, ...],
    file: Path,
    output: Path | None,
    form: str | None,
    prefix: Path | None,
    engine: str,
    device: str,
    **search: Any,
) -> None:
    """Translate FILE (- is stdin): one line out for each line in, in order, and nothing else."""
    from heedful.lines import input_lines, output_file
    from heedful.translation import Translator

    translator = Translator.load(*models, device=device, engine=engine)
    form, num_split = form or ("text" if search["n_best"] == 1 else "nbest"), 0
    options = replace(search_options(translator.options, **search), token_scores=form == "jsonl")
    prefixes = input_lines(prefix) if prefix else None
    with output_file(output) as out:
        for number, translation in enumerate(_translations(translator, file, options, prefixes)):
            out.write("".join(f"{line}\n" for line in _formatted(form, number, translation)))
            out.flush()
            num_split += translation.num_parts > 1
    if num_split:
        say(f"{num_split:,} lines were longer than data.max_length of the model: translated in parts and joined")


def search_options(
    model: SearchOptions,
    beam_size: int | None,
    alpha: float | None,
    max_extra: int | None,
    greedy: bool,
    n_best: int,
    sample: bool,
    **sampling: Any,
) -> SearchOptions:
    """What the flags say over what the model's configuration says."""
    from heedful.engines import Sampling, SearchOptions

    return SearchOptions(
        beam_size=1 if greedy else (beam_size if beam_size is not None else max(model.beam_size, n_best)),
        alpha=model.alpha if alpha is None else alpha,
        max_extra=model.max_extra if max_extra is None else max_extra,
        n_best=n_best,
        sampling=Sampling(**sampling) if sample else None,
    )


def _translations(
    translator: Translator, file: Path, options: SearchOptions, prefixes: Iterator[str] | None
) -> Iterator[Translation]:
    """From stdin what has come is translated at once. (Samples depend on a line's number, so they need one stream.)"""
    from heedful.lines import STDIN, bursts, input_lines

    if file != STDIN or prefixes is not None or options.sampling is not None:
        yield from translator.translate_lines(input_lines(file), options=options, prefixes=prefixes)
        return
    for burst in bursts(input_lines(file)):
        yield from translator.translate_lines(burst, options=options)


def _formatted(form: str, number: int, translation: Translation) -> list[str]:
    """text: the best one; nbest: `i ||| text ||| features ||| score` as Moses writes it; jsonl: all there is."""
    if form == "text":
        return [translation.text]
    if form == "jsonl":
        return [json.dumps(translation.record(), ensure_ascii=False)]
    return [f"{number} ||| {h.text} ||| logprob={h.log_prob:.4f} ||| {h.score:.4f}" for h in translation.hypotheses]
