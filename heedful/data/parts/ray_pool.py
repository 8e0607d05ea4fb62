"""Many processes work through parts: actors of Ray, on this machine or a cluster, each with a worker opened once.

Ray places the actors and reports those that die; order and progress are in the folder. A part whose actor dies gets a
strike, and another actor is started. A part that fails gets a strike, too. A new actor gets its first part when its
worker is open, so an actor that waits for a place (a machine may be gone) delays no part.
"""

from __future__ import annotations

import os
import platform
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from heedful.config.optional_packages import install_line
from heedful.data.parts.folder import STRIKES, PartFolder
from heedful.data.parts.work import ENDED, Opening, PartWorker, do_part, is_no_fault_of_the_part, one_line
from heedful.errors import DeviceError, HeedfulError

POLL_SECONDS = 5.0
CONNECTING_SECONDS = 10.0
STARTS = 3  # of a Ray on this machine
PLACING_SECONDS = 300.0  # some actor must find a place within this time
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}


@dataclass(frozen=True, slots=True)
class Pool:
    """How many actors, where, and what each one needs. 0 workers means as many as there is room for."""

    workers: int
    address: str | None
    threads: int
    on_gpu: bool
    patience: float


class PartActor:
    """The process of a worker."""

    def __init__(self, root: Path, open_worker: Opening, patience: float) -> None:
        self.root, self.open_worker, self.patience = root, open_worker, patience
        self.worker: PartWorker | None = None

    def open(self) -> str:
        """Open the worker and the folder; returns Ray's name of this machine."""
        try:
            self.folder = PartFolder.open(self.root)
            self.worker = self.open_worker()
        except HeedfulError as error:
            raise type(error)(f"on {platform.node()}: {error}") from None
        return _this_node()

    def do(self, number: int) -> None:
        """Do a part."""
        assert self.worker is not None
        do_part(self.folder, number, self.worker, self.patience)


def work_on_ray(
    folder: PartFolder, numbers: Sequence[int], open_worker: Opening, pool: Pool, done: Callable[[int], None]
) -> None:
    """Do these parts. `done` is called after each that is finished or set aside."""
    with _ray(pool) as ray:
        count = min(pool.workers or _room(ray, pool), len(numbers))
        ActorLoop(ray, folder, deque(numbers), _actor_class(ray, pool), open_worker, pool, done).run(count)


@dataclass(slots=True)
class ActorLoop:
    """The actors and their tasks: a task opens the actor's worker (None) or does a part."""

    ray: Any
    folder: PartFolder
    waiting: deque[int]
    actor_class: Any
    open_worker: Opening
    pool: Pool
    done: Callable[[int], None]
    tasks: dict[Any, tuple[Any, int | None]] = field(default_factory=dict)
    nodes: dict[Any, str] = field(default_factory=dict)  # the machine of each actor
    failed_starts: int = 0
    last_progress: float = field(default_factory=time.monotonic)

    def run(self, count: int) -> None:
        """Until no part is waiting or in hand."""
        for _ in range(count):
            self._start()
        while self.waiting or any(number is not None for _, number in self.tasks.values()):
            ready, _ = self.ray.wait(list(self.tasks), num_returns=1, timeout=POLL_SECONDS)
            for task in ready:
                self.last_progress = time.monotonic()
                self._finish(task, *self.tasks.pop(task))
            self._refuse_to_wait_for_ever()

    def _start(self) -> None:
        actor = self.actor_class.remote(self.folder.root, self.open_worker, self.pool.patience)
        self.tasks[actor.open.remote()] = actor, None

    def _finish(self, task: Any, actor: Any, number: int | None) -> None:
        """An actor is free again, or dead."""
        try:
            result = self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            self._failed(number, error.cause or error)
        except self.ray.exceptions.RayError as error:
            self._died(actor, number, error)
            return
        else:
            if number is None:
                self.nodes[actor] = result
            else:
                self.folder.forget_trouble(number)
                self.done(number)
        self._next(actor)

    def _failed(self, number: int | None, error: Exception) -> None:
        if number is None or is_no_fault_of_the_part(error):
            raise error
        self._strike(number, one_line(error))

    def _died(self, actor: Any, number: int | None, error: Exception) -> None:
        """The part that the actor was doing gets a strike, unless its machine is gone."""
        if number is None:
            self.failed_starts += 1
        elif self._is_alive(self.nodes.pop(actor)):
            self._strike(number, f"{ENDED} ({one_line(error)})")
        else:
            self.waiting.append(number)
        if self.failed_starts >= STRIKES and not self.nodes:
            raise DeviceError(f"no worker can be started: {one_line(error)}")
        if self.waiting:
            self._start()

    def _is_alive(self, node: str) -> bool:
        return any(each["NodeID"] == node and each["Alive"] for each in self.ray.nodes())

    def _strike(self, number: int, error: str) -> None:
        if self.folder.strike(number, error).strikes < STRIKES:
            self.waiting.append(number)
        else:
            self.done(number)

    def _next(self, actor: Any) -> None:
        if self.waiting:
            number = self.waiting.popleft()
            self.tasks[actor.do.remote(number)] = actor, number

    def _refuse_to_wait_for_ever(self) -> None:
        is_anybody_busy = any(number is not None for _, number in self.tasks.values())
        if not is_anybody_busy and time.monotonic() - self.last_progress > PLACING_SECONDS:
            what = "1 GPU" if self.pool.on_gpu else f"{self.pool.threads} CPU"
            raise DeviceError(
                f"Ray has found no place for a worker ({what} each) in {PLACING_SECONDS:.0f} s; see ray status"
            )


def _this_node() -> str:
    import ray

    node: str = ray.get_runtime_context().get_node_id()
    return node


def _actor_class(ray: Any, pool: Pool) -> Any:
    resources = {"num_gpus": 1, "num_cpus": 1} if pool.on_gpu else {"num_cpus": pool.threads}
    variables = {"OMP_NUM_THREADS": str(pool.threads), "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", "3000")}
    return ray.remote(PartActor).options(**resources, runtime_env={"env_vars": variables}, max_restarts=0)


def _room(ray: Any, pool: Pool) -> int:
    there = ray.cluster_resources()
    return max(1, int(there.get("GPU", 0) if pool.on_gpu else there.get("CPU", 1) // pool.threads))


@contextmanager
def _ray(pool: Pool) -> Iterator[Any]:
    """Ray, connected to a cluster, or started for us alone on this machine."""
    if find_spec("ray") is None:
        raise DeviceError(f"--workers and --ray need Ray: {install_line('ray')}; --share I/N works without")
    os.environ.update({name: value for name, value in _QUIET.items() if name not in os.environ})
    import ray

    _refuse_dead_address(pool)
    on_sigterm = signal.getsignal(signal.SIGTERM)
    connect(ray, pool)
    signal.signal(signal.SIGTERM, on_sigterm)  # Ray installs its own handler, with another exit code
    try:
        yield ray
    finally:
        with suppress(Exception):
            ray.shutdown()


def connect(ray: Any, pool: Pool) -> None:
    """Ray gives its own start 30 s, in which a busy machine may fail; the next try finds the files in memory."""
    tries = 1 if pool.address else STARTS
    for left in reversed(range(tries)):
        try:
            ray.init(**_where(pool), log_to_driver=False, logging_level="error", namespace="heedful")
            return
        except Exception as error:  # Ray raises plain ones, too
            ray.shutdown()
            if not left:
                where = f"the cluster at {pool.address}" if pool.address else "a Ray on this machine"
                raise DeviceError(f"{where} does not answer ({one_line(error)[:200]}); {_remedy(pool)}") from None


def _refuse_dead_address(pool: Pool) -> None:
    """Check that something listens there: Ray itself would try for minutes."""
    host, _, port = (pool.address or "auto").rpartition(":")
    if pool.address in (None, "auto", "local"):
        return
    if not (host and port.isdecimal()) or "/" in host:
        raise DeviceError(f"--ray {pool.address} is no address of a Ray cluster; it is HOST:PORT of its head, or auto")
    try:
        socket.create_connection((host, int(port)), CONNECTING_SECONDS).close()
    except OSError as error:
        raise DeviceError(
            f"the cluster at {pool.address} does not answer ({error.strerror or error}); {_remedy(pool)}"
        ) from None


def _where(pool: Pool) -> dict[str, Any]:
    if pool.address:
        return {"address": pool.address}
    cpus = max(1, pool.workers) * pool.threads
    return {"address": "local", "num_cpus": cpus, "include_dashboard": False}


def _remedy(pool: Pool) -> str:
    if not pool.address:
        return "--share I/N works without Ray"
    return "is it HOST:PORT of its head, and RAY_AUTH_MODE the same there and here?"
