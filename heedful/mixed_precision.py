"""Mixed precision: float32 weights learn, a bfloat16 copy of them computes.

Autocast would convert each matrix where it is used and each gradient where it arrives, some three hundred small kernels
a step. Here all weights are views of one tensor, as are their gradients and the bfloat16 copy, so that a step converts
everything in two kernels. LayerNorm's few numbers stay float32. It knows modules and tensors, no Transformer.
"""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)
ALIGNMENT = 128  # weights begin at multiples of this many numbers, as matrix products like it


class MixedPrecision(Generic[Model]):
    """`model` learns, `narrow` computes.

    The parameters of `model` remain what they were, but for where their numbers lie, and have gradients from now on;
    an optimizer of theirs needs not know of this class.
    """

    def __init__(self, model: Model, dtype: torch.dtype = torch.bfloat16) -> None:
        self.model, self.narrow = model, copy.deepcopy(model).to(dtype)
        norms = {name for name, module in model.named_modules() if isinstance(module, nn.LayerNorm)}
        self._share(norms)
        names = [name for name, _ in model.named_parameters()]
        narrow = [name for name in names if name.rpartition(".")[0] not in norms]
        self._flat = _Flat([model.get_parameter(name) for name in narrow], torch.float32)
        self._flat_norms = _Flat(
            [model.get_parameter(name) for name in names if name not in set(narrow)], torch.float32
        )
        self._flat_narrow = _Flat([self.narrow.get_parameter(name) for name in narrow], dtype)
        for flat in (self._flat, self._flat_norms):
            flat.give_gradients()

    def _share(self, norms: set[str]) -> None:
        for name in norms:
            own, shared = self.narrow.get_submodule(name), self.model.get_submodule(name)
            for parameter_name, parameter in shared.named_parameters(recurse=False):
                setattr(own, parameter_name, parameter)

    @property
    def gradients(self) -> tuple[Tensor, Tensor]:
        """All gradients, as two tensors."""
        return self._flat.gradients, self._flat_norms.gradients

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """All weights that learn, as two tensors."""
        return self._flat.numbers, self._flat_norms.numbers

    @torch.no_grad()
    def refresh(self) -> None:
        """The copy computes with the weights as they are now."""
        self._flat_narrow.numbers.copy_(self._flat.numbers)

    def backward(self, loss: Tensor, *, first: bool = True) -> None:
        """Put the gradients of a loss that `narrow` gave into those of `model`; unless it is the first, add them."""
        parts = self._flat_narrow, self._flat_norms
        grads = torch.autograd.grad(loss, [parameter for part in parts for parameter in part.parameters])
        split = len(parts[0].parameters)
        for part, into, part_grads in zip(parts, self.gradients, (grads[:split], grads[split:]), strict=True):
            numbers = part.joined(part_grads)
            if first:
                into.copy_(numbers)
            else:
                into.add_(numbers)


class _Flat:
    """Parameters whose numbers lie in one tensor, one after the other."""

    def __init__(self, parameters: list[nn.Parameter], dtype: torch.dtype) -> None:
        self.parameters = parameters
        sizes = [parameter.numel() for parameter in parameters]
        self.gaps = [-size % ALIGNMENT for size in sizes]
        device = parameters[0].device if parameters else None
        self.numbers = torch.zeros(sum(sizes) + sum(self.gaps), dtype=dtype, device=device)
        self.gap = torch.zeros(ALIGNMENT, dtype=dtype, device=device)
        for parameter, view in zip(parameters, self._views(self.numbers), strict=True):
            view.copy_(parameter.detach())
            parameter.data = view

    def _views(self, numbers: Tensor) -> list[Tensor]:
        sizes = [parameter.numel() for parameter in self.parameters]
        pieces = numbers.split([n for pair in zip(sizes, self.gaps, strict=True) for n in pair])[::2]
        return [piece.view(parameter.shape) for piece, parameter in zip(pieces, self.parameters, strict=True)]

    def give_gradients(self) -> None:
        """Every parameter has a gradient, which lies in one tensor with the others."""
        self.gradients = torch.zeros_like(self.numbers)
        for parameter, view in zip(self.parameters, self._views(self.gradients), strict=True):
            parameter.grad = view

    def joined(self, tensors: tuple[Tensor, ...]) -> Tensor:
        """Tensors of the parameters' shapes, one after the other."""
        pieces = [[tensor.reshape(-1), self.gap[:gap]] for tensor, gap in zip(tensors, self.gaps, strict=True)]
        return torch.cat([piece for pair in pieces for piece in pair if len(piece)])
