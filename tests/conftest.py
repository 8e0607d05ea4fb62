"""What every test starts from: one thread (the models are tiny, and several test runs may share a machine), no clock.

Such a machine may be busy: an example that Hypothesis thinks of has no deadline. And no test fails by chance: random
numbers are the same in each run, whichever tests went before, but for the kernels, whose tolerances leave them room.
`pytest --hypothesis-profile=fresh` has new examples.
"""

import io
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

from heedful.cli import main as cli
from tests.cli.running import Result, Run

torch.set_num_threads(1)
settings.register_profile("fresh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("heedful", settings.get_profile("fresh"), derandomize=True)
settings.load_profile("heedful")
LONGEST = "test_learning.py"  # it trains two demos


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest module and the slow ones, so that several workers end at about the same time."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path.name != LONGEST, item.path not in slow))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not tested for want of something that can be installed: such a reason begins with NO."""
    reasons = {report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])}
    for reason in sorted(reason for reason in reasons if reason.startswith("NO ")):
        terminalreporter.write_line(reason)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The same numbers each time."""
    torch.manual_seed(1)


@pytest.fixture
def families_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bag` has no attention, `glance` cross-attention alone. Nobody knows them when the test is over."""
    from heedful.config import setting_names
    from heedful.model import registry
    from tests.attentive_family import Glance
    from tests.toy_family import Bag

    monkeypatch.setattr(setting_names, "FAMILIES", dict(setting_names.FAMILIES))
    monkeypatch.setattr(registry, "_CLASSES", dict(registry._CLASSES))
    registry.register(Bag)
    registry.register(Glance)


@pytest.fixture
def heedful(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""

    def run(*arguments: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["heedful", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capfd.readouterr()
        return Result(int(left.value.code or 0), out, err)

    return run
