"""Computes the gradients of a micro-batch: the forward and the backward pass.

`PlainGradients` runs autograd on the plain model, on any device. `make_gradients` returns a faster twin where there is
one. Gradients are summed over the ranks. This module knows no optimizer and no learning rate.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from heedful.config.settings import Config, TrainConfig
from heedful.data.shards import Shards
from heedful.model.interface import TranslationModel
from heedful.train.batching import Batch, PairNumbers, make_batch
from heedful.train.loss import smoothed_cross_entropy
from heedful.train.processes import World
from heedful.train.r_drop import twin_divergence


class AnyBatch(Protocol):
    """A micro-batch in the form that one kind of `Gradients` needs."""

    @property
    def num_target_tokens(self) -> int:
        """The number of tokens that the loss is summed over."""


B = TypeVar("B", bound=AnyBatch)


class Gradients(Protocol[B]):
    """The gradients of one step: of the loss summed over all its micro-batches and ranks, times a factor."""

    def make(self, shards: Shards, pairs_N: PairNumbers, /) -> B:
        """A micro-batch of these pairs, packed for `add`."""

    def add(self, batch: B, *, seed: int, factor: float, is_first: bool, is_last: bool) -> Tensor:
        """Add the gradients of one micro-batch, and return its sums of smoothed loss and negative log-likelihood.

        `is_first` and `is_last` say where it stands in its step: the first one replaces the gradients of the step
        before, and after the last one they are summed over the ranks. The dropout masks follow from the seed.
        """

    def tensors(self) -> list[Tensor]:
        """The gradients that have been added up since the first micro-batch of the step."""

    def weights(self) -> list[Tensor]:
        """The weights that the optimizer changes: one tensor per parameter, or several parameters in one."""


class Objective(nn.Module):
    """Model and loss as one module, so that DistributedDataParallel sees every use of every weight."""

    def __init__(self, model: TranslationModel, train: TrainConfig) -> None:
        super().__init__()
        self.model, self.label_smoothing, self.r_drop = model, train.label_smoothing, train.r_drop

    def forward(self, batch: Batch) -> Tensor:
        """Three sums over the target tokens: the trained loss, the smoothed loss, the negative log-likelihood."""
        hidden_TD = self.model.decode(batch.target_in, self.model.encode(batch.source))
        sums_3 = self.sums(hidden_TD, batch.target_out_T)
        auxiliary_loss = self.model.auxiliary_loss()
        return sums_3 if auxiliary_loss is None else torch.cat([sums_3[:1] + auxiliary_loss, sums_3[1:]])

    def sums(self, hidden_TD: Tensor, target_T: Tensor) -> Tensor:
        """The three sums from the decoder's hidden states, without the model's auxiliary loss."""
        return self.row_sums(self.model.logits(hidden_TD), target_T)

    def row_sums(self, logits_TV: Tensor, target_T: Tensor) -> Tensor:
        """The three sums from the logits: the smoothed loss of §5.4, plus R-Drop's divergence if it is on."""
        sums = smoothed_cross_entropy(logits_TV, target_T, self.label_smoothing)
        trained = sums.smoothed
        if self.r_drop:
            trained = trained + self.r_drop * twin_divergence(logits_TV, target_T)
        return torch.stack([trained, sums.smoothed.detach(), sums.negative_log_likelihood])


def _shared(objective: Objective) -> DistributedDataParallel:
    """No buffers are synchronized: the only one is the table of sinusoids, whose length differs between ranks."""
    shared = DistributedDataParallel(objective)
    # Set as an attribute: the argument of this name is deprecated, and its replacement is not in torch 2.11.
    shared.broadcast_buffers = False
    return shared


class PlainGradients:
    """Autograd; with several ranks, DistributedDataParallel sends gradients during the backward pass."""

    def __init__(self, objective: Objective, *, world: World, autocast: bool) -> None:
        self.objective: nn.Module = _shared(objective) if world.size > 1 else objective
        self.model, self.world, self.autocast = objective.model, world, autocast

    def make(self, shards: Shards, pairs_N: PairNumbers, /) -> Batch:
        """The packed batch, of any number of rows."""
        return make_batch(shards, pairs_N)

    def add(self, batch: Batch, *, seed: int, factor: float, is_first: bool, is_last: bool) -> Tensor:
        """Add one micro-batch; only the last one of a step sends gradients."""
        if is_first:
            self.model.zero_grad(set_to_none=True)
        torch.manual_seed(seed)
        with self._gradient_sync(is_last):
            with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.autocast):
                sums_3: Tensor = self.objective(batch.to(self.model.device))
            # DistributedDataParallel averages over the ranks; multiplying by their number gives the sum.
            (sums_3[0] * (self.world.size * factor)).backward()
        return sums_3.detach()[1:]

    def _gradient_sync(self, is_last: bool) -> AbstractContextManager[Any]:
        if isinstance(self.objective, DistributedDataParallel) and not is_last:
            return self.objective.no_sync()
        return nullcontext()

    def tensors(self) -> list[Tensor]:
        """The gradient of each parameter."""
        return [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]

    def weights(self) -> list[Tensor]:
        """Each parameter."""
        return list(self.model.parameters())


def make_gradients(model: TranslationModel, config: Config, *, precision: str, world: World) -> Gradients[Any]:
    """The fastest gradients for this model on its device that are proven equal to the plain ones."""
    from heedful.fast.training import fast_gradients  # the only name of `fast` that training knows

    fast = fast_gradients(model, config, precision=precision, world=world)
    return fast or PlainGradients(Objective(model, config.train), world=world, autocast=precision == "bf16")
