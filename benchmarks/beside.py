"""Speed beside another checkout: `python -m benchmarks.beside OTHER_CHECKOUT [--pairs 7] [--keep]`.

Both train and translate on the CPU by what heedful exports, each in a process of its own, in turns: so a noisy machine
is noisy for both. A figure is the median of the ratios of neighbours; above 1 this checkout is faster.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.command import keep, keeping_parser, run
from heedful import PACKAGE

ROOT = PACKAGE.parent
TEXT = ROOT / "tests" / "fixtures" / "c282dc1" / "text"
MODEL = ROOT / "tests" / "fixtures" / "c282dc1" / "model"
SPEEDS = """
import inspect, json, sys, time
import heedful
text, model, output = sys.argv[1:]
speeds = {}
for preset, steps in (("tiny", 60), ("small", 6)):
    settings = {"train.steps": steps, "tokenizer.vocab_size": 800, "train.warmup_steps": 10, "train.precision": "fp32"}
    outcome = heedful.train(f"{text}/train.en", f"{text}/train.de", f"{output}/{preset}", preset=preset, device="cpu",
                            settings=settings)
    speeds[f"training {preset}, steps/s"] = steps / outcome.seconds
translators = {"tiny": heedful.Translator.load(model, device="cpu", engine="torch"),
               "small": heedful.Translator.load(f"{output}/small", device="cpu", engine="torch")}
lines = open(f"{text}/train.en", encoding="utf-8").read().splitlines()[:120]
for name, translator in translators.items():
    for beam_size in (1, 4):
        how = {"options": heedful.SearchOptions(beam_size=beam_size, max_extra=5)}
        if "split" in inspect.signature(translator.translate).parameters:
            how["split"] = False  # an older one knows no sentences within a line
        translator.translate(lines[:8], **how)
        began = time.perf_counter()
        translator.translate(lines, **how)
        speeds[f"translating {name}, beam {beam_size}, lines/s"] = len(lines) / (time.perf_counter() - began)
print(json.dumps(speeds))
"""


def speeds(checkout: Path) -> dict[str, float]:
    """What a checkout does in a second."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "GOMP_SPINCOUNT": "3000"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", SPEEDS, str(TEXT), str(MODEL), folder]
        done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Run in turns, print, keep."""
    parser = keeping_parser(__doc__)
    parser.add_argument("other", type=Path, help="a checkout of another commit")
    parser.add_argument("--pairs", type=int, default=7, help="how often each runs")
    given = parser.parse_args()
    rounds = [(speeds(ROOT), speeds(given.other.resolve())) for _ in range(given.pairs)]
    figures = {
        name: {
            "here": round(statistics.median(ours[name] for ours, _ in rounds), 2),
            "there": round(statistics.median(theirs[name] for _, theirs in rounds), 2),
            "ratio": round(statistics.median(ours[name] / theirs[name] for ours, theirs in rounds), 3),
        }
        for name in rounds[0][0]
    }
    for name, figure in figures.items():
        print(f"{name}: {figure}")
    keep(given, "beside", {"other": str(given.other.name), "pairs": given.pairs, "speeds": figures})


if __name__ == "__main__":
    run(main)
