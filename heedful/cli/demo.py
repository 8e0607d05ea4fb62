"""`heedful demo`: from text to translations on the built-in corpus, with nothing but this package and two cores.

What it prints is measured: BLEU on sentences made of combinations that training never showed, and how often the right
pronoun is likelier than the wrong one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from shutil import which

import click

from heedful.cli.messages import say
from heedful.cli.progress import display, duration
from heedful.config.optional_packages import SERVER, install_line, missing
from heedful.config.setting_layers import Layer
from heedful.data.grammar.corpus import DEMO_SENTENCES, LANGUAGES
from heedful.data.grammar.corpus_files import write_corpus
from heedful.errors import ConfigError, counted
from heedful.score.card import MARKDOWN
from heedful.score.model_evaluation import evaluate_translator, keep_on_card
from heedful.train.run.plan import TrainingRequest, decide
from heedful.train.run.start import Outcome, carry_out, interruptible
from heedful.translate.translation import Translator


def split_pair(pair: str) -> tuple[str, str]:
    """`en-de` → (en, de)."""
    source, _, target = pair.partition("-")
    if source not in LANGUAGES or target not in LANGUAGES or source == target:
        raise ConfigError(f"--pair {pair!r}: the built-in corpus has two different languages of {', '.join(LANGUAGES)}")
    return source, target


def run_demo(pair: str, folder: Path, *, seed: int, steps: int | None) -> int:
    """Write the corpus, train, score, translate; returns the exit code."""
    source, target = split_pair(pair)
    text, run = folder / "corpus", folder / "run"
    _refuse_another_pair(folder, text, {source, target})
    if not (text / f"test.{target}").exists():
        say(f"writing the built-in corpus, {pair}, to {text}")
        write_corpus(text, source, target)
    with interruptible(run, say=say) as interruption, display() as shown:
        plan = decide(_request(text, run, source, target, seed, steps))
        outcome = carry_out(plan, say=say, on_record=shown.show, stop=interruption.requested)
    if outcome.model is None:
        return interruption.exit_code
    _report(outcome, text, source, target)
    _next_commands(run, text, source, target)
    return 0


def _refuse_another_pair(folder: Path, text: Path, languages: set[str]) -> None:
    """Two pairs have files of the same names, and the second would replace those of the first."""
    there = {path.suffix.removeprefix(".") for path in text.glob("train.*")}
    if there and there != languages:
        raise ConfigError(f"{folder} holds the demo of {' and '.join(sorted(there))}; name another folder with -o")


def _request(text: Path, run: Path, source: str, target: str, seed: int, steps: int | None) -> TrainingRequest:
    files = {"source": "train", "target": "train", "valid_source": "valid", "valid_target": "valid"}
    languages = {"source": source, "target": target, "valid_source": source, "valid_target": target}
    data = {name: [str(text / f"{part}.{languages[name]}")] for name, part in files.items()}
    train: dict[str, int] = {"seed": seed} | ({"steps": steps} if steps else {})
    layer: Layer = {"data": data, "train": train}
    return TrainingRequest(run, "tiny", (layer,), device="cpu", name=f"built-in-{source}-{target}")


def _report(outcome: Outcome, text: Path, source: str, target: str) -> None:
    """Score, keep the scores on the model's card, translate."""
    translator = Translator.load(outcome.run, device="cpu", engine="torch")
    # Only German pronouns show which noun they mean.
    pronouns = text / "pronouns.tsv" if (text / "pronouns.tsv").exists() else None
    evaluated = evaluate_translator(
        translator, text / f"test.{source}", [text / f"test.{target}"], language=target, contrast=pronouns
    )
    report = evaluated.evaluation.report
    click.echo(f"\nTrained {counted(outcome.step, 'step')} in {duration(outcome.seconds)} on the CPU.")
    click.echo(f"Held-out test, {report.num_lines:,} sentences of combinations that training never showed, beam 4:")
    click.echo(f"  BLEU {report.bleu.value:.1f}   {report.bleu.signature}")
    if report.contrastive_accuracy is None:
        click.echo("  Pronoun accuracy is measured for pairs into German, whose pronouns show which noun they mean.")
    else:
        click.echo(f"  Pronoun accuracy {report.contrastive_accuracy:.1%} (guessing: 50 %)")
    click.echo(f"  All scores, data and settings: {keep_on_card(outcome.run, evaluated) / MARKDOWN}")
    click.echo("\nTranslations:")
    sentences = DEMO_SENTENCES[source]
    for sentence, translation in zip(sentences, translator.translate(sentences), strict=True):
        click.echo(f"  {sentence}\n    → {translation.text}")


def _next_commands(run: Path, text: Path, source: str, target: str) -> None:
    sentence, model = DEMO_SENTENCES[source][0], quote(str(run))
    test, reference = (quote(str(text / f"test.{language}")) for language in (source, target))
    click.echo("\nTry next:")
    click.echo(f'  echo "{sentence}" | heedful translate -m {model} --n-best 4')
    click.echo(f"  heedful evaluate -m {model} -s {test} -r {reference}")
    click.echo(f'  heedful attend -m {model} "{sentence}" -o it.html   # which word looked at which')
    click.echo(f"  heedful serve -m {model}   # the page, and an API{_still_needed()}")
    click.echo("  heedful train -s YOUR.en -t YOUR.de -o runs/mine --preset tiny   # with a GPU: --preset small")
    if which("heedful") is None:
        click.echo(f"(the command is {Path(sys.executable).with_name('heedful')})")


def _still_needed() -> str:
    """What `heedful serve` needs besides this package and is not installed."""
    lacking = missing(SERVER)
    return f"; it needs {install_line(*lacking)}" if lacking else ""
