"""The whole road: a run that is killed, resumed, shared by several processes or fine-tuned is the run it should be."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from heedful.config.setting_layers import Layer
from heedful.config.settings import Config
from heedful.data.run_metrics import run_metrics
from heedful.errors import CheckpointError, ConfigError, DataError, DeviceError
from heedful.model.checkpoint import checkpoint_steps, find_model, load_config, load_tensors, step_folder
from heedful.score.card import load_card
from heedful.score.run_history import read_starts
from heedful.train import loop
from heedful.train.loop import PaceRecord, Record, StepRecord, ValidationRecord
from heedful.train.run import text as run_text
from heedful.train.run.interruption import ERROR_FILE, LAUNCHER, Interrupted, Interruption, note_error
from heedful.train.run.plan import TrainingRequest, decide
from heedful.train.run.start import Outcome, carry_out, interruptible, prepare_run
from heedful.translate.export.cache import cache_file
from tests import ROOT
from tests.narrowed import model_config

pytestmark = pytest.mark.slow

MODEL: Layer = {"model": {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}}
TRAIN: Layer = {
    "train": {"batch_tokens": 256, "warmup_steps": 20, "checkpoint_steps": 10, "validate_steps": 20, "steps": 40},
    "data": {"max_length": 40},
    "tokenizer": {"vocab_size": 288},
}
LONG = 600  # seconds in which a busy machine, too, has started processes and trained a little
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy task: nonsense words in two orders."""
    folder = tmp_path_factory.mktemp("text")
    rng = random.Random(1)
    words = [a + b for a in "bdgklm" for b in "aeio"]
    lines = [[rng.choice(words) for _ in range(rng.randint(1, 7))] for _ in range(640)]
    for name, part in {"train": lines[:600], "valid": lines[600:]}.items():
        (folder / f"{name}.xx").write_text("".join(" ".join(line) + "\n" for line in part), encoding="utf-8")
        (folder / f"{name}.yy").write_text("".join(" ".join(line[::-1]) + "\n" for line in part), encoding="utf-8")
    return folder


def files(text: Path, *, valid: bool = False) -> Layer:
    data = {"source": [str(text / "train.xx")], "target": [str(text / "train.yy")]}
    if valid:
        data |= {"valid_source": [str(text / "valid.xx")], "valid_target": [str(text / "valid.yy")]}
    return {"data": data}


def start(run: Path, *layers: Layer, from_model: Path | None = None) -> tuple[Outcome, list[Record], list[str]]:
    said: list[str] = []
    records: list[Record] = []
    request = TrainingRequest(run, "tiny", (MODEL, TRAIN, *layers), from_model, "cpu")
    outcome = carry_out(decide(request), say=said.append, on_record=lambda _, record: records.append(record))
    return outcome, records, said


def command(run: Path, text: Path, *more: str) -> list[str]:
    """`more` stands instead of what the layers say."""
    layers = {f"{s}.{f}": v for layer in (MODEL, TRAIN) for s, fields in layer.items() for f, v in fields.items()}
    given = {part.split("=")[0] for part in more} | ({"train.steps"} if "--steps" in more else set())
    settings = [f"{name}={value}" for name, value in layers.items() if name not in given]
    arguments = ["-s", str(text / "train.xx"), "-t", str(text / "train.yy"), "-o", str(run), "--preset", "tiny"]
    sets = [part for setting in settings for part in ("--set", setting)]
    return [sys.executable, "-m", "heedful", "train", *arguments, "--device", "cpu", *sets, *more]


def assert_same_weights(first: Path, second: Path, *, tolerance: float = 0.0) -> None:
    one, other = (load_tensors(find_model(run).weights) for run in (first, second))
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], atol=tolerance, rtol=tolerance)


def contents(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def unbroken(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 40 steps that nothing disturbed."""
    run = tmp_path_factory.mktemp("unbroken") / "run"
    subprocess.run(command(run, text), env=ENVIRONMENT, check=True, capture_output=True)
    return run


def test_a_run_leaves_what_the_design_says(text: Path, tmp_path: Path) -> None:
    outcome, records, said = start(tmp_path / "run", files(text, valid=True))
    assert outcome.model == tmp_path / "run" / "model"
    assert outcome.reason == "steps"
    assert checkpoint_steps(outcome.run) == [10, 20, 30, 40]
    lines = [json.loads(line) for line in (outcome.run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == [20, 40]
    assert [line["step"] for line in lines if line["kind"] == "validation"] == [20, 40]
    assert 'source_language = "xx"' in (outcome.run / "model" / "config.toml").read_text()
    assert any("600 of 600 pairs" in line for line in said)
    names = ", ".join(f"step-000000{step}" for step in (10, 20, 30, 40))
    assert said[-1] == f"averaging 4 of at most 5 checkpoints: {names}"
    steps = [record for record in records if isinstance(record, StepRecord)]
    assert steps[-1].perplexity < steps[0].perplexity
    scores = [record.scores for record in records if isinstance(record, ValidationRecord)]
    assert scores[-1].loss < scores[0].loss
    assert scores[-1].bleu is not None


def test_a_run_starts_from_depth_scaled_weights_where_told(text: Path, tmp_path: Path) -> None:
    two_layers: Layer = {"model": {"num_layers": 2}, "train": {"steps": 1, "learning_rate_factor": 1e-9}}
    plain, scaled = (
        load_tensors(start(tmp_path / name, files(text), two_layers, layer)[0].run / "model" / "model.safetensors")
        for name, layer in {"plain": {}, "scaled": {"train": {"depth_scaled_init": True}}}.items()
    )
    for stack, depth in itertools.product(("encoder", "decoder"), (1, 2)):
        name = f"{stack}.{depth - 1}.feed_forward.W_1.weight"
        torch.testing.assert_close(scaled[name], plain[name] / depth**0.5, rtol=0, atol=1e-6)


def test_new_weights_of_a_deep_encoder_are_warned_of_and_learned_ones_are_not(text: Path, tmp_path: Path) -> None:
    deep: Layer = {"model": {"num_encoder_layers": 9}, "train": {"steps": 1}}
    warning = "warning: an encoder of 9 layers"
    outcome, _, said = start(tmp_path / "new", files(text), deep)
    assert [line for line in said if line.startswith(warning)]
    _, _, said = start(tmp_path / "tuned", files(text), deep, from_model=outcome.run)
    assert not [line for line in said if line.startswith(warning)]


def test_a_finished_run_that_is_started_again_does_nothing(text: Path, tmp_path: Path) -> None:
    start(tmp_path / "run", files(text))
    model = tmp_path / "run" / "model"
    cached = cache_file(model, "alignment")
    cached.parent.mkdir()
    cached.touch()
    before = contents(model)
    outcome, records, _ = start(tmp_path / "run", files(text))
    assert outcome.step == 40
    assert cache_file(model, "alignment") == cached
    assert not [record for record in records if isinstance(record, StepRecord)]
    assert contents(model) == before


def test_a_finished_run_without_its_checkpoints_is_not_trained_again(text: Path, tmp_path: Path) -> None:
    run = start(tmp_path / "run", files(text), {"train": {"steps": 1}})[0].run
    shutil.rmtree(run / "checkpoints")
    before = contents(run)
    with pytest.raises(
        CheckpointError, match=r"no checkpoint to go on from, .* new folder \(-o\), with --from .*run to"
    ):
        start(run, files(text), {"train": {"steps": 2}})
    assert contents(run) == before
    on, _, _ = start(tmp_path / "on", files(text), {"train": {"steps": 1}}, from_model=run)
    assert on.model


@pytest.mark.parametrize("has_text", [True, False])
def test_checkpoints_on_a_disk_that_is_not_there_now_are_not_taken_for_none(
    text: Path, tmp_path: Path, has_text: bool
) -> None:
    run = tmp_path / "run"
    start(run, files(text), {"train": {"steps": 20}})
    shutil.rmtree(run / "model")
    (run / "checkpoints").rename(tmp_path / "disk")
    (run / "checkpoints").symlink_to(tmp_path / "gone")
    if not has_text:
        shutil.rmtree(run / "data")
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    with pytest.raises(CheckpointError, match=r"checkpoints: cannot be read \(No such file or directory\)"):
        start(run, files(text))
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before
    (tmp_path / "disk").rename(tmp_path / "gone")
    assert any("going on from step 20" in line for line in start(run, files(text))[2])


def test_a_finished_run_whose_weights_are_gone_is_not_taken_for_an_unfinished_one(text: Path, tmp_path: Path) -> None:
    run = start(tmp_path / "run", files(text), {"train": {"steps": 20}})[0].run
    weights = run / "model" / "model.safetensors"
    before = load_tensors(weights)
    weights.unlink()
    with pytest.raises(CheckpointError, match=rf"{weights}: missing; heedful train -o {run} averages its checkpoints"):
        find_model(run)
    carry_out(decide(TrainingRequest(run, None, (), None, "cpu")), say=lambda _: None, on_record=lambda *_: None)
    assert all(torch.equal(tensor, before[name]) for name, tensor in load_tensors(find_model(run).weights).items())


def test_more_steps_go_on_and_give_what_they_would_have_given_at_once(text: Path, tmp_path: Path) -> None:
    start(tmp_path / "once", files(text))
    start(tmp_path / "twice", files(text), {"train": {"steps": 23}})
    (tmp_path / "twice" / "model" / ".cache").mkdir()
    _, _, said = start(tmp_path / "twice", files(text), {"train": {"steps": 40}})
    assert "changed since the last start: train.steps = 40 (was 23)" in said
    assert_same_weights(tmp_path / "once", tmp_path / "twice")
    assert not (tmp_path / "twice" / "model" / ".cache").exists(), "it belongs to other weights"
    once, twice = ((tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("once", "twice"))
    assert json.loads(once[-1])["step"] == json.loads(twice[-1])["step"] == 40


def test_a_model_that_fits_no_memory_is_one_line(text: Path, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="weights and moments do not fit; in a new folder"):
        start(tmp_path / "run", files(text), {"model": {"d_ff": 10**9, "d_model": 10**6}})
    with pytest.raises(DeviceError, match="no machine holds a model of these sizes; lower those of model"):
        start(tmp_path / "larger", files(text), {"model": {"num_heads": 10**9, "d_k": 10**9, "d_v": 1}})


def test_settings_that_made_nothing_yet_give_way_whatever_is_in_them(text: Path, tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()  # it is a run
    (tmp_path / "config.toml").write_bytes(b"# caf\xe9")
    assert start(tmp_path, files(text), {"train": {"steps": 1}})[0].step == 1


def test_a_state_of_another_kind_names_its_checkpoint(text: Path, tmp_path: Path) -> None:
    run = start(tmp_path / "run", files(text), {"train": {"steps": 23}})[0].run
    path = step_folder(run, 23) / "state.json"
    with_text = path.read_text().replace('"step": 23', '"step": "23"')
    for state in ("[1, 2]", '"no state"', "{}", with_text):
        path.write_text(state)
        with pytest.raises(CheckpointError, match=r"step-00000023.*; remove this checkpoint"):
            start(run, files(text), {"train": {"steps": 40}})


def test_a_run_keeps_the_precision_that_auto_gave_it(text: Path, tmp_path: Path) -> None:
    """As if it had begun on a GPU."""
    run = start(tmp_path / "run", files(text), {"train": {"steps": 10}})[0].run
    starts = run / "starts.jsonl"
    assert [each.precision for each in read_starts(run)] == ["fp32"]
    starts.write_text(starts.read_text().replace('"fp32"', '"bf16"'))
    start(run, {"train": {"steps": 20}})
    assert [each.precision for each in read_starts(run)] == ["bf16", "bf16"]


@pytest.mark.parametrize(("device", "precision"), [("cpu", "fp32"), ("cuda", "auto")])
def test_a_run_that_recorded_no_precision_is_float32_if_a_cpu_made_it(
    text: Path, tmp_path: Path, device: str, precision: str
) -> None:
    run = start(tmp_path / "run", files(text), {"train": {"steps": 10}})[0].run
    (run / "starts.jsonl").unlink()
    state = step_folder(run, 10) / "state.json"
    state.write_text(state.read_text().replace('"device": "cpu"', f'"device": "{device}"'))
    assert decide(TrainingRequest(run, device="cpu")).precision == precision


def test_a_run_that_cooled_down_says_that_its_rate_rises_again(text: Path, tmp_path: Path) -> None:
    def rises(**train: int) -> bool:
        _, _, said = start(tmp_path / "run", files(text), {"train": dict(train)})
        return any("had begun to cool down" in line for line in said)

    assert not rises(steps=10), "a run that begins"
    assert not rises(steps=20, cooldown_steps=10), "it has not cooled down yet"
    assert not rises(steps=20, cooldown_steps=10, checkpoint_steps=7), "the end is the same"
    assert not rises(steps=20, cooldown_steps=0), "it is there"
    assert not rises(steps=20, cooldown_steps=10)
    assert rises(steps=30, cooldown_steps=0)
    assert not rises(steps=32), "it had not cooled down"


def test_fewer_steps_than_are_done_are_refused_and_as_many_end_the_run(text: Path, tmp_path: Path) -> None:
    stops = iter([False] * 24 + [True])
    request = TrainingRequest(tmp_path / "run", "tiny", (MODEL, TRAIN, files(text)), None, "cpu")
    stopped = carry_out(decide(request), say=lambda _: None, on_record=lambda *_: None, stop=lambda: next(stops))
    assert (stopped.step, stopped.model) == (25, None)
    before = contents(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"train\.steps = 20, but the run .* is already at step 25; train\.steps=25"):
        start(tmp_path / "run", {"train": {"steps": 20}})
    assert contents(tmp_path / "run") == before
    ended, _, said = start(tmp_path / "run", {"train": {"steps": 25}})
    assert (ended.step, ended.reason) == (25, "steps")
    assert said[-1].endswith("checkpoints: step-00000010, step-00000020, step-00000025"), "no step is thrown away"
    assert ended.model is not None


def test_steps_are_counted_from_the_checkpoint_that_a_run_goes_on_from(text: Path, tmp_path: Path) -> None:
    run = start(tmp_path / "run", files(text), {"train": {"steps": 25}})[0].run
    (step_folder(run, 25) / "state.json").unlink()
    with pytest.raises(ConfigError, match=r"is already at step 20; train\.steps=20 ends it there"):
        start(run, {"train": {"steps": 19}})
    ended, _, said = start(run, {"train": {"steps": 20}})
    assert ended.step == 20
    assert said[-1].endswith("checkpoints: step-00000010, step-00000020"), "not the later one"


def stopped_at(asked: int, run: Path, *layers: Layer) -> Outcome:
    """A start that is stopped when it asks for the nth time whether it shall."""
    asks = itertools.count(1)
    request = TrainingRequest(run, "tiny", (MODEL, TRAIN, *layers), None, "cpu")
    return carry_out(decide(request), say=lambda _: None, on_record=lambda *_: None, stop=lambda: next(asks) >= asked)


def validated(run: Path) -> list[int]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["step"] for line in lines if line["kind"] == "validation"]


@pytest.mark.parametrize("steps", [23, 40])
def test_a_run_that_was_stopped_where_it_ends_is_validated_there_at_the_next_start(
    text: Path, tmp_path: Path, steps: int
) -> None:
    run, rare = tmp_path / "run", {"train": {"steps": steps, "validate_steps": 100}}
    stopped = stopped_at(23, run, files(text, valid=True), rare)
    assert (stopped.step, stopped.reason) == (23, "stopped")
    assert validated(run) == []
    for _ in range(2):  # and once is enough
        ended, _, _ = start(run, {"train": {"steps": 23, "validate_steps": 100}})
        assert (ended.step, ended.reason) == (23, "steps")
        assert validated(run) == [23]


@pytest.mark.parametrize("asked", [20, 21, 30], ids=["before it", "at its loss", "at its translations"])
def test_a_stop_does_not_wait_for_a_validation_and_the_next_start_does_it(
    text: Path, tmp_path: Path, asked: int
) -> None:
    often: Layer = {"train": {"steps": 40, "patience": 9}}
    start(tmp_path / "whole", files(text, valid=True), often)
    run = tmp_path / "run"
    stopped = stopped_at(asked, run, files(text, valid=True), often)
    assert (stopped.step, stopped.reason) == (20, "stopped")
    assert validated(run) == []

    again = stopped_at(1, run)  # while it does what it owes
    assert (again.step, again.reason) == (20, "stopped")
    assert validated(run) == []

    def die(_: Config, record: Record) -> None:
        if isinstance(record, ValidationRecord):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(decide(TrainingRequest(run, None, (), None, "cpu")), say=lambda _: None, on_record=die)
    assert validated(run) == [20]

    start(run, files(text, valid=True), often)
    assert validated(run) == [20, 40]
    assert_same_weights(run, tmp_path / "whole")
    states = [
        json.loads((tmp_path / name / "checkpoints" / "step-00000040" / "state.json").read_text()) | {"seconds": 0}
        for name in ("run", "whole")
    ]
    assert states[0] == states[1]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_killed_at_any_moment_ends_with_the_same_bits(
    text: Path, tmp_path: Path, unbroken: Path, seed: int
) -> None:
    rng, run = random.Random(seed), tmp_path / "run"
    for _ in range(3):
        with subprocess.Popen(command(run, text), env=ENVIRONMENT, stderr=subprocess.DEVNULL) as process:
            started = time.monotonic()
            while not (run / "checkpoints").exists() and time.monotonic() - started < LONG and process.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.4))
            process.send_signal(signal.SIGKILL)
    subprocess.run(command(run, text), env=ENVIRONMENT, check=True, capture_output=True)
    assert_same_weights(run, unbroken)


CRASHES = {
    "while a file is written": ("checkpoint.write_tensors", "calls == 4"),
    "before the folder is renamed": ("atomic._replace", "any(args[1].parent.glob('step-*'))"),  # the second checkpoint
    "while old checkpoints are pruned": ("checkpoint_writer.prune_checkpoints", "calls == 3"),
}


@pytest.mark.parametrize("moment", CRASHES)
def test_a_run_killed_in_the_middle_of_a_checkpoint_ends_with_the_same_bits(
    text: Path, tmp_path: Path, unbroken: Path, moment: str
) -> None:
    name, when = CRASHES[moment]
    run = tmp_path / "run"
    code = f"""
import os, sys
from heedful.cli.main import main
from heedful.data import atomic
from heedful.model import checkpoint
from heedful.train import checkpoint_writer
calls, original = 0, {name}
def crash(*args, **kwargs):
    global calls
    calls += 1
    if {when}:
        os._exit(9)
    return original(*args, **kwargs)
{name} = crash
main()
"""
    arguments = command(run, text)[3:]
    died = subprocess.run([sys.executable, "-c", code, *arguments], env=ENVIRONMENT, check=False, capture_output=True)
    assert died.returncode == 9, died.stderr
    subprocess.run(command(run, text), env=ENVIRONMENT, check=True, capture_output=True)
    assert_same_weights(run, unbroken)
    assert not list(run.rglob(".*.writing"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_after_a_checkpoint(
    text: Path, tmp_path: Path, unbroken: Path, number: signal.Signals, code: int
) -> None:
    run = tmp_path / "run"
    long = command(run, text, "--steps", "100000")
    with subprocess.Popen(long, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        while not (run / "checkpoints" / "step-00000010").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, errors = process.communicate(timeout=LONG)
    assert process.returncode == code
    assert "the same command goes on from here" in errors
    assert "Traceback" not in errors
    last = checkpoint_steps(run)[-1]
    assert f"stopped at step {last:,}" in errors


def end_in(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C when a run is about to call this function."""
    module, _, function = stage.rpartition(".")

    def interrupt(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(import_module(f"heedful.train.run.{module}"), function, interrupt)


@pytest.mark.parametrize(
    ("stage", "kept"),
    [
        ("text._make_tokenizer", "nothing was made yet, and the same command begins anew"),
        ("text._encode", "the vocabulary is kept in {run}, and the same command goes on from there"),
        (
            "start.make_trainer",
            "vocabulary and encoded text are kept in {run}, and the same command goes on from there",
        ),
    ],
)
def test_ctrl_c_before_the_first_step_says_what_is_kept(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, kept: str
) -> None:
    run, said = tmp_path / "run", list[str]()
    request = TrainingRequest(run, "tiny", (MODEL, TRAIN, files(text)), None, "cpu")
    with monkeypatch.context() as patch:
        end_in(stage, patch)
        with pytest.raises(SystemExit) as ended, interruptible(run, say=said.append):
            carry_out(decide(request), say=lambda _: None, on_record=lambda *_: None)
    assert ended.value.code == 130
    assert said == [f"stopped at once; {kept.format(run=run)}"]
    assert start(run, files(text), {"train": {"steps": 1}})[0].step == 1


def test_who_is_on_the_way_out_is_not_interrupted_in_clearing_up() -> None:
    with Interruption() as interruption:
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.exit_code == 130


@pytest.mark.parametrize("stage", ["text._encode", "start.make_trainer"])
def test_text_that_changed_before_the_first_step_gets_a_vocabulary_of_its_own(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    short: Layer = {"train": {"steps": 1}}
    for name in ("train.xx", "train.yy"):
        (tmp_path / name).write_text("".join(f"{n} {n + 7}\n" for n in range(600)), encoding="utf-8")
    with monkeypatch.context() as patch, contextlib.suppress(SystemExit):
        end_in(stage, patch)
        with interruptible(tmp_path / "run", say=lambda _: None):
            start(tmp_path / "run", files(tmp_path), short)
    for name in ("train.xx", "train.yy"):
        shutil.copyfile(text / name, tmp_path / name)
    said = start(tmp_path / "run", files(tmp_path), short)[2]
    start(tmp_path / "fresh", files(tmp_path), short)
    assert any("not what the vocabulary was made from" in line for line in said)
    assert_same_weights(tmp_path / "run", tmp_path / "fresh")
    assert len({(tmp_path / run / "tokenizer.model").read_bytes() for run in ("run", "fresh")}) == 1


SHARED = ["--precision", "fp64", "--set", "train.micro_batches=4", "--set", "train.warmup_steps=40"]


@pytest.fixture(scope="module")
def alone(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty steps up to the peak learning rate, in float64, with unequal token counts, in one process."""
    run = tmp_path_factory.mktemp("alone") / "run"
    subprocess.run(command(run, text, *SHARED), env=ENVIRONMENT, check=True, capture_output=True)
    return run


@pytest.mark.parametrize("nproc", [2, 4])
def test_one_two_and_four_processes_agree(text: Path, tmp_path: Path, alone: Path, nproc: int) -> None:
    run = tmp_path / "run"
    subprocess.run(command(run, text, *SHARED, "--nproc", str(nproc)), env=ENVIRONMENT, check=True, capture_output=True)
    assert_same_weights(alone, run, tolerance=1e-9)


def test_a_run_of_two_processes_goes_on_as_a_run_of_one(text: Path, tmp_path: Path, alone: Path) -> None:
    run = tmp_path / "run"
    for more in (["--steps", "17", "--nproc", "2"], ["--steps", "40"]):
        subprocess.run(command(run, text, *SHARED, *more), env=ENVIRONMENT, check=True, capture_output=True)
    assert_same_weights(alone, run, tolerance=1e-9)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds the process in /proc")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_that_is_killed_is_started_again(text: Path, tmp_path: Path, alone: Path, rank: int) -> None:
    run, mark = tmp_path / "run", f"HEEDFUL_TEST_MARK={tmp_path}"
    environment = ENVIRONMENT | dict([mark.split("=")])
    with subprocess.Popen(command(run, text, *SHARED, "--nproc", "2"), env=environment, stderr=subprocess.PIPE) as all_:
        wait_until(lambda: (run / "checkpoints" / "step-00000010").exists() or all_.poll() is not None)
        os.kill(process_with(mark, f"RANK={rank}"), signal.SIGKILL)
        _, errors = all_.communicate(timeout=LONG)
    assert all_.returncode == 0, errors
    assert b"a process died; all are started again" in errors
    assert b"going on from step" in errors
    assert_same_weights(alone, run, tolerance=1e-9)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds the process in /proc")
def test_a_launcher_that_is_killed_takes_its_workers_along_and_all_are_started_again(
    text: Path, tmp_path: Path, alone: Path
) -> None:
    run, mark = tmp_path / "run", f"HEEDFUL_TEST_MARK={tmp_path}"
    environment = ENVIRONMENT | dict([mark.split("=")])
    with subprocess.Popen(command(run, text, *SHARED, "--nproc", "2"), env=environment, stderr=subprocess.PIPE) as all_:
        wait_until(lambda: is_running(mark, "RANK=0") or all_.poll() is not None)
        os.kill(parent_of(process_with(mark, "RANK=0")), signal.SIGKILL)
        _, errors = all_.communicate(timeout=LONG)
    assert all_.returncode == 0, errors
    assert b"a process died; all are started again" in errors
    assert_same_weights(alone, run, tolerance=1e-9)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_torchrun_passes_a_signal_on_and_leaves_without_a_traceback(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    started, worker = tmp_path / "started", ["sh", "-c", 'touch "$0"; exec sleep 60', str(tmp_path / "started")]
    torchrun = [sys.executable, "-c", LAUNCHER, "--standalone", "--nproc-per-node=1", "--no-python", *worker]
    with subprocess.Popen(torchrun, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: started.exists() or process.poll() is not None)
        process.send_signal(number)
        _, errors = process.communicate(timeout=LONG)
    assert process.returncode == code, errors
    assert "Traceback" not in errors


def test_ctrl_c_while_torchrun_loads_torch_leaves_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    environment = ENVIRONMENT | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", LAUNCHER], env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


def test_an_error_that_would_come_again_is_said_and_not_tried_again(text: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    start(run, files(text), {"train": {"micro_batches": 4, "steps": 10}})
    (run / "checkpoints" / "step-00000010" / "state.json").write_text("{")
    more = ["--nproc", "2", "--set", "train.micro_batches=4", "--steps", "20"]
    done = subprocess.run(command(run, text, *more), env=ENVIRONMENT, check=False, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("state.json: cannot be read") == 1
    assert done.stderr.count("training text:") == 1
    assert "started again" not in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_wrong_is_said_once_and_never_kept_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert note_error(2), "a process alone"
    monkeypatch.setenv(ERROR_FILE, str(tmp_path / "exit-code"))
    assert [note_error(2), note_error(1)] == [True, False]
    assert (tmp_path / "exit-code").read_text() == "2"
    monkeypatch.setenv(ERROR_FILE, str(tmp_path / "gone" / "exit-code"))
    assert note_error(2), "the folder was cleared away"


def test_torch_is_left_as_it_was_found(text: Path, tmp_path: Path) -> None:
    def found() -> tuple[bool, bool, bool]:
        settings: Any = torch.utils.deterministic
        warns = torch.is_deterministic_algorithms_warn_only_enabled()
        return torch.are_deterministic_algorithms_enabled(), warns, settings.fill_uninitialized_memory

    before, state = found(), torch.get_rng_state()
    start(tmp_path / "run", files(text), {"train": {"steps": 5}})
    assert found() == before == (False, False, True)
    assert torch.equal(torch.get_rng_state(), state)


def wait_until(reached: Callable[[], bool]) -> None:
    until = time.monotonic() + LONG
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.005)


def process_with(*settings: str) -> int:
    """The process whose environment has these settings."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has just ended, or is another user's
            if {setting.encode() for setting in settings} <= set(path.read_bytes().split(b"\0")):
                return int(path.parent.name)
    raise AssertionError(f"no process has {settings}")


def is_running(*settings: str) -> bool:
    with contextlib.suppress(AssertionError):
        return process_with(*settings) > 0
    return False


def parent_of(process: int) -> int:
    _, _, fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")
    return int(fields.split()[1])


def test_processes_may_see_sentences_of_very_different_lengths(tmp_path: Path) -> None:
    """One line needs a longer table of positions than all others, and only one process meets it in a step."""
    rng = random.Random(1)
    lines = ["".join(rng.choices("ab ", k=rng.randint(1, 30))) + "a" for _ in range(1000)]
    lines.append("".join(rng.choices("cdefghij", k=1800)))
    for name in ("train.xx", "train.yy"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    # With this seed the first rank is the first to meet it; what that sent would not fit the other's table.
    train = {"batch_tokens": 4002, "micro_batches": 2, "steps": 12, "seed": 2}
    settings = ["data.max_length=2000", *(f"train.{name}={value}" for name, value in train.items())]
    sets = [part for setting in settings for part in ("--set", setting)]
    done = subprocess.run(
        command(tmp_path / "run", tmp_path, "--nproc", "2", *sets),
        env=ENVIRONMENT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_micro_batches_must_divide_among_the_processes(text: Path, tmp_path: Path) -> None:
    refused = subprocess.run(
        command(tmp_path / "run", text, "--nproc", "2"), env=ENVIRONMENT, check=False, capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert "train.micro_batches = 1 is not a multiple of the 2 processes; set it to 2" in refused.stderr


def test_fine_tuning_starts_from_the_other_models_weights(text: Path, tmp_path: Path) -> None:
    first, _, _ = start(tmp_path / "first", files(text))
    assert first.model is not None
    quiet: Layer = {"train": {"learning_rate_factor": 1e-6, "steps": 1}}
    request = TrainingRequest(tmp_path / "second", None, (TRAIN, files(text), quiet), first.model, "cpu")
    carry_out(decide(request), say=lambda _: None, on_record=lambda *_: None)
    assert_same_weights(first.model, tmp_path / "second", tolerance=1e-4)
    assert (tmp_path / "second" / "tokenizer.model").read_bytes() == (first.model / "tokenizer.model").read_bytes()


@pytest.mark.parametrize("size", [288, 280])
def test_a_base_that_was_made_anew_before_the_first_step_brings_its_own_vocabulary(
    text: Path, tmp_path: Path, size: int
) -> None:
    base, short = tmp_path / "base", {"train": {"steps": 1}}
    start(base, files(text), short)
    request = TrainingRequest(tmp_path / "run", "tiny", (files(text), short), base, "cpu")
    prepare_run(decide(request), say=lambda _: None)
    shutil.rmtree(base)
    upper = tmp_path / "upper"
    upper.mkdir()
    for name in ("train.xx", "train.yy"):
        (upper / name).write_text((text / name).read_text(encoding="utf-8").upper(), encoding="utf-8")
    start(base, files(upper), short, {"tokenizer": {"vocab_size": size}})
    for run in ("run", "fresh"):
        carry_out(decide(replace(request, run=tmp_path / run)), say=lambda _: None, on_record=lambda *_: None)
    assert_same_weights(tmp_path / "run", tmp_path / "fresh")
    assert (tmp_path / "run" / "tokenizer.model").read_bytes() == (base / "tokenizer.model").read_bytes()
    assert load_config(tmp_path / "run" / "config.toml").tokenizer.vocab_size == size


@pytest.mark.parametrize(("name", "size"), [("d_ff", 64), ("num_layers", 2), ("num_heads", 4)])
def test_fine_tuning_with_another_size_is_refused_before_anything_is_made(
    text: Path, tmp_path: Path, name: str, size: int
) -> None:
    first, _, _ = start(tmp_path / "first", files(text), {"train": {"steps": 1}})
    request = TrainingRequest(
        tmp_path / "second", None, (files(text), {"model": {name: size, "dropout": 0.3}}), first.run, "cpu"
    )
    with pytest.raises(
        ConfigError, match=rf"model\.{name} = {size}, but the model .*first has {MODEL['model'][name]},"
    ):
        decide(request)
    spelled: Layer = {"model": {"dropout": 0.3, "num_encoder_layers": MODEL["model"]["num_layers"]}}  # as it is anyway
    planned = decide(replace(request, layers=(files(text), spelled))).config
    assert model_config(planned).dropout == 0.3


def test_a_vocabulary_that_is_reused_has_the_size_that_it_has(text: Path, tmp_path: Path) -> None:
    first, _, _ = start(tmp_path / "first", files(text), {"train": {"steps": 1}})
    data, second = {"data": TRAIN["data"] | files(text)["data"]}, tmp_path / "second"
    request = TrainingRequest(second, "tiny", (data, {"train": {"steps": 1}}), first.run, "cpu")
    for _ in range(2):  # also when the same command is given again
        carry_out(decide(request), say=lambda _: None, on_record=lambda *_: None)
        for folder in (second, second / "model"):
            assert load_config(folder / "config.toml").tokenizer.vocab_size == 288
    own: Layer = {"tokenizer": {"model": str(first.run / "tokenizer.model")}}
    assert (
        decide(TrainingRequest(tmp_path / "third", "tiny", (data, own), None, "cpu")).config.tokenizer.vocab_size == 288
    )
    for refused in (request, replace(request, run=tmp_path / "fourth")):
        with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size = 500, but .*tokenizer\.model is 288"):
            decide(replace(refused, layers=(data, {"tokenizer": {"vocab_size": 500}})))


def test_a_run_goes_on_however_its_files_are_spelled(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, _ = start(tmp_path / "first", files(text))
    assert first.model is not None
    few: Layer = {"train": {"steps": 1}}
    start(tmp_path / "second", files(text), few, from_model=first.model)
    monkeypatch.chdir(tmp_path)
    relative = files(Path(os.path.relpath(text, tmp_path)))
    outcome, _, _ = start(tmp_path / "second", relative, {"train": {"steps": 2}}, from_model=Path("first"))
    assert outcome.step == 2
    start(tmp_path / "other", files(text), few, {"train": {"seed": 2}, "tokenizer": {"vocab_size": 280}})
    with pytest.raises(ConfigError, match=r"tokenizer\.model = 'other/model/tokenizer\.model', but the run"):
        start(tmp_path / "second", {"train": {"steps": 3}}, from_model=Path("other"))


def test_the_command_of_a_fine_tuning_goes_on_with_it_when_the_other_model_is_gone(text: Path, tmp_path: Path) -> None:
    first, _, _ = start(tmp_path / "first", files(text))
    start(tmp_path / "second", files(text), {"train": {"steps": 1}}, from_model=first.run)
    shutil.rmtree(first.run)
    outcome, _, _ = start(tmp_path / "second", files(text), {"train": {"steps": 2}}, from_model=first.run)
    assert outcome.step == 2
    with pytest.raises(CheckpointError, match="no such"):
        start(tmp_path / "third", files(text), from_model=first.run)


def test_a_run_goes_on_with_its_text_from_any_working_folder(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another file has the name that was given."""
    run, here = tmp_path / "run", tmp_path / "here"
    shutil.copytree(text, here)
    monkeypatch.chdir(here)
    start(run, files(Path(), valid=True), {"train": {"steps": 10}})
    monkeypatch.chdir(tmp_path)
    for name in ("train.xx", "valid.xx"):
        Path(name).write_text("other text\n")
    shutil.rmtree(run / "data")
    shutil.rmtree(run / "model")
    _, _, said = start(run, {"train": {"steps": 20}})
    assert any("training text: 600 of 600 pairs" in line for line in said)
    assert not any("changed since the last start: data." in line for line in said)
    start(tmp_path / "once", files(text, valid=True), {"train": {"steps": 20}})
    assert_same_weights(run, tmp_path / "once")
    assert (run / "model" / "languages.json").is_file()
    training = load_card(run).training
    assert training is not None
    assert training.training.source[0].sha256 is not None


def test_a_model_does_not_tell_where_its_text_lay(text: Path, tmp_path: Path) -> None:
    start(tmp_path / "run", files(text, valid=True), {"train": {"steps": 10}})
    assert str(text) in (tmp_path / "run" / "config.toml").read_text(encoding="utf-8")
    for file in (tmp_path / "run" / "model").rglob("*"):
        assert str(text).encode() not in file.read_bytes(), file


def test_with_a_moving_average_the_model_is_that_of_the_last_step(text: Path, tmp_path: Path) -> None:
    ema: Layer = {"train": {"ema_decay": 0.9, "steps": 23}}
    _, _, said = start(tmp_path / "run", files(text), ema)
    assert any("train.ema_decay = 0.9" in line for line in said)
    last = load_tensors(tmp_path / "run" / "checkpoints" / "step-00000023" / "model.safetensors")
    model = load_tensors(tmp_path / "run" / "model" / "model.safetensors")
    assert all(torch.equal(tensor, last[name]) for name, tensor in model.items())
    card = (tmp_path / "run" / "model" / "card.md").read_text(encoding="utf-8")
    assert "| average of | all steps, train.ema_decay = 0.9 |" in card
    with pytest.raises(ConfigError, match=r"train\.ema_decay"):
        start(tmp_path / "run", {"train": {"ema_decay": 0.5}})


def test_with_bpe_dropout_more_steps_give_what_they_would_have_given_at_once(text: Path, tmp_path: Path) -> None:
    drawn: Layer = {"tokenizer": {"dropout": 0.2, "encodings": 3}, "train": {"r_drop": 1.0, "ema_decay": 0.9}}
    _, _, said = start(tmp_path / "whole", files(text, valid=True), drawn)
    assert any("in 3 encodings" in line for line in said if line.startswith("training text"))
    assert not any("encodings" in line for line in said if line.startswith("validation text"))
    start(tmp_path / "parts", files(text, valid=True), drawn, {"train": {"steps": 13}})
    with pytest.raises(ConfigError, match=r"tokenizer\.dropout"):
        start(tmp_path / "parts", {"tokenizer": {"dropout": 0.1}})
    start(tmp_path / "parts", {"train": {"steps": 40}})
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")


def test_patience_ends_a_run_that_no_longer_improves(text: Path, tmp_path: Path) -> None:
    wild: Layer = {"train": {"learning_rate_factor": 1e4, "patience": 2, "validate_steps": 2}}
    outcome, records, _ = start(tmp_path / "run", files(text, valid=True), wild)
    validations = [record for record in records if isinstance(record, ValidationRecord)]
    best = min(range(len(validations)), key=lambda n: validations[n].scores.loss)
    assert outcome.reason == "patience"
    assert outcome.model is not None
    assert len(validations) == best + 3


def test_patience_does_not_compare_losses_on_two_texts(text: Path, tmp_path: Path) -> None:
    patient: Layer = {"train": {"patience": 1, "validate_steps": 10}}
    before = start(tmp_path / "run", files(text, valid=True), patient, {"train": {"steps": 10}})[0].scores
    harder = tmp_path / "harder.yy"
    harder.write_text((text / "valid.yy").read_text(encoding="utf-8").upper(), encoding="utf-8")
    other: Layer = {"data": {"valid_target": [str(harder)]}, "train": {"steps": 30}}
    outcome, records, _ = start(tmp_path / "run", files(text, valid=True), patient, other)
    losses = [record.scores.loss for record in records if isinstance(record, ValidationRecord)]
    assert before
    assert losses[0] > before.loss
    assert outcome.step == 30


def test_changed_text_is_refused_and_nothing_is_overwritten(text: Path, tmp_path: Path) -> None:
    start(tmp_path / "run", files(text), {"train": {"steps": 10}})
    ids = (tmp_path / "run" / "data" / "train" / "source.ids").read_bytes()
    config = (tmp_path / "run" / "config.toml").read_bytes()
    other = tmp_path / "other.xx"
    other.write_text((text / "train.xx").read_text().replace("ba", "bo"))
    with pytest.raises(CheckpointError, match="not what this run began with"):
        start(tmp_path / "run", files(text), {"data": {"source": [str(other)]}, "train": {"steps": 20}})
    assert (tmp_path / "run" / "data" / "train" / "source.ids").read_bytes() == ids
    assert (tmp_path / "run" / "config.toml").read_bytes() == config


def test_text_that_changes_while_a_run_learns_does_not_cost_its_model(text: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(text, tmp_path / "text"))

    def empty(config: Config, record: Record) -> None:
        (folder / "train.yy").write_text("", encoding="utf-8")

    request = TrainingRequest(tmp_path / "run", "tiny", (MODEL, TRAIN, files(folder)), None, "cpu")
    outcome = carry_out(decide(request), say=lambda _: None, on_record=empty)
    assert outcome.model
    assert find_model(outcome.model).weights.exists()
    assert not (outcome.model / "languages.json").exists()  # of what is there now nothing is said


@pytest.mark.parametrize("harm", ["data", "data/train/source.ids", "data/train/record.json"])
def test_encoded_text_that_was_removed_is_made_anew_and_the_run_stays_what_it_is(
    text: Path, tmp_path: Path, harm: str
) -> None:
    start(tmp_path / "whole", files(text), {"train": {"steps": 20}})
    start(tmp_path / "run", files(text), {"train": {"steps": 10}})
    lost = tmp_path / "run" / harm
    shutil.rmtree(lost) if lost.is_dir() else lost.write_bytes(b"")
    vocabulary = (tmp_path / "run" / "tokenizer.model").read_bytes()
    request = TrainingRequest(
        tmp_path / "run", None, (files(text), {"train": {"steps": 20}}), None, "cpu"
    )  # no word of its sizes
    said: list[str] = []
    carry_out(decide(request), say=said.append, on_record=lambda _, record: None)
    assert any("is made anew" in line for line in said)
    assert (tmp_path / "run" / "tokenizer.model").read_bytes() == vocabulary
    assert_same_weights(tmp_path / "run", tmp_path / "whole")


def test_a_damaged_checkpoint_is_named_and_the_one_before_goes_on_without_it(text: Path, tmp_path: Path) -> None:
    train: Layer = {"train": {"steps": 4, "checkpoint_steps": 2}}
    start(tmp_path / "run", files(text), train)
    last = tmp_path / "run" / "checkpoints" / "step-00000004"
    (last / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=f"without {last} the run goes on from the checkpoint before it"):
        start(tmp_path / "run", {"train": {"steps": 6}})
    shutil.rmtree(last)
    _, _, said = start(tmp_path / "run", {"train": {"steps": 6}})
    assert any("going on from step 2 " in line for line in said)


def test_a_damaged_checkpoint_without_another_to_go_on_from_promises_none(text: Path, tmp_path: Path) -> None:
    train: Layer = {"train": {"steps": 4, "checkpoint_steps": 2, "keep_checkpoints": 1}}
    start(tmp_path / "run", files(text), train)
    last = tmp_path / "run" / "checkpoints" / "step-00000004"
    (last / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=f"without {last} the run has none to go on from"):
        start(tmp_path / "run", train, {"train": {"steps": 6}})


def test_a_run_goes_on_without_its_text(text: Path, tmp_path: Path) -> None:
    copies = {name: tmp_path / name for name in ("a.xx", "a.yy")}
    for (_, copy), original in zip(copies.items(), ("train.xx", "train.yy"), strict=True):
        copy.write_bytes((text / original).read_bytes())
    data: Layer = {"data": {"source": [str(copies["a.xx"])], "target": [str(copies["a.yy"])]}}
    start(tmp_path / "run", data, {"train": {"steps": 10}})
    languages = (tmp_path / "run" / "model" / "languages.json").read_bytes()
    for copy in copies.values():
        copy.unlink()
    outcome, _, said = start(tmp_path / "run", data, {"train": {"steps": 20}})
    assert outcome.step == 20
    assert [f"{copies['a.xx']} is not there" in line for line in said].count(True) == 1
    assert (tmp_path / "run" / "model" / "languages.json").read_bytes() == languages


def test_a_run_that_did_not_know_its_languages_is_told_them(text: Path, tmp_path: Path) -> None:
    sides = [(text / name).read_text(encoding="utf-8").splitlines() for name in ("train.xx", "train.yy")]
    tsv, run = tmp_path / "pairs.tsv", tmp_path / "run"
    tsv.write_text("".join(f"{source}\t{target}\n" for source, target in zip(*sides, strict=True)), encoding="utf-8")
    start(run, {"data": {"source": [str(tsv)]}}, {"train": {"steps": 1}})
    assert not (run / "model" / "languages.json").exists()
    _, _, said = start(run, {"data": {"source_language": "xx", "target_language": "yy"}}, {"train": {"steps": 1}})
    assert "changed since the last start: data.source_language = xx (was not set)" in said
    assert (run / "model" / "languages.json").exists()


@pytest.mark.parametrize(("run", "source"), [(b"caf\xe9", b"train.xx"), (b"run", b"caf\xe9.xx")])
def test_a_name_that_is_not_utf_8_is_refused_before_anything_is_made(tmp_path: Path, run: bytes, source: bytes) -> None:
    (tmp_path / "train.yy").touch()
    data: Layer = {"data": {"source": [str(tmp_path / os.fsdecode(source))], "target": [str(tmp_path / "train.yy")]}}
    with pytest.raises(DataError, match=r"caf\\udce9.*the name is not UTF-8"):
        start(tmp_path / os.fsdecode(run), data)
    assert os.listdir(tmp_path) == ["train.yy"]


@pytest.mark.parametrize("name", ["source", "valid_source"])
def test_a_new_name_of_a_file_that_is_not_there_is_refused_on_resume(text: Path, tmp_path: Path, name: str) -> None:
    start(tmp_path / "run", files(text, valid=True), {"train": {"steps": 1}})
    before = (tmp_path / "run" / "config.toml").read_text()
    for _ in range(2):  # it is refused again when the same command is tried again
        with pytest.raises(DataError, match=r"mistyped\.xx: no such file"):
            start(tmp_path / "run", files(text, valid=True), {"data": {name: ["mistyped.xx"]}, "train": {"steps": 2}})
    assert (tmp_path / "run" / "config.toml").read_text() == before


@pytest.mark.parametrize("name", ["source", "target", "valid_source"])
def test_text_from_a_pipe_is_refused_before_any_is_read(text: Path, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe.xx")
    layers = files(text, valid=True), {"data": {name: [str(tmp_path / "pipe.xx")]}}
    with pytest.raises(DataError, match=r"pipe\.xx is not a regular file, .* write it to a file"):
        decide(TrainingRequest(tmp_path / "run", "tiny", layers, None, "cpu"))


@pytest.mark.parametrize(("given", "file"), [("valid_source", "valid.xx"), ("valid_target", "valid.yy")])
def test_half_of_a_validation_text_is_refused_and_not_remembered(
    given: str, file: str, text: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        ConfigError, match=r"--valid-source \(data\.valid_source\) .* --valid-target \(data\.valid_target"
    ):
        start(tmp_path / "run", files(text), {"data": {given: [str(text / file)]}})
    assert not (tmp_path / "run").exists()


def test_validation_files_of_unequal_length_are_refused_before_anything_is_made(text: Path, tmp_path: Path) -> None:
    valid = {"valid_source": [str(text / "valid.xx")], "valid_target": [str(text / "train.yy")]}
    with pytest.raises(DataError, match=r"has 40 lines but .* has 600: .* \(data\.valid_source, data\.valid_target\)"):
        start(tmp_path / "run", files(text), {"data": valid})
    assert not (tmp_path / "run").exists()


def test_validation_text_of_which_nothing_is_left_is_named_before_the_training_text_is_encoded(
    text: Path, tmp_path: Path
) -> None:
    names = [tmp_path / name for name in ("v.xx", "v.yy")]
    data: Layer = {"data": {f"valid_{side}": [str(n)] for side, n in zip(("source", "target"), names, strict=True)}}
    for lines, problem in (
        (" \n\t\n", r"each pair is empty on a side \(data\.valid_source, data\.valid_target\)"),
        ("ba " * 99 + "\n", "no sentence pair is left of 1: .* 1 are longer than data.max_length = 40 pieces"),
    ):
        for name in names:
            name.write_text(lines, encoding="utf-8")
        with pytest.raises(DataError, match=f"{names[0]} and {names[1]}: {problem}"):
            start(tmp_path / "run", files(text), data)
        assert not (tmp_path / "run" / "data" / "train").exists()


def test_training_files_of_unequal_length_are_refused_and_leave_nothing(text: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has 600 lines but .* has 40"):
        start(tmp_path / "run", files(text), {"data": {"target": [str(text / "valid.yy")]}})
    assert list(tmp_path.iterdir()) == []


def test_a_run_begins_with_its_cautions_and_goes_on_without(text: Path, tmp_path: Path) -> None:
    for steps, warned in ((2, True), (3, False)):
        _, _, said = start(tmp_path / "run", files(text), {"train": {"steps": steps}})
        found = [line for line in said if line.startswith("warning: ")]
        first = next(number for number, line in enumerate(said) if not line.startswith("warning: "))
        assert said[:first] == found, "they come before the text is prepared, which may take long"
        assert any("never leaves the warm-up" in line for line in found) == warned
        assert ("training begins: 2 steps on cpu" in said) == warned


@pytest.mark.parametrize(("quiet", "kind"), [(600.0, "step"), (0.0, "pace")])
def test_the_first_line_of_the_metrics_tells_how_long_the_rest_will_take(
    quiet: float, kind: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "QUIET_SECONDS", quiet)
    _, records, _ = start(tmp_path / "run", files(text))
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0])
    told = next(record for record in records if isinstance(record, StepRecord | PaceRecord))
    assert (first["kind"], first["step"], first["seconds_left"]) == (kind, told.step, told.seconds_left)
    assert first["seconds_left"] > 0
    assert [record["step"] for record in run_metrics(tmp_path / "run")["step"]] == [20, 40]


def test_who_waits_for_a_large_text_hears_how_far_it_is(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {"train": {"steps": 1}}
    _, _, quiet = start(tmp_path / "quick", files(text), slow)
    monkeypatch.setattr(run_text, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(run_text, "FEW_PAIRS", 50)
    _, _, said = start(tmp_path / "slow", files(text), slow)
    assert not [line for line in quiet if "so far" in line]
    assert "vocabulary: 50 pairs read so far" in said
    assert [line for line in said if line.startswith("training text: ") and line.endswith(" pairs read so far")]


def test_a_run_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.source"):
        start(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_that_the_text_cannot_fill_is_refused_when_it_was_asked_for(text: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tokenizer\.vocab_size = 8000: the text can fill at most \d+"):
        start(tmp_path / "run", files(text), {"tokenizer": {"vocab_size": 8000}})
    assert not (tmp_path / "run").exists()
    outcome, _, _ = start(tmp_path / "run", files(text), {"train": {"steps": 1}})
    assert outcome.step == 1  # the same folder, with a size that the text can fill


def test_a_presets_vocabulary_shrinks_to_what_the_text_fills(text: Path, tmp_path: Path) -> None:
    training: Layer = {"train": TRAIN["train"] | {"steps": 1}, "data": TRAIN["data"]}
    said: list[str] = []
    request = TrainingRequest(tmp_path / "run", "tiny", (MODEL, training, files(text)), None, "cpu")
    carry_out(decide(request), say=said.append, on_record=lambda *_: None)
    assert any("does not fill the preset's 1,600" in line for line in said)
