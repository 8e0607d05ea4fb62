"""Products with a prepacked matrix: the same numbers as the plain ones."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from heedful.fast.cpu import prepacked
from heedful.fast.cpu.prepacked import Product


@pytest.mark.parametrize("rows", [1, 4, 65, 300])
@pytest.mark.parametrize("width", [24, 200])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_packed_product_is_the_plain_one(rows: int, width: int, has_bias: bool) -> None:
    torch.manual_seed(rows)
    weight_XD, x_RD = torch.randn(width, 48), torch.randn(rows, 48)
    bias_X = torch.randn(width) if has_bias else None
    product, plain_RX = Product(weight_XD, bias_X), F.linear(x_RD, weight_XD, bias_X)
    assert (product.packed is not None) == torch.backends.mkldnn.is_available()
    torch.testing.assert_close(product(x_RD), plain_RX)
    torch.testing.assert_close(product.relu(x_RD), plain_RX.relu())


def test_rows_do_not_depend_on_how_many_there_are() -> None:
    torch.manual_seed(1)
    product, x_RD = Product(torch.randn(64, 32)), torch.randn(100, 32)
    torch.testing.assert_close(product(x_RD[:3]), product(x_RD)[:3])


def test_what_cannot_be_packed_is_multiplied_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    weight_XD, x_RD = torch.randn(8, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    assert torch.equal(Product(weight_XD)(x_RD), F.linear(x_RD, weight_XD))
    monkeypatch.setattr(prepacked, "can_pack", lambda _: False)
    plain = Product(weight_XD.float())
    assert plain.packed is None
    assert torch.equal(plain.relu(x_RD.float()), F.relu(F.linear(x_RD.float(), weight_XD.float())))
