"""Counting sees every product, the chain that they make, and the memory they take."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from heedful.lab.table1.operations import cost

X, W = torch.randn(5, 4), torch.randn(4, 4)
X_NDL = torch.randn(2, 4, 9)
COUNTED_BY_TORCH: dict[str, Callable[[], object]] = {
    "a product": partial(torch.matmul, X, W),
    "a linear layer": partial(nn.Linear(4, 3), X),
    "a batch of products": partial(torch.matmul, torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
    "a convolution": partial(F.conv1d, X_NDL, torch.randn(6, 4, 3)),
    "a convolution in groups": partial(F.conv1d, X_NDL, torch.randn(4, 1, 3), groups=4),
    "a recurrent layer": partial(nn.RNN(4, 4), torch.randn(7, 2, 4)),
}


@pytest.mark.parametrize("name", COUNTED_BY_TORCH)
def test_the_count_is_that_of_torch(name: str) -> None:
    with torch.no_grad(), FlopCounterMode(display=False) as torchs:
        COUNTED_BY_TORCH[name]()
    assert 2 * cost(COUNTED_BY_TORCH[name]).multiply_adds == torchs.get_total_flops() > 0


def test_attention_in_one_kernel_counts_as_its_two_products() -> None:
    query, key, value = torch.randn(3, 2, 4, 7, 5)
    fused = cost(lambda: F.scaled_dot_product_attention(query, key, value))
    written_out = cost(lambda: (query @ key.mT).softmax(dim=-1) @ value)
    assert fused.multiply_adds == written_out.multiply_adds == 2 * (2 * 4 * 7 * 7 * 5)
    assert fused.longest_chain == written_out.longest_chain == 2


def test_an_lstm_is_counted_step_by_step() -> None:
    lstm, x = nn.LSTM(4, 4, bias=False), torch.randn(7, 1, 4)
    assert cost(lambda: lstm(x)).multiply_adds == 8 * 7 * 4 * 4
    assert cost(lambda: lstm(x)).longest_chain == 7


def test_an_operation_that_is_not_known_is_refused() -> None:
    with pytest.raises(AssertionError, match="do not know how many products"):
        cost(lambda: torch.linalg.inv(W))


def test_products_side_by_side_make_no_chain() -> None:
    assert cost(lambda: torch.cat([X @ W, X @ W.T])).longest_chain == 1
    assert cost(lambda: X @ W @ W @ W).longest_chain == 3


def test_a_chain_goes_through_views_and_changes_in_place() -> None:
    def in_place() -> None:
        y = X @ W
        z = torch.zeros(5, 4)
        z[1:3].add_(y[1:3])
        assert (z.T[0] @ y).shape == (4,)

    assert cost(in_place).longest_chain == 2


def test_memory_is_what_lived_at_one_time() -> None:
    def two_at_a_time() -> None:
        y = torch.zeros(1000)
        for _ in range(10):
            y = y + 1

    def all_at_a_time() -> list[torch.Tensor]:
        return [torch.zeros(1000) for _ in range(11)]

    assert cost(two_at_a_time).peak_bytes == 2 * 4000
    assert cost(all_at_a_time).peak_bytes == 11 * 4000


def test_memory_of_before_does_not_count() -> None:
    x = torch.zeros(1000)
    assert cost(lambda: x.view(10, 100).add_(1)).peak_bytes == 0
