"""Where the kernels run: on a GPU as they are, else in Triton's interpreter.

The interpreter must be switched on before Triton is loaded, so it has a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from tests import ROOT

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")
on_kernels = pytest.mark.skipif(DEVICE.type == "cpu" and not INTERPRETED, reason="run through the interpreter")
in_the_interpreter = pytest.mark.skipif(not INTERPRETED, reason="run through the interpreter")
on_a_gpu = pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a GPU")
without_kernels = pytest.mark.skipif(DEVICE.type == "cuda" or INTERPRETED, reason="the kernels run in this process")


def assert_holds_in_the_interpreter(tests: str) -> None:
    """All tests of a file pass there."""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", tests]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
