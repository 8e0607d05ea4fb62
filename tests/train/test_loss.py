"""§5.4: label smoothing, against torch's own cross-entropy."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from heedful.config.setting_layers import resolve
from heedful.config.settings import ModelConfig
from heedful.fast.cpu.loss_by_rows import ObjectiveByRows
from heedful.model.packed import NO_TARGET
from heedful.model.transformer import Transformer
from heedful.train.batching import make_batch
from heedful.train.gradients import Objective
from heedful.train.loss import smoothed_cross_entropy
from tests.memory_shards import random_shards


def rows(num_rows: int = 7, vocab_size: int = 11) -> tuple[Tensor, Tensor]:
    logits_TV = torch.randn(num_rows, vocab_size, dtype=torch.float64, requires_grad=True)
    target_T = torch.randint(vocab_size, (num_rows,))
    target_T[-2:] = NO_TARGET
    return logits_TV, target_T


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.2])
def test_the_loss_and_its_gradient_are_those_of_torch(smoothing: float) -> None:
    logits_TV, target_T = rows()
    ours = smoothed_cross_entropy(logits_TV, target_T, smoothing)
    theirs = F.cross_entropy(logits_TV, target_T, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(ours.smoothed, theirs, atol=1e-12, rtol=1e-12)
    ours_grad, theirs_grad = (torch.autograd.grad(loss, logits_TV)[0] for loss in (ours.smoothed, theirs))
    torch.testing.assert_close(ours_grad, theirs_grad, atol=1e-12, rtol=1e-12)


def test_the_true_likelihood_is_not_smoothed() -> None:
    logits_TV, target_T = rows()
    sums = smoothed_cross_entropy(logits_TV, target_T, 0.1)
    torch.testing.assert_close(sums.negative_log_likelihood, F.cross_entropy(logits_TV, target_T, reduction="sum"))


def test_rows_without_a_target_have_no_gradient() -> None:
    logits_TV, target_T = rows()
    (gradient_TV,) = torch.autograd.grad(smoothed_cross_entropy(logits_TV, target_T, 0.1).smoothed, logits_TV)
    assert gradient_TV[-2:].eq(0).all()
    assert gradient_TV[:-2].ne(0).all()


@pytest.mark.parametrize("kind", [Objective, ObjectiveByRows])
def test_an_objective_is_the_loss_of_the_models_logits_and_what_the_model_adds(
    kind: type[Objective], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Transformer(ModelConfig(d_model=16, d_ff=32, num_layers=1, num_heads=2, dropout=0.0), 56).double()
    batch, objective = make_batch(random_shards(5), np.arange(5)), kind(model, resolve({}).train)
    trained, smoothed, likelihood = objective(batch)
    logits_TV = model(batch.source, batch.target_in)
    torch.testing.assert_close(
        smoothed, F.cross_entropy(logits_TV, batch.target_out_T, label_smoothing=0.1, reduction="sum")
    )
    torch.testing.assert_close(likelihood, F.cross_entropy(logits_TV, batch.target_out_T, reduction="sum"))
    assert trained.item() == smoothed.item()
    monkeypatch.setattr(model, "auxiliary_loss", lambda: torch.tensor(2.5, dtype=torch.float64))
    torch.testing.assert_close(objective(batch), torch.stack([trained + 2.5, smoothed, likelihood]))


def test_smoothing_makes_certainty_cost_something() -> None:
    certain_TV = torch.full((1, 5), -50.0).index_fill(1, torch.tensor([2]), 50.0)
    assert smoothed_cross_entropy(certain_TV, torch.tensor([2]), 0.0).smoothed.item() == pytest.approx(0.0, abs=1e-6)
    assert smoothed_cross_entropy(certain_TV, torch.tensor([2]), 0.1).smoothed.item() > 1.0
