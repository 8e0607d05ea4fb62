"""docs/scale.md can be followed: its commands for parts, and those for two machines, run here on one."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests import ROOT
from tests.small_models import TEXT, small_model

BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "scale.md").read_text(encoding="utf-8"), flags=re.DOTALL)
FUNCTIONS = (
    f'heedful() {{ "{sys.executable}" -m heedful "$@"; }}\n'
    f'torchrun() {{ "{sys.executable}" -m torch.distributed.run "$@"; }}\n'
)
SMALL = " --device cpu --preset tiny --steps 3 --set data.max_length=40 --set tokenizer.vocab_size=304"
SIZES = " --set train.batch_tokens=512 --set model.d_model=16 --set model.d_ff=32 --set model.num_layers=1"
SAVED = " --set train.checkpoint_steps=3"
LONG = 300


def block(beginning: str) -> str:
    """The commands that begin so."""
    (found,) = [text for text in BLOCKS if text.startswith(beginning)]
    return str(found)


def start(script: str, folder: Path) -> subprocess.Popen[str]:
    surroundings = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    script = f"set -e\n{FUNCTIONS}{script}"
    return subprocess.Popen(["sh", "-c", script], cwd=folder, env=surroundings, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> None:
    _, told = process.communicate(timeout=LONG)
    assert process.returncode == 0, told


@pytest.mark.slow
def test_the_commands_for_parts_run_one_after_another(tmp_path: Path) -> None:
    (tmp_path / "crawl.en").write_text("\n".join(TEXT * 5) + "\n")
    (tmp_path / "runs").mkdir()
    small_model(tmp_path / "runs" / "mine")
    ended(start(block("heedful bulk plan").replace("50000", "7"), tmp_path))
    ended(start("heedful bulk run crawl --share 0/100; gunzip crawl.de.gz", tmp_path))
    assert len((tmp_path / "crawl.de").read_text(encoding="utf-8").splitlines()) == 5 * len(TEXT)


@pytest.mark.slow
def test_the_command_for_two_machines_gives_the_weights_of_one_process(tmp_path: Path) -> None:
    for language, cat in (("en", "the cat"), ("de", "die Katze")):
        lines = [f"{cat} {number} sat on the mat\n" for number in range(200)]
        (tmp_path / f"train.{language}").write_text("".join(lines), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = block("torchrun --nnodes 2").rstrip() + SMALL + SIZES + SAVED
    on_both = command.replace("HOST:29500", f"127.0.0.1:{port}")
    nodes = [start(on_both, tmp_path) for _ in range(2)]
    for node in nodes:
        ended(node)
    alone = "heedful train" + command.split("heedful train")[1].replace("runs/mine", "runs/alone")
    ended(start(alone, tmp_path))
    weights, expected = (load_file(tmp_path / f"runs/{run}/model/model.safetensors") for run in ("mine", "alone"))
    assert weights.keys() == expected.keys()
    for name, tensor in weights.items():
        assert (tensor - expected[name]).abs().max() < 1e-5, name
