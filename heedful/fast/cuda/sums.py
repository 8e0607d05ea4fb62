"""Sums over rows in a fixed order: every program sums the rows that are its own, then the sums are summed."""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 264
BLOCK_ROWS, BLOCK_COLUMNS = 16, 256
LAST_ROWS, LAST_COLUMNS = 1024, 8


def wide(dtype: torch.dtype) -> torch.dtype:
    """What numbers of this type are summed in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def accumulator(dtype: torch.dtype) -> Any:
    """The same, as Triton names it."""
    return tl.float64 if dtype == torch.float64 else tl.float32


@triton.jit
def _partial_sums(x_ptr, partial_ptr, num_rows, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The sums over every P-th block of rows."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], dtype=partial_ptr.dtype.element_ty)
    for begin in range(tl.program_id(1) * ROWS, num_rows, tl.num_programs(1) * ROWS):
        row = begin + tl.arange(0, ROWS)
        inside = (row < num_rows)[:, None] & (column < WIDTH)[None, :]
        x = tl.load(x_ptr + row.to(tl.int64)[:, None] * WIDTH + column[None, :], mask=inside, other=0.0)
        total += x.to(partial_ptr.dtype.element_ty)
    tl.store(partial_ptr + tl.program_id(1) * WIDTH + column, tl.sum(total, axis=0), mask=column < WIDTH)


def sum_rows(partial_PD: Tensor) -> Tensor:
    """The sum of a few hundred rows, in float32 or float64."""
    num_rows, width = partial_PD.shape
    output_D = partial_PD.new_empty(width)
    rows = min(LAST_ROWS, max(64, triton.next_power_of_2(num_rows)))
    _partial_sums[(triton.cdiv(width, LAST_COLUMNS), 1)](
        partial_PD, output_D, num_rows, WIDTH=width, ROWS=rows, COLUMNS=LAST_COLUMNS, num_warps=max(1, rows // 128)
    )
    return output_D


def column_sums(x_TD: Tensor) -> Tensor:
    """The sum of many rows, in float32 (float64 for float64)."""
    num_rows, width = x_TD.shape
    blocks = triton.cdiv(width, BLOCK_COLUMNS)
    programs = max(1, min(PROGRAMS // blocks, triton.cdiv(num_rows, BLOCK_ROWS)))
    partial_PD = x_TD.new_empty(programs, width, dtype=wide(x_TD.dtype))
    _partial_sums[(blocks, programs)](
        x_TD, partial_PD, num_rows, WIDTH=width, ROWS=BLOCK_ROWS, COLUMNS=BLOCK_COLUMNS, num_warps=4
    )
    return sum_rows(partial_PD)
