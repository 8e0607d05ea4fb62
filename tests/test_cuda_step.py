"""A step through the kernels gives the gradients of the plain model, and follows what is loaded."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.batching import NumberedBatch
from heedful.config import ModelConfig, resolve
from heedful.cuda_step import CudaStep
from heedful.distributed import World
from heedful.loss import projected_loss
from heedful.model.transformer import Transformer
from heedful.packed import fill_pairs, num_pair_numbers, pack_source, pack_target, shift_right
from heedful.passes import KernelPasses
from heedful.r_drop import twin_divergence
from heedful.tiles import StaticShape
from tests.interpreted import DEVICE, assert_holds_in_the_interpreter, on_kernels, without_kernels

pytest.importorskip("triton")

SHAPE = StaticShape(rows=128, sentences=8, longest=80)


@without_kernels
def test_a_step_holds_in_the_interpreter() -> None:
    assert_holds_in_the_interpreter(__file__)


def _model(dropout: float = 0.0) -> Transformer:
    config = ModelConfig(d_model=32, d_ff=48, num_layers=1, num_decoder_layers=2, num_heads=2, dropout=dropout)
    return Transformer(config, vocab_size=40).to(DEVICE)


def _assert_same_gradients(model: Transformer, plain: Transformer) -> None:
    for name, parameter in plain.named_parameters():
        gradient = model.get_parameter(name).grad
        assert gradient is not None
        assert parameter.grad is not None
        assert float((gradient - parameter.grad).norm()) <= 1e-3 * float(parameter.grad.norm()) + 1e-6


def _pairs(lengths: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng()
    source_lengths, target_lengths = np.array(lengths).T
    source, target = rng.integers(0, 40, source_lengths.sum()), rng.integers(0, 40, target_lengths.sum())
    return source, source_lengths, target, target_lengths


def _numbers(pairs: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> Tensor:
    numbers = np.empty(num_pair_numbers(SHAPE), dtype=np.int32)
    fill_pairs(numbers, *pairs, SHAPE)
    return torch.from_numpy(numbers)


def _plain_sums(model: Transformer, pairs: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> Tensor:
    source_ids, source_lengths, target_ids, target_lengths = pairs
    source = pack_source(source_ids, source_lengths).to(DEVICE)
    target_in = pack_target(shift_right(target_ids), target_lengths, source_lengths).to(DEVICE)
    hidden = model.decode(target_in, model.encode(source))
    target_out = torch.from_numpy(target_ids).to(DEVICE)
    sums = projected_loss(hidden, model.embedding.weight_VD, target_out, 0.1)
    return torch.stack([sums.smoothed, sums.negative_log_likelihood])


FIRST, SECOND = [(9, 5), (3, 8), (70, 66)], [(20, 31), (1, 1), (12, 40)]


@on_kernels
def test_gradients_of_two_micro_batches_are_those_of_the_plain_model() -> None:
    plain = _model()
    step = CudaStep(copy.deepcopy(plain), SHAPE, label_smoothing=0.1, dtype=torch.float32)
    first, second = _pairs(FIRST), _pairs(SECOND)
    for _ in range(2):  # the second time on a GPU from the captured graphs
        step.load(_numbers(first), seed=1, factor=0.25)
        sums = step.backward(first=True).clone()
        step.load(_numbers(second), seed=2, factor=0.5)
        sums += step.backward(first=False)
    expected = [_plain_sums(plain, first), _plain_sums(plain, second)]
    assert torch.allclose(sums, expected[0] + expected[1], rtol=1e-4)
    (0.25 * expected[0][0] + 0.5 * expected[1][0]).backward()
    _assert_same_gradients(step.mixed.model, plain)


@on_kernels
def test_with_r_drop_the_gradients_are_those_of_the_plain_model() -> None:
    """Without dropout twins would agree, so what stands in place of the copies are other pairs."""
    plain, pairs = _model(), _pairs([(9, 5), (3, 8), (20, 7), (7, 6)])
    step = CudaStep(copy.deepcopy(plain), SHAPE, label_smoothing=0.1, r_drop=3.0, dtype=torch.float32)
    step.load(_numbers(pairs), seed=1, factor=0.25)
    sums = step.backward(first=True)
    source_ids, source_lengths, target_ids, target_lengths = pairs
    source = pack_source(source_ids, source_lengths).to(DEVICE)
    target_in = pack_target(shift_right(target_ids), target_lengths, source_lengths).to(DEVICE)
    divergence = twin_divergence(plain(source, target_in), torch.from_numpy(target_ids).to(DEVICE))
    assert float(divergence.detach()) > 0.1
    expected = _plain_sums(plain, pairs)
    assert torch.allclose(sums, expected, rtol=1e-4)
    (0.25 * (expected[0] + 3.0 * divergence)).backward()
    _assert_same_gradients(step.mixed.model, plain)


@on_kernels
def test_masks_follow_from_the_seed_alone() -> None:
    torch.manual_seed(3)
    step = CudaStep(_model(dropout=0.3), SHAPE, label_smoothing=0.1, dtype=torch.float32)
    numbers = _numbers(_pairs(FIRST))

    def gradients(seed: int) -> Tensor:
        step.load(numbers, seed=seed, factor=1.0)
        step.backward(first=True)
        return torch.cat(step.mixed.gradients).clone()

    one, other, again = gradients(5), gradients(2**62 + 11), gradients(5)
    assert torch.equal(one, again)
    assert not torch.allclose(one, other)


@on_kernels
def test_a_new_weight_is_seen_by_the_next_step() -> None:
    model = _model()
    step = CudaStep(model, SHAPE, label_smoothing=0.1, dtype=torch.float32)
    step.load(_numbers(_pairs(FIRST)), seed=1, factor=1.0)
    before = step.backward(first=True).clone()
    with torch.no_grad():
        model.embedding.weight_VD.mul_(1.5)
    assert not torch.allclose(before, step.backward(first=True))


class _Rank(World):
    """One of two ranks, whose sums over ranks are only noted."""

    def sum(self, tensor: Tensor) -> Tensor:
        SENT.append(tensor.clone())
        return tensor


SENT: list[Tensor] = []


@on_kernels
def test_the_gradients_of_ranks_add_up_to_those_of_one_process() -> None:
    """Each rank sends once a step, behind its last micro-batch, and what is sent adds up."""
    settings = resolve({"train": {"batch_tokens": SHAPE.rows}, "data": {"max_length": SHAPE.longest - 1}})
    parts, model = [_numbers(_pairs(lengths)) for lengths in (FIRST, SECOND, SECOND[:2], FIRST[:2])], _model()

    def gradients(world: World, numbers: list[Tensor]) -> Tensor:
        passes = KernelPasses(copy.deepcopy(model), settings, world=world)
        passes.step = CudaStep(passes.step.mixed.model, SHAPE, label_smoothing=0.1, dtype=torch.float32)
        for i, part in enumerate(numbers):
            ends = {"is_first": i == 0, "is_last": i == len(numbers) - 1}
            passes.add(NumberedBatch(part, 1), seed=i, factor=0.1, **ends)
        return torch.cat(passes.gradients())

    SENT.clear()
    for rank in (0, 1):
        gradients(_Rank(rank, 2), parts[rank::2])
    assert len(SENT) == 4  # two ranks, two tensors
    summed = torch.cat([SENT[0] + SENT[2], SENT[1] + SENT[3]])
    assert torch.allclose(summed, gradients(World(), parts), rtol=1e-4, atol=1e-6)
