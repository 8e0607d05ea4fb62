"""Training speed on one GPU: `heedful train` itself beside Hugging Face's MarianMTModel and torch.nn.Transformer.

    heedful train -s train.en -t train.de -o RUN --preset base --steps 1 --set train.warmup_steps=4000  # tokens, once
    python -m benchmarks.train_speed RUN [--steps 2000] [--without-peers] [--keep]

Ours is the whole of `heedful train` in this process: reading and packing batches, schedule, logging, checkpoints. The
peers get the same sentences, already packed into tensors on the GPU, in batches of like length so that they pad
little; they train in bfloat16 (autocast) with fused Adam, and nothing else. The figure is target tokens a second, and
the ratio. A kernel compiled or a graph captured after the first steps fails the benchmark. TFLOP/s count matrix
products alone: 6 operations for each weight and each token that meets it, and those inside attention.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.command import keep, keeping_parser, need_gpu, run
from benchmarks.cpu_speed import TorchTransformer, like_lengths, padded
from benchmarks.record import machine
from heedful.config.settings import Config, ModelConfig
from heedful.data.shards import Shards, open_shards
from heedful.data.tokenizer import Tokenizer
from heedful.fast.cuda.training_step import CudaStep
from heedful.model.checkpoint import load_config
from heedful.train import loop as training
from heedful.train.batching import PairNumbers, make_batch, micro_batches, prefetched
from heedful.train.loop import Record, StepRecord
from heedful.train.run.plan import TrainingRequest, decide
from heedful.train.run.start import carry_out
from heedful.train.trainer import ADAM_BETAS, ADAM_EPS

GPU = torch.device("cuda")
PEER_STEPS, PEER_WARM_UP = 12, 4
T = TypeVar("T")


# ------------------------------------------------------------------------------------------------------------- ours


class Waiting:
    """How long the GPU waited for batches.

    The training thread runs ahead of the GPU, and may wait for a batch while the GPU is still busy. A wait counts, as a
    whole, if the GPU had nothing left to do when the batch came: so the figure is an upper bound.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, items: Iterator[T]) -> Iterator[T]:
        """The same items; the first one, before which everything starts, is not counted."""
        stream, asked = prefetched(items), torch.cuda.Event()
        yield next(stream)
        while True:
            asked.record()
            started = time.perf_counter()
            item = next(stream)
            if asked.query():
                self.seconds += time.perf_counter() - started
            yield item


class Compilations:
    """How many kernels were compiled and graphs captured so far: after the first steps there should be no more."""

    def __init__(self) -> None:
        from triton import knobs

        self.number, capture = 0, CudaStep._captured

        def counted(step: CudaStep, *arguments: Any) -> Any:
            self.compiling()
            return capture(step, *arguments)

        knobs.runtime.jit_cache_hook = self.compiling
        setattr(CudaStep, "_captured", counted)  # noqa: B010 (the step has no reason to offer this)

    def compiling(self, **_: Any) -> bool:
        """One more; no: Triton is to go on."""
        self.number += 1
        return False


def ours(run: Path, steps: int) -> dict[str, Any]:
    """`heedful train` on a copy of the run."""
    waiting, records, compilations, compiled = Waiting(), list[StepRecord](), Compilations(), list[int]()
    setattr(training, "prefetched", waiting.timed)  # noqa: B010 (the loop has no reason to offer this)
    first: list[float] = []

    def on_record(config: Config, record: Record) -> None:
        first.append(time.perf_counter())
        if isinstance(record, StepRecord):
            records.append(record)
            compiled.append(compilations.number)

    torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    plan = decide(TrainingRequest(run, None, ({"train": {"steps": steps}},), device="cuda"))
    carry_out(plan, say=print, on_record=on_record)
    begin, end = records[0], records[-1]
    if compiled[-1] > compiled[0]:
        raise SystemExit(f"{compiled[-1] - compiled[0]} kernels or graphs were made anew after step {begin.step}")
    seconds = end.seconds - begin.seconds
    return {
        "target tokens/s": round((end.target_tokens - begin.target_tokens) / seconds),
        "ms a step": round(1000 * seconds / (end.step - begin.step), 2),
        "steps": end.step,
        f"kernels and graphs made by step {begin.step}, and after it": (compiled[0], compiled[-1] - compiled[0]),
        f"seconds from start to step {begin.step}": round(first[0] - started, 1),
        "share of time waiting for data": round(waiting.seconds / seconds, 5),
        "peak memory, GB": round(torch.cuda.max_memory_allocated() / 1e9, 2),
        "loss at the end": round(end.loss, 3),
    }


def matrix_work(config: Config, vocab_size: int, shards: Shards, pairs_N: PairNumbers) -> float:
    """Operations of the matrix products of a step, forward and backward."""
    m = config.model
    assert isinstance(m, ModelConfig)
    source_N, target_N = (side.lengths[pairs_N].astype(np.float64) for side in (shards.source, shards.target))
    attention = 2 * m.num_heads * (m.head_d_k + m.head_d_v) * m.d_model  # W_Q, W_K, W_V and W_O
    feed_forward = 2 * m.d_model * m.d_ff
    encoder = m.encoder_layers * (attention + feed_forward) * source_N.sum()
    # Half of a cross-attention's matrices (W_Q, W_O) meet target tokens, half (W_K, W_V) source tokens.
    decoder = m.decoder_layers * (1.5 * attention + feed_forward) * target_N.sum()
    memory = m.decoder_layers * 0.5 * attention * source_N.sum()
    pairs = m.encoder_layers * source_N**2 + m.decoder_layers * (target_N**2 / 2 + target_N * source_N)
    inside = m.num_heads * (m.head_d_k + m.head_d_v) * pairs.sum()
    return float(6 * (encoder + decoder + memory + vocab_size * m.d_model * target_N.sum() + inside))


def product_speed() -> float:
    """TFLOP/s of a large bfloat16 product, repeated as long as a few steps."""
    a, b = (torch.randn(8192, 8192, device=GPU, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(20):
        a @ b
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(200):
        a @ b
    torch.cuda.synchronize()
    return 200 * 2 * 8192**3 / (time.perf_counter() - started) / 1e12


# ------------------------------------------------------------------------------------------------------------- peers


class Marian(nn.Module):
    """Hugging Face's model of the same sizes."""

    def __init__(self, config: Config, vocab_size: int) -> None:
        from transformers import MarianConfig, MarianMTModel

        super().__init__()
        m = config.model
        assert isinstance(m, ModelConfig)
        sizes = {
            f"{side}_{name}": value
            for side in ("encoder", "decoder")
            for name, value in {"layers": m.num_layers, "attention_heads": m.num_heads, "ffn_dim": m.d_ff}.items()
        }
        self.model = MarianMTModel(
            MarianConfig(
                vocab_size=vocab_size,
                d_model=m.d_model,
                dropout=m.dropout,
                activation_function="relu",
                scale_embedding=True,
                max_position_embeddings=1024,
                pad_token_id=vocab_size - 1,
                decoder_start_token_id=vocab_size - 1,
                eos_token_id=0,
                attn_implementation="sdpa",
                **sizes,
            )
        )

    def forward(self, source_NS: Tensor, source_pad_NS: Tensor, target_NL: Tensor) -> Tensor:
        output = self.model(input_ids=source_NS, attention_mask=(~source_pad_NS).long(), decoder_input_ids=target_NL)
        logits_NLV: Tensor = output.logits
        return logits_NLV


def peer_speed(model: nn.Module, shards: Shards, batches: list[PairNumbers]) -> dict[str, Any]:
    """Target tokens per second of a padded model."""
    model = model.to(GPU).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, ADAM_BETAS, ADAM_EPS, fused=True)
    prepared = [on_gpu(shards, pairs_N) for pairs_N in batches[: PEER_STEPS + PEER_WARM_UP]]
    torch.cuda.reset_peak_memory_stats()
    speeds = []
    for number, (tensors, target_NL, tokens) in enumerate(prepared):
        torch.cuda.synchronize()
        started = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            logits_NLV = model(*tensors)
            loss = F.cross_entropy(logits_NLV.flatten(0, 1), target_NL.flatten(), label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if number >= PEER_WARM_UP:
            speeds.append(tokens / (time.perf_counter() - started))
    memory = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    return {"target tokens/s": round(statistics.median(speeds)), "peak memory, GB": memory}


def on_gpu(shards: Shards, pairs_N: PairNumbers) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, int]:
    """The peers' input, target, and the number of target tokens."""
    batch = make_batch(shards, pairs_N)
    source_lengths, target_lengths = shards.source.lengths[pairs_N], shards.target.lengths[pairs_N]
    source_NS = padded(batch.source.tokens_T, source_lengths, 0)
    pad_NS = torch.arange(source_NS.size(1)) >= torch.from_numpy(np.array(source_lengths))[:, None]
    target_in_NL = padded(batch.target_in.tokens_T, target_lengths, 0)
    target_NL = padded(batch.target_out_T, target_lengths, -100)
    return (source_NS.to(GPU), pad_NS.to(GPU), target_in_NL.to(GPU)), target_NL.to(GPU), batch.num_target_tokens


def peers(config: Config, vocab_size: int, shards: Shards) -> dict[str, dict[str, Any]]:
    """Each peer in turn, or why it did not run."""
    makers: dict[str, Callable[[], nn.Module]] = {
        "torch.nn.Transformer": lambda: TorchTransformer(config, vocab_size),
        "MarianMTModel": lambda: Marian(config, vocab_size),
    }
    batches = like_lengths(shards, config.train.batch_tokens)
    figures = {}
    for name, make in makers.items():
        try:
            figures[name] = peer_speed(make(), shards, batches)
        except (torch.OutOfMemoryError, ImportError) as error:
            figures[name] = {"did not run": str(error).splitlines()[0]}
        torch.cuda.empty_cache()
    return figures


def main() -> None:
    """Measure, print, keep."""
    parser = keeping_parser(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--without-peers", action="store_true")
    arguments = parser.parse_args()
    need_gpu()
    config = load_config(arguments.run / "config.toml")
    shards, vocab_size = (
        open_shards(arguments.run / "data/train"),
        Tokenizer.load(arguments.run / "tokenizer.model").vocab_size,
    )
    with tempfile.TemporaryDirectory() as folder:
        run = shutil.copytree(arguments.run, Path(folder) / "run")
        figures: dict[str, Any] = {"run": arguments.run.name, "ours": ours(run, arguments.steps)}
    stream = micro_batches(shards, seed=1, rows=config.train.batch_tokens)
    work = statistics.mean(matrix_work(config, vocab_size, shards, next(stream)) for _ in range(20))
    rate, ceiling = work / (figures["ours"]["ms a step"] / 1000) / 1e12, product_speed()
    figures["ours"] |= {"TFLOP/s": round(rate), "share of a large product": round(rate / ceiling, 3)}
    figures["a large bf16 product, TFLOP/s"] = round(ceiling)
    if not arguments.without_peers:
        figures |= peers(config, vocab_size, shards)
    for name in ("torch.nn.Transformer", "MarianMTModel"):
        if speed := figures.get(name, {}).get("target tokens/s"):
            figures[f"ratio to {name}"] = round(figures["ours"]["target tokens/s"] / speed, 1)
    print(machine())
    for name, values in figures.items():
        print(f"{name}: {values}")
    keep(arguments, f"train_speed-{arguments.run.name}", figures)


if __name__ == "__main__":
    run(main)
