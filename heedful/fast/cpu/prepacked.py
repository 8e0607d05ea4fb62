"""Products with a matrix that stays the same: on a CPU laid out once as oneDNN wants it.

A step of decoding multiplies few rows with many matrices, and MKL, which `F.linear` calls, arranges the matrix anew
each time. Measured on one core for d_model 512, billions of operations a second: 65 to 79 by `F.linear` and 93 to 101
here for 64 rows; 13 to 37, and 40 to 57, for 4. The plain twin is `Product` in `model/decoding.py`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from heedful.config.supported_settings import SupportedSettings, one_of
from heedful.model.decoding import CACHED, CachedDecoder, Product, Products
from heedful.model.interface import Decoder, TranslationModel

PREPACKED = SupportedSettings(  # models whose steps are compared with those of plain products
    "cannot be decoded with prepacked matrices: that takes",
    {**CACHED.settings, "positions": one_of("sinusoidal", "learned", "relative", "rotary", "none")},
)


class PackedProduct(Product):
    """The same product with the matrix packed."""

    def __init__(self, plain: Product) -> None:
        super().__init__(plain.weight_XD, plain.bias_X)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight_XD)

    def __call__(self, x_RD: Tensor) -> Tensor:
        return self._product(x_RD, "none")

    def relu(self, x_RD: Tensor) -> Tensor:
        """max(0, x Wᵀ + b)."""
        return self._product(x_RD, "relu")

    def _product(self, x_RD: Tensor, then: str) -> Tensor:
        product_RX: Tensor = torch.ops.mkldnn._linear_pointwise(x_RD, self.packed, self.bias_X, then, [], "")
        return product_RX


def prepacked_decoder(model: TranslationModel) -> Decoder[Any]:
    """The model's decoder; with packed matrices where that can be done."""
    decoder = model.new_decoder()
    if isinstance(decoder, CachedDecoder) and can_pack(model) and PREPACKED.unsupported(model.config) is None:
        for layer in decoder.layers:
            layer.products = Products(*map(PackedProduct, layer.products))
        decoder.logits = PackedProduct(decoder.logits)
    return decoder


def can_pack(model: TranslationModel) -> bool:
    """On a CPU, in float32, where torch was built with oneDNN."""
    is_built = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return is_built and model.device.type == "cpu" and model.dtype == torch.float32
