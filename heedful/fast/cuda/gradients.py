"""Gradients by the kernels: the twin of `PlainGradients`, in bfloat16 products."""

from __future__ import annotations

from torch import Tensor

from heedful.config.settings import Config
from heedful.data.shards import Shards
from heedful.fast.cuda.packing import NumberedBatch, make_numbered_batch, static_shape
from heedful.fast.cuda.training_step import CudaStep
from heedful.model.transformer import Transformer
from heedful.train.batching import PairNumbers
from heedful.train.processes import World


class KernelGradients:
    """One CUDA graph for a micro-batch; between ranks two for a step's last one, to send gradients between them.

    All gradients lie in two tensors, those of the decoder at the end of each.
    """

    def __init__(self, model: Transformer, config: Config, *, world: World) -> None:
        train = config.train
        self.shape = static_shape(train.micro_batch_tokens, config.data.max_length, copies=train.copies)
        self.step = CudaStep(model, self.shape, train)
        self.world = world

    def make(self, shards: Shards, pairs_N: PairNumbers, /) -> NumberedBatch:
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

    def tensors(self) -> list[Tensor]:
        """All of them, in two tensors."""
        return list(self.step.mixed.gradients)

    def weights(self) -> list[Tensor]:
        """All of them, in two tensors."""
        return list(self.step.mixed.weights)
