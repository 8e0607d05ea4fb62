"""How good the model is while it is being trained: loss and true perplexity (Table 3), and BLEU of greedy translations.

It works on the ids of the validation text alone; the reference text is what the tokenizer makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
from torch import Tensor

from heedful.config.settings import Config
from heedful.data.shards import Shards, Side
from heedful.data.tokenizer import Tokenizer
from heedful.model.interface import TranslationModel
from heedful.score.evaluation import perplexity, validation_bleu
from heedful.train.batching import PairNumbers, make_batch
from heedful.train.loop import Scores, StoppedError, Validate
from heedful.train.loss import smoothed_cross_entropy
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.open_engine import search_engine

T = TypeVar("T")
Stop = Callable[[], bool]

LOGITS = 2**27  # at a time: half a gigabyte of float32
BLEU_SENTENCES = 1000  # the first ones: enough to see where a run is going


def make_validate(shards: Shards, tokenizer: Tokenizer, config: Config, *, stop: Stop) -> Validate:
    """The function that training calls at intervals; `stop` is asked again and again on its way."""

    def validate(model: TranslationModel) -> Scores:
        loss = mean_loss(model, shards, rows=config.train.micro_batch_tokens, stop=stop)
        bleu = greedy_bleu(model, shards, tokenizer, config, stop=stop)
        return Scores(loss, perplexity(loss, 1), bleu)

    return validate


def until_stopped(items: Iterable[T], stop: Stop) -> Iterator[T]:
    """The items, as long as nobody wants them to end."""
    for item in items:
        if stop():
            raise StoppedError
        yield item


def mean_loss(model: TranslationModel, shards: Shards, *, rows: int, stop: Stop) -> float:
    """The negative log-likelihood per target token, eos included, without smoothing."""
    total, tokens = 0.0, 0
    for pairs_N in until_stopped(in_order(shards, rows), stop):
        batch = make_batch(shards, pairs_N).to(model.device)
        hidden_TD = model.decode(batch.target_in, model.encode(batch.source))
        total += _summed(model, hidden_TD, batch.target_out_T)
        tokens += batch.num_target_tokens
    return total / tokens


def _summed(model: TranslationModel, hidden_TD: Tensor, target_T: Tensor) -> float:
    """In parts: where training fits, the float32 logits of a whole batch, and their logarithms, need not."""
    rows = max(1, LOGITS // model.vocab_size)
    parts = zip(hidden_TD.split(rows), target_T.split(rows), strict=True)
    losses = [smoothed_cross_entropy(model.logits(hidden), ids, 0.0) for hidden, ids in parts]
    return sum(float(loss.negative_log_likelihood) for loss in losses)


def in_order(shards: Shards, rows: int) -> Iterator[PairNumbers]:
    """All pairs as they stand in the file, in parts of at most `rows` tokens a side."""
    first, used = 0, np.zeros(2, dtype=np.int64)
    lengths_N2 = np.stack([shards.source.lengths, shards.target.lengths], axis=1)
    for n, both in enumerate(lengths_N2):
        if (used + both > rows).any():
            yield np.arange(first, n)
            first, used = n, np.zeros(2, dtype=np.int64)
        used = used + both
    yield np.arange(first, len(shards))


def greedy_bleu(model: TranslationModel, shards: Shards, tokenizer: Tokenizer, config: Config, *, stop: Stop) -> float:
    """BLEU of greedy translations of the first sentences, against the text of their targets."""
    num_sentences = min(len(shards), BLEU_SENTENCES)
    requests = [Request(ids) for ids in sentences(shards.source, num_sentences)]
    greedy = SearchOptions(beam_size=1, max_extra=config.decode.max_extra, token_scores=False)
    found = dict(until_stopped(search_engine(model).translate_batch(requests, greedy), stop))
    translated = [tokenizer.decode(found[n][0].ids) for n in range(num_sentences)]
    references = [tokenizer.decode(ids) for ids in sentences(shards.target, num_sentences)]
    return validation_bleu(translated, [references], language=config.data.target_language).value


def sentences(side: Side, num_sentences: int) -> Iterator[list[int]]:
    """The ids of the first sentences, without their eos."""
    for n in range(num_sentences):
        ids_T, _ = side.gather(np.array([n]))
        yield ids_T[:-1].tolist()
