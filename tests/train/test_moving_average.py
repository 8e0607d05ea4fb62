"""The moving average of the weights: its formula, and how a run validates, stores and ends with it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from heedful.config.setting_layers import resolve
from heedful.config.settings import Config
from heedful.fast.cuda.mixed_precision import MixedPrecision
from heedful.model.checkpoint import load_snapshot, load_tensors, step_folder
from heedful.model.interface import TranslationModel
from heedful.model.transformer import Transformer
from heedful.train.batching import make_batch, step_batches
from heedful.train.loop import Scores, train
from heedful.train.moving_average import MovingAverage
from heedful.train.processes import World
from heedful.train.trainer import Trainer
from tests.memory_shards import random_shards
from tests.narrowed import as_transformer

DATA = random_shards(200)
GOOD, BAD = torch.tensor(False), torch.tensor(True)
NOWHERE = Path("nowhere")


def config(**settings: object) -> Config:
    model = {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    base = {"batch_tokens": 120, "warmup_steps": 10, "precision": "fp64", "ema_decay": 0.9, "checkpoint_steps": 5}
    return resolve({"model": model, "train": base | settings, "data": {"max_length": 12}})


def trainer(settings: Config, *, seed: int = 0) -> Trainer:
    torch.manual_seed(seed)
    return Trainer(Transformer(settings.model, 56), settings, device=torch.device("cpu"), world=World())


def do_steps(trainer: Trainer, num_steps: int) -> None:
    first = trainer.progress.step + 1
    stream = step_batches(DATA, make_batch, trainer.config.train, first_step=first)
    for _ in range(num_steps):
        trainer.step(next(stream))


def copied(model: TranslationModel) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_the_average_is_its_formula_and_a_bad_step_leaves_it_alone() -> None:
    weight = torch.zeros(3, dtype=torch.float64)
    average = MovingAverage([weight], 0.5)
    expected, values = 0.0, [4.0, -1.0, 2.5, 7.0, 3.0, 8.0, -2.0, 1.0, 0.5, 6.0]
    for step, value in enumerate(values, start=1):
        weight.fill_(value)
        bad = step == 4
        average.update(step, BAD if bad else GOOD)
        if not bad:
            decay = min(0.5, (1 + step) / (10 + step))
            expected = decay * expected + (1 - decay) * value
        torch.testing.assert_close(average.averages[0], torch.full_like(weight, expected), rtol=1e-14, atol=1e-14)


def test_the_flat_weights_of_mixed_precision_are_those_of_the_model() -> None:
    """So that two tensors are all that is averaged on CUDA."""
    model = Transformer(config().model, 56)
    mixed = MixedPrecision(model)
    before = copied(model)
    average = MovingAverage(mixed.weights, 0.9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    with average.in_place():
        assert same(copied(model), before)
    assert not same(copied(model), before)


def test_validation_sees_the_average_and_training_goes_on_with_the_weights(tmp_path: Path) -> None:
    plain, averaged = trainer(config(ema_decay=0.0, steps=10)), trainer(config(steps=10, validate_steps=4))
    seen: list[dict[str, Tensor]] = []

    def validate(model: TranslationModel) -> Scores:
        seen.append(copied(model))
        return Scores(1.0, 2.7)

    list(train(plain, DATA, tmp_path / "plain", validate=None, stop=lambda: False))
    list(train(averaged, DATA, tmp_path / "averaged", validate=validate, stop=lambda: False))
    assert same(copied(averaged.model), copied(plain.model))
    assert not same(seen[-1], copied(plain.model))
    assert same(seen[-1], load_tensors(step_folder(tmp_path / "averaged", 10) / "model.safetensors"))


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_a_run_goes_on_from_its_checkpoint_bit_for_bit(precision: str, tmp_path: Path) -> None:
    settings = config(precision=precision, steps=5)
    unbroken, first, second = trainer(settings), trainer(settings), trainer(settings, seed=99)
    do_steps(unbroken, 9)
    list(train(first, DATA, tmp_path, validate=None, stop=lambda: False))
    second.restore(load_snapshot(step_folder(tmp_path, 5)), NOWHERE)
    do_steps(second, 4)
    assert same(copied(second.model), copied(unbroken.model))
    assert same(second.snapshot().weights, unbroken.snapshot().weights)
    assert not same(second.snapshot().weights, copied(second.model))


def test_a_skipped_step_changes_neither_weights_nor_average() -> None:
    t = trainer(config())
    do_steps(t, 2)
    before = t.snapshot()
    handle = as_transformer(t.model).embedding.weight_VD.register_hook(lambda gradient: gradient * float("nan"))
    do_steps(t, 1)
    handle.remove()
    assert int(t.totals.skipped_steps) == 1
    assert same(t.snapshot().weights, before.weights)
    assert same(t.snapshot().moments, before.moments)


def test_without_a_decay_a_checkpoint_is_what_it_was() -> None:
    t = trainer(config(ema_decay=0.0))
    do_steps(t, 1)
    snapshot = t.snapshot()
    assert t.average is None
    assert same(snapshot.weights, copied(t.model))
    assert {name.partition(".")[0] for name in snapshot.moments} == {"step", "exp_avg", "exp_avg_sq"}
