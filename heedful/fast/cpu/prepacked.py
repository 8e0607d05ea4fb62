"""Products with a matrix that stays the same: on a CPU laid out once as oneDNN wants it.

A step of decoding multiplies few rows with many matrices, and MKL, which `F.linear` calls, arranges the matrix anew
each time. Measured on one core for d_model 512, billions of operations a second: 65 to 79 by `F.linear` and 93 to 101
here for 64 rows; 13 to 37, and 40 to 57, for 4. The plain product is what training computes, and what a test compares.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from heedful.config.capabilities import NUMBERS, Capabilities, one_of

PREPACKED = Capabilities(  # models whose steps are compared with those of plain products
    "cannot be decoded with prepacked matrices: that takes",
    {**NUMBERS, "positions": one_of("sinusoidal", "learned")},
)


class Product:
    """x ↦ x Wᵀ + b, and the same behind a ReLU; sees W as it was when this was made."""

    def __init__(self, weight_XD: Tensor, bias_X: Tensor | None = None, *, is_packed: bool = True) -> None:
        self.weight_XD, self.bias_X = weight_XD.detach(), None if bias_X is None else bias_X.detach()
        is_packed = is_packed and can_pack(weight_XD)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight_XD) if is_packed else None

    def __call__(self, x_RD: Tensor) -> Tensor:
        return F.linear(x_RD, self.weight_XD, self.bias_X) if self.packed is None else self._packed(x_RD, "none")

    def relu(self, x_RD: Tensor) -> Tensor:
        """max(0, x Wᵀ + b)."""
        return F.relu(self(x_RD)) if self.packed is None else self._packed(x_RD, "relu")

    def _packed(self, x_RD: Tensor, then: str) -> Tensor:
        product_RX: Tensor = torch.ops.mkldnn._linear_pointwise(x_RD, self.packed, self.bias_X, then, [], "")
        return product_RX


def can_pack(weight_XD: Tensor) -> bool:
    """On a CPU, in float32, where torch was built with oneDNN."""
    is_built = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return is_built and weight_XD.device.type == "cpu" and weight_XD.dtype == torch.float32
