"""From a micro-batch to gradients: the forward and the backward pass.

`PlainGradients` is autograd on the model as it is written, on any device. `make_gradients` is the one place that looks
for a faster way. They know ranks, whose gradients they sum; no optimizer, no schedule.
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
    """A micro-batch, in whatever form."""

    @property
    def num_target_tokens(self) -> int:
        """How many tokens its loss is summed over."""


B = TypeVar("B", bound=AnyBatch)


class Gradients(Protocol[B]):
    """What one step asks for: gradients of the loss's sum over all its micro-batches and ranks, times a factor."""

    def make(self, shards: Shards, pairs_N: PairNumbers, /) -> B:
        """A micro-batch of these pairs, packed as it is wanted here."""

    def add(self, batch: B, *, seed: int, factor: float, is_first: bool, is_last: bool) -> Tensor:
        """Add the gradient of a micro-batch, the first of a step or the last one or neither.

        The dropout masks follow from the seed. Returns the sums of smoothed loss and negative log-likelihood.
        """

    def current(self) -> list[Tensor]:
        """The gradients as they are now."""

    def weights(self) -> list[Tensor]:
        """What the optimizer changes: few tensors, or many."""


class Objective(nn.Module):
    """Model and loss in one module, so that DistributedDataParallel sees every use of every weight."""

    def __init__(self, model: TranslationModel, train: TrainConfig) -> None:
        super().__init__()
        self.model, self.label_smoothing, self.r_drop = model, train.label_smoothing, train.r_drop

    def forward(self, batch: Batch) -> Tensor:
        """Three sums over the target tokens: what is trained; of it the smoothed loss; negative log-likelihood."""
        hidden_TD = self.model.decode(batch.target_in, self.model.encode(batch.source))
        sums_3 = self.sums(hidden_TD, batch.target_out_T)
        extra_loss = self.model.extra_loss()
        return sums_3 if extra_loss is None else torch.cat([sums_3[:1] + extra_loss, sums_3[1:]])

    def sums(self, hidden_TD: Tensor, target_T: Tensor) -> Tensor:
        """The same from the decoder's hidden states, but for what the model adds."""
        return self.row_sums(self.model.logits(hidden_TD), target_T)

    def row_sums(self, logits_TV: Tensor, target_T: Tensor) -> Tensor:
        """The same from logits."""
        sums = smoothed_cross_entropy(logits_TV, target_T, self.label_smoothing)
        trained = sums.smoothed
        if self.r_drop:
            trained = trained + self.r_drop * twin_divergence(logits_TV, target_T)
        return torch.stack([trained, sums.smoothed.detach(), sums.negative_log_likelihood])


def _shared(objective: Objective) -> DistributedDataParallel:
    """No buffers are sent: the only one is the table of sinusoids, as long as a rank's own sentences ask for."""
    shared = DistributedDataParallel(objective)
    # The argument of this name is deprecated, and its successor younger than torch 2.11.
    shared.broadcast_buffers = False
    return shared


class PlainGradients:
    """Autograd; between ranks DistributedDataParallel, which sends gradients while the backward pass goes on."""

    def __init__(self, objective: Objective, *, world: World, autocast: bool) -> None:
        self.objective: nn.Module = _shared(objective) if world.size > 1 else objective
        self.model, self.world, self.autocast = objective.model, world, autocast

    def make(self, shards: Shards, pairs_N: PairNumbers, /) -> Batch:
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

    def current(self) -> list[Tensor]:
        """Those of all parameters."""
        return [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]

    def weights(self) -> list[Tensor]:
        """Those of all parameters."""
        return list(self.model.parameters())


def make_gradients(model: TranslationModel, config: Config, *, precision: str, world: World) -> Gradients[Any]:
    """The fastest way that is equal to the plain one for this model on its device."""
    from heedful.fast.training import fast_gradients  # the one name of the fast paths that training knows

    fast = fast_gradients(model, config, precision=precision, world=world)
    return fast or PlainGradients(Objective(model, config.train), world=world, autocast=precision == "bf16")
