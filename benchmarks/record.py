"""Where and on what a measurement was made, and where its result is kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from heedful.score import provenance

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """The processor (or GPU), its cores, and torch."""
    return provenance.machine("cuda" if torch.cuda.is_available() else "cpu").describe()


def commit() -> str:
    """The commit that was measured; a + behind it: with changes that were not committed."""
    return provenance.commit() or "unknown"


def save(name: str, figures: dict[str, Any]) -> Path:
    """Write the figures to results/, under the measurement's name and the day."""
    now = datetime.now(UTC)
    result = {"date": now.isoformat(timespec="seconds"), "commit": commit(), "machine": machine()} | figures
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{now:%Y-%m-%d}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
