"""Validation: the true loss of every pair, whatever the batches; BLEU of greedy translations, against the targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from heedful.config.setting_layers import resolve
from heedful.config.settings import Config
from heedful.data.shards import Shards
from heedful.data.tokenizer import Tokenizer
from heedful.model.transformer import Transformer
from heedful.train import validation
from heedful.train.batching import make_batch
from heedful.train.loop import StoppedError
from heedful.train.loss import LossSums, smoothed_cross_entropy
from heedful.train.validation import greedy_bleu, in_order, make_validate, mean_loss
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.search import Hypothesis
from tests.memory_shards import shards

PAIRS = [
    ("The animal didn't cross the road because it was too tired.", "Das Tier überquerte die Straße nicht."),
    ("The cat sat on the mat.", "Die Katze saß auf der Matte, und der Hund lief in den Wald."),
    ("A dog ran into the forest.", "Ein Hund lief in den Wald."),
]
VOCAB_SIZE = 50


def never() -> bool:
    return False


def config() -> Config:
    model = {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    train = {"batch_tokens": 62, "micro_batches": 2, "label_smoothing": 0.3}
    return resolve({"model": model, "train": train, "data": {"max_length": 30}, "decode": {"max_extra": 7}})


def uneven(num_pairs: int, seed: int = 0) -> Shards:
    """Random sentences of 1 to 12 words, each side with a length of its own."""
    rng = np.random.default_rng(seed)
    lengths_N2 = rng.integers(1, 13, (num_pairs, 2)).tolist()
    source, target = ([rng.integers(2, VOCAB_SIZE, both[i]).tolist() for both in lengths_N2] for i in (0, 1))
    return shards(list(zip(source, target, strict=True)))


def model(vocab_size: int = VOCAB_SIZE) -> Transformer:
    return Transformer(config().model, vocab_size).double().eval()


def loss_by_hand(model: Transformer, data: Shards) -> float:
    """Torch's mean over all target tokens, each pair in a batch of its own."""
    batches = [make_batch(data, np.array([n])) for n in range(len(data))]
    logits_TV = torch.cat([model(batch.source, batch.target_in) for batch in batches])
    return F.cross_entropy(logits_TV, torch.cat([batch.target_out_T for batch in batches])).item()


@pytest.mark.parametrize("rows", [13, 40, 1000])
def test_the_loss_is_torchs_mean_over_all_tokens_whatever_the_batches(rows: int) -> None:
    data, random = uneven(23), model()
    with torch.no_grad():
        found, expected = mean_loss(random, data, rows=rows, stop=never), loss_by_hand(random, data)
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_loss_needs_no_more_logits_at_a_time_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    data, random = uneven(23), model()
    held: list[int] = []

    def recorded(logits_TV: Tensor, *others: Any) -> LossSums:
        held.append(logits_TV.numel())
        return smoothed_cross_entropy(logits_TV, *others)

    monkeypatch.setattr(validation, "LOGITS", 5 * VOCAB_SIZE + 1)
    monkeypatch.setattr(validation, "smoothed_cross_entropy", recorded)
    with torch.no_grad():
        found, expected = mean_loss(random, data, rows=40, stop=never), loss_by_hand(random, data)
    assert found == pytest.approx(expected, rel=1e-12)
    assert max(held) == 5 * VOCAB_SIZE


def longer_side(data: Shards, pairs: list[int]) -> int:
    return max(int(side.lengths[pairs].sum()) for side in (data.source, data.target))


@given(num_pairs=st.integers(1, 40), rows=st.integers(13, 100))
@settings(max_examples=40)
def test_every_pair_comes_once_in_order_and_in_parts_that_are_full(num_pairs: int, rows: int) -> None:
    data = uneven(num_pairs, seed=num_pairs)
    parts = [part.tolist() for part in in_order(data, rows)]
    assert [n for part in parts for n in part] == list(range(num_pairs))
    for part in parts:
        assert longer_side(data, part) <= rows
        assert part[-1] == num_pairs - 1 or longer_side(data, [*part, part[-1] + 1]) > rows


class ByHeart:
    """An engine that knows the translations, and gives the last one first."""

    answers: dict[tuple[int, ...], list[int]]
    asked: list[SearchOptions]

    def __init__(self, model: Transformer) -> None:
        pass

    def translate_batch(
        self, requests: Sequence[Request], options: SearchOptions
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        self.asked.append(options)
        for number, request in reversed(list(enumerate(requests))):
            yield number, [Hypothesis(tuple(self.answers[tuple(request.source_ids)]), -1.0, -1.0, ())]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.learn_at_most([text for pair in PAIRS for text in pair], 400, seed=1)


@pytest.fixture
def data(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> Shards:
    """The pairs in ids, and an engine that knows them."""
    ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in PAIRS]
    monkeypatch.setattr(ByHeart, "answers", {tuple(source): target for source, target in ids}, raising=False)
    monkeypatch.setattr(ByHeart, "asked", [], raising=False)
    monkeypatch.setattr(validation, "search_engine", ByHeart)
    return shards(ids)


def bleu(data: Shards, tokenizer: Tokenizer) -> float:
    return greedy_bleu(model(tokenizer.vocab_size), data, tokenizer, config(), stop=never)


def test_bleu_is_100_for_the_targets_and_not_for_the_sources(data: Shards, tokenizer: Tokenizer) -> None:
    assert bleu(data, tokenizer) == pytest.approx(100)
    ByHeart.answers = {source: list(source) for source in ByHeart.answers}
    assert bleu(data, tokenizer) < 10


def test_bleu_is_that_of_greedy_search(data: Shards, tokenizer: Tokenizer) -> None:
    bleu(data, tokenizer)
    (options,) = ByHeart.asked
    assert (options.beam_size, options.max_extra, options.sampling) == (1, 7, None)


@pytest.mark.parametrize("wrong", range(3))
def test_each_translation_counts_in_bleu(data: Shards, tokenizer: Tokenizer, wrong: int) -> None:
    ByHeart.answers[tuple(tokenizer.encode(PAIRS[wrong][0]))] = tokenizer.encode(PAIRS[wrong][0])
    assert bleu(data, tokenizer) < 90


def test_bleu_counts_no_more_than_the_first_sentences(
    data: Shards, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "BLEU_SENTENCES", 2)
    ByHeart.answers[tuple(tokenizer.encode(PAIRS[2][0]))] = tokenizer.encode(PAIRS[2][0])
    assert bleu(data, tokenizer) == pytest.approx(100)


def test_a_validation_gives_the_true_loss_its_perplexity_and_bleu(data: Shards, tokenizer: Tokenizer) -> None:
    """Table 3: perplexity per word piece, which label smoothing does not touch."""
    random = model(tokenizer.vocab_size)
    with torch.no_grad():
        scores = make_validate(data, tokenizer, config(), stop=never)(random)
        expected = loss_by_hand(random, data)
    assert scores.loss == pytest.approx(expected, rel=1e-12)
    assert scores.perplexity == pytest.approx(math.exp(expected), rel=1e-12)
    assert scores.bleu == pytest.approx(100)


@pytest.mark.parametrize("patience", range(5))
def test_a_validation_ends_where_it_is_told_to(data: Shards, tokenizer: Tokenizer, patience: int) -> None:
    """It asks before each of the two batches of its loss, and of the three translations."""
    answers = iter([False] * patience + [True])
    with torch.no_grad(), pytest.raises(StoppedError):
        make_validate(data, tokenizer, config(), stop=lambda: next(answers))(model(tokenizer.vocab_size))
