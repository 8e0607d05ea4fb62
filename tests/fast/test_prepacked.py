"""Products with a prepacked matrix: the same numbers as the plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from heedful.config.settings import ModelConfig
from heedful.fast.cpu import prepacked
from heedful.fast.cpu.prepacked import PackedProduct, can_pack, prepacked_decoder
from heedful.model.decoding import CachedDecoder, Product
from heedful.model.packed import pack_source
from heedful.model.transformer import Transformer
from tests.switches import SWITCHES

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch is built without oneDNN")


def new_model() -> Transformer:
    return Transformer(ModelConfig(d_model=16, d_ff=24, num_layers=1, num_heads=2), 23).eval()


@needs_onednn
@pytest.mark.parametrize("rows", [1, 4, 65, 300])
@pytest.mark.parametrize("width", [24, 200])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_packed_product_is_the_plain_one(rows: int, width: int, has_bias: bool) -> None:
    torch.manual_seed(rows)
    plain = Product(torch.randn(width, 48), torch.randn(width) if has_bias else None)
    packed, x_RD = PackedProduct(plain), torch.randn(rows, 48)
    torch.testing.assert_close(packed(x_RD), plain(x_RD))
    torch.testing.assert_close(packed.relu(x_RD), plain.relu(x_RD))
    assert (packed.relu(x_RD) == 0).any()


@needs_onednn
def test_rows_do_not_depend_on_how_many_there_are() -> None:
    torch.manual_seed(1)
    product, x_RD = PackedProduct(Product(torch.randn(64, 32))), torch.randn(100, 32)
    torch.testing.assert_close(product(x_RD[:3]), product(x_RD)[:3])


def kinds_of_products(model: Transformer) -> set[type[Product]]:
    decoder = prepacked_decoder(model)
    assert isinstance(decoder, CachedDecoder)
    in_layers = (product for layer in decoder.layers for product in layer.products)
    return {type(product) for product in (*in_layers, decoder.logits)}


@needs_onednn
@pytest.mark.parametrize("switch", SWITCHES.values(), ids=list(SWITCHES))
def test_a_switch_is_decoded_with_packed_matrices_as_without(switch: dict[str, Any]) -> None:
    torch.manual_seed(1)
    model = Transformer(ModelConfig(d_model=16, d_ff=24, num_layers=2, num_heads=2, **switch), 23).eval()
    assert kinds_of_products(model) == {PackedProduct}
    source, outputs = pack_source(np.array([5, 6, 7, 0, 9, 0]), np.array([4, 2])), []
    for decoder in (prepacked_decoder(model), model.new_decoder()):
        state = decoder.empty(2, 1)
        state.admit(model.encode(source), [0, 1], longest=4)
        outputs.append(torch.stack([decoder.step(torch.tensor(ids), state) for ids in ([0, 0], [3, 4], [8, 2])]))
    torch.testing.assert_close(*outputs)


def test_every_product_of_a_step_is_packed_where_that_can_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes oneDNN and float32; what cannot be packed is multiplied as it is."""
    model = new_model()
    assert can_pack(model) == torch.backends.mkldnn.is_available()
    assert kinds_of_products(model) == {PackedProduct if torch.backends.mkldnn.is_available() else Product}
    assert kinds_of_products(new_model().double()) == {Product}
    monkeypatch.setattr(prepacked, "can_pack", lambda _: False)
    assert kinds_of_products(model) == {Product}
