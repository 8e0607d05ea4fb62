"""`heedful export`: a model as a folder that other libraries load."""

from __future__ import annotations

from pathlib import Path

import click

from heedful.cli.commands import options
from heedful.cli.commands.options import FILE
from heedful.cli.messages import say


@click.command(short_help="A model for CTranslate2 or Hugging Face.")
@options.one_model
@click.option(
    "--to", "form", type=click.Choice(["ctranslate2", "huggingface"]), required=True, help="Who will load it."
)
@click.option("-o", "--output", type=FILE, required=True, help="Folder to write; one that holds something is refused.")
@click.option(
    "--quantize",
    type=click.Choice(["float32", "int8"]),
    default=None,
    help="With --to ctranslate2: int8 is a quarter of the size and faster.  [default: float32]",
)
@options.family
def export(model: Path, form: str, output: Path, quantize: str | None) -> None:
    """Write a model for CTranslate2, or for Hugging Face's MarianMTModel and MarianTokenizer."""
    import torch

    from heedful.data.atomic import refuse_full
    from heedful.model.checkpoint import load_model
    from heedful.translate.export.ctranslate2 import write_ctranslate2
    from heedful.translate.export.marian import write_huggingface

    if form == "huggingface" and quantize is not None:
        raise click.UsageError("--quantize goes with --to ctranslate2")
    refuse_full(output)
    loaded = load_model(model, device=torch.device("cpu"))
    if form == "huggingface":
        write_huggingface(loaded, output)
    else:
        write_ctranslate2(loaded, output, quantize=quantize or "float32")
    say(f"the model is in {output}, for {form}; its text is to be in NFC (unicodedata.normalize)")
