"""Ranks: what they are told, and by which way they reach one another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed.distributed_c10d import Backend, BackendConfig

from heedful.errors import ConfigError
from heedful.train.processes import World, backends, world_from_environment


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


def test_a_number_of_processes_without_the_own_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"WORLD_SIZE = 2 is set, and RANK is not.*unset WORLD_SIZE"):
        world_from_environment()


def test_what_a_process_alone_sums_over_ranks_stays_as_it_is() -> None:
    numbers = torch.arange(3)
    assert World().begin_sums([numbers]) == []
    assert World().sum(numbers).tolist() == [0, 1, 2]


PARTING = """
import torch
from pathlib import Path
from heedful.train.processes import World, process_group

@torch.library.custom_op("heedful_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x

world = World(rank=0, size=2)  # the other one is not needed here
with process_group(world, torch.device("cpu")):
    [sum_over_ranks.wait() for sum_over_ranks in world.begin_sums([twice(torch.ones(3))])]
for thread in Path("/proc/self/task").iterdir():
    print((thread / "comm").read_text().strip())
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted as Linux tells them")
def test_when_ranks_part_no_thread_of_theirs_is_left() -> None:
    """Else one of them may abort the process as it ends."""
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    command = [sys.executable, "-W", "ignore", "-c", PARTING]
    done = subprocess.run(command, env=os.environ | alone, capture_output=True, text=True, check=True)
    assert done.stdout.strip()
    assert "gloo" not in done.stdout
