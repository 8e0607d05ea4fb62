"""docs/scale.md can be followed: its commands for parts, and those for two machines, run here on one."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests import ROOT
from tests.cli.running import Run
from tests.small_models import TEXT, small_model

BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "scale.md").read_text(encoding="utf-8"), flags=re.DOTALL)
SMALL = "--device cpu --preset tiny --steps 3 --set data.max_length=40 --set tokenizer.vocab_size=304"
SIZES = "--set train.batch_tokens=512 --set model.d_model=16 --set model.d_ff=32 --set model.num_layers=1"
EXACT = "--precision fp64 --set train.checkpoint_steps=3"
LONG = 300


def commands(beginning: str) -> list[list[str]]:
    """The words of each command in the block that begins so."""
    (found,) = [text for text in BLOCKS if text.startswith(beginning)]
    return [shlex.split(line, comments=True) for line in found.replace("\\\n", "").splitlines()]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@pytest.mark.slow
def test_the_commands_for_parts_run_one_after_another(
    heedful: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("crawl.en").write_text("\n".join(TEXT * 5) + "\n")
    Path("runs").mkdir()
    small_model(Path("runs/mine"))
    for program, *words in commands("heedful bulk plan"):
        assert program == "heedful"
        assert heedful(*[word.replace("50000", "7") for word in words]).code == 0
    assert gzip.decompress(Path("crawl.de.gz").read_bytes()).count(b"\n") == 5 * len(TEXT)


@pytest.mark.slow
def test_the_command_for_two_machines_gives_the_weights_of_one_process_to_the_last_bit(
    heedful: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for language, cat in (("en", "the cat"), ("de", "die Katze")):
        lines = [f"{cat} {number} sat on the mat\n" for number in range(200)]
        Path(f"train.{language}").write_text("".join(lines), encoding="utf-8")
    ((program, *words),) = commands("torchrun --nnodes 2")
    assert program == "torchrun"
    words = [word.replace("HOST:29500", f"127.0.0.1:{free_port()}") for word in words]
    words += f"{SMALL} {SIZES} {EXACT}".split()
    command = [sys.executable, "-m", "torch.distributed.run", *words]
    surroundings = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    nodes = [subprocess.Popen(command, env=surroundings, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [node.communicate(timeout=LONG)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], told
    alone = [word.replace("runs/mine", "runs/alone") for word in words[words.index("train") :]]
    assert heedful(*alone).code == 0
    weights, expected = (load_file(f"runs/{run}/model/model.safetensors") for run in ("mine", "alone"))
    assert weights.keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in weights.items())
