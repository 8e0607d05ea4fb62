"""The experiment of Table 1 (§4): what each kind of layer costs, and how long its longest path is. It trains nothing.

A row is one layer of one size, or one path length. It is on the disk as soon as it is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

import torch
from msgspec import Struct

from heedful.data.atomic import explained, held_in_turn
from heedful.errors import CheckpointError
from heedful.lab.experiment import Experiment, LabRequest, Say, Stop
from heedful.lab.findings import Findings
from heedful.lab.row_result import release
from heedful.lab.table1.complexity import KERNEL, KINDS, PATH_D_MODEL, PATHS, RADIUS, Kind, PathKind, Size
from heedful.lab.table1.kept_rows import KeptRows
from heedful.lab.table1.layer_costs import LayerCost, layer_cost, one_thread
from heedful.lab.table1.measured_layers import MeasuredLayers, Sweeps
from heedful.lab.table1.path_length import path_length
from heedful.lab.table1.presentation import presented
from heedful.model.device import choose_device
from heedful.score.provenance import commit, machine

T = TypeVar("T")

NAME, ROWS = "table1", "rows.json"
QUIET_SECONDS = 10.0


class Plan(Struct, frozen=True):
    """What is measured, and for how many seconds each time is taken."""

    sweeps: Sweeps
    path_lengths: tuple[int, ...]
    seconds: float


def sweeps(lengths: tuple[int, ...], widths: tuple[int, ...], kernels: tuple[int, ...], *, d: int) -> Sweeps:
    """n at one d; d at n = that d; k and r at both. A window of 2r + 1 positions is as wide as the kernel."""
    return {
        "n": tuple(Size(n, d) for n in lengths),
        "d": tuple(Size(d, each) for each in widths),
        "k": tuple(Size(d, d, k, RADIUS) for k in kernels),
        "r": tuple(Size(d, d, KERNEL, k // 2) for k in kernels),
    }


FULL = Plan(
    sweeps(tuple(2**p for p in range(4, 13)), (64, 128, 256, 512, 1024), (3, 5, 9, 17, 33), d=512),
    (16, 32, 64, 100, 128, 200, 256),
    seconds=0.5,
)
QUICK = Plan(sweeps((16, 64, 256, 512, 1024), (64, 128, 256), (3, 5, 9), d=128), (16, 20, 32), seconds=0.02)


def measure(request: LabRequest, say: Say, stop: Stop) -> Findings | None:
    """Measure what is missing, and say what all of it shows; None if it was stopped. A second process waits."""
    plan = QUICK if request.is_quick else FULL
    device, folder = choose_device(request.device), request.output / NAME
    with explained(folder, CheckpointError):
        folder.mkdir(parents=True, exist_ok=True)
        with held_in_turn(folder), one_thread():
            rows = KeptRows(folder / ROWS, conditions(plan, device))
            measured = _measured(plan, rows, device, say, stop)
    if measured is None:
        return None
    return presented(measured, f"{machine(device.type).describe()}; commit {commit()}; `{request.command}`")


def _measured(plan: Plan, rows: KeptRows, device: torch.device, say: Say, stop: Stop) -> MeasuredLayers | None:
    costs = {
        (kind.name, size): cost_row(rows, kind, size, plan, device)
        for kind, size in told(layers(plan), "layers", say, stop)
    }
    lengths = {(path.name, n): path_row(rows, path, n) for path, n in told(paths(plan), "path lengths", say, stop)}
    is_whole = len(costs) == len(layers(plan)) and len(lengths) == len(paths(plan))
    return MeasuredLayers(plan.sweeps, costs, lengths) if is_whole else None


def conditions(plan: Plan, device: torch.device) -> dict[str, str]:
    """What all rows of one table have in common."""
    where = machine(device.type)
    return {
        "machine": where.gpu or where.processor,
        "torch": release(where.torch),
        "seconds a row": str(plan.seconds),
    }


def layers(plan: Plan) -> list[tuple[Kind, Size]]:
    """Each kind of layer in each size, varied in what it depends on."""
    found = [(kind, size) for kind in KINDS for axis in kind.varies for size in plan.sweeps[axis]]
    return list(dict.fromkeys(found))


def paths(plan: Plan) -> list[tuple[PathKind, int]]:
    """Each kind of path at each length."""
    return [(path, n) for path in PATHS for n in plan.path_lengths]


def cost_row(rows: KeptRows, kind: Kind, size: Size, plan: Plan, device: torch.device) -> LayerCost:
    """What that layer costs; measured if it was not yet."""
    name = f"{kind.name}, n {size.n}, d {size.d}, k {size.k}, r {size.r}"
    return rows.get(name, LayerCost, lambda: layer_cost(kind, size, device, seconds=plan.seconds))


def path_row(rows: KeptRows, path: PathKind, n: int) -> int:
    """The longest path over n positions; measured if it was not yet."""
    name = f"path, {path.name}, n {n}"
    return rows.get(name, int, lambda: path_length(path.stack(), n, PATH_D_MODEL, is_causal=path.is_causal))


def told(steps: Sequence[T], what: str, say: Say, stop: Stop) -> Iterator[T]:
    """The steps one by one until they are stopped; now and then a line says how far they are."""
    said = time.monotonic()
    for number, step in enumerate(steps):
        if stop():
            return
        if time.monotonic() - said > QUIET_SECONDS:
            said = time.monotonic()
            say(f"{NAME}: {number} of {len(steps)} {what}")
        yield step


TABLE1 = Experiment(
    name=NAME,
    question="What does a layer cost, how much of it must wait, and how far apart are two positions?",
    section="section 4, Table 1",
    minutes=3,
    measure=measure,
)
