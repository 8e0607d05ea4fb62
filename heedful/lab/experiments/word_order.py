"""What a trained model makes of the same words in every order.

A word's change in an order: how far the encoder's outputs at its pieces are from those in the order as written, in
lengths of the latter. An encoder that sees no order changes nothing. Without attention among words or any positions,
the mean of the embeddings is such a bag of words; its change is 0 by definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from statistics import fmean

import torch
from torch import Tensor

from heedful.data.tokenizer import Tokenizer
from heedful.inspection.attention_map import the_model
from heedful.lab.trained import Trained
from heedful.model.interface import TranslationModel
from heedful.translate.forced_pass import forced_batch

WORDS = ("I", "love", "you")
CHANGE = "change"


@torch.no_grad()
def every_order(trained: Trained) -> dict[str, float]:
    """The mean change, and each word's change in each order."""
    translator = trained.translator()
    model, pieces = the_model(translator), [translator.tokenizer.encode(word) for word in WORDS]
    orders = list(permutations(range(len(WORDS))))
    outputs = [word_outputs(model, translator.tokenizer, pieces, order) for order in orders]
    found = {
        f"{' '.join(WORDS[n] for n in order)}: {WORDS[word]}": change(outputs[0][word], output[word])
        for order, output in zip(orders[1:], outputs[1:], strict=True)
        for word in range(len(WORDS))
    }
    return {CHANGE: fmean(found.values())} | found


def word_outputs(
    model: TranslationModel, tokenizer: Tokenizer, pieces: Sequence[list[int]], order: Sequence[int]
) -> dict[int, Tensor]:
    """The encoder's outputs at the pieces of each word, by the word's number, when the words stand in this order."""
    ids = [piece for word in order for piece in pieces[word]]
    source, _ = forced_batch([ids], [[]], model.device)
    outputs_TD = model.encode(source).hidden_SD
    return dict(_split(outputs_TD, pieces, order))


def _split(outputs_TD: Tensor, pieces: Sequence[list[int]], order: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
    first = 0
    for word in order:
        yield word, outputs_TD[first : first + len(pieces[word])]
        first += len(pieces[word])


def change(before_TD: Tensor, after_TD: Tensor) -> float:
    """‖after − before‖ / ‖before‖."""
    return float((after_TD - before_TD).norm() / before_TD.norm())
