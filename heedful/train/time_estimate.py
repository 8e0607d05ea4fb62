"""How long training will take on this machine: a slice of one batch is timed, and scaled by the work it leaves out.

The slice is of random tokens. It has fewer rows than a batch, and of a large model fewer layers and less vocabulary, so
that it takes seconds and little memory. What is timed are the gradients as training computes them; the optimizer,
validations and checkpoints come on top. It writes nothing.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import torch

from heedful.config.settings import Config, FamilyConfig, ModelConfig
from heedful.data.shards import PairCounts, Shards, Side
from heedful.errors import DeviceError, counted
from heedful.model.device import explained_out_of_memory, has_kernels
from heedful.model.parameter_count import count, shapes_of_new
from heedful.model.registry import new_model
from heedful.train.gradients import make_gradients
from heedful.train.processes import ALONE
from heedful.train.trainer import resolved_precision

WHOLE_MODEL = 12_000_000  # parameters; of larger ones a part is measured
ACTIVATIONS = 150e6  # bytes that the slice may keep for its backward pass
SECONDS, REPEATS = 3.0, 3  # for all passes; of the last slice
FIRST_ROWS, LONG_ENOUGH = 32, 0.4  # rows are doubled until a pass takes so many seconds
A_KERNEL = "_backward_whole"  # of `fast/cuda/attention_tiles.py`, which every training needs
SENTENCE = 25  # tokens, as in usual text


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds that a step will take, from a slice of so many rows on this device."""

    seconds_per_step: float
    rows: int
    where: str


def estimate(config: Config, vocab_size: int, device: torch.device) -> Estimate:
    """Time a slice on this device."""
    if resolved_precision(config.train, device) == "bf16" and has_kernels(device, config.model):
        _refuse_to_compile()
    model, part_vocab = _part(config.model, vocab_size)
    part = msgspec.structs.replace(config, model=model)
    with torch.random.fork_rng(devices=[]), explained_out_of_memory("take smaller sizes of model"):
        seconds, rows = _time(_Slice(part, part_vocab, device))
    left_out = count(shapes_of_new(config.model, vocab_size)) / count(shapes_of_new(model, part_vocab))
    return Estimate(seconds * left_out * config.train.batch_tokens / rows, rows, _where(device))


def _refuse_to_compile() -> None:
    """Triton's cache is on the disk, and to fill it takes longer than anybody waits here."""
    cache = Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache")
    if not any(cache.glob(f"*/{A_KERNEL}.*")):
        raise DeviceError("our kernels are not compiled on this machine yet; the first start of a training does that")


def _where(device: torch.device) -> str:
    if device.type == "cpu":
        return f"the CPU ({counted(torch.get_num_threads(), 'thread')})"
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _part(model: FamilyConfig, vocab_size: int) -> tuple[FamilyConfig, int]:
    """Of a large model, as small a part as keeps the shares of encoder, decoder and vocabulary."""
    if not isinstance(model, ModelConfig) or count(shapes_of_new(model, vocab_size)) <= WHOLE_MODEL:
        return model, vocab_size
    share = math.gcd(model.encoder_layers, model.decoder_layers)
    layers = {"num_encoder_layers": model.encoder_layers // share, "num_decoder_layers": model.decoder_layers // share}
    return msgspec.structs.replace(model, **layers), max(2, vocab_size // share)


class _Slice:
    """A model, and made-up text that goes through it as in training; there is no optimizer, which has larger tables."""

    def __init__(self, config: Config, vocab_size: int, device: torch.device) -> None:
        self.config, self.vocab_size, self.device = config, vocab_size, device
        precision = resolved_precision(config.train, device)
        torch.manual_seed(1)
        self.model = new_model(config.model, vocab_size)
        self.model.to(device, torch.float64 if precision == "fp64" else torch.float32).train()
        self.gradients = make_gradients(self.model, config, precision=precision, world=ALONE)

    @property
    def most_rows(self) -> int:
        """Those of a micro-batch; off CUDA, whose graphs have all rows, no more than keep little for the way back."""
        rows = self.config.train.micro_batch_tokens
        if self.device.type == "cuda":
            return rows
        kept = self.config.model.kept_numbers
        return min(rows, FIRST_ROWS) if kept is None else max(1, min(rows, int(ACTIVATIONS / (4 * kept))))

    def seconds(self, rows: int) -> float:
        """For the gradients of text that all but fills so many rows, counted as if it filled them."""
        copies = self.config.train.copies
        length = max(1, min(SENTENCE, self.config.data.max_length + 1, rows // copies))
        num_pairs = max(1, rows // copies // length)
        text = _text(num_pairs, length, self.vocab_size)
        batch = self.gradients.make(text, np.tile(np.arange(num_pairs), copies))
        began = time.perf_counter()
        self.gradients.add(batch, seed=1, factor=1 / rows, is_first=True, is_last=True).tolist()  # waits for the device
        return (time.perf_counter() - began) * rows / (copies * num_pairs * length)


def _time(part: _Slice) -> tuple[float, int]:
    """Seconds for a slice, and its rows: as many as take long enough to be measured, while there is time."""
    deadline, most = time.perf_counter() + SECONDS, part.most_rows
    rows = most if part.device.type == "cuda" else min(most, FIRST_ROWS)
    times = [part.seconds(rows)]  # the first one prepares much
    while len(times) <= REPEATS and time.perf_counter() + 2 * times[-1] < deadline:
        if rows < most and times[-1] < LONG_ENOUGH:
            rows, times = min(2 * rows, most), []
        times.append(part.seconds(rows))
    return statistics.median(times[1:] or times), rows


def _text(num_pairs: int, length: int, vocab_size: int) -> Shards:
    """Pairs of random tokens."""
    draw, lengths_N = np.random.default_rng(1), np.full(num_pairs, length, dtype=np.int32)
    source, target = (Side(draw.integers(0, vocab_size, num_pairs * length), lengths_N) for _ in range(2))
    return Shards(source, target, PairCounts(num_pairs, num_pairs, 0, 0, num_pairs * length, num_pairs * length))
