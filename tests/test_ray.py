"""Work in parts by actors of Ray: whatever dies, each part is finished, and what was finished stays as it was."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="NO test of work by Ray: it is not installed")

from heedful.data.parts import ray_pool
from heedful.data.parts.ray_pool import Pool, work_on_ray
from heedful.data.parts.work import PATIENCE, work_through
from tests import ROOT
from tests.cli.running import Run
from tests.small_models import TEXT, small_model
from tests.toy_worker import NUM_PARTS, expected, found, opening, times, toy_folder

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
LONG = 300
DRIVER = (
    "import sys; from pathlib import Path; from heedful.data.parts.folder import PartFolder;"
    "from heedful.data.parts.ray_pool import Pool, work_on_ray; from tests.toy_worker import opening;"
    "folder = PartFolder.open(Path(sys.argv[1])); pool = Pool(1, sys.argv[3], 1, False, 60.0)\n"
    "work_on_ray(folder, folder.unfinished(), opening(Path(sys.argv[2])), pool, lambda number: None)"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A machine of two cores; tests may add others."""
    patch = pytest.MonkeyPatch()
    patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))  # where Ray writes a token
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    patch.setattr(ray_pool, "POLL_SECONDS", 0.5)
    from ray.cluster_utils import Cluster

    made = started(lambda: Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}))
    yield made
    made.shutdown()
    patch.undo()


def started(start: Callable[[], Any]) -> Any:
    """On a busy machine a node of Ray may not start within the 30 s that Ray gives it."""
    for _ in range(3):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
    pytest.skip("NO test of work by Ray: it does not start, the machine is too busy")


def test_the_bytes_are_those_of_translate(heedful: Run, cluster: Any, tmp_path: Path) -> None:
    text, model, out = tmp_path / "in", tmp_path / "model", tmp_path / "out"
    text.write_text("\n".join(TEXT * 3) + "\n")
    options = ["-m", small_model(model), "--engine", "torch", "--beam-size", 4]
    assert heedful("translate", text, "-o", tmp_path / "whole", *options).code == 0
    assert heedful("bulk", "plan", text, "-o", out, "--part-lines", 6, *options).code == 0
    assert heedful("bulk", "run", out, "--ray", cluster.address, "--workers", 1).code == 0
    assert heedful("bulk", "join", out, "-o", tmp_path / "joined").code == 0
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "whole").read_bytes()


def test_parts_whose_worker_or_machine_dies_are_done_again(cluster: Any, tmp_path: Path) -> None:
    told = dict.fromkeys(range(NUM_PARTS), "slow") | {3: "die", 12: "die at the end"}
    folder, log, heard = toy_folder(tmp_path / "out", told=told), tmp_path / "log", list[int]()
    second = started(lambda: cluster.add_node(num_cpus=2))

    def remove_a_machine_at_twenty(number: int) -> None:
        heard.append(number)
        if len(heard) == 20:
            cluster.remove_node(second)

    pool = Pool(workers=4, address=cluster.address, threads=1, on_gpu=False, patience=60.0)
    work_on_ray(folder, folder.unfinished(), opening(log), pool, remove_a_machine_at_twenty)
    assert [found(folder, number) for number in range(NUM_PARTS)] == expected(folder)
    assert sorted(heard) == list(range(NUM_PARTS))
    assert (times(log, "begun-3"), times(log, "begun-12")) == (2, 2)
    begun = [times(log, f"begun-{number}") for number in range(NUM_PARTS)]
    assert sum(begun) <= NUM_PARTS + 2 + 2, "again: those whose worker died, and those in hand on the lost machine"
    assert not folder.set_aside()


def test_what_a_killed_driver_has_finished_stays_as_it_was(cluster: Any, tmp_path: Path) -> None:
    folder, log = toy_folder(tmp_path / "out", told=dict.fromkeys(range(3, 10), "slow")), tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-c", DRIVER, folder.root, log, cluster.address], cwd=ROOT)
    begin = time.monotonic()
    while len(folder.finished()) < 3 and time.monotonic() - begin < LONG and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.wait()
    before = folder.finished()
    assert 3 <= len(before) < NUM_PARTS
    work_through(folder, folder.unfinished(), opening(log), patience=PATIENCE, done=lambda number: None)
    assert [found(folder, number) for number in range(NUM_PARTS)] == expected(folder)
    assert all(times(log, f"begun-{number}") == 1 for number in before)
