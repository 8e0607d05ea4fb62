"""R-Drop: who is whose twin, the divergence of the passes, and what a step makes of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from heedful.config.setting_layers import resolve
from heedful.config.settings import Config
from heedful.errors import ConfigError
from heedful.model.packed import NO_TARGET
from heedful.model.transformer import Transformer
from heedful.train.batching import Batch, make_batch, step_batches
from heedful.train.gradients import Objective, PlainGradients
from heedful.train.loss import smoothed_cross_entropy
from heedful.train.processes import World
from heedful.train.r_drop import twin_divergence, twin_rows
from tests.memory_shards import random_shards

DATA = random_shards(200)


def config(*, dropout: float = 0.3, r_drop: float = 5.0, max_length: int = 12) -> Config:
    model = {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2, "dropout": dropout}
    return resolve(
        {"model": model, "train": {"batch_tokens": 120, "r_drop": r_drop}, "data": {"max_length": max_length}}
    )


def first_batch(settings: Config) -> Batch:
    return next(step_batches(DATA, make_batch, settings.train))[0]


def new_model(settings: Config) -> Transformer:
    torch.manual_seed(0)
    return Transformer(settings.model, 56).double().train()


def gradients(settings: Config, batch: Batch, *, seed: int = 7) -> tuple[list[Tensor], Tensor]:
    plain = PlainGradients(Objective(new_model(settings), settings.train), world=World(), autocast=False)
    sums_2 = plain.add(batch, seed=seed, factor=0.5, is_first=True, is_last=True)
    return plain.tensors(), sums_2


def paper_divergence(logits_TV: Tensor) -> Tensor:
    """As the authors of R-Drop write it."""
    first, second = logits_TV.log_softmax(dim=-1).chunk(2)
    one = F.kl_div(first, second.exp(), reduction="sum")
    other = F.kl_div(second, first.exp(), reduction="sum")
    return (one + other) / 2


def test_twins_are_twins_of_one_another_and_padding_is_alone() -> None:
    target_T = torch.tensor([3, 0, 5, 3, 0, 5, NO_TARGET, NO_TARGET])
    twin_T = twin_rows(target_T)
    assert twin_T.tolist() == [3, 4, 5, 0, 1, 2, 6, 7]
    assert torch.equal(twin_T[twin_T], torch.arange(8))
    assert torch.equal(target_T[twin_T], target_T)
    assert twin_rows(torch.full((3,), NO_TARGET)).tolist() == [0, 1, 2]


def test_every_pair_stands_twice_within_the_budget_and_its_tokens_are_twins() -> None:
    batch, plain = first_batch(config()), first_batch(config(r_drop=0.0))
    assert 60 < batch.num_target_tokens <= 120
    assert plain.num_target_tokens <= 120
    target_T = batch.target_out_T
    assert torch.equal(target_T[twin_rows(target_T)], target_T)
    once, again = target_T.chunk(2)
    assert torch.equal(once, again)
    assert torch.equal(once, plain.target_out_T[: len(once)])


def test_the_divergence_and_its_gradient_are_the_papers() -> None:
    logits_TV = torch.randn(10, 11, dtype=torch.float64, requires_grad=True)
    ours, theirs = twin_divergence(logits_TV, torch.zeros(10, dtype=torch.int64)), paper_divergence(logits_TV)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    ours_grad, theirs_grad = (torch.autograd.grad(value, logits_TV)[0] for value in (ours, theirs))
    torch.testing.assert_close(ours_grad, theirs_grad, rtol=1e-10, atol=1e-12)


def test_a_pass_trains_both_losses_over_both_passes() -> None:
    settings = config()
    batch = first_batch(settings)
    ours, sums_2 = gradients(settings, batch)
    model = new_model(settings)
    torch.manual_seed(7)  # the same masks
    logits_TV = model(batch.source, batch.target_in)
    assert not torch.allclose(*logits_TV.chunk(2))
    sums = smoothed_cross_entropy(logits_TV, batch.target_out_T, 0.1)
    loss = sums.smoothed + 5.0 * paper_divergence(logits_TV)
    expected = torch.autograd.grad(0.5 * loss, list(model.parameters()))
    for gradient, right in zip(ours, expected, strict=True):
        torch.testing.assert_close(gradient, right, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(sums_2, torch.stack([sums.smoothed, sums.negative_log_likelihood]).detach())


def test_without_dropout_it_is_the_batch_twice() -> None:
    settings = config(dropout=0.0)
    batch = first_batch(settings)
    ours, _ = gradients(settings, batch)
    plain, _ = gradients(config(dropout=0.0, r_drop=0.0), batch)
    for gradient, right in zip(ours, plain, strict=True):
        torch.testing.assert_close(gradient, right, rtol=1e-9, atol=1e-11)


def test_the_longest_sentence_must_fit_twice() -> None:
    config(max_length=59)
    with pytest.raises(ConfigError, match=r"data\.max_length = 60 does not fit half of a micro-batch of 120 tokens"):
        config(max_length=60)
    config(max_length=60, r_drop=0.0)
