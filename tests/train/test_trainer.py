"""One training step: Adam's settings, micro-batches, gradients that are not finite, snapshots."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from heedful.baselines.convs2s import ConvS2S
from heedful.config.baseline_settings import ConvS2SConfig
from heedful.config.setting_layers import resolve
from heedful.config.settings import Config
from heedful.errors import CheckpointError
from heedful.model.transformer import Transformer
from heedful.train.batching import Batch, make_batch, step_batches
from heedful.train.processes import World
from heedful.train.running_sums import Sums, Totals
from heedful.train.trainer import Trainer, make_optimizer
from tests.memory_shards import random_shards
from tests.narrowed import as_transformer

CPU = torch.device("cpu")
DATA = random_shards(200)
NOWHERE = Path("nowhere")


def config(*, dropout: float = 0.1, **train: object) -> Config:
    model = {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2, "dropout": dropout}
    settings = {"batch_tokens": 120, "warmup_steps": 10, "precision": "fp64"} | train
    return resolve({"model": model, "train": settings, "data": {"max_length": 12}})


def trainer(settings: Config, *, seed: int = 0) -> Trainer:
    torch.manual_seed(seed)
    return Trainer(Transformer(settings.model, 56), settings, device=CPU, world=World())


def batches(settings: Config, first_step: int = 1) -> Iterator[list[Batch]]:
    return step_batches(DATA, make_batch, settings.train, first_step=first_step)


def spoil(trainer: Trainer) -> None:
    """Make the next gradient NaN, once."""
    weight = as_transformer(trainer.model).embedding.weight_VD
    handle = weight.register_hook(lambda gradient: gradient * float("nan"))
    trainer.step(next(batches(trainer.config)))
    handle.remove()


def test_the_optimizer_is_the_papers() -> None:
    t = trainer(config())
    for group in t.optimizer.param_groups:
        assert (group["betas"], group["eps"], group["weight_decay"], group["amsgrad"]) == ((0.9, 0.98), 1e-9, 0, False)
    assert sum(len(group["params"]) for group in t.optimizer.param_groups) == len(list(t.model.parameters()))


def test_weight_decay_shrinks_matrices_by_rate_times_decay_and_nothing_else() -> None:
    plain, decayed = trainer(config()), trainer(config(weight_decay=0.5))
    begin = {name: weight.clone() for name, weight in plain.model.state_dict().items()}
    for t in (plain, decayed):
        t.step(next(batches(t.config)))
    after = decayed.model.state_dict()
    for name, weight in plain.model.state_dict().items():
        shrunk = plain.learning_rate(1) * 0.5 * begin[name] if weight.dim() > 1 else 0
        torch.testing.assert_close(after[name], weight - shrunk, atol=1e-12, rtol=0)


def test_gains_that_are_stored_as_a_column_do_not_shrink() -> None:
    model = ConvS2S(ConvS2SConfig(d_model=8, num_layers=1), 50)
    names = {parameter: name.split(".")[-1] for name, parameter in model.named_parameters()}
    groups = make_optimizer(model, weight_decay=0.5).param_groups
    assert [group["weight_decay"] for group in groups] == [0.5, 0]
    shrinks, stays = ({names[parameter] for parameter in group["params"]} for group in groups)
    assert shrinks == {"v_XD", "positions_LF", "words_VF", "target_words_VF"}
    assert stays == {"g_X1", "bias_X"}


def test_each_step_uses_the_rate_of_its_number() -> None:
    t = trainer(config())
    stream = batches(t.config)
    for step in (1, 2, 3):
        t.step(next(stream))
        for group in t.optimizer.param_groups:
            assert group["lr"] == pytest.approx(16**-0.5 * step * 10**-1.5)


def test_the_last_steps_cool_down() -> None:
    t = trainer(config(steps=3, cooldown_steps=2))
    stream = batches(t.config)
    for step, left in ((1, 1.0), (2, 1.0), (3, 0.5)):
        t.step(next(stream))
        assert t.optimizer.param_groups[0]["lr"] == pytest.approx(left * 16**-0.5 * step * 10**-1.5)


def test_micro_batches_add_up_to_the_batch() -> None:
    """The gradient is that of the mean over all target tokens, however unequal the parts are."""
    settings = config(micro_batches=3, batch_tokens=120, dropout=0.0)
    parts = next(batches(settings))
    assert len({batch.num_target_tokens for batch in parts}) > 1
    split = _gradient(settings, parts)
    model = as_transformer(trainer(settings).model)
    sums = [_loss_sum(model, batch, settings) for batch in parts]
    total = torch.stack(sums).sum() / sum(batch.num_target_tokens for batch in parts)
    expected = torch.autograd.grad(total, model.embedding.weight_VD)[0]
    torch.testing.assert_close(split, expected, atol=1e-12, rtol=1e-9)


def _gradient(settings: Config, parts: list[Batch], *, steps_before: int = 0) -> torch.Tensor:
    t = trainer(settings)
    t.progress = replace(t.progress, step=steps_before)
    t.step(parts)
    gradient = as_transformer(t.model).embedding.weight_VD.grad
    assert gradient is not None
    return gradient


def _loss_sum(model: Transformer, batch: Batch, settings: Config) -> torch.Tensor:
    logits_TV = model(batch.source, batch.target_in)
    smoothing = settings.train.label_smoothing
    return F.cross_entropy(logits_TV, batch.target_out_T, label_smoothing=smoothing, reduction="sum")


def test_training_lowers_the_loss() -> None:
    t = trainer(config(learning_rate_factor=0.5))
    stream = batches(t.config)
    losses = []
    for _ in range(40):
        t.step(next(stream))
        losses.append((t.totals.sums_3[0] / t.totals.sums_3[2]).item())
        t.totals.sums_3.zero_()
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
def test_a_gradient_that_is_not_finite_changes_nothing_and_is_counted(weight_decay: float) -> None:
    t = trainer(config(weight_decay=weight_decay))
    t.step(next(batches(t.config)))
    before = {name: tensor.clone() for name, tensor in t.snapshot().weights.items()}
    moments = {name: tensor.clone() for name, tensor in t.snapshot().moments.items()}
    spoil(t)
    assert all(torch.equal(before[name], tensor) for name, tensor in t.snapshot().weights.items())
    assert all(torch.equal(moments[name], tensor) for name, tensor in t.snapshot().moments.items())
    assert (int(t.totals.skipped_steps), int(t.totals.skipped_in_a_row)) == (1, 1)
    assert t.totals.sums_3.isfinite().all()
    t.step(next(batches(t.config)))
    assert (int(t.totals.skipped_steps), int(t.totals.skipped_in_a_row)) == (1, 0)


def test_a_record_tells_of_finite_steps_and_counts_the_others() -> None:
    totals, nothing = Totals(CPU), torch.tensor(math.nan)
    totals.add(torch.tensor([30.0, 20.0]), 10, torch.tensor(0.5))
    totals.add(torch.tensor([math.nan, math.nan]), 100, nothing)
    totals.add(torch.tensor([math.inf, 7.0]), 100, nothing)
    expected = Sums(30.0, 20.0, tokens=10, skipped_steps=2, skipped_in_a_row=2, gradient_norm=0.5)
    assert totals.take(World()).wait() == expected
    totals.add(torch.tensor([3.0, 2.0]), 1, torch.tensor(0.25))
    assert totals.take(World()).wait() == Sums(3.0, 2.0, 1, skipped_steps=0, skipped_in_a_row=0, gradient_norm=0.25)


@pytest.mark.parametrize("precision", ["fp32", "fp64", "bf16"])
def test_a_run_goes_on_from_its_snapshot_bit_for_bit(precision: str) -> None:
    settings = config(precision=precision)
    unbroken = trainer(settings)
    stream = batches(settings)
    for _ in range(6):
        unbroken.step(next(stream))
    first = trainer(settings)
    stream = batches(settings)
    for _ in range(4):
        first.step(next(stream))
    snapshot = first.snapshot()
    second = trainer(settings, seed=99)
    second.restore(snapshot, origin=NOWHERE)
    stream = batches(settings, first_step=5)
    for _ in range(2):
        second.step(next(stream))
    assert second.progress == unbroken.progress
    expected = unbroken.snapshot()
    for name, tensor in second.snapshot().weights.items():
        assert torch.equal(tensor, expected.weights[name]), name


def test_dropout_masks_follow_from_seed_step_and_micro_batch() -> None:
    """Drawing other random numbers in between changes nothing."""
    settings = config(micro_batches=2)
    results = []
    for disturb in (False, True):
        t = trainer(settings)
        stream = batches(settings)
        for _ in range(3):
            if disturb:
                torch.rand(17)
            t.step(next(stream))
        results.append(t.snapshot().weights)
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])


def test_the_same_pairs_have_other_masks_in_another_micro_batch() -> None:
    """Twice the same micro-batch: its mean gradient is that of one, unless the two drop different numbers."""
    for dropout, is_same in ((0.0, True), (0.1, False)):
        settings = config(micro_batches=2, dropout=dropout)
        batch = next(batches(settings))[0]
        once, twice = _gradient(settings, [batch]), _gradient(settings, [batch, batch])
        assert torch.allclose(once, twice, atol=1e-12, rtol=1e-9) == is_same


def test_the_same_pairs_have_other_masks_in_another_step() -> None:
    """The gradient of the same micro-batch at the same weights, taken for that of steps 1 and 2."""
    for dropout, is_same in ((0.0, True), (0.1, False)):
        settings = config(dropout=dropout)
        batch = next(batches(settings))
        first, second = (_gradient(settings, batch, steps_before=steps) for steps in (0, 1))
        assert torch.allclose(first, second, atol=1e-12, rtol=1e-9) == is_same


@pytest.mark.parametrize("harm", ["another size", "one is missing", "weights in their place"])
def test_moments_of_another_model_are_refused(harm: str) -> None:
    t = trainer(config())
    t.step(next(batches(t.config)))
    snapshot = t.snapshot()
    name = next(name for name in snapshot.moments if name.startswith("exp_avg_sq."))
    if harm == "another size":
        snapshot.moments[name] = snapshot.moments[name][:1]
    elif harm == "one is missing":
        del snapshot.moments[name]
    else:
        snapshot = replace(snapshot, moments=snapshot.weights)
    with pytest.raises(CheckpointError, match=r"does not fit the configuration: .* tensors differ"):
        t.restore(snapshot, origin=NOWHERE)


def test_a_state_that_lacks_something_is_refused() -> None:
    t = trainer(config())
    t.step(next(batches(t.config)))
    snapshot = t.snapshot()
    del snapshot.state["target_tokens"]
    with pytest.raises(CheckpointError, match="target_tokens"):
        t.restore(snapshot, origin=NOWHERE)
