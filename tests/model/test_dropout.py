"""Dropout on a CPU (§5.4): its share, its mean, its gradient, and what its masks follow from."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from heedful.model.dropout import Dropout

SIZE = 512


def mask(p: float, *, seed: int = 1, rows: int = SIZE, columns: int = SIZE) -> Tensor:
    torch.manual_seed(seed)
    masked: Tensor = Dropout(p).train()(torch.ones(rows, columns, dtype=torch.float64))
    return masked


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9])
def test_it_drops_its_share_everywhere_and_keeps_the_mean(p: float) -> None:
    dropped_TD = (mask(p) == 0).double()
    deviation = (p * (1 - p)) ** 0.5
    assert abs(float(dropped_TD.mean()) - p) < 5 * deviation / SIZE + 2**-16
    for dim in (0, 1):
        assert float((dropped_TD.mean(dim=dim) - p).abs().max()) < 6 * deviation / SIZE**0.5
    assert torch.unique(mask(p)).tolist() == pytest.approx([0.0, 1 / (1 - p)], rel=2**-12)


def test_neighbours_and_masks_of_other_seeds_are_unrelated() -> None:
    a, b = (mask(0.5, seed=seed) == 0 for seed in (1, 2))
    a_4 = a.flatten().unflatten(0, (-1, 4))  # four draws come from one number
    pairs = [(a, b), (a[1:], a[:-1]), (a[:, 1:], a[:, :-1]), (a, a.T), (a_4[:, 0], a_4[:, 3]), (a_4[:, 1], a_4[:, 2])]
    for one, other in pairs:
        assert abs(float((one == other).double().mean()) - 0.5) < 5 * 0.5 / one.numel() ** 0.5 + 2 / SIZE


def test_masks_follow_from_torchs_seed_alone() -> None:
    assert torch.equal(mask(0.3), mask(0.3))
    torch.manual_seed(1)
    dropout, ones = Dropout(0.3).train(), torch.ones(SIZE, SIZE, dtype=torch.float64)
    assert torch.equal(dropout(ones), mask(0.3))
    torch.manual_seed(1)
    assert not torch.equal(dropout(ones), dropout(ones))


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 5), (0, 4)])
def test_any_number_of_numbers_will_do(shape: tuple[int, int]) -> None:
    x = torch.randn(shape)
    assert Dropout(0.3).train()(x).shape == x.shape


def test_the_gradient_is_dropped_where_the_number_is() -> None:
    x_TD = torch.randn(16, 16, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(1)
    (gradient_TD,) = torch.autograd.grad(Dropout(0.3).train()(x_TD).sum(), x_TD)
    assert torch.equal(gradient_TD, mask(0.3, rows=16, columns=16))


def test_without_training_and_without_a_share_nothing_is_dropped() -> None:
    x_TD = torch.randn(4, 4)
    assert torch.equal(Dropout(0.5).eval()(x_TD), x_TD)
    assert torch.equal(Dropout(0.0).train()(x_TD), x_TD)
    assert not Dropout(1.0).train()(x_TD).any()
