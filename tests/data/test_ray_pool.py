"""Work in parts by actors of Ray: what dies, whatever dies, is done again, and the rest is done once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="NO test of work by Ray: it is not installed")

from heedful.data.parts import ray_pool
from heedful.data.parts.folder import STRIKES, PartFolder
from heedful.data.parts.ray_pool import Pool, work_on_ray
from heedful.data.parts.work import PartWorker
from heedful.errors import CheckpointError, DeviceError
from tests.toy_worker import NUM_PARTS, expected, found, opening, times, toy_folder

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two machines of two cores each, by their own account."""
    patch = pytest.MonkeyPatch()
    patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))  # where Ray writes a token
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    patch.setattr(ray_pool, "POLL_SECONDS", 0.5)
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield made
    made.shutdown()
    patch.undo()


def work(cluster: Any, folder: PartFolder, log: Path, done: Callable[[int], None] = lambda number: None) -> None:
    pool = Pool(workers=4, address=cluster.address, threads=1, on_gpu=False, patience=5.0)
    with folder.held():
        work_on_ray(folder, folder.unfinished(), opening(log), pool, done)


def test_four_workers_of_which_some_die_give_the_bytes_of_one(cluster: Any, tmp_path: Path) -> None:
    other = cluster.add_node(num_cpus=2)
    told = {3: "die", 12: "die at the end", 20: "poison", 30: "fail"}
    folder, log = toy_folder(tmp_path / "out", told=told), tmp_path / "log"
    heard: list[int] = []
    work(cluster, folder, log, heard.append)
    assert sorted(heard) == list(range(NUM_PARTS))
    assert list(folder.set_aside()) == [20, 30]
    assert folder.set_aside()[30].errors == ("ValueError: this line is hopeless",) * STRIKES
    good = [number for number in range(NUM_PARTS) if number not in (20, 30)]
    assert [found(folder, number) for number in good] == [expected(folder)[number] for number in good]
    again = {3: 2, 12: 2, 20: STRIKES, 30: STRIKES}
    assert [times(log, f"begun-{n}") for n in range(NUM_PARTS)] == [again.get(n, 1) for n in range(NUM_PARTS)]
    assert times(log, "opened") <= 4 + 2 + STRIKES, "once for each actor, and for each that replaces a dead one"

    # A machine goes while its parts are in hand.
    second, log = toy_folder(tmp_path / "second", told=dict.fromkeys(range(NUM_PARTS), "slow")), tmp_path / "log2"
    heard = []

    def remove_at_ten(number: int) -> None:
        heard.append(number)
        if len(heard) == 10:
            cluster.remove_node(other)

    work(cluster, second, log, remove_at_ten)
    assert [found(second, number) for number in range(NUM_PARTS)] == expected(second)
    assert sum(times(log, f"begun-{number}") for number in range(NUM_PARTS)) <= NUM_PARTS + 2
    assert not second.set_aside()


def refusing() -> PartWorker:
    raise CheckpointError("model: no such folder")


def test_a_worker_that_cannot_be_opened_ends_the_work_with_its_reason_and_machine(cluster: Any, tmp_path: Path) -> None:
    folder = toy_folder(tmp_path / "out")
    pool = Pool(workers=2, address=cluster.address, threads=1, on_gpu=False, patience=5.0)
    with pytest.raises(CheckpointError, match=r"^on .*: model: no such folder$"):
        work_on_ray(folder, folder.unfinished(), refusing, pool, lambda number: None)
    assert not folder.set_aside()
    assert len(folder.unfinished()) == NUM_PARTS


def test_an_address_where_no_ray_is_and_a_ray_that_is_not_installed_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder, nowhere = toy_folder(tmp_path / "out"), Pool(2, "127.0.0.1:1", 1, False, 5.0)
    with pytest.raises(DeviceError, match=r"the cluster at 127\.0\.0\.1:1 does not answer \(Connection refused\)"):
        work_on_ray(folder, [0], refusing, nowhere, lambda number: None)
    monkeypatch.setattr(ray_pool, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"need Ray: .* -m pip install ray; --share I/N works without"):
        work_on_ray(folder, [0], refusing, nowhere, lambda number: None)
