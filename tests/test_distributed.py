"""Ranks: what they are told, and by which way they reach one another."""

import pytest
import torch
from torch.distributed.distributed_c10d import Backend, BackendConfig

from heedful.distributed import World, backends, world_from_environment


@pytest.mark.parametrize(("device", "kinds"), [("cpu", {"cpu"}), ("cuda", {"cpu", "cuda"})])
def test_ranks_can_sum_on_the_host_and_on_their_device(device: str, kinds: set[str]) -> None:
    """NCCL alone knows GPUs only, and the tokens of a step are counted on the host."""
    reached = BackendConfig(Backend(backends(torch.device(device)))).get_device_backend_map()
    assert kinds <= reached.keys()


def test_without_torchrun_a_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert world_from_environment() == World(rank=0, size=1, local_rank=0)
    assert world_from_environment().is_first


def test_what_a_process_alone_sums_over_ranks_stays_as_it_is() -> None:
    numbers = torch.arange(3)
    assert World().begin_sums([numbers]) == []
    assert World().sum(numbers).tolist() == [0, 1, 2]
