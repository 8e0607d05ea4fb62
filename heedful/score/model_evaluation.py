"""A model's report, kept on its card: its translations scored, and how likely the references are to it (Table 3).

It knows a translator and files; how scores are counted is in `evaluation.py`, what a card holds in `card.py`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from heedful import __version__
from heedful.data.atomic import held_in_turn
from heedful.data.languages import has_spaces
from heedful.data.text_files import read_lines, refuse_odd_names, refuse_pipe, refuse_tsv
from heedful.errors import CheckpointError, DataError, counted
from heedful.model.checkpoint import find_model, weights_digest
from heedful.score.bootstrap import packed_counts
from heedful.score.card import Evaluation, identify, text_file, write_card, write_translations
from heedful.score.card_tables import to_markdown
from heedful.score.evaluation import checked, evaluate, perplexities
from heedful.score.new_card import card_of, new_card
from heedful.score.provenance import commit, machine, now
from heedful.score.report import Perplexity, Report
from heedful.score.scores import MAX_RESAMPLED_LINES
from heedful.translate.translation import Translator


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The scores on a test set, the translations that were scored, and the weights that made them."""

    evaluation: Evaluation
    translations: tuple[str, ...]
    weights_sha256: str = ""  # of the first model; empty: not known


def evaluate_models(
    models: Sequence[Path],
    source: Path,
    references: Sequence[Path],
    *,
    language: str = "",
    contrast: Path | None = None,
    beam_size: int | None = None,
    alpha: float | None = None,
    device: str = "auto",
    engine: str = "torch",
    precision: str = "auto",
) -> Evaluated:
    """Translate with saved models, several as an ensemble, and score; the models' search options are the defaults."""
    digest = weights_digest(find_model(models[0]).weights)
    translator = Translator.load(*models, device=device, engine=engine, precision=precision)
    given = {name: value for name, value in (("beam_size", beam_size), ("alpha", alpha)) if value is not None}
    translator.options = msgspec.structs.replace(translator.options, **given)
    evaluated = evaluate_translator(translator, source, references, language=language, contrast=contrast)
    return replace(evaluated, weights_sha256=digest)


def evaluate_translator(
    translator: Translator,
    source: Path,
    references: Sequence[Path],
    *,
    language: str = "",
    contrast: Path | None = None,
) -> Evaluated:
    """Translate a file and score it against its references; perplexity is that of the first one.

    `contrast` is a TSV of source, right and wrong target.
    """
    _refuse_odd_files(source, references, contrast)
    language = language or translator.target_language
    code, computing = commit(), translator.engine.computing(translator.options)
    source_file, *reference_files = map(text_file, (source, *references))
    contrast_file, cases = (text_file(contrast), contrast_cases(contrast)) if contrast else (None, [])
    lines, *targets = (list(read_lines(path)) for path in (source, *references))
    checked(lines, targets, language, str(source), [str(path) for path in references])
    began = time.monotonic()
    texts = [translation.text for translation in translator.translate(lines, split=False)]
    seconds = time.monotonic() - began
    report = _report(translator, lines, targets, cases, texts, language)
    name, digest = identify(source_file, reference_files)
    few = len(lines) <= MAX_RESAMPLED_LINES
    evaluation = Evaluation(
        name=name,
        sha256=digest,
        source=source_file,
        references=tuple(reference_files),
        contrast=contrast_file,
        date=now(),
        version=__version__,
        commit=code,
        machine=machine(computing.device),
        engine=computing.engine,
        beam_size=translator.options.beam_size,
        alpha=translator.options.alpha,
        seconds=seconds,
        report=report,
        sentence_counts=packed_counts(texts, targets, tokenizer=report.tokenizer.name) if few else {},
    )
    return Evaluated(evaluation, tuple(texts))


def _refuse_odd_files(source: Path, references: Sequence[Path], contrast: Path | None) -> None:
    """Refuse pipes, TSVs and names that are not UTF-8, before the work begins."""
    for path in (source, *references, *([contrast] if contrast else [])):
        refuse_pipe(path)
        refuse_odd_names([path.name])
    for path in (source, *references):
        refuse_tsv(path)


def _report(
    translator: Translator,
    lines: Sequence[str],
    targets: Sequence[Sequence[str]],
    cases: Sequence[Sequence[str]],
    texts: Sequence[str],
    language: str,
) -> Report:
    """The report of these translations. A long line is translated in parts but scored as one, which may be too long."""
    report = evaluate(texts, targets, language=language)
    perplexity, notes = None, list[str]()
    try:
        perplexity = reference_perplexity(translator, lines, targets[0], language)
    except DataError as error:
        notes = [f"no perplexity: {error}"]
    return msgspec.structs.replace(
        report,
        perplexity=perplexity,
        contrastive_accuracy=contrastive_accuracy(translator, cases) if cases else None,
        notes=(*report.notes, *notes),
    )


def reference_perplexity(
    translator: Translator, lines: Sequence[str], targets: Sequence[str], language: str
) -> Perplexity | None:
    """Perplexity per word piece, eos included, and per word, which compares models with different vocabularies.

    An infinite perplexity is left out, as JSON lacks infinity.
    """
    total, pieces = 0.0, 0
    for scored in translator.score(zip(lines, targets, strict=True)):
        total, pieces = total - scored.log_prob, pieces + len(scored.pieces)
    words = [sum(len(target.split()) for target in targets)] if has_spaces(language) else []
    found = perplexities(total, pieces, *words)
    if found.per_word is not None and not math.isfinite(found.per_word):
        found = perplexities(total, pieces)
    return found if math.isfinite(found.per_piece) else None


def contrastive_accuracy(translator: Translator, cases: Sequence[Sequence[str]]) -> float:
    """How often the right target (of source, right, wrong) is likelier than the wrong one; a tie is not right."""
    right, wrong = (
        [scored.log_prob for scored in translator.score((case[0], case[column]) for case in cases)] for column in (1, 2)
    )
    return sum(one > other for one, other in zip(right, wrong, strict=True)) / len(cases)


def contrast_cases(path: Path) -> list[list[str]]:
    """The lines of a TSV: source, right target, wrong target."""
    cases = [line.split("\t") for line in read_lines(path)]
    for number, case in enumerate(cases, start=1):
        if len(case) != 3:
            raise DataError(
                f"{path}:{number}: {counted(len(case), 'field')}, where source, right and wrong target must stand"
            )
    if not cases:
        raise DataError(f"{path} is empty")
    return cases


# --------------------------------------------------------------------------------------------------------- on the card


def card_place(model: Path) -> Path:
    """The folder of a model's card; a checkpoint has none."""
    files = find_model(model)
    if files.weights.parent != files.config.parent:
        raise CheckpointError(f"{files.weights.parent}: is a checkpoint, and a card belongs to a model folder")
    return files.config.parent


def keep_on_card(model: Path, evaluated: Evaluated) -> Path:
    """Add the scores to the card of a model, and the translations beside it; returns the folder.

    If a run has replaced the weights meanwhile, the scores belong on no card, and an error says so.
    """
    files, folder = find_model(model), card_place(model)
    with held_in_turn(folder):
        card = card_of(files) or new_card(files)
        if evaluated.weights_sha256 not in ("", card.weights_sha256):
            raise CheckpointError(f"{folder}: has other weights than those that were scored; evaluate it again")
        card = card.with_evaluation(evaluated.evaluation)
        write_translations(folder, evaluated.evaluation, evaluated.translations)
        write_card(folder, card, to_markdown(card))
    return folder
