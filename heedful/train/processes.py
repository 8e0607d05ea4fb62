"""More than one process: ranks, sums over ranks, and waiting for one another (torchrun sets the environment).

Every rank does its share of one global batch and synchronises once a step, also one that has nothing to do. Nothing
here knows the model.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from heedful.errors import ConfigError

# The others wait while the first rank encodes a corpus or validates (torch would give up after 10 minutes); that a rank
# has died, torchrun says.
LONGEST_WAIT = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class World:
    """Which process this is, of how many."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Does this process write the files?"""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def begin_sums(self, tensors: Iterable[Tensor]) -> list[dist.Work]:
        """Sums over all ranks, in place, which go on beside what follows; each is there when it was waited for."""
        if self.size == 1:
            return []
        return [dist.all_reduce(tensor, async_op=True) for tensor in tensors]

    def barrier(self) -> None:
        """Wait until every rank is here."""
        if self.size > 1:
            dist.barrier()


ALONE = World()


def world_from_environment() -> World:
    """What torchrun says of this process; alone if it was not started by torchrun."""
    environment = os.environ
    if "RANK" not in environment and environment.get("WORLD_SIZE", "1") != "1":
        raise ConfigError(
            f"WORLD_SIZE = {environment['WORLD_SIZE']} is set, and RANK is not: torchrun sets both, and --nproc starts "
            f"it; unset WORLD_SIZE to train in one process"
        )
    return World(
        rank=int(environment.get("RANK", "0")),
        size=int(environment.get("WORLD_SIZE", "1")),
        local_rank=int(environment.get("LOCAL_RANK", "0")),
    )


def check_micro_batches(world: World, num_micro_batches: int) -> None:
    """Every rank must have the same number of micro-batches in a step."""
    if num_micro_batches % world.size:
        raise ConfigError(
            f"train.micro_batches = {num_micro_batches} is not a multiple of the {world.size} processes; "
            f"set it to {-(-num_micro_batches // world.size) * world.size}"
        )


def backends(device: torch.device) -> str:
    """NCCL between GPUs, gloo between CPUs; tokens and stops are counted on the host, so GPUs need both."""
    return "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"


def load_compiler() -> None:
    """Before ranks join: loaded while they are joined, as an optimizer would, it keeps gloo's threads for ever.

    So it is in torch 2.13. A thread that holds a tensor when Python ends aborts the process: it seems to have failed.
    """
    importlib.import_module("torch._dynamo")


@contextmanager
def process_group(world: World, device: torch.device) -> Iterator[None]:
    """Join the other ranks."""
    if world.size == 1:
        yield
        return
    load_compiler()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backends(device), timeout=LONGEST_WAIT)
    try:
        yield
    finally:
        dist.destroy_process_group()
