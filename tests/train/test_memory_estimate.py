"""The memory that training needs: the estimate against a count of the bytes of a small model."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity, profile

from heedful.config.setting_layers import resolve
from heedful.config.settings import Config
from heedful.model.transformer import Transformer
from heedful.train import memory_estimate as memory
from heedful.train.batching import Batch, make_batch
from heedful.train.memory_estimate import memory_estimate
from heedful.train.processes import World
from heedful.train.trainer import Trainer
from tests.memory_shards import shards

ROWS = 120


def config(**train: object) -> Config:
    model = {"d_model": 16, "d_ff": 48, "num_layers": 3, "num_heads": 2}
    settings = {"batch_tokens": ROWS, "precision": "fp32"} | train
    return resolve({"model": model, "train": settings, "data": {"max_length": 12}})


def new_trainer(settings: Config, vocab_size: int) -> Trainer:
    model = Transformer(settings.model, vocab_size)
    return Trainer(model, settings, device=torch.device("cpu"), world=World())


def full_batch() -> Batch:
    """Sentences of 12 tokens, eos included; both sides have all the rows there may be."""
    sentence = list(range(2, 13))
    return make_batch(shards([(sentence, sentence)] * (ROWS // 12)), np.arange(ROWS // 12))


def num_bytes(tensors: list[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


@pytest.mark.parametrize("ema_decay", [0.0, 0.99])
def test_weights_gradients_moments_and_average_are_counted_to_the_byte(ema_decay: float) -> None:
    trainer = new_trainer(config(ema_decay=ema_decay), 56)
    trainer.step([full_batch()])
    weights, gradients = list(trainer.model.parameters()), trainer.gradients.tensors()
    moments = [state[key] for state in trainer.optimizer.state.values() for key in ("exp_avg", "exp_avg_sq")]
    averages = trainer.average.averages if trainer.average else []
    assert len(averages) == (len(weights) if ema_decay else 0)
    expected = num_bytes([*weights, *gradients, *moments, *averages])
    assert memory_estimate(trainer.config, 56, device="cpu").parameters == expected


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_logits_and_activations_are_the_peak_of_a_step(
    device: str, r_drop: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By torch's own record of what was allocated and let go; the vocabulary is large, so most of it is logits."""
    if device == "cuda":
        monkeypatch.setattr("heedful.fast.training.fast_gradients", lambda *_, **__: None)
    monkeypatch.setattr("heedful.fast.cpu.loss_by_rows.ROWS_AT_ONCE", 48)
    monkeypatch.setattr(memory, "ROWS_AT_ONCE", 48)
    trainer, vocab_size = new_trainer(config(r_drop=r_drop), 10_000), 10_000
    trainer.step([full_batch()])
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        trainer.step([full_batch()])
    record.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    changes = sorted((event["ts"], event["args"]["Bytes"]) for event in events if event["name"] == "[memory]")
    peak = max(accumulate(change for _, change in changes))
    estimate = memory_estimate(trainer.config, vocab_size, device=device)
    assert estimate.activations is not None
    assert estimate.logits + estimate.activations == pytest.approx(peak, rel=0.1)


def test_activations_are_what_autograd_keeps() -> None:
    trainer, batch = new_trainer(config(), 56), full_batch()
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        trainer.model.decode(batch.target_in, trainer.model.encode(batch.source))
    weights = {weight.data_ptr() for weight in trainer.model.parameters()}
    found = sum(tensor.untyped_storage().nbytes() for pointer, tensor in kept.items() if pointer not in weights)
    assert memory_estimate(trainer.config, 56, device="cpu").activations == pytest.approx(found, rel=0.25)


def test_bfloat16_on_a_cpu_has_the_logits_of_all_rows() -> None:
    half, single = (memory_estimate(config(precision=name), 10_000, device="cpu") for name in ("bf16", "fp32"))
    assert half.logits == memory_estimate(config(), 10_000, device="cuda").logits != single.logits
