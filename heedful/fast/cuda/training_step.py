"""Forward and backward pass of a micro-batch on a GPU: static shapes, our kernels, and one CUDA graph, or two.

It takes a batch as the one array of numbers that `fill_pairs` writes, and leaves the gradients in the model's
parameters. Everything that changes from batch to batch (tokens, tables, seeds of dropout, the factor of the loss) is
read from the device's memory, so that a replay of the captured graph computes the new batch. Two graphs instead of one
cut the backward pass where it leaves the decoder, so that who sends gradients can begin with those of the decoder; the
gradients are the same. It knows no optimizer, no schedule and no other processes. On a CPU it does the same without
graphs, through Triton's interpreter, for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from heedful.config.settings import TrainConfig
from heedful.config.supported_settings import KERNELS
from heedful.fast.cuda.cross_entropy import projected_cross_entropy
from heedful.fast.cuda.graphs import WARM_UP_RUNS, capturing, recorded
from heedful.fast.cuda.mixed_precision import MixedPrecision
from heedful.fast.cuda.modules import dropout_places, use_kernels
from heedful.fast.cuda.packing import num_pair_numbers, view_pairs
from heedful.fast.cuda.r_drop_loss import projected_twin_loss
from heedful.fast.cuda.tiles import StaticShape
from heedful.model.interface import Memory
from heedful.model.transformer import Transformer
from heedful.train.r_drop import twin_rows

# Is it a step's first micro-batch? → its loss sums, once for each part of the computation.
Computation: TypeAlias = Callable[[bool], Iterator[Tensor]]
Graphs: TypeAlias = list[tuple[torch.cuda.CUDAGraph, Tensor]]  # one for each part, and the sums it leaves


class CudaStep:
    """What a micro-batch adds to the gradients of `model`, whose weights stay float32."""

    def __init__(
        self, model: Transformer, shape: StaticShape, train: TrainConfig, dtype: torch.dtype = torch.bfloat16
    ) -> None:
        KERNELS.refuse(model.config)
        device, self.label_smoothing, self.r_drop = model.device, train.label_smoothing, train.r_drop
        self.mixed = MixedPrecision(model, dtype)
        self.decoder, self.rest = self.mixed.part("decoder."), self.mixed.part("embedding.", "encoder.")
        self.places_P = torch.arange(len(dropout_places(model)), device=device)
        self.seeds_P = torch.zeros_like(self.places_P)
        use_kernels(self.mixed.narrow, self.seeds_P)
        self.numbers_I = torch.zeros(num_pair_numbers(shape), dtype=torch.int32, device=device)
        self.batch = view_pairs(self.numbers_I, shape)
        self.factor = torch.ones((), device=device)
        self._graphs: dict[tuple[str, bool], Graphs] = {}
        self._pool: Any = None

    def load(self, numbers_I: Tensor, *, seed: int, factor: float) -> None:
        """The next batch (from pinned memory this does not wait), its seed, and what its loss is multiplied by."""
        self.numbers_I.copy_(numbers_I, non_blocking=True)
        torch.add(self.places_P, seed, out=self.seeds_P)
        self.factor.fill_(factor)

    def backward(self, *, first: bool) -> Tensor:
        """The gradients of the loaded batch; those of a step's first one replace what was there, others are added.

        Returns the sums of smoothed loss and negative log-likelihood over the target tokens; the next call
        overwrites them.
        """
        (sums_2,) = self._parts(self._in_one, first)
        return sums_2

    def backward_in_two(self, *, first: bool) -> Iterator[Tensor]:
        """The same in two parts, computed as they are asked for, with no other call between them.

        Behind the first the gradients of `decoder` are complete, behind the second those of the `rest`.
        """
        return self._parts(self._in_two, first)

    def _in_one(self, first: bool) -> Iterator[Tensor]:
        loss, sums_2 = self._decode(self._encode(first))
        self.mixed.backward(loss, first=first)
        yield sums_2

    def _in_two(self, first: bool) -> Iterator[Tensor]:
        shared = list(self.mixed.narrow.embedding.parameters())  # encoder and decoder use them
        memory = self._encode(first)
        cut_SD = memory.hidden_SD.detach().requires_grad_()
        loss, sums_2 = self._decode(replace(memory, hidden_SD=cut_SD))
        cut_grad_SD, *grads = torch.autograd.grad(loss, [cut_SD, *shared, *self.decoder.parameters])
        self.decoder.put(grads[len(shared) :], first=first)
        yield sums_2
        # The shared weights are outputs too, so that autograd adds what the encoder gives to what the decoder gave.
        so_far = [cut_grad_SD, *grads[: len(shared)]]
        self.rest.put(torch.autograd.grad([memory.hidden_SD, *shared], self.rest.parameters, so_far), first=first)
        yield sums_2

    def _encode(self, first: bool) -> Memory:
        if first:
            self.mixed.refresh()
        return self.mixed.narrow.encode(self.batch[0])

    def _decode(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """What is trained, times the factor; and the sums of smoothed loss and negative log-likelihood."""
        model, (_, target_in, target_out_T) = self.mixed.narrow, self.batch
        hidden_TD = model.decode(target_in, memory)
        trained, smoothed, nll = self._loss(hidden_TD, model.embedding.weight_VD, target_out_T)
        return trained * self.factor, torch.stack([smoothed, nll])

    def _loss(self, hidden_TD: Tensor, weight_VD: Tensor, target_T: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The sums of what is trained, of the smoothed loss, and of the negative log-likelihood."""
        if self.r_drop:
            rows = hidden_TD, weight_VD, target_T, twin_rows(target_T)
            return projected_twin_loss(*rows, label_smoothing=self.label_smoothing, r_drop=self.r_drop)
        smoothed, nll = projected_cross_entropy(hidden_TD, weight_VD, target_T, label_smoothing=self.label_smoothing)
        return smoothed, smoothed.detach(), nll

    def _parts(self, compute: Computation, first: bool) -> Iterator[Tensor]:
        """Part by part, each when it is asked for; on a GPU from graphs."""
        if self.numbers_I.device.type != "cuda":
            return compute(first)
        name = compute.__name__
        if (name, first) not in self._graphs:
            self._graphs[name, first] = self._captured(compute, first)
        return _replayed(self._graphs[name, first])

    def _captured(self, compute: Computation, first: bool) -> Graphs:
        gradients = [gradient.clone() for gradient in self.mixed.gradients]
        # The parts of a micro-batch run in the order of their capture, and nothing of another micro-batch runs between
        # them; so all graphs share their memory.
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        with capturing():
            for _ in range(WARM_UP_RUNS):
                num_parts = len(list(compute(first)))
            parts = compute(first)  # between its parts it keeps alive what the next one needs
            graphs = [recorded(lambda: next(parts), self._pool) for _ in range(num_parts)]
        for gradient, before in zip(self.mixed.gradients, gradients, strict=True):
            gradient.copy_(before)
        return graphs


def _replayed(graphs: Graphs) -> Iterator[Tensor]:
    for graph, sums_2 in graphs:
        graph.replay()
        yield sums_2
