"""How many steps lie between two positions (§4): which inputs an output depends on, read off the Jacobian.

With positive weights and linear activations no path cancels another. Then an entry of the Jacobian is zero only if no
path leads from that input to that output. Attention's weights are made equal (no queries, no keys), so its output is
linear, too. All in float64: an entry that a hundred layers made small is still there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from heedful.lab.table1.layers import Layer, RecurrentLayer, SelfAttentionLayer

T = TypeVar("T", bound=nn.Module)
Function: TypeAlias = Callable[[Tensor], Tensor]
Stack: TypeAlias = Callable[[int], Function]  # what so many layers compute

NUMBERS_AT_ONCE = 2**16  # of a batch: more take more memory


def dependence(function: Function, length: int, d_model: int) -> Tensor:
    """The Jacobian of `function` as a pattern: True where output position (row) depends on input position (column)."""
    rows = max(1, NUMBERS_AT_ONCE // (length * d_model))
    parts = [_rows(function, places_R, length, d_model) for places_R in torch.arange(length).split(rows)]
    return torch.cat(parts)


def _rows(function: Function, places_R: Tensor, length: int, d_model: int) -> Tensor:
    """Some rows of the Jacobian: one sentence for each, of which one output position is derived."""
    x_RLD = torch.ones(len(places_R), length, d_model, dtype=torch.float64, requires_grad=True)
    y_RD = function(x_RLD)[torch.arange(len(places_R)), places_R]
    (gradient_RLD,) = torch.autograd.grad(y_RD.sum(), x_RLD)
    return gradient_RLD.ne(0).any(dim=-1)


def path_length(stack_of: Stack, length: int, d_model: int, *, is_causal: bool) -> int:
    """The fewest layers (or transitions) after which every output depends on all inputs that it may see."""
    ones_LL = torch.ones(length, length, dtype=torch.bool)
    may_see_LL = ones_LL.tril() if is_causal else ones_LL

    def is_joined(number: int) -> bool:
        return bool((dependence(stack_of(number), length, d_model) | ~may_see_LL).all())

    return first(is_joined)


def first(holds: Callable[[int], bool]) -> int:
    """The smallest number from 1 on for which it holds; it also holds for all larger ones."""
    bound = 1
    while not holds(bound):
        bound *= 2
    return bisect_left(range(bound), True, lo=bound // 2 + 1, hi=bound, key=holds)


def positive(layer: T) -> T:
    """The layer in float64 with fixed positive weights, each output a mean of inputs; attention looks evenly."""
    layer = layer.double().requires_grad_(False)
    for weight in layer.parameters():
        weight.fill_(1 / weight[0].numel())
    if isinstance(layer, SelfAttentionLayer):
        layer.attention.W_Q.weight.zero_()
        layer.attention.W_K.weight.zero_()
    return layer


def stacked(build: Callable[[int], Layer]) -> Stack:
    """Stacks of layers; `build` makes the one of a number, from 0 on."""
    return lambda num_layers: nn.Sequential(*(positive(build(number)) for number in range(num_layers)))


def unrolled(layer: RecurrentLayer) -> Stack:
    """One recurrent layer, with so many transitions between positions."""
    layer = positive(layer)
    return lambda steps: partial(layer.transitions, steps=steps)
