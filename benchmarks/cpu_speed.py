"""Training and decoding on a CPU, presets tiny and small: ours beside torch.nn.Transformer, in one run.

    python -m benchmarks.cpu_speed [--without-peers] [--keep]

The sentences are the same for both: random ones with lengths like those of real ones (log-normal, mean 28 cut to 128;
or the built-in corpus's, mean 12). Both train with the same optimizer, dropout and label smoothing. Ours takes them as
they come; torch's model, which pads, gets them in batches of like length. Steps alternate, so that a noisy machine is
noisy for both; the figure is the ratio of the medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.command import keep, keeping_parser, run
from benchmarks.record import machine
from heedful.config.setting_layers import preset, resolve
from heedful.config.settings import Config, ModelConfig
from heedful.data.shards import PairCounts, Shards, Side
from heedful.model.embedding import sinusoids
from heedful.model.transformer import Transformer
from heedful.train.batching import PairNumbers, make_batch, micro_batches
from heedful.train.processes import World
from heedful.train.trainer import ADAM_BETAS, ADAM_EPS, Trainer
from heedful.train.validation import sentences
from heedful.translate.engine import Engine, Request, SearchOptions
from heedful.translate.open_engine import search_engine
from heedful.translate.search import Hypothesis

STEPS, WARM_UP = 30, 5
CPU = torch.device("cpu")


def random_shards(mean_length: float, vocab_size: int, num_pairs: int = 20_000) -> Shards:
    """Random ids in sentences of log-normal lengths; a target is about as long as its source."""
    rng = np.random.default_rng(0)
    source_N = np.clip(rng.lognormal(np.log(mean_length) - 0.125, 0.5, num_pairs), 2, 128).astype(np.int32)
    target_N = np.clip(source_N * rng.uniform(0.8, 1.25, num_pairs), 2, 128).astype(np.int32)
    source, target = (Side(rng.integers(2, vocab_size, n.sum(), dtype=np.uint16), n) for n in (source_N, target_N))
    return Shards(source, target, PairCounts(num_pairs, num_pairs, 0, 0, len(source.ids), len(target.ids)))


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with the same embeddings, positions and projection."""

    positions_LD: Tensor

    def __init__(self, config: Config, vocab_size: int) -> None:
        super().__init__()
        m = config.model
        assert isinstance(m, ModelConfig)
        self.embedding = nn.Embedding(vocab_size, m.d_model)
        self.register_buffer("positions_LD", sinusoids(512, m.d_model).float())
        self.transformer = nn.Transformer(
            m.d_model, m.num_heads, m.num_layers, m.num_layers, m.d_ff, m.dropout, batch_first=True
        )
        self.dropout = nn.Dropout(m.dropout)

    def forward(self, source_NS: Tensor, source_pad_NS: Tensor, target_NL: Tensor) -> Tensor:
        size = target_NL.size(1)
        causal_LL = torch.ones(size, size, dtype=torch.bool, device=target_NL.device).triu(1)
        hidden_NLD = self.transformer(
            self._embed(source_NS),
            self._embed(target_NL),
            tgt_mask=causal_LL,
            src_key_padding_mask=source_pad_NS,
            memory_key_padding_mask=source_pad_NS,
            tgt_is_causal=True,
        )
        return F.linear(hidden_NLD, self.embedding.weight)

    def _embed(self, ids_NL: Tensor) -> Tensor:
        scaled_NLD = self.embedding(ids_NL) * self.embedding.embedding_dim**0.5
        embedded: Tensor = self.dropout(scaled_NLD + self.positions_LD[: ids_NL.size(1)])
        return embedded


def padded(rows_T: Tensor, lengths_N: npt.NDArray[np.int32], fill: int) -> Tensor:
    """Packed rows → N × longest."""
    return nn.utils.rnn.pad_sequence(list(rows_T.split(lengths_N.tolist())), batch_first=True, padding_value=fill)


def like_lengths(shards: Shards, rows: int) -> list[PairNumbers]:
    """Batches of sentences of like length, each of about `rows` target tokens: drawn from as many as fill 40."""
    stream = micro_batches(shards, seed=1, rows=rows)
    pool = np.concatenate([next(stream) for _ in range(40)])
    pool = pool[np.argsort(shards.target.lengths[pool], kind="stable")]
    ends = np.cumsum(shards.target.lengths[pool])
    batches = np.split(pool, np.searchsorted(ends, np.arange(rows, ends[-1], rows)))
    return [batches[i] for i in np.random.default_rng(0).permutation(len(batches))]


@dataclass
class Peer:
    """torch.nn.Transformer and its optimizer."""

    model: TorchTransformer
    optimizer: torch.optim.Adam

    @classmethod
    def make(cls, config: Config) -> Peer:
        model = TorchTransformer(config, config.tokenizer.vocab_size).train()
        return cls(model, torch.optim.Adam(model.parameters(), 1e-4, ADAM_BETAS, ADAM_EPS, fused=True))

    def step(self, shards: Shards, pairs_N: PairNumbers) -> None:
        batch = make_batch(shards, pairs_N)
        source_lengths, target_lengths = shards.source.lengths[pairs_N], shards.target.lengths[pairs_N]
        source_NS = padded(batch.source.tokens_T, source_lengths, 0)
        pad_NS = torch.arange(source_NS.size(1)) >= torch.from_numpy(source_lengths)[:, None]
        logits_NLV = self.model(source_NS, pad_NS, padded(batch.target_in.tokens_T, target_lengths, 0))
        target_NL = padded(batch.target_out_T, target_lengths, -100)
        F.cross_entropy(logits_NLV.flatten(0, 1), target_NL.flatten(), label_smoothing=0.1).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def timed(work: Callable[[], Any]) -> float:
    """Seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def own_training_speed(config: Config, mean_length: float) -> dict[str, float]:
    """Our target tokens per second."""
    vocab_size, rows = config.tokenizer.vocab_size, config.train.batch_tokens
    shards = random_shards(mean_length, vocab_size)
    ours = Trainer(Transformer(config.model, vocab_size), config, device=CPU, world=World())
    batches = islice(micro_batches(shards, seed=1, rows=rows), STEPS)
    speeds = [shards.target.lengths[n].sum() / timed(partial(ours_step, ours, shards, n)) for n in batches]
    return {"ours": round(statistics.median(speeds[WARM_UP:]))}


def training_speed(config: Config, mean_length: float) -> dict[str, float]:
    """Target tokens per second of both, and the ratio."""
    vocab_size, rows = config.tokenizer.vocab_size, config.train.batch_tokens
    shards = random_shards(mean_length, vocab_size)
    ours = Trainer(Transformer(config.model, vocab_size), config, device=CPU, world=World())
    peer = Peer.make(config)
    ours_speeds, peer_speeds = [], []
    batches = zip(islice(micro_batches(shards, seed=1, rows=rows), STEPS), like_lengths(shards, rows), strict=False)
    for number, (pairs_N, like_N) in enumerate(batches):
        ours_speed = shards.target.lengths[pairs_N].sum() / timed(partial(ours_step, ours, shards, pairs_N))
        peer_speed = shards.target.lengths[like_N].sum() / timed(partial(peer.step, shards, like_N))
        if number >= WARM_UP:
            ours_speeds.append(ours_speed)
            peer_speeds.append(peer_speed)
    ours_median, peer_median = statistics.median(ours_speeds), statistics.median(peer_speeds)
    ratio = round(float(ours_median / peer_median), 2)
    return {"ours": round(ours_median), "torch.nn.Transformer": round(peer_median), "ratio": ratio}


def ours_step(trainer: Trainer, shards: Shards, pairs_N: PairNumbers) -> None:
    """Pack and train."""
    trainer.step([make_batch(shards, pairs_N)])


def decoding_speed(config: Config, mean_length: float, num_sentences: int = 256) -> dict[str, float]:
    """Sentences per second of beam 4 and greedy; a random model rarely ends, so every output has its longest length."""
    vocab_size = config.tokenizer.vocab_size
    shards = random_shards(mean_length, vocab_size, num_sentences)
    requests = [Request(ids) for ids in sentences(shards.source, num_sentences)]
    engine = search_engine(Transformer(config.model, vocab_size).eval())
    figures = {}
    for name, options in {
        "beam 4": SearchOptions(max_extra=0),
        "greedy": SearchOptions(beam_size=1, max_extra=0),
    }.items():
        seconds = statistics.median(timed(partial(translate, engine, requests, options)) for _ in range(3))
        figures[name] = round(num_sentences / seconds, 1)
    return figures


def translate(engine: Engine, requests: list[Request], options: SearchOptions) -> list[list[Hypothesis]]:
    """All of them."""
    return list(engine.translate(requests, options))


def main() -> None:
    """Measure, print, keep."""
    parser = keeping_parser(__doc__)
    parser.add_argument("--without-peers", action="store_true", help="ours alone")
    given = parser.parse_args()
    speed = own_training_speed if given.without_peers else training_speed
    tiny, small = resolve(preset("tiny")), resolve(preset("small"))
    figures: dict[str, Any] = {"what": "random words in the presets' sizes", "threads": torch.get_num_threads()}
    for name, config, mean_length in (("tiny", tiny, 12), ("tiny", tiny, 28), ("small", small, 14)):
        label = f"training {name}, {config.tokenizer.vocab_size:,} words, mean length {mean_length}, target tokens/s"
        figures[label] = speed(config, mean_length)
    figures["decoding tiny, mean length 12, sentences/s"] = decoding_speed(tiny, 12)
    print(machine())
    for name, values in figures.items():
        print(f"{name}: {values}")
    keep(given, "cpu_speed", figures)


if __name__ == "__main__":
    run(main)
