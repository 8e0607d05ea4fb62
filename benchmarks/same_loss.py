"""Does the fast road learn what the plain one learns? The loss at equal steps: bf16 kernels beside plain float32.

    heedful train -s train.en -t train.de -o RUN --preset base --steps 1 --set train.warmup_steps=4000  # tokens, once
    python -m benchmarks.same_loss RUN --name europarl --steps 300 [--set train.batch_tokens=4096]
        [--keep]

Each of both is trained with three seeds by `heedful train` on a GPU. Seeds decide weights, batches and masks, and the
two roads draw masks in different ways, so that they can only agree as two runs of different seeds agree: the means may
differ by no more than the spread of the seeds. With --keep the curves go to results/, and drawn to docs/images/.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.command import keep, keeping_parser, need_gpu, run
from benchmarks.record import machine
from heedful.config.setting_layers import Layer, read_toml, resolve, setting
from heedful.data.run_folder import CONFIG, write_config

IMAGES = Path(__file__).parent.parent / "docs" / "images"
ROADS = {"bf16": "bf16 kernels", "fp32": "plain float32"}
COLOURS = {"bf16": "#0072b2", "fp32": "#d55e00"}
SEEDS = (1, 2, 3)
AT_ONCE = 3

Curve: TypeAlias = list[tuple[int, float]]  # step, smoothed training loss


def curve(prepared: Path, folder: Path, precision: str, seed: int, steps: int, settings: Sequence[str]) -> Curve:
    """One run, in a process of its own."""
    run = shutil.copytree(prepared, folder / f"{precision}-{seed}")
    own: Layer = {"train": {"seed": seed, "precision": precision, "steps": steps, "validate_steps": 1_000_000}}
    _, layer = read_toml(run / CONFIG)
    # Written, not passed: a start with other settings would make the tokens anew.
    write_config(run, resolve(layer, own, *map(setting, settings)))
    command = [sys.executable, "-m", "heedful", "train", "-o", str(run), "--device", "cuda"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(record["step"], round(record["loss"], 4)) for record in records if record["kind"] == "step"]


def compared(curves: dict[str, dict[str, Curve]]) -> dict[str, float]:
    """At the steps of the second half: how far the means of both roads are apart, and how far the seeds of one are."""
    losses = {road: np.array([[loss for _, loss in each] for each in seeds.values()]) for road, seeds in curves.items()}
    half = losses["bf16"].shape[1] // 2
    means = {road: each.mean(axis=0)[half:] for road, each in losses.items()}
    spreads = {road: float(np.ptp(each, axis=0)[half:].mean()) for road, each in losses.items()}
    return {
        "difference of the means, bf16 − fp32": round(float((means["bf16"] - means["fp32"]).mean()), 4),
        "spread of the seeds, bf16": round(spreads["bf16"], 4),
        "spread of the seeds, fp32": round(spreads["fp32"], 4),
    }


def draw(name: str, curves: dict[str, dict[str, Curve]]) -> Path:
    """All curves in one picture."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = name
    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    for road, seeds in curves.items():
        for number, points in enumerate(seeds.values()):
            label = f"{ROADS[road]}, {len(seeds)} seeds" if number == 0 else None
            style = "-" if road == "bf16" else "--"
            axes.plot(*zip(*points, strict=True), style, color=COLOURS[road], linewidth=1.2, label=label)
    axes.set(xlabel="step", ylabel="training loss, smoothed labels", title=name)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    path = IMAGES / f"same-loss-{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    return path


def main() -> None:
    """Train all, compare, keep, draw."""
    parser = keeping_parser(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    arguments = parser.parse_args()
    need_gpu()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = {
            (road, str(seed)): pool.submit(
                curve, arguments.run, Path(folder), road, seed, arguments.steps, arguments.settings
            )
            for road in ROADS
            for seed in SEEDS
        }
        done = {key: job.result() for key, job in jobs.items()}
    curves = {road: {seed: points for (r, seed), points in done.items() if r == road} for road in ROADS}
    figures: dict[str, Any] = {"settings": arguments.settings, "steps": arguments.steps} | compared(curves)
    print(machine())
    for name, value in figures.items():
        print(f"{name}: {value}")
    keep(arguments, f"same_loss-{arguments.name}", figures | {"curves": curves})
    if arguments.keep:
        print(f"drawn in {draw(arguments.name, curves)}")


if __name__ == "__main__":
    run(main)
