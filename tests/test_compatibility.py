"""What commit c282dc1 made still opens, says the same, and goes on to the same weights.

fixtures/c282dc1 holds a tiny model, a run that was killed half-way, its text, and what both came to at that commit.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

import heedful
from heedful.model.checkpoint import weights_digest

FIXTURE = Path(__file__).parent / "fixtures" / "c282dc1"
EXPECTED: dict[str, Any] = json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def is_the_machine_of_then() -> bool:
    """Float32 sums differ in the last bits between kinds of CPU and builds of torch."""
    kinds = (cpu("model name"), sha256(cpu("flags").encode()).hexdigest())
    return (torch.__version__, *kinds) == (EXPECTED["torch"], EXPECTED["cpu"], EXPECTED["flags_sha256"])


def cpu(field: str) -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith(field)), "")


def test_a_model_of_then_translates_as_it_did_then() -> None:
    translator = heedful.Translator.load(FIXTURE / "model", device="cpu", engine="torch")
    found = translator.translate(EXPECTED["lines"], split=False)
    assert [translation.text for translation in found] == EXPECTED["translations"]
    scores = [[hypothesis.score for hypothesis in translation.hypotheses] for translation in found]
    assert_close(scores, EXPECTED["scores"], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_half_finished_run_of_then_comes_to_the_same_weights(tmp_path: Path) -> None:
    for name in ("half", "text"):
        shutil.copytree(FIXTURE / name, tmp_path / name)
    text = tmp_path / "text"
    outcome = heedful.train(text / "train.en", text / "train.de", tmp_path / "half", device="cpu")
    assert outcome.model is not None
    weights = outcome.model / "model.safetensors"
    assert_close(load_file(weights), load_file(FIXTURE / "finished.safetensors"), rtol=1e-5, atol=1e-5)
    if is_the_machine_of_then():
        assert sha256(weights.read_bytes()).hexdigest() == EXPECTED["finished_sha256"]


def test_a_card_of_then_says_what_it_said() -> None:
    card = heedful.load_card(FIXTURE / "model")
    assert card.training is not None
    assert card.training.commit.startswith("c282dc1")
    assert card.weights_sha256 == weights_digest(FIXTURE / "model" / "model.safetensors")
