"""Where and on what a measurement was made, and where its result is kept."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """The processor (or GPU), its cores, and torch."""
    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"{_processor()}, {os.cpu_count()} cores, torch {torch.__version__}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def commit() -> str:
    """The commit that was measured; a + behind it: with changes that were not committed."""
    try:
        name = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout
        dirty = subprocess.run(
            ["git", "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("HEEDFUL_COMMIT", "unknown")
    return name.strip() + ("+" if dirty.strip() else "")


def save(name: str, figures: dict[str, Any]) -> Path:
    """Write the figures to results/, under the measurement's name and the day."""
    now = datetime.now(UTC)
    result = {"date": now.isoformat(timespec="seconds"), "commit": commit(), "machine": machine()} | figures
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{now:%Y-%m-%d}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
