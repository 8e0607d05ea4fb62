"""One tensor of weights that learn, one of weights that compute, and modules that notice neither."""

import copy

import pytest
import torch
from torch import Tensor, nn

from heedful.fast.cuda.mixed_precision import MixedPrecision


def _model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 10), nn.LayerNorm(10), nn.ReLU(), nn.Linear(10, 3, bias=False))


def _loss(model: nn.Module, x: Tensor) -> Tensor:
    output: Tensor = model(x.to(next(model.parameters()).dtype))
    return (output.float() ** 2).sum()


def test_the_copy_computes_with_rounded_weights_and_norms_of_full_precision() -> None:
    model = _model()
    before = copy.deepcopy(model.state_dict())
    mixed = MixedPrecision(model)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert mixed.narrow.get_parameter("0.weight").dtype == torch.bfloat16
    assert mixed.narrow.get_parameter("1.weight") is model.get_parameter("1.weight")
    with torch.no_grad():
        model.get_parameter("0.weight").add_(1.0)
    assert not torch.equal(mixed.narrow.get_parameter("0.weight"), model.get_parameter("0.weight").bfloat16())
    mixed.refresh()
    for name in ("0.weight", "0.bias", "3.weight"):
        assert torch.equal(mixed.narrow.get_parameter(name), model.get_parameter(name).bfloat16())


def test_gradients_are_those_of_the_plain_model_and_add_up() -> None:
    plain, x, y = _model(), torch.randn(5, 6), torch.randn(5, 6)
    mixed = MixedPrecision(copy.deepcopy(plain), torch.float32)  # the same precision, to compare exactly
    mixed.backward(_loss(mixed.narrow, x))
    mixed.backward(_loss(mixed.narrow, y), first=False)
    (_loss(plain, x) + _loss(plain, y)).backward()
    for name, parameter in plain.named_parameters():
        gradient = mixed.model.get_parameter(name).grad
        assert gradient is not None
        assert parameter.grad is not None
        assert torch.allclose(gradient, parameter.grad, rtol=1e-5, atol=1e-6)
    mixed.backward(_loss(mixed.narrow, x))
    gradients = [p.grad.flatten() for p in mixed.model.parameters() if p.grad is not None]
    norm = torch.cat(gradients).norm()
    assert torch.allclose(torch.cat(mixed.gradients).norm(), norm)


def test_an_optimizer_of_the_weights_moves_the_copy() -> None:
    mixed = MixedPrecision(_model())
    optimizer = torch.optim.Adam(mixed.model.parameters(), lr=1e-2, fused=True)
    x = torch.randn(64, 6)
    losses = []
    for _ in range(30):
        mixed.refresh()
        loss = _loss(mixed.narrow, x)
        mixed.backward(loss)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def test_parts_together_are_the_whole_and_leave_each_other_alone() -> None:
    model = nn.Sequential(nn.Linear(6, 10), nn.LayerNorm(10), nn.Linear(10, 7), nn.LayerNorm(7), nn.Linear(7, 3))
    mixed = MixedPrecision(model)
    parts = mixed.part("0.", "1."), mixed.part("2.", "3.", "4.")
    loss = _loss(mixed.narrow, torch.randn(5, 6))
    grads = [torch.autograd.grad(loss, part.parameters, retain_graph=True) for part in parts]
    mixed.backward(loss)
    expected = torch.cat(mixed.gradients).clone()
    parts[1].put(grads[1], first=False)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        parameter.grad.mul_(0.5 if int(name[0]) > 1 else 1.0)  # which undoes it
    assert torch.equal(torch.cat(mixed.gradients), expected)
    for gradients in mixed.gradients:
        gradients.zero_()
    for part, part_grads in zip(parts, grads, strict=True):
        part.put(part_grads, first=True)
    assert torch.equal(torch.cat(mixed.gradients), expected)


def test_a_part_is_of_neighbours() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 6), nn.LayerNorm(6))
    with pytest.raises(AssertionError, match="belong"):
        MixedPrecision(model).part("0.", "1.", "3.")
