"""Results of rows that nobody trained, for the tests of what is made of them."""

from __future__ import annotations

from typing import Any

import msgspec

from heedful.lab.row_result import Point, RowResult
from heedful.score.provenance import Machine

ANY = RowResult(
    settings={},
    text_sha256="",
    precision="fp32",
    torch="2.13.0",
    row="base",
    seed=1,
    text="any",
    parameters=1,
    vocab_size=8,
    steps=100,
    target_tokens=1,
    seconds=1.0,
    curve=(Point(100, 20.0, 15.0),),
    machine=Machine(processor="any", cores=1, torch="2.13.0", python="3.11"),
    version="0.1.0",
    commit="",
    date="",
    command="",
)


def row_result(**changes: Any) -> RowResult:
    """A result with these fields."""
    return msgspec.structs.replace(ANY, **changes)


def scored(row: str, seed: int, perplexity: float, bleu: float) -> RowResult:
    """A result with these scores."""
    return row_result(row=row, seed=seed, curve=(Point(100, perplexity, bleu),))
