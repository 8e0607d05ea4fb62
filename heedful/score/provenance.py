"""Which code made a result, when, and on which machine: what a card and a benchmark say of themselves."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from heedful import PACKAGE
from heedful.errors import counted

ROOT = PACKAGE.parent


class Machine(Struct, frozen=True, kw_only=True):
    """The machine that computed: the GPUs that were used, if any, and the rest."""

    processor: str
    cores: int
    gpu: str = ""  # empty: the CPU computed
    num_gpus: int = 0
    torch: str
    python: str

    def describe(self) -> str:
        """The machine in one line."""
        several = f"{self.num_gpus} × " if self.num_gpus > 1 else ""
        where = f"{several}{self.gpu}" if self.gpu else f"{self.processor}, {counted(self.cores, 'core')}"
        return f"{where}, torch {self.torch}"


def machine(device: str, *, processes: int = 1) -> Machine:
    """This machine, on which that many processes compute on a kind of device (cpu, cuda or mps)."""
    import torch

    gpu = torch.cuda.get_device_name() if device == "cuda" else "Apple GPU" if device == "mps" else ""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        gpu=gpu,
        num_gpus=processes if gpu else 0,
        torch=str(torch.__version__),
        python=platform.python_version(),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def commit(root: Path = ROOT) -> str:
    """The commit of this code, with a + for uncommitted changes; empty if it is not known.

    HEEDFUL_COMMIT names it if the code was copied without its history.
    """
    if told := os.environ.get("HEEDFUL_COMMIT"):
        return told
    if not (root / ".git").exists():  # installed: the folder may lie inside a checkout of something else
        return ""
    name, changes = _git(root, "rev-parse", "--short", "HEAD"), _git(root, "status", "--porcelain", "-uno")
    return name + ("+" if name and changes else "")


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
