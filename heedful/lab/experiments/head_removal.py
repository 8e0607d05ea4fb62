"""What a trained model loses with each of its heads: perplexity, BLEU, and how often the right pronoun is likelier.

A head is removed by setting its columns of W_O to zero, so that nothing of it is added to the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from heedful.inspection.attention_map import the_model
from heedful.lab.metrics import BLEU
from heedful.lab.quality import quality
from heedful.lab.text import PRONOUNS, VALID
from heedful.lab.trained import Trained
from heedful.model.attention import MultiHeadAttention
from heedful.score.model_evaluation import contrast_cases, contrastive_accuracy
from heedful.translate.open_engine import search_engine
from heedful.translate.translation import Translator

SENTENCES, CASES = 300, 400
PRONOUN, WITHOUT = "pronouns, %", "without"


class Head(NamedTuple):
    """One head, and the name of its place: `decoder.0.cross_attention 2`, where heads count from 1."""

    name: str
    attention: MultiHeadAttention
    number: int


def heads_of(model: nn.Module) -> Iterator[Head]:
    """Every head of every attention."""
    for name, part in model.named_modules():
        if isinstance(part, MultiHeadAttention):
            yield from (Head(f"{name} {number + 1}", part, number) for number in range(part.num_heads))


@contextmanager
def removed(head: Head) -> Iterator[None]:
    """Within this context the head adds nothing."""
    weight_DX = head.attention.W_O.weight
    columns_DK = weight_DX.unflatten(1, (head.attention.num_heads, -1))[:, head.number]
    kept_DK = columns_DK.detach().clone()
    with torch.no_grad():
        columns_DK.zero_()
    try:
        yield
    finally:
        with torch.no_grad():
            columns_DK.copy_(kept_DK)


def removals(trained: Trained) -> dict[str, float]:
    """The scores of the whole model and without each head; of BLEU and pronouns also the mean loss."""
    translator = trained.translator()
    model = the_model(translator)
    whole = _scores(translator, trained)
    found = dict(whole)
    losses: dict[str, list[float]] = {BLEU: [], PRONOUN: []}
    for head in heads_of(model):
        with removed(head):
            scores = _scores(Translator(search_engine(model), translator.tokenizer, translator.config), trained)
        found |= {f"{metric} {WITHOUT} {head.name}": value for metric, value in scores.items()}
        for metric, each in losses.items():
            each.append(whole[metric] - scores[metric])
    for metric, values in losses.items():
        found[f"mean loss of {metric}"] = sum(values) / len(values)
    return found


def _scores(translator: Translator, trained: Trained) -> dict[str, float]:
    cases = contrast_cases(trained.text.folder / PRONOUNS)[:CASES]
    found = quality(translator, trained.text.pairs(VALID)[:SENTENCES])
    return found | {PRONOUN: 100 * contrastive_accuracy(translator, cases)}
