"""Mixed precision: float32 weights learn, a bfloat16 copy of them computes.

Autocast would convert each matrix where it is used and each gradient where it arrives, some three hundred small kernels
a step. Here all weights are views of one tensor, as are their gradients and the bfloat16 copy, so that a step converts
everything in two kernels. LayerNorm's few numbers stay float32. Where the gradients of some modules are there before
those of others, each `Part` takes its own. It knows modules and tensors, no Transformer.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
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
        parameters = dict(model.named_parameters())
        of_norms = {name: p for name, p in parameters.items() if name.rpartition(".")[0] in norms}
        narrow = {name: self.narrow.get_parameter(name) for name in parameters if name not in of_norms}
        self._flat = _Flat({name: parameters[name] for name in narrow}, torch.float32)
        self._flat_norms = _Flat(of_norms, torch.float32)
        self._flat_narrow = _Flat(narrow, dtype)
        for flat in (self._flat, self._flat_norms):
            flat.give_gradients()
        self.whole = self.part("")

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
        self.whole.put(torch.autograd.grad(loss, self.whole.parameters), first=first)

    def part(self, *prefixes: str) -> Part:
        """The parameters whose names begin so; they must be neighbours."""
        matrices = _Neighbours(self._flat_narrow, self._flat, prefixes)
        return Part(matrices, _Neighbours(self._flat_norms, self._flat_norms, prefixes))


class Part:
    """Some parameters of `narrow`, and where the gradients of the same ones of `model` lie: in two tensors."""

    def __init__(self, matrices: _Neighbours, norms: _Neighbours) -> None:
        self._matrices, self._norms = matrices, norms
        self.parameters = matrices.parameters + norms.parameters
        self.gradients = matrices.gradients, norms.gradients

    def put(self, gradients: Sequence[Tensor], *, first: bool) -> None:
        """The gradients of all `parameters` replace what was there, or, unless they are the first, are added to it."""
        split = len(self._matrices.parameters)
        self._matrices.put(gradients[:split], first=first)
        self._norms.put(gradients[split:], first=first)


class _Neighbours:
    """Neighbours among the parameters that compute, and the gradients of those that learn, as one tensor."""

    def __init__(self, computing: _Flat, learning: _Flat, prefixes: tuple[str, ...]) -> None:
        places = [i for i, name in enumerate(computing.parameters) if name.startswith(prefixes)]
        begin, end = places[0], places[-1] + 1
        assert len(places) == end - begin, f"not all between the first and the last of {prefixes} belong to them"
        self.parameters = list(computing.parameters.values())[begin:end]
        self.gradients = learning.gradients[computing.begins[begin] : computing.begins[end]]
        self._flat = computing

    def put(self, gradients: Sequence[Tensor], *, first: bool) -> None:
        numbers = self._flat.joined(gradients)
        if first:
            self.gradients.copy_(numbers)
        else:
            self.gradients.add_(numbers)


class _Flat:
    """Parameters whose numbers lie in one tensor, one after the other."""

    def __init__(self, parameters: dict[str, nn.Parameter], dtype: torch.dtype) -> None:
        self.parameters = parameters
        sizes = [parameter.numel() for parameter in parameters.values()]
        self.begins = list(itertools.accumulate((size + _gap(size) for size in sizes), initial=0))
        device = next(iter(parameters.values())).device if parameters else None
        self.numbers = torch.zeros(self.begins[-1], dtype=dtype, device=device)
        self.gap = torch.zeros(ALIGNMENT, dtype=dtype, device=device)
        for parameter, view in zip(parameters.values(), self._views(self.numbers), strict=True):
            view.copy_(parameter.detach())
            parameter.data = view

    def _views(self, numbers: Tensor) -> list[Tensor]:
        pieces = zip(self.begins, self.parameters.values(), strict=False)
        return [numbers[begin : begin + p.numel()].view(p.shape) for begin, p in pieces]

    def give_gradients(self) -> None:
        """Every parameter has a gradient, which lies in one tensor with the others."""
        self.gradients = torch.zeros_like(self.numbers)
        for parameter, view in zip(self.parameters.values(), self._views(self.gradients), strict=True):
            parameter.grad = view

    def joined(self, tensors: Sequence[Tensor]) -> Tensor:
        """Tensors of the shapes of some neighbours, one after the other."""
        pieces = [[tensor.reshape(-1), self.gap[: _gap(tensor.numel())]] for tensor in tensors]
        return torch.cat([piece for pair in pieces for piece in pair if len(piece)])


def _gap(size: int) -> int:
    return -size % ALIGNMENT
