"""`heedful evaluate` and `heedful score`: how good, and how likely, translations are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedful.cli.commands import options
from heedful.cli.commands.options import FILE
from heedful.cli.messages import say
from heedful.errors import counted

if TYPE_CHECKING:
    from heedful.score.model_evaluation import Evaluated


@click.command(short_help="Log-probability of given translations.")
@options.model
@click.option("-s", "--source", type=FILE, required=True, help="Source text.")
@click.option("-t", "--target", type=FILE, help="Target text, line by line; a TSV needs none.")
@click.option("--format", "form", type=click.Choice(["text", "jsonl"]), default="text", show_default=True)
@options.device
@options.family
def score(models: tuple[Path, ...], source: Path, target: Path | None, form: str, device: str) -> None:
    """The model's log-probability of given translations, one a line; the perplexity to stderr."""
    from heedful.data.stdio import output_file
    from heedful.data.text_files import read_pairs
    from heedful.score.evaluation import perplexity
    from heedful.translate.translation import Translator

    pairs = ((pair.source, pair.target) for pair in read_pairs([source], [target] if target else []))
    total, tokens = 0.0, 0
    with output_file(None) as out:
        for scored in Translator.load(*models, device=device, engine="torch").score(pairs):
            out.write(
                (f"{scored.log_prob:.6f}" if form == "text" else json.dumps(scored.record(), ensure_ascii=False)) + "\n"
            )
            total, tokens = total + scored.log_prob, tokens + len(scored.pieces)
    say(f"{counted(tokens, 'word piece')}, eos included: perplexity {perplexity(-total, tokens):.4f}")


@click.command(short_help="BLEU, chrF and TER of a model or a file.")
@click.option("-m", "--model", "models", type=FILE, multiple=True, help="Translate with this model, then score.")
@click.option("-s", "--source", type=FILE, help="Source text, with -m.")
@click.option("--hypotheses", type=FILE, help="Score this file (- is stdin) instead of a model's translations.")
@click.option(
    "-r", "--reference", "references", type=FILE, multiple=True, required=True, help="May be given several times."
)
@click.option(
    "--contrast", type=FILE, help="TSV of source, right and wrong target: how often the right one is likelier."
)
@click.option("-b", "--beam-size", type=int, help="Default: decode.beam_size of the model.")
@click.option("--alpha", type=float, help="Default: decode.alpha of the model.")
@click.option("--language", default="", help="Target language. Default: the model's, or the reference's extension.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--engine", type=options.ENGINES, default="torch", show_default=True, help="auto may compute in int8 on a CPU."
)
@options.precision
@options.device
@options.family
def evaluate(
    models: tuple[Path, ...],
    source: Path | None,
    hypotheses: Path | None,
    references: tuple[Path, ...],
    contrast: Path | None,
    language: str,
    form: str,
    **search: Any,
) -> None:
    """BLEU, chrF and TER with signatures and 95 % intervals: of a model, or of a file of hypotheses.

    The scores of a model are added to its card (card.json and card.md in the model folder), its translations to
    evaluations/ beside it.
    """
    from heedful.score.evaluation import evaluate_files
    from heedful.score.model_evaluation import evaluate_models

    if hypotheses is not None and not models and source is None and contrast is None:
        reason = "goes with -m MODEL; --hypotheses are translated already"
        options.refuse_given("beam_size", "alpha", "engine", "precision", reason=reason)
        report = evaluate_files(hypotheses, references, language=language)
    elif models and source is not None and hypotheses is None:
        _warn_of_other_languages(models[0], source, references[0])
        evaluated = evaluate_models(models, source, references, language=language, contrast=contrast, **search)
        _keep(models, evaluated)
        report = evaluated.evaluation.report
    else:
        raise click.UsageError("give either -m MODEL -s SOURCE, or --hypotheses FILE (without --contrast)")
    click.echo(report.to_json() if form == "json" else report.to_text())


def _warn_of_other_languages(model: Path, source: Path, reference: Path) -> None:
    from heedful.model.checkpoint import find_model, load_config
    from heedful.train.cautions import cautions_of_test

    for caution in cautions_of_test(load_config(find_model(model).config).data, source, reference):
        say(f"warning: {caution}")


def _keep(models: tuple[Path, ...], evaluated: Evaluated) -> None:
    """Keep the scores on the card, or say why they are printed only."""
    from heedful.errors import HeedfulError
    from heedful.score.model_evaluation import keep_on_card

    if len(models) > 1:
        return say("an ensemble has no card: its scores are printed only")
    try:
        say(f"the scores are on the card in {keep_on_card(models[0], evaluated)}")
    except HeedfulError as error:
        say(f"the scores are printed only: {error}")
