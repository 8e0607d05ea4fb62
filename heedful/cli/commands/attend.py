"""`heedful attend`, `positions` and `curves`: pictures that open from disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedful.cli.commands import options
from heedful.cli.commands.options import FILE
from heedful.cli.messages import say

if TYPE_CHECKING:
    from heedful.inspection.attention_map import Kind
    from heedful.translate.translation import Translator

FORMS = (".html", ".svg", ".png", ".json")
KIND = click.Choice(["cross", "encoder", "decoder"])
html_option = click.option("-o", "--output", type=FILE, required=True, help="HTML file to write.")


@click.command(short_help="Draw which word looked at which, in one file.")
@options.one_model
@click.argument("text")
@click.option("-o", "--output", type=FILE, required=True, help="File to write; its ending says what.")
@click.option("--target", help="Look at this translation instead of the model's own, and list its training examples.")
@click.option(
    "--kind", type=KIND, default="cross", show_default=True, help="Of .svg and .png, and shown first in .html."
)
@click.option("--layer", type=int, help="Likewise, from 1; the last one unless told.")
@click.option("--head", type=int, help="Likewise, from 1; the mean of all unless told.")
@options.split
@options.device
@options.family
def attend(model: Path, text: str, output: Path, target: str | None, split: bool, device: str, **place: Any) -> None:
    """Write which word of TEXT looked at which: .html (everything), .svg or .png (one map), .json (the weights).

    TEXT is one sentence.
    """
    from heedful.translate.translation import Translator

    check_form(output, FORMS)
    if output.suffix == ".json":
        reason = "goes with .html, .svg and .png; .json holds every kind, layer and head"
        options.refuse_given("kind", "layer", "head", reason=reason)
    translator = Translator.load(model, device=device, engine="torch")
    if split:
        _refuse_sentences(translator, text)
    if output.suffix == ".html":
        write(output, page(translator, model, text, target, **place))
    elif output.suffix == ".json":
        write(output, weights(translator, text, target))
    else:
        write(output, picture(translator, text, target, output.suffix, **place))
    if target is not None:
        echo_examples(translator, text, target)
    say(f"{output} is written")


def _refuse_sentences(translator: Translator, text: str) -> None:
    """A text of several is translated one by one, so that no map could show all of it."""
    from heedful.data.sentence_splitting import sentences
    from heedful.errors import DataError

    found = sentences(text, translator.source_language)
    if len(found) > 1:
        raise DataError(
            f"TEXT holds {len(found)} sentences, which are translated one by one; give one of them, such as "
            f'"{found[0]}", or look at all as one segment with --no-split'
        )


def page(
    translator: Translator, model: Path, text: str, target: str | None, kind: str, layer: int | None, head: int | None
) -> str:
    """The page with all that it shows of this text."""
    from heedful.inspection.attention_map import check_kind, layers_and_heads, the_model
    from heedful.inspection.drawing import check_place
    from heedful.inspection.page_file import html
    from heedful.inspection.trace import VECTOR_BYTES, folder_card, positions, trace

    inside = the_model(translator)
    sizes = layers_and_heads(inside)
    check_kind(inside.family, sizes, kind)
    check_place(layer, head, *sizes[_named(kind)])
    every = range(max(num_layers for num_layers, _ in sizes.values()))
    found = trace(translator, text, target=target, layers=every, other_vector_bytes=4 * VECTOR_BYTES)
    select = {"kind": kind, "l": -1 if layer is None else layer - 1, "h": [] if head is None else [head - 1]}
    shown = positions(128, inside.config.d_model)
    card = folder_card(model)
    return html({"trace": found, "positions": shown, "select": select, "card": card}, f"heedful: {text}")


def weights(translator: Translator, text: str, target: str | None) -> str:
    """The weights as JSON."""
    from heedful.inspection.trace import look, weights_record

    found = look(translator, text, target)
    record = {
        "source": text,
        "target": translator.tokenizer.decode(found.target.ids),
        "attention": weights_record(found),
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def picture(
    translator: Translator, text: str, target: str | None, form: str, kind: str, layer: int | None, head: int | None
) -> str | bytes:
    """One map as .svg or .png."""
    from heedful.inspection import drawing
    from heedful.inspection.trace import look

    shown = drawing.attention_view(look(translator, text, target), _named(kind), layer=layer, head=head)
    return drawing.svg(shown) if form == ".svg" else drawing.png(shown)


def _named(kind: str) -> Kind:
    from heedful.inspection.attention_map import KINDS

    return next(each for each in KINDS if each == kind)


def echo_examples(translator: Translator, text: str, target: str) -> None:
    """Each prefix, the next word, and its probability: the training examples that one sentence gives."""
    from heedful.inspection.trace import examples, look

    for example in examples(look(translator, text, target)):
        prefix, word = (" ".join(example[name].split()) for name in ("prefix", "next"))
        click.echo(f"{prefix or '<s>'}\t{word}\t{example['p']:.4f}")


@click.command(short_help="Draw the positional encoding of section 3.5.")
@html_option
@click.option("--d-model", type=click.IntRange(1, 4096), default=512, show_default=True, help="The width of the model.")
@click.option("--num-positions", type=click.IntRange(6, 4096), default=512, show_default=True, help="From 0 on.")
def positions(output: Path, d_model: int, num_positions: int) -> None:
    """Draw the positional encoding of section 3.5: all of it, positions compared, dimensions, similarity."""
    from heedful.inspection.page_file import html
    from heedful.inspection.trace import positions as table

    check_form(output, (".html",))
    write(output, html({"positions": table(num_positions, d_model)}, "heedful: positional encoding"))
    say(f"{output} is written")


@click.command(short_help="Draw a run's training: loss, perplexity, BLEU.")
@click.argument("run", type=FILE)
@html_option
def curves(run: Path, output: Path) -> None:
    """Draw what a RUN wrote down: loss, perplexity, BLEU and learning rate."""
    from heedful.data.run_metrics import run_metrics
    from heedful.inspection.page_file import html

    check_form(output, (".html",))
    write(output, html({"metrics": run_metrics(run)}, f"heedful: {run.name}"))
    say(f"{output} is written")


def check_form(output: Path, forms: tuple[str, ...]) -> None:
    """Refuse an ending that we do not write, before any work is done."""
    from heedful.errors import ConfigError

    if output.suffix not in forms:
        raise ConfigError(f"-o {output}: the name must end in {', '.join(forms)}")


def write(output: Path, content: str | bytes) -> None:
    """Write a file, whole or not at all, or say in one line why not."""
    from heedful.data.stdio import output_file

    with output_file(output) as file:
        file.buffer.write(content.encode() if isinstance(content, str) else content)
