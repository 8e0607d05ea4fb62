"""Commands are run in the test's own process."""

from __future__ import annotations

import io
import sys

import pytest

from heedful.cli import main as cli
from tests.cli.running import Result, Run


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
