"""How well a trained row translates given pairs: perplexity of the references, and BLEU of greedy translations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.text import TARGET, Pairs
from heedful.score.evaluation import validation_bleu
from heedful.score.model_evaluation import reference_perplexity
from heedful.translate.translation import Translator


def perplexity(translator: Translator, pairs: Pairs) -> float:
    """Per word piece, as in validation."""
    lines, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    found = reference_perplexity(translator, lines, targets, TARGET)
    return found.per_piece if found else float("inf")


def greedy(translator: Translator, lines: Sequence[str]) -> list[str]:
    """Translations without beam search."""
    options = msgspec.structs.replace(translator.options, beam_size=1)
    return [found.text for found in translator.translate(lines, options=options, split=False)]


def bleu(translator: Translator, pairs: Pairs) -> float:
    """BLEU of greedy translations."""
    translations = greedy(translator, [pair.source for pair in pairs])
    return validation_bleu(translations, [[pair.target for pair in pairs]], language=TARGET).value


def quality(translator: Translator, pairs: Pairs, name: str = "") -> dict[str, float]:
    """Both, each with this name behind it."""
    ending = f" {name}" if name else ""
    return {f"{PERPLEXITY}{ending}": perplexity(translator, pairs), f"{BLEU}{ending}": bleu(translator, pairs)}
