"""A step through the kernels gives the gradients of the plain model, and follows what is loaded."""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from heedful.config.setting_layers import resolve
from heedful.config.settings import ModelConfig, TrainConfig
from heedful.fast.cuda.gradients import KernelGradients
from heedful.fast.cuda.packing import NumberedBatch, fill_pairs, num_pair_numbers
from heedful.fast.cuda.tiles import StaticShape
from heedful.fast.cuda.training_step import CudaStep
from heedful.model.packed import pack_source, pack_target, shift_right
from heedful.model.transformer import Transformer
from heedful.train.loss import smoothed_cross_entropy
from heedful.train.processes import World, load_compiler
from heedful.train.r_drop import twin_divergence
from tests.interpreted import (
    DEVICE,
    assert_holds_in_the_interpreter,
    in_the_interpreter,
    on_a_gpu,
    on_kernels,
    without_kernels,
)

pytest.importorskip("triton")

Positions: TypeAlias = Literal["sinusoidal", "learned"]
SHAPE = StaticShape(rows=128, sentences=8, longest=80)


@pytest.mark.slow
@without_kernels
def test_a_step_holds_in_the_interpreter() -> None:
    assert_holds_in_the_interpreter(__file__)


def _model(dropout: float = 0.0, positions: Positions = "sinusoidal") -> Transformer:
    config = ModelConfig(
        d_model=32, d_ff=48, num_layers=1, num_decoder_layers=2, num_heads=2, dropout=dropout, positions=positions
    )
    return Transformer(config, vocab_size=40).to(DEVICE)


def _assert_same_gradients(model: Transformer, plain: Transformer) -> None:
    for name, parameter in plain.named_parameters():
        gradient = model.get_parameter(name).grad
        assert gradient is not None
        assert parameter.grad is not None
        assert float((gradient - parameter.grad).norm()) <= 1e-3 * float(parameter.grad.norm()) + 1e-6


def _pairs(lengths: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    source_lengths, target_lengths = np.array(lengths).T
    source, target = (torch.randint(40, (int(numbers.sum()),)).numpy() for numbers in (source_lengths, target_lengths))
    return source, source_lengths, target, target_lengths


def _numbers(pairs: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], shape: StaticShape = SHAPE) -> Tensor:
    numbers = np.empty(num_pair_numbers(shape), dtype=np.int32)
    fill_pairs(numbers, pairs[:2], pairs[2:], shape)
    return torch.from_numpy(numbers)


def _plain_sums(model: Transformer, pairs: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> Tensor:
    source_ids, source_lengths, target_ids, target_lengths = pairs
    source = pack_source(source_ids, source_lengths).to(DEVICE)
    target_in = pack_target(shift_right(target_ids), target_lengths, source_lengths).to(DEVICE)
    hidden = model.decode(target_in, model.encode(source))
    target_out = torch.from_numpy(target_ids).to(DEVICE)
    sums = smoothed_cross_entropy(model.logits(hidden), target_out, 0.1)
    return torch.stack([sums.smoothed, sums.negative_log_likelihood])


FIRST, SECOND = [(9, 5), (3, 8), (70, 66)], [(20, 31), (1, 1), (12, 40)]


@on_kernels
def test_gradients_of_two_micro_batches_are_those_of_the_plain_model() -> None:
    plain = _model()
    step = CudaStep(copy.deepcopy(plain), SHAPE, TrainConfig(), dtype=torch.float32)
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
    step = CudaStep(copy.deepcopy(plain), SHAPE, TrainConfig(r_drop=3.0), dtype=torch.float32)
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


FEW, FEWER = [(5, 3), (2, 9)], [(3, 4), (1, 1)]
FEW_ROWS = StaticShape(rows=16, sentences=4, longest=16)


def _small_step(model: Transformer, dtype: torch.dtype = torch.float32) -> CudaStep:
    return CudaStep(model, FEW_ROWS, TrainConfig(), dtype=dtype)


def _few(pairs: list[tuple[int, int]]) -> Tensor:
    return _numbers(_pairs(pairs), FEW_ROWS)


@on_kernels
def test_masks_follow_from_the_seed_alone() -> None:
    step, numbers = _small_step(_model(dropout=0.3)), _few(FEW)

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
    step = _small_step(model)
    step.load(_few(FEW), seed=1, factor=1.0)
    before = step.backward(first=True).clone()
    with torch.no_grad():
        model.embedding.weight_VD.mul_(1.5)
    assert not torch.allclose(before, step.backward(first=True))


def _in_one(step: CudaStep, first: bool) -> Tensor:
    return step.backward(first=first)


def _in_two(step: CudaStep, first: bool) -> Tensor:
    return list(step.backward_in_two(first=first))[1]


def _assert_equal_in_one_and_in_two(step: CudaStep, seeds: Sequence[int]) -> None:
    """To the bit, where two micro-batches add up, and the ways take turns in the same memory."""
    batches = [_few(FEW), _few(FEWER)]

    def outcome(add: Callable[[CudaStep, bool], Tensor], seed: int) -> Tensor:
        sums = torch.zeros(2, device=DEVICE)
        for i, numbers in enumerate(batches):
            step.load(numbers, seed=seed + i, factor=0.25 * (i + 1))
            sums += add(step, i == 0)
        return torch.cat([sums, *step.mixed.gradients])

    for seed in seeds:
        expected = outcome(_in_one, seed)
        assert torch.equal(outcome(_in_two, seed), expected)
        assert float(torch.cat(step.rest.gradients).norm()) > 0


@on_kernels
@pytest.mark.parametrize(("dropout", "positions"), [(0.3, "sinusoidal"), (0.0, "learned")])
def test_in_two_parts_the_gradients_are_those_of_one(dropout: float, positions: Positions) -> None:
    """To the bit, also those of the embedding, of which each part has a share: autograd adds them in the same order."""
    _assert_equal_in_one_and_in_two(_small_step(_model(dropout, positions)), seeds=[5])


@on_a_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_in_two_graphs_the_gradients_are_those_of_one(dtype: torch.dtype) -> None:
    """The first seed captures, the others replay: all graphs take their memory from one pool."""
    _assert_equal_in_one_and_in_two(_small_step(_model(dropout=0.3), dtype), seeds=[5, 80, 5])


@on_kernels
def test_the_first_part_gives_the_gradients_of_the_decoder_and_no_others() -> None:
    step = _small_step(_model())
    step.load(_few(FEW), seed=1, factor=1.0)
    for gradients in step.mixed.gradients:
        gradients.fill_(torch.nan)
    parts = step.backward_in_two(first=True)
    next(parts)
    for name, parameter in step.mixed.model.named_parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.isnan().all()) != name.startswith("decoder."), name
    decoder = torch.cat(step.decoder.gradients).clone()
    next(parts)
    assert torch.cat(step.mixed.gradients).isfinite().all()
    assert torch.equal(torch.cat(step.decoder.gradients), decoder)  # these may be on their way to other ranks


def _kernels(model: Transformer, world: World) -> KernelGradients:
    """With numbers of full precision, and smaller batches than a user would want."""
    kernels = KernelGradients(model, resolve({}), world=world)
    kernels.step = _small_step(model)
    return kernels


def _gradients(kernels: KernelGradients, micro_batches: Sequence[tuple[int, Tensor]]) -> Tensor:
    for i, (seed, numbers) in enumerate(micro_batches):
        ends = {"is_first": i == 0, "is_last": i == len(micro_batches) - 1}
        kernels.add(NumberedBatch(numbers, 1), seed=seed, factor=0.1, **ends)
    return torch.cat(kernels.tensors())


class _Observed(World):
    """One of two ranks, which sends nothing, but notes when it would."""

    def begin_sums(self, tensors: Iterable[Tensor]) -> list[dist.Work]:
        EVENTS.append("sent")
        return []


EVENTS: list[str] = []


def _note(event: str, _: Tensor) -> None:
    EVENTS.append(event)


@in_the_interpreter
def test_the_gradients_of_the_decoder_are_on_their_way_before_the_encoder_goes_back() -> None:
    """In a step's last micro-batch; before it nothing is sent. (A GPU replays the same parts, but calls no hooks.)"""
    kernels = _kernels(_model(), _Observed(0, 2))
    for name, parameter in kernels.step.mixed.narrow.named_parameters():
        parameter.register_hook(partial(_note, name.partition(".")[0]))
    EVENTS.clear()
    kernels.add(NumberedBatch(_few(FEW), 1), seed=0, factor=0.1, is_first=True, is_last=False)
    assert set(EVENTS) == {"decoder", "encoder", "embedding"}
    EVENTS.clear()
    kernels.add(NumberedBatch(_few(FEWER), 1), seed=1, factor=0.1, is_first=False, is_last=True)
    sent = [i for i, event in enumerate(EVENTS) if event == "sent"]
    assert len(sent) == 2
    assert set(EVENTS[: sent[0]]) == {"decoder", "embedding"}  # of the embedding the decoder's share
    assert set(EVENTS[sent[0] + 1 : sent[1]]) == {"encoder", "embedding"}
    assert sent[1] == len(EVENTS) - 1


def _rank(rank: int, folder: Path) -> None:
    """What a rank of two does in a step of four micro-batches."""
    load_compiler()
    dist.init_process_group("gloo", f"file://{folder / 'ranks'}", timedelta(minutes=5), world_size=2, rank=rank)
    step = torch.load(folder / "step.pt", weights_only=False)
    try:
        gradients = _gradients(_kernels(step["model"].to(DEVICE), World(rank, 2)), step["micro_batches"][rank::2])
        torch.save(gradients, folder / f"{rank}.pt")
    finally:
        dist.destroy_process_group()


@on_kernels
def test_the_gradients_of_two_processes_are_those_of_one(tmp_path: Path) -> None:
    """With unequal numbers of tokens, and two micro-batches each."""
    model = _model()
    micro_batches = [(seed, _few(pairs)) for seed, pairs in enumerate((FEW, FEWER, FEWER[:1], FEW[1:]))]
    torch.save({"model": model.cpu(), "micro_batches": micro_batches}, tmp_path / "step.pt")
    other = multiprocessing.get_context("spawn").Process(target=_rank, args=(1, tmp_path), daemon=True)
    other.start()
    _rank(0, tmp_path)
    other.join()
    assert other.exitcode == 0
    expected = _gradients(_kernels(model.to(DEVICE), World()), micro_batches)
    for rank in (0, 1):
        assert torch.allclose(torch.load(tmp_path / f"{rank}.pt"), expected, rtol=1e-4, atol=1e-6)
