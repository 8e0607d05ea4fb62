"""A model's report: its translations scored, and how likely the references are to it (perplexity, Table 3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from heedful.corpus import read_lines
from heedful.evaluation import Perplexity, Report, evaluate_model, perplexities
from heedful.translation import Translator


def evaluate_translator(translator: Translator, source: Path, references: Sequence[Path], *, language: str) -> Report:
    """Translate a file and score it against its references; perplexity is that of the first one."""
    lines, targets = list(read_lines(source)), [list(read_lines(path)) for path in references]
    report = evaluate_model(
        translator,
        lines,
        targets,
        language=language or translator.target_language,
        source_name=str(source),
        reference_names=[str(path) for path in references],
    )
    return msgspec.structs.replace(report, perplexity=reference_perplexity(translator, lines, targets[0]))


def reference_perplexity(translator: Translator, lines: Sequence[str], targets: Sequence[str]) -> Perplexity:
    """Per word piece, eos included, and per word, which models of other vocabularies can be compared by."""
    total, pieces = 0.0, 0
    for scored in translator.score(zip(lines, targets, strict=True)):
        total, pieces = total - scored.log_prob, pieces + len(scored.pieces)
    return perplexities(total, pieces, sum(len(target.split()) for target in targets))
