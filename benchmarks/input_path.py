"""From text to batches on a CPU: tokenising, packing, and the memory that a large corpus takes.

    python -m benchmarks.input_path train.en train.de --tokenizer RUN/tokenizer.model [--pairs 36000000] [--keep]

Tokenising is what `heedful train` does before the first step: files in, numbers on the disk out, with as many
processes as there are cores. Packing is what its batch thread does: the next pairs of a shuffled epoch, gathered from
the disk and laid out for the GPU, in one thread. The memory is that of a process which packs batches of a made-up
corpus of so many pairs, against the same process before it opens the corpus, and against a bare Python.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import keep, keeping_parser, run
from benchmarks.record import machine

ROWS, MAX_LENGTH, VOCAB_SIZE = 25_000, 256, 37_000
MEAN_LENGTH = 28
CHUNK = 1_000_000
PACKING_SECONDS = 8.0


def tokenising(source: Path, target: Path, tokenizer: Path, run: Path) -> dict[str, Any]:
    """Files → shards, in sentences a second (both sides counted)."""
    from heedful.train.run.plan import TrainingRequest, decide
    from heedful.train.run.start import prepare_run

    data = {"source": [str(source)], "target": [str(target)]}
    started = time.perf_counter()
    request = TrainingRequest(run, "base", ({"data": data, "tokenizer": {"model": str(tokenizer)}},))
    prepare_run(decide(request), say=print)
    seconds = time.perf_counter() - started
    lines = 2 * json.loads((run / "data" / "train" / "record.json").read_text(encoding="utf-8"))["counts"]["read"]
    return {"sentences": lines, "seconds": round(seconds, 2), "sentences/s": round(lines / seconds)}


def packing(folder: Path) -> dict[str, Any]:
    """Batches for the GPU in target tokens a second, after the first few."""
    from heedful.config.settings import TrainConfig
    from heedful.data.shards import open_shards
    from heedful.fast.cuda.packing import make_numbered_batch, static_shape
    from heedful.train.batching import step_batches

    shape, shards = static_shape(ROWS, MAX_LENGTH), open_shards(folder)
    steps = step_batches(shards, partial(make_numbered_batch, shape), TrainConfig(batch_tokens=ROWS))
    for _ in islice(steps, 20):
        pass
    tokens, count, started = 0, 0, time.perf_counter()
    while time.perf_counter() - started < PACKING_SECONDS:
        tokens += sum(batch.num_target_tokens for batch in next(steps))
        count += 1
    seconds = time.perf_counter() - started
    return {"target tokens/s": round(tokens / seconds), "ms a batch": round(1000 * seconds / count, 2)}


def make_up(folder: Path, num_pairs: int) -> None:
    """Random ids with the lengths of real sentences (log-normal), written as `heedful train` would."""
    counts = {"read": num_pairs, "kept": num_pairs, "empty": 0, "too_long": 0}
    for number, side in enumerate(("source", "target")):
        tokens = 0
        with (folder / f"{side}.ids").open("wb") as ids, (folder / f"{side}.lengths").open("wb") as lengths:
            for ids_T, lengths_N in _sentences(num_pairs, seed=number):
                ids.write(ids_T.tobytes())
                lengths.write(lengths_N.tobytes())
                tokens += len(ids_T)
        counts[f"{side}_tokens"] = tokens
    record = {"format": 1, "fingerprint": "made up", "files": [], "dtype": "<u2", "counts": counts}
    (folder / "record.json").write_text(json.dumps(record), encoding="utf-8")


def _sentences(num_pairs: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    for begin in range(0, num_pairs, CHUNK):
        size = min(CHUNK, num_pairs - begin)
        lengths_N = rng.lognormal(np.log(MEAN_LENGTH) - 0.18, 0.6, size).round().clip(2, MAX_LENGTH).astype("<i4")
        yield rng.integers(1, VOCAB_SIZE, int(lengths_N.sum()), dtype="<u2"), lengths_N


def resident_megabytes() -> float:
    """What this process holds of the machine's memory."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def memory(folder: Path) -> dict[str, Any]:
    """In a process of its own: before the corpus is opened, and while batches of it are packed."""
    import heedful.fast.cuda.packing  # noqa: F401 (what a training process has loaded anyway)

    before = resident_megabytes()
    speed = packing(folder)
    return {"MB above the loaded modules": round(resident_megabytes() - before), "packing": speed}


def bare_python() -> float:
    """The resident memory of a Python that does nothing."""
    code = "print([l for l in open('/proc/self/status') if l.startswith('VmRSS')][0].split()[1])"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) / 1024


def main() -> None:
    """Measure, print, keep."""
    parser = keeping_parser(__doc__)
    parser.add_argument("source", type=Path, nargs="?")
    parser.add_argument("target", type=Path, nargs="?")
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--pairs", type=int, default=36_000_000)
    parser.add_argument("--memory", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        return print(json.dumps(memory(arguments.memory) | {"MB in all": round(resident_megabytes())}))
    if arguments.source and not (arguments.target and arguments.tokenizer):
        parser.error("a source goes with its target and --tokenizer")
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        if arguments.source:
            run = Path(name) / "run"
            figures["tokenising"] = tokenising(arguments.source, arguments.target, arguments.tokenizer, run)
            figures["packing real text"] = packing(run / "data" / "train")
        made_up = Path(name) / "made-up"
        made_up.mkdir()
        make_up(made_up, arguments.pairs)
        child = [sys.executable, "-m", "benchmarks.input_path", "--memory", str(made_up)]
        found = json.loads(subprocess.run(child, capture_output=True, text=True, check=True).stdout)
        found["MB above a bare Python"] = round(found["MB in all"] - bare_python())
        figures[f"{arguments.pairs:,} made-up pairs"] = found
    print(machine())
    for title, values in figures.items():
        print(f"{title}: {values}")
    keep(arguments, "input_path", figures)


if __name__ == "__main__":
    run(main)
