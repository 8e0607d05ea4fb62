"""The loss of some rows at a time, against that of all at once."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from heedful.config.setting_layers import resolve
from heedful.config.settings import Config
from heedful.fast.cpu import loss_by_rows
from heedful.fast.cpu.loss_by_rows import ObjectiveByRows, sums_by_rows
from heedful.model.packed import NO_TARGET
from heedful.model.transformer import Transformer
from heedful.train.batching import make_batch, step_batches
from heedful.train.gradients import Objective, PlainGradients, make_gradients
from heedful.train.loss import smoothed_cross_entropy
from heedful.train.processes import World
from heedful.train.r_drop import twin_divergence
from tests.memory_shards import random_shards


def row_sums(logits_TV: Tensor, target_T: Tensor) -> Tensor:
    """One that is trained, and one that is not."""
    sums = smoothed_cross_entropy(logits_TV, target_T, 0.1)
    return torch.stack([sums.smoothed, sums.negative_log_likelihood])


def twin_sums(logits_TV: Tensor, target_T: Tensor) -> Tensor:
    """R-Drop's, for which a row must stand beside its twin."""
    return torch.stack([twin_divergence(logits_TV, target_T)])


@pytest.mark.parametrize(("num_rows", "at_once"), [(7, 3), (7, 1), (6, 2), (7, 100)])
def test_sums_and_gradients_are_those_of_all_rows_at_once(num_rows: int, at_once: int) -> None:
    hidden_TD = torch.randn(num_rows, 3, dtype=torch.float64, requires_grad=True)
    weight_VD = torch.randn(11, 3, dtype=torch.float64, requires_grad=True)
    target_T = torch.randint(11, (num_rows,))
    target_T[-2:] = NO_TARGET
    ours = sums_by_rows(row_sums, hidden_TD, weight_VD, target_T, rows=at_once)
    plain = row_sums(hidden_TD @ weight_VD.T, target_T)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)
    assert_same_gradients(ours, plain, hidden_TD, weight_VD)


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_a_bias_is_added_to_the_logits_of_all_rows(at_once: int) -> None:
    hidden_TD = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    weight_VD = torch.randn(11, 3, dtype=torch.float64, requires_grad=True)
    bias_V = torch.randn(11, dtype=torch.float64, requires_grad=True)
    target_T = torch.randint(11, (7,))
    ours = sums_by_rows(row_sums, hidden_TD, weight_VD, target_T, bias_V, rows=at_once)
    plain = row_sums(hidden_TD @ weight_VD.T + bias_V, target_T)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)
    assert_same_gradients(ours, plain, hidden_TD, weight_VD, bias_V)


@pytest.mark.parametrize("at_once", [1, 2, 4, 100])
def test_twins_stand_beside_one_another(at_once: int) -> None:
    hidden_TD = torch.randn(10, 3, dtype=torch.float64, requires_grad=True)
    weight_VD = torch.randn(11, 3, dtype=torch.float64, requires_grad=True)
    target_T = torch.randint(11, (5,)).repeat(2)
    ours = sums_by_rows(twin_sums, hidden_TD, weight_VD, target_T, rows=at_once, copies=2)
    plain = twin_sums(hidden_TD @ weight_VD.T, target_T)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)
    assert_same_gradients(ours, plain, hidden_TD, weight_VD)


def assert_same_gradients(ours: Tensor, plain: Tensor, *inputs: Tensor) -> None:
    """With a factor behind the sums, as the training has one."""
    pairs = zip(*(torch.autograd.grad(0.3 * sums[0], inputs) for sums in (ours, plain)), strict=True)
    for gradient, right in pairs:
        torch.testing.assert_close(gradient, right, rtol=1e-11, atol=1e-12)


def test_no_more_rows_than_told_are_computed_at_a_time() -> None:
    seen: list[list[int]] = []

    def noted(logits_TV: Tensor, target_T: Tensor) -> Tensor:
        assert len(logits_TV) == len(target_T)
        seen.append(target_T.tolist())
        return row_sums(logits_TV, target_T)

    hidden_TD, weight_VD = torch.randn(10, 3, requires_grad=True), torch.randn(11, 3)
    sums_by_rows(noted, hidden_TD, weight_VD, torch.tensor([1, 2, 3, 4, 5] * 2), rows=4, copies=2)
    assert seen == [[1, 2, 1, 2], [3, 4, 3, 4], [5, 5]]
    seen.clear()
    sums_by_rows(noted, hidden_TD, weight_VD, torch.arange(10), rows=4)
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def config(r_drop: float = 0.0) -> Config:
    model = {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2, "dropout": 0.3}
    return resolve({"model": model, "train": {"batch_tokens": 120, "r_drop": r_drop}, "data": {"max_length": 12}})


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_training_with_it_is_training_with_the_plain_objective(r_drop: float, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(r_drop)
    stream = step_batches(random_shards(200), make_batch, settings.train)
    batch, by_rows = next(stream)[0], Mock(wraps=sums_by_rows)
    monkeypatch.setattr(loss_by_rows, "ROWS_AT_ONCE", 16)
    monkeypatch.setattr(loss_by_rows, "sums_by_rows", by_rows)

    def trained(kind: type[Objective]) -> list[Tensor]:
        torch.manual_seed(0)
        model = Transformer(settings.model, 56).double().train()
        gradients = PlainGradients(kind(model, settings.train), world=World(), autocast=False)
        sums_2 = gradients.add(batch, seed=7, factor=0.5, is_first=True, is_last=True)
        return [sums_2, *gradients.tensors()]

    ours = trained(ObjectiveByRows)
    by_rows.assert_called_once()
    plain = trained(Objective)
    by_rows.assert_called_once()
    for found, right in zip(ours, plain, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-11)


def kind_of_objective(model: Transformer, precision: str) -> type:
    gradients = make_gradients(model, config(), precision=precision, world=World())
    assert isinstance(gradients, PlainGradients)
    return type(gradients.objective)


def test_a_cpu_takes_it_where_the_logits_are_one_product_of_full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Transformer(config().model, 56)
    assert kind_of_objective(model, "fp32") is kind_of_objective(model, "fp64") is ObjectiveByRows
    assert kind_of_objective(model, "bf16") is Objective
    monkeypatch.setattr(Transformer, "projection", lambda _: None)
    assert kind_of_objective(model, "fp32") is Objective


def test_rows_that_are_no_copies_are_our_mistake() -> None:
    with pytest.raises(AssertionError, match="copies are alike"):
        sums_by_rows(twin_sums, torch.randn(4, 3), torch.randn(11, 3), torch.tensor([1, 2, 1, 3]), rows=2, copies=2)
