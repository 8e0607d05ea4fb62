"""Forward and backward pass of a micro-batch on a GPU: static shapes, our kernels, and one CUDA graph.

It takes a batch as the one array of numbers that `fill_pairs` writes, and leaves the gradients in the model's
parameters. Everything that changes from batch to batch (tokens, tables, seeds of dropout, the factor of the loss) is
read from the device's memory, so that a replay of the captured graph computes the new batch. It knows no optimizer, no
schedule and no other processes. On a CPU it does the same without a graph, through Triton's interpreter, for tests.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from heedful.mixed_precision import MixedPrecision
from heedful.model.dropout import seeded_places
from heedful.model.layers import use_kernels
from heedful.model.transformer import Transformer
from heedful.packed import num_pair_numbers, view_pairs
from heedful.r_drop import twin_rows
from heedful.tiles import StaticShape

WARM_UP_RUNS = 2  # kernels are compiled and libraries made ready before a graph is captured


class CudaStep:
    """What a micro-batch adds to the gradients of `model`, whose weights stay float32."""

    def __init__(
        self,
        model: Transformer,
        shape: StaticShape,
        *,
        label_smoothing: float,
        r_drop: float = 0.0,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        device, self.label_smoothing, self.r_drop = model.device, label_smoothing, r_drop
        self.mixed = MixedPrecision(model, dtype)
        self.places_P = torch.arange(len(seeded_places(model)), device=device)
        self.seeds_P = torch.zeros_like(self.places_P)
        use_kernels(self.mixed.narrow, self.seeds_P)
        self.numbers_I = torch.zeros(num_pair_numbers(shape), dtype=torch.int32, device=device)
        self.batch = view_pairs(self.numbers_I, shape)
        self.factor = torch.ones((), device=device)
        self._graphs: dict[bool, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
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
        if self.numbers_I.device.type != "cuda":
            return self._compute(first)
        if first not in self._graphs:
            self._graphs[first] = self._captured(first)
        graph, sums_2 = self._graphs[first]
        graph.replay()
        return sums_2

    def _compute(self, first: bool) -> Tensor:
        if first:
            self.mixed.refresh()
        model, (source, target_in, target_out_T) = self.mixed.narrow, self.batch
        hidden_TD = model.decode(target_in, model.encode(source))
        trained, smoothed, nll = self._loss(hidden_TD, model.embedding.weight_VD, target_out_T)
        self.mixed.backward(trained * self.factor, first=first)
        return torch.stack([smoothed, nll])

    def _loss(self, hidden_TD: Tensor, weight_VD: Tensor, target_T: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The sums of what is trained, of the smoothed loss, and of the negative log-likelihood."""
        # These need Triton, which is not everywhere.
        from heedful.model.kernels.cross_entropy import projected_cross_entropy
        from heedful.model.kernels.twin_loss import projected_twin_loss

        if self.r_drop:
            return projected_twin_loss(
                hidden_TD,
                weight_VD,
                target_T,
                twin_rows(target_T),
                label_smoothing=self.label_smoothing,
                r_drop=self.r_drop,
            )
        smoothed, nll = projected_cross_entropy(hidden_TD, weight_VD, target_T, label_smoothing=self.label_smoothing)
        return smoothed, smoothed.detach(), nll

    def _captured(self, first: bool) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        gradients = [gradient.clone() for gradient in self.mixed.gradients]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_RUNS):
                self._compute(first)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # The graphs of first and later micro-batches never run at once, so they share their memory.
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        # Another thread packs batches meanwhile and may ask for pinned memory, which must not end the capture.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            sums_2 = self._compute(first)
        for gradient, before in zip(self.mixed.gradients, gradients, strict=True):
            gradient.copy_(before)
        return graph, sums_2
