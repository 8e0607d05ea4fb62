"""Training, bit for bit: `python -m benchmarks.same_bits OTHER_CHECKOUT`.

Trains on the text of tests/fixtures/c282dc1 with all settings given, on the CPU, with 1 and 2 threads and both
checkouts in turn, and compares the digests of the weights. A difference is an exit code of 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.command import run

ROOT = Path(__file__).parents[1]
FIXTURE = ROOT / "tests" / "fixtures" / "c282dc1"
TRAIN = """
import hashlib, json, sys
import heedful
text, output, settings = sys.argv[1:]
outcome = heedful.train(f"{text}/train.en", f"{text}/train.de", output, preset="tiny", device="cpu",
                        settings=json.load(open(settings)))
print(hashlib.sha256((outcome.model / "model.safetensors").read_bytes()).hexdigest())
"""


def digest(checkout: Path, num_threads: int) -> str:
    """Of the weights that a checkout's training comes to."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": str(num_threads)}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", TRAIN, str(FIXTURE / "text"), f"{folder}/run", str(FIXTURE / "settings.json")]
        done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def main() -> None:
    """Train four times, print, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout of another commit")
    other = parser.parse_args().other.resolve()
    differing = 0
    for num_threads in (1, 2):
        ours, theirs = digest(ROOT, num_threads), digest(other, num_threads)
        differing += ours != theirs
        print(
            f"{num_threads} threads: {ours[:16]} here, {theirs[:16]} there: {'same' if ours == theirs else 'DIFFERENT'}"
        )
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    run(main)
