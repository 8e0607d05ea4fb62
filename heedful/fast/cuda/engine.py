"""Search on CUDA: the twin of `TorchEngine` for one model, in fixed shapes, with kernels and CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import torch

from heedful.fast.cuda.captured_search import MAX_WIDTH, CapturedSearches
from heedful.fast.cuda.requests import RequestQueue
from heedful.model.transformer import Transformer
from heedful.translate.engine import Computing, Numbered, Request, SearchOptions, Windows
from heedful.translate.search import Hypothesis
from heedful.translate.torch_engine import TorchEngine


class CudaEngine(TorchEngine):
    """Beam search and greedy search by the kernels; samples, wide beams and very long sentences by the plain engine.

    It searches in numbers of `dtype`. Given targets are scored as the model is.
    """

    def __init__(self, model: Transformer, *, dtype: torch.dtype, batch_tokens: int = 8192, reason: str = "") -> None:
        super().__init__(model, batch_tokens=batch_tokens, reason=reason)
        self.model, self.dtype = model, dtype

    @cached_property
    def searches(self) -> CapturedSearches:
        """The slots; they see the weights as they are when this is first asked for."""
        return CapturedSearches(self.model, self.dtype)

    def computing(self, options: SearchOptions) -> Computing:
        """With the kernels' numbers where those search, else with the model's own."""
        plain = super().computing(options)
        if not _is_for_kernels(options):
            return plain
        return Computing(f"torch {str(self.dtype).removeprefix('torch.')}", plain.device, self.reason)

    def translate_windows(self, windows: Windows, options: SearchOptions) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each request, in order."""
        if not _is_for_kernels(options):
            yield from super().translate_windows(windows, options)
            return
        with self.explained("a smaller beam needs less"):
            yield from by_number(self._by_kernels(enumerate(chain.from_iterable(windows)), options))

    def translate_batch(self, requests: Sequence[Request], options: SearchOptions) -> Iterator[Numbered]:
        """The number of each request and its hypotheses, as they are found."""
        if not _is_for_kernels(options):
            yield from super().translate_batch(requests, options)
            return
        with self.explained("a smaller beam needs less"):
            yield from self._by_kernels(enumerate(requests), options)

    def _by_kernels(self, requests: Iterable[tuple[int, Request]], options: SearchOptions) -> Iterator[Numbered]:
        return RequestQueue(self.searches, self, requests, options).found()


def _is_for_kernels(options: SearchOptions) -> bool:
    return options.sampling is None and options.beam_size <= MAX_WIDTH


def by_number(found: Iterator[Numbered]) -> Iterator[list[Hypothesis]]:
    """The hypotheses in the order of their numbers, from 0."""
    early: dict[int, list[Hypothesis]] = {}
    due = 0
    for number, hypotheses in found:
        early[number] = hypotheses
        while due in early:
            yield early.pop(due)
            due += 1
