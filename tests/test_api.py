"""`heedful.train` as a notebook calls it: again, interrupted, from a thread, with what numpy counts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.model.checkpoint import checkpoint_steps

SETTINGS: dict[str, Any] = {
    "train.batch_tokens": 256,
    "train.checkpoint_steps": 1000,
    "data.max_length": 120,
    "model.d_model": 16,
    "model.d_ff": 32,
    "model.num_layers": 1,
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    lines = [f"the cat number {n} sat on the mat" for n in range(200)]
    for language, word in (("en", "the"), ("de", "die")):
        (folder / f"train.{language}").write_text("\n".join(line.replace("the", word) for line in lines) + "\n")
    (folder / "pairs.tsv").write_text("".join(f"{line}\t{line.replace('the', 'die')}\n" for line in lines))
    return folder


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """As in a notebook; a process that was started in the background ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def train(text: Path, run: Path, steps: object = 4, **more: Any) -> heedful.Outcome:
    settings = SETTINGS | {"train.steps": steps}
    files = text / "train.en", text / "train.de"
    return heedful.train(*files, run, preset="tiny", device="cpu", settings=settings, **more)


def test_a_finished_run_tells_its_scores_again(text: Path, tmp_path: Path) -> None:
    valid = {"valid_source": text / "train.en", "valid_target": text / "train.de"}
    first, second = (train(text, tmp_path / "run", **valid) for _ in range(2))
    assert first.scores is not None
    assert second.scores == first.scores
    assert train(text, tmp_path / "unscored").scores is None


def test_an_interrupt_ends_a_run_with_a_checkpoint_and_the_same_call_goes_on(text: Path, tmp_path: Path) -> None:
    seen: list[int] = []

    def interrupt_once(record: object) -> None:
        if isinstance(record, heedful.StepRecord | heedful.PaceRecord):
            seen.append(record.step)
            if len(seen) == 1:
                signal.raise_signal(signal.SIGINT)

    run = tmp_path / "run"
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="the same call goes on with the run"):
        train(text, run, 50, on_record=interrupt_once)
    assert signal.getsignal(signal.SIGINT) is handler
    (stopped,) = checkpoint_steps(run)
    assert 0 < stopped < 50
    told: list[str] = []
    assert train(text, run, 50, say=told.append).reason == "steps"
    assert any(line.startswith(f"going on from step {stopped}") for line in told)


def test_an_interrupt_before_the_first_step_is_a_keyboard_interrupt_too(text: Path, tmp_path: Path) -> None:
    def interrupt(_: str) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(text, tmp_path / "run", say=interrupt)


def test_settings_are_a_mapping(text: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r'such as \{"train.steps": 500\}'):
        heedful.train(text / "train.en", text / "train.de", tmp_path / "run", settings=["train.steps=2"])  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["train", 7, ("train", "steps")])
def test_a_setting_is_named_by_section_and_field(text: Path, tmp_path: Path, name: Any) -> None:
    with pytest.raises(heedful.ConfigError, match=r"a setting is named section\.field, such as train\.steps"):
        heedful.train(text / "train.en", text / "train.de", tmp_path / "run", settings={name: 2})
    assert not (tmp_path / "run").exists()


def test_a_thread_trains_without_touching_signals(text: Path, tmp_path: Path) -> None:
    found: list[heedful.Outcome] = []
    thread = threading.Thread(target=lambda: found.append(train(text, tmp_path / "run")))
    thread.start()
    thread.join()
    assert [outcome.reason for outcome in found] == ["steps"]


def test_a_tsv_has_no_target_and_a_run_knows_its_text(text: Path, tmp_path: Path) -> None:
    settings = SETTINGS | {"train.steps": np.int64(2), "model.dropout": np.float64(0.2)}
    run = tmp_path / "run"
    names = {"data.source_language": "en", "data.target_language": "de"}
    heedful.train(text / "pairs.tsv", None, run, preset="tiny", device="cpu", settings=settings | names)
    outcome = heedful.train(np.array([]), None, run, device="cpu", settings={"train.steps": 3})
    assert (outcome.step, outcome.reason) == (3, "steps")
