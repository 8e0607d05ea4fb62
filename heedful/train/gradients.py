"""From a micro-batch to gradients: the forward and the backward pass, plain or through our kernels.

Two ways, equal by test: `PlainPasses` is autograd on the model as it is written, on any device, and on a CPU with the
loss of `fast/cpu/loss_by_rows.py`; `KernelPasses` is `fast/cuda/training_step.py`, with bfloat16 products, on CUDA.
`make_passes` is the one place that chooses. They know ranks, whose gradients they sum; no optimizer, no schedule.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from heedful.config.settings import Config
from heedful.data.shards import Shards
from heedful.fast.cpu.loss_by_rows import BY_ROWS, sums_by_rows
from heedful.model.device import has_kernels
from heedful.model.sizes import ROWS_AT_ONCE
from heedful.model.transformer import Transformer
from heedful.train.batching import Batch, NumberedBatch, Numbers, make_batch, make_numbered_batch, static_shape
from heedful.train.loss import smoothed_cross_entropy
from heedful.train.processes import World
from heedful.train.r_drop import twin_divergence

B = TypeVar("B")


class Passes(Protocol[B]):
    """What one step asks for: gradients of the loss's sum over all its micro-batches and ranks, times a factor."""

    def make(self, shards: Shards, pairs_N: Numbers, /) -> B:
        """A micro-batch of these pairs, packed as it is wanted here."""

    def add(self, batch: B, *, seed: int, factor: float, is_first: bool, is_last: bool) -> Tensor:
        """Add the gradient of a micro-batch, the first of a step or the last one or neither.

        The dropout masks follow from the seed. Returns the sums of smoothed loss and negative log-likelihood.
        """

    def gradients(self) -> list[Tensor]:
        """The gradients as they are now."""

    def weights(self) -> list[Tensor]:
        """What the optimizer changes: few tensors, or many."""


class Objective(nn.Module):
    """Model and loss in one module, so that DistributedDataParallel sees every use of every weight."""

    def __init__(self, model: Transformer, *, label_smoothing: float, r_drop: float) -> None:
        super().__init__()
        self.model, self.label_smoothing, self.r_drop = model, label_smoothing, r_drop
        self.is_for_rows = BY_ROWS.lack(model.config) is None

    def forward(self, batch: Batch) -> Tensor:
        """Three sums over the target tokens: what is trained; of it the smoothed loss; negative log-likelihood."""
        hidden_TD = self.model.decode(batch.target_in, self.model.encode(batch.source))
        weight_VD, target_T = self.model.embedding.weight_VD, batch.target_out_T
        if not (self.is_for_rows and is_by_rows(hidden_TD)):
            return self.row_sums(self.model.logits(hidden_TD), target_T)
        copies = 2 if self.r_drop else 1
        return sums_by_rows(self.row_sums, hidden_TD, weight_VD, target_T, rows=ROWS_AT_ONCE, copies=copies)

    def row_sums(self, logits_TV: Tensor, target_T: Tensor) -> Tensor:
        """The same of these rows."""
        sums = smoothed_cross_entropy(logits_TV, target_T, self.label_smoothing)
        trained = sums.smoothed
        if self.r_drop:
            trained = trained + self.r_drop * twin_divergence(logits_TV, target_T)
        return torch.stack([trained, sums.smoothed.detach(), sums.negative_log_likelihood])


def is_by_rows(hidden_TD: Tensor) -> bool:
    """Is the loss better computed of some rows at a time? On a CPU, whose caches are small, and in one precision."""
    return hidden_TD.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def _shared(objective: Objective) -> DistributedDataParallel:
    """No buffers are sent: the only one is the table of sinusoids, as long as a rank's own sentences ask for."""
    shared = DistributedDataParallel(objective)
    # The argument of this name is deprecated, and its successor younger than torch 2.11.
    shared.broadcast_buffers = False
    return shared


class PlainPasses:
    """Autograd; between ranks DistributedDataParallel, which sends gradients while the backward pass goes on."""

    def __init__(self, model: Transformer, config: Config, *, world: World, autocast: bool) -> None:
        objective = Objective(model, label_smoothing=config.train.label_smoothing, r_drop=config.train.r_drop)
        self.objective: nn.Module = _shared(objective) if world.size > 1 else objective
        self.model, self.world, self.autocast = model, world, autocast

    def make(self, shards: Shards, pairs_N: Numbers, /) -> Batch:
        """Packed rows of any number."""
        return make_batch(shards, pairs_N)

    def add(self, batch: Batch, *, seed: int, factor: float, is_first: bool, is_last: bool) -> Tensor:
        """One micro-batch; only the last one of a step sends gradients."""
        if is_first:
            self.model.zero_grad(set_to_none=True)
        torch.manual_seed(seed)
        with self._gradient_sync(is_last):
            with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.autocast):
                sums_3: Tensor = self.objective(batch.to(self.model.device))
            # DistributedDataParallel takes the mean over ranks; the number of them makes it the sum.
            (sums_3[0] * (self.world.size * factor)).backward()
        return sums_3.detach()[1:]

    def _gradient_sync(self, is_last: bool) -> AbstractContextManager[Any]:
        if isinstance(self.objective, DistributedDataParallel) and not is_last:
            return self.objective.no_sync()
        return nullcontext()

    def gradients(self) -> list[Tensor]:
        """Those of all parameters."""
        return [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]

    def weights(self) -> list[Tensor]:
        """Those of all parameters."""
        return list(self.model.parameters())


class KernelPasses:
    """One CUDA graph for a micro-batch; between ranks two for a step's last one, to send gradients between them.

    All gradients lie in two tensors, those of the decoder at the end of each.
    """

    def __init__(self, model: Transformer, config: Config, *, world: World) -> None:
        from heedful.fast.cuda.training_step import CudaStep  # needs Triton, which is not everywhere

        train = config.train
        self.shape = static_shape(train.micro_batch_tokens, config.data.max_length, copies=train.copies)
        self.step = CudaStep(model, self.shape, label_smoothing=train.label_smoothing, r_drop=train.r_drop)
        self.world = world

    def make(self, shards: Shards, pairs_N: Numbers, /) -> NumberedBatch:
        """One array, always of the same size."""
        return make_numbered_batch(self.shape, shards, pairs_N)

    def add(self, batch: NumberedBatch, *, seed: int, factor: float, is_first: bool, is_last: bool) -> Tensor:
        """One micro-batch; only the last one of a step sends gradients."""
        self.step.load(batch.numbers_I, seed=seed, factor=factor)
        if is_last and self.world.size > 1:
            return self._add_and_sum(first=is_first)
        return self.step.backward(first=is_first).clone()

    def _add_and_sum(self, *, first: bool) -> Tensor:
        """The gradients of the decoder are on their way to the other ranks while those of the encoder are computed."""
        parts = self.step.backward_in_two(first=first)
        sums_2 = next(parts).clone()
        sums_over_ranks = self.world.begin_sums(self.step.decoder.gradients)
        next(parts)
        sums_over_ranks += self.world.begin_sums(self.step.rest.gradients)
        for sum_over_ranks in sums_over_ranks:
            sum_over_ranks.wait()
        return sums_2

    def gradients(self) -> list[Tensor]:
        """All of them, in two tensors."""
        return list(self.step.mixed.gradients)

    def weights(self) -> list[Tensor]:
        """All of them, in two tensors."""
        return list(self.step.mixed.weights)


def make_passes(model: Transformer, config: Config, *, precision: str, world: World) -> Passes[Any]:
    """The kernels where they are made for it: bfloat16 on CUDA, and a model that is among their capabilities."""
    if precision == "bf16" and has_kernels(model.device, config.model):
        return KernelPasses(model, config, world=world)
    return PlainPasses(model, config, world=world, autocast=precision == "bf16")
