"""The loop over actors, with a stand-in for Ray: strikes, lost machines and starts that fail."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heedful.data.parts import ray_pool
from heedful.data.parts.folder import STRIKES, PartFolder
from heedful.data.parts.ray_pool import STARTS, ActorLoop, PartActor, Pool, connect, work_on_ray
from heedful.data.parts.work import Opening, PartWorker
from heedful.errors import CheckpointError, DeviceError
from tests.toy_worker import NUM_PARTS, ToyWorker, expected, found, times, toy_folder

POOL = Pool(workers=3, address=None, threads=1, on_gpu=False, patience=60.0)


class RayError(Exception):
    """What a stand-in raises for a dead actor."""


class RayTaskError(Exception):
    """What it raises for a task that failed."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class MortalWorker(ToyWorker):
    """Its actor dies, and not the process of the test."""

    def die(self) -> None:
        raise RayError("the actor died")


class StandIn:
    """Actors in this process, each on a machine of its own. A task is done when its result is asked for."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, log: Path, lost: Sequence[int] = (), unable: int = 0) -> None:
        self.log, self.num_actors = log, 0
        self.lost, self.unable = lost, unable  # machines that are gone; how many actors cannot be started

    def remote(self, root: Path, *arguments: Any) -> Any:
        """A new actor."""
        actor, number = PartActor(root, *arguments), self.num_actors
        self.num_actors += 1
        opening = SimpleNamespace(remote=lambda: partial(self.opened, actor, number))
        return Handle(opening, SimpleNamespace(remote=lambda part: partial(actor.do, part)))

    def opened(self, actor: PartActor, number: int) -> str:
        if number < self.unable:
            raise RayError("no memory")
        actor.open()
        return f"machine {number}"

    def wait(self, tasks: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return tasks[:num_returns], tasks[num_returns:]

    def get(self, task: Callable[[], Any]) -> Any:
        try:
            return task()
        except RayError:
            raise
        except Exception as error:
            raise RayTaskError(error) from None

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": f"machine {n}", "Alive": n not in self.lost} for n in range(self.num_actors)]


@dataclass(eq=False)
class Handle:
    """An actor, as whoever gives it tasks sees it."""

    open: SimpleNamespace
    do: SimpleNamespace


@pytest.fixture(autouse=True)
def without_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "_this_node", lambda: "")


def work(folder: PartFolder, stand_in: StandIn, open_worker: Opening | None = None) -> list[int]:
    """Work through the parts; returns those that were reported."""
    heard: list[int] = []
    opening, waiting = open_worker or partial(MortalWorker, stand_in.log), deque(folder.unfinished())
    ActorLoop(stand_in, folder, waiting, stand_in, opening, POOL, heard.append).run(POOL.workers)
    return heard


def test_actors_that_die_and_parts_that_fail_get_strikes_and_the_others_are_done_once(tmp_path: Path) -> None:
    told = {3: "die", 12: "die at the end", 20: "poison", 30: "fail"}
    folder, log = toy_folder(tmp_path / "out", told=told), tmp_path / "log"
    stand_in = StandIn(log)
    assert sorted(work(folder, stand_in)) == list(range(NUM_PARTS))
    assert list(folder.set_aside()) == [20, 30]
    assert folder.set_aside()[30].errors == ("ValueError: this line is hopeless",) * STRIKES
    assert "the process ended while it was at work on this part" in folder.set_aside()[20].errors[0]
    good = [number for number in range(NUM_PARTS) if number not in (20, 30)]
    assert [found(folder, number) for number in good] == [expected(folder)[number] for number in good]
    again = {3: 2, 12: 2, 20: STRIKES, 30: STRIKES}
    assert [times(log, f"begun-{n}") for n in range(NUM_PARTS)] == [again.get(n, 1) for n in range(NUM_PARTS)]
    assert POOL.workers < stand_in.num_actors <= POOL.workers + 2 + STRIKES, "at most one for each that died"


def test_a_part_gets_no_strike_when_its_machine_is_lost(tmp_path: Path) -> None:
    folder = toy_folder(tmp_path / "out", told={0: "poison"})
    struck = StandIn(tmp_path / "log", lost=[0])
    work(folder, struck)
    assert len(folder.set_aside()[0].errors) == STRIKES
    assert times(tmp_path / "log", "begun-0") == STRIKES + 1, "once without a strike"


def test_starts_that_fail_end_the_work_only_if_no_actor_has_started(tmp_path: Path) -> None:
    folder = toy_folder(tmp_path / "out")
    with pytest.raises(DeviceError, match="no worker can be started: RayError: no memory"):
        work(folder, StandIn(tmp_path / "log", unable=STRIKES))
    work(folder, StandIn(tmp_path / "log", unable=STRIKES - 1))
    assert folder.unfinished() == []


def refusing() -> PartWorker:
    raise CheckpointError("model: no such folder")


def test_a_worker_that_cannot_be_opened_ends_the_work_with_its_reason_and_machine(tmp_path: Path) -> None:
    folder = toy_folder(tmp_path / "out")
    with pytest.raises(CheckpointError, match=r"^on .*: model: no such folder$"):
        work(folder, StandIn(tmp_path / "log"), refusing)
    assert not folder.set_aside()
    assert len(folder.unfinished()) == NUM_PARTS


def test_a_full_disk_ends_the_work_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError("No space left on device")

    folder = toy_folder(tmp_path / "out")
    monkeypatch.setattr(PartFolder, "write", full)
    with pytest.raises(OSError, match="No space left"):
        work(folder, StandIn(tmp_path / "log"))
    assert folder.trouble(0).strikes == 0


def test_a_cluster_without_room_ends_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "PLACING_SECONDS", 0.0)
    monkeypatch.setattr(StandIn, "wait", lambda self, tasks, num_returns, timeout: ([], tasks))
    with pytest.raises(DeviceError, match=r"no place for a worker \(1 CPU each\)"):
        work(toy_folder(tmp_path / "out"), StandIn(tmp_path / "log"))


def test_a_ray_that_starts_too_slowly_is_tried_again_and_then_one_line() -> None:
    tried: list[dict[str, Any]] = []

    def slow(**options: Any) -> None:
        tried.append(options)
        if len(tried) != STARTS - 1:
            raise Exception("The current node timed out during startup.")

    ray: Any = SimpleNamespace(init=slow, shutdown=lambda: None)
    connect(ray, POOL)
    assert len(tried) == STARTS - 1
    with pytest.raises(DeviceError, match=r"a Ray on this machine does not answer .*timed out.*--share I/N works with"):
        connect(ray, POOL)
    assert len(tried) == STARTS - 1 + STARTS
    assert tried[0]["num_cpus"] == POOL.workers * POOL.threads


def test_an_address_where_no_ray_is_and_a_ray_that_is_not_installed_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, nowhere = toy_folder(tmp_path / "out"), Pool(2, "127.0.0.1:1", 1, False, 60.0)
    monkeypatch.setattr(ray_pool, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"need Ray: .* -m pip install ray; --share I/N works without"):
        work_on_ray(folder, [0], refusing, nowhere, lambda number: None)
    monkeypatch.undo()
    pytest.importorskip("ray")
    with pytest.raises(DeviceError, match=r"the cluster at 127\.0\.0\.1:1 does not answer \(Connection refused\)"):
        work_on_ray(folder, [0], refusing, nowhere, lambda number: None)
