"""Checkpoints: whole or not there at all; what to resume from, what to average, what a MODEL may be."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from heedful.config.setting_layers import resolve
from heedful.config.settings import Config, TrainConfig
from heedful.data.run_folder import tidy_run, write_config
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError
from heedful.model import checkpoint
from heedful.model.checkpoint import Snapshot, find_model, load_model, load_tensors, save_checkpoint, step_folder
from heedful.model.packed import pack_source, pack_target
from heedful.model.transformer import Transformer
from heedful.train import checkpoint_writer
from heedful.translate.export.marian import write_huggingface

SMALL = resolve({"model": {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}})


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.learn_at_most(["a b c d e f g", "the cat sat on the mat"] * 3, 400, seed=1)


def snapshot(value: float, step: int = 1) -> Snapshot:
    return Snapshot({"w": torch.full((3,), value)}, {"exp_avg.w": torch.zeros(3)}, {"step": step})


def run_with_model(run: Path, tokenizer: Tokenizer, config: Config = SMALL) -> Transformer:
    """A run folder with one checkpoint at step 10 and a model folder."""
    run.mkdir()
    write_config(run, config)
    tokenizer.save(run / "tokenizer.model")
    torch.manual_seed(0)
    model = Transformer(config.model, tokenizer.vocab_size)
    save_checkpoint(run, 10, Snapshot(model.state_dict(), {}, {"step": 10}))
    checkpoint.save_model(run / "model", model.state_dict(), config, run / "tokenizer.model")
    return model


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path, 7, snapshot(2.5, step=7))
    loaded = checkpoint.load_snapshot(folder)
    assert torch.equal(loaded.weights["w"], torch.full((3,), 2.5))
    assert loaded.state == {"step": 7}
    assert checkpoint.last_whole(tmp_path) == folder


@pytest.mark.parametrize(("device", "threads"), [("mps", 1), ("cpu", 2)])
def test_a_snapshot_leaves_a_device_that_bears_one_thread_within_that_thread(
    device: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_host, seen = Snapshot.on_host, list[threading.Thread]()

    def note(self: Snapshot) -> Snapshot:
        seen.append(threading.current_thread())
        return on_host(self)

    monkeypatch.setattr(Snapshot, "on_host", note)
    monkeypatch.setattr(checkpoint_writer, "ONE_THREAD", (device,))
    writer = checkpoint_writer.CheckpointWriter(tmp_path, SMALL.train)
    writer.write(7, lambda: snapshot(2.5, step=7))
    writer.close()
    assert list(writer.written()) == [7]
    assert len(seen) == threads
    assert (seen[0] is threading.main_thread()) == (device == "cpu")


@pytest.fixture
def set_umask() -> Iterator[Callable[[int], int]]:
    """What is set is taken back."""
    before = os.umask(0)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002], ids=oct)
def test_whoever_may_read_an_ordinary_file_may_read_the_weights(
    umask: int, tmp_path: Path, tokenizer: Tokenizer, set_umask: Callable[[int], int]
) -> None:
    set_umask(umask)
    run_with_model(tmp_path / "run", tokenizer)
    write_huggingface(load_model(tmp_path / "run", device=torch.device("cpu")), tmp_path / "export")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len([path for path in files if path.suffix == ".safetensors"]) == 4
    assert {path: oct(path.stat().st_mode & 0o777) for path in files} == dict.fromkeys(files, oct(0o666 & ~umask))


def test_save_then_load_gives_the_same_logits(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = run_with_model(tmp_path / "run", tokenizer).eval()
    loaded = load_model(tmp_path / "run", device=torch.device("cpu")).model
    source = pack_source(np.array([5, 6, 0]), np.array([3]))
    target = pack_target(np.array([0, 7]), np.array([2]), np.array([3]))
    assert torch.equal(model(source, target), loaded(source, target))


def test_an_interrupted_save_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, 5, snapshot(1.0))

    def full_disk(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full_disk)
    with pytest.raises(CheckpointError, match="No space left on device"):
        save_checkpoint(tmp_path, 6, snapshot(2.0))
    with pytest.raises(CheckpointError, match="No space left on device"):
        save_checkpoint(tmp_path, 5, snapshot(2.0))
    assert checkpoint.checkpoint_steps(tmp_path) == [5]
    assert checkpoint.load_snapshot(step_folder(tmp_path, 5)).weights["w"][0] == 1.0
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-00000005"]


def test_a_link_to_a_folder_gives_way_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    elsewhere = save_checkpoint(tmp_path / "elsewhere", 5, snapshot(1.0))
    step_folder(tmp_path, 5).parent.mkdir()
    step_folder(tmp_path, 5).symlink_to(elsewhere)
    for value in (2.0, 3.0):
        save_checkpoint(tmp_path, 5, snapshot(value))
        assert checkpoint.load_snapshot(step_folder(tmp_path, 5)).weights["w"][0] == value
    assert checkpoint.load_snapshot(elsewhere).weights["w"][0] == 1.0
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-00000005"]


def test_what_a_killed_run_was_writing_is_taken_away(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path, 5, snapshot(1.0))
    half = folder.with_name(".step-00000006.writing")
    half.mkdir()
    (tmp_path / ".config.toml.123.writing").write_text("[data")
    folder.rename(folder.with_name(".step-00000005.old"))
    tidy_run(tmp_path)
    assert checkpoint.checkpoint_steps(tmp_path) == [5]
    assert not list(tmp_path.rglob(".*.writing"))


def test_pruning_keeps_what_resume_and_average_need(tmp_path: Path) -> None:
    for step in (10, 20, 25, 30, 35, 40, 47):
        save_checkpoint(tmp_path, step, snapshot(step, step))
        checkpoint.prune_checkpoints(tmp_path, TrainConfig(keep_checkpoints=2, average_last=3, checkpoint_steps=10))
    assert checkpoint.checkpoint_steps(tmp_path) == [20, 30, 40, 47]
    whole = [step for step in (20, 30, 40, 47) if checkpoint.is_whole(step_folder(tmp_path, step))]
    assert whole == [40, 47]
    paths = checkpoint.weights_to_average(tmp_path, 47, last=3, every=10)
    assert checkpoint.average(paths)["w"].tolist() == [(30 + 40 + 47) / 3] * 3, "where the run ended is one of them"


def test_the_weights_that_a_fine_tuned_run_began_with_are_never_averaged(tmp_path: Path) -> None:
    for step in (0, 10, 20):
        save_checkpoint(tmp_path, step, snapshot(step))
    paths = checkpoint.weights_to_average(tmp_path, 20, last=5, every=10)
    assert [path.parent for path in paths] == [step_folder(tmp_path, step) for step in (10, 20)]
    checkpoint.prune_checkpoints(tmp_path, TrainConfig(keep_checkpoints=1, average_last=5, checkpoint_steps=10))
    assert checkpoint.checkpoint_steps(tmp_path) == [10, 20]


def test_a_checkpoint_that_was_being_removed_when_the_run_was_killed_goes_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, step, snapshot(step))

    def killed(folder: Path, **options: bool) -> None:
        (folder / "model.safetensors").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.prune_checkpoints(tmp_path, TrainConfig(keep_checkpoints=1, average_last=1, checkpoint_steps=10))
    tidy_run(tmp_path)
    assert [folder.name for folder in (tmp_path / "checkpoints").iterdir()] == ["step-00000002"]


def test_the_average_is_rounded_once(tmp_path: Path) -> None:
    """§6.1: the mean in float64, and only then in the type of the weights."""
    weights = [torch.randn(1000) for _ in range(5)]
    folders = [save_checkpoint(tmp_path, n, Snapshot({"w": w}, {}, {})) for n, w in enumerate(weights)]
    found = checkpoint.average([folder / "model.safetensors" for folder in folders])["w"]
    assert torch.equal(found, torch.stack(weights).double().mean(dim=0).float())
    assert not torch.equal(found, torch.stack(weights).mean(dim=0)), "these numbers tell the two apart"


def test_without_a_regular_checkpoint_the_newest_is_the_average(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 7, snapshot(7.0))
    assert checkpoint.weights_to_average(tmp_path, 7, last=5, every=10) == [
        step_folder(tmp_path, 7) / "model.safetensors"
    ]


def test_averaging_other_tensors_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, snapshot(1.0))
    save_checkpoint(tmp_path, 2, Snapshot({"w": torch.zeros(4)}, {}, {}))
    with pytest.raises(CheckpointError, match="other tensors"):
        checkpoint.average([step_folder(tmp_path, step) / "model.safetensors" for step in (1, 2)])


def test_a_model_is_found_by_run_model_folder_and_checkpoint(tmp_path: Path, tokenizer: Tokenizer) -> None:
    run = tmp_path / "run"
    run_with_model(run, tokenizer)
    assert find_model(run).weights == run / "model" / "model.safetensors"
    assert find_model(run / "model").config == run / "model" / "config.toml"
    assert find_model(run / "checkpoints" / "step-00000010").tokenizer == run / "tokenizer.model"
    shutil.rmtree(run / "model")
    assert find_model(run).weights == step_folder(run, 10) / "model.safetensors"


def test_a_model_folder_stands_alone(tmp_path: Path, tokenizer: Tokenizer) -> None:
    run_with_model(tmp_path / "run", tokenizer)
    shutil.move(tmp_path / "run" / "model", tmp_path / "moved")
    shutil.rmtree(tmp_path / "run")
    assert load_model(tmp_path / "moved", device=torch.device("cpu")).tokenizer == tokenizer


@pytest.mark.parametrize("missing", ["tokenizer.model", "config.toml"])
def test_a_model_folder_without_a_part_is_refused_by_name(tmp_path: Path, tokenizer: Tokenizer, missing: str) -> None:
    run_with_model(tmp_path / "run", tokenizer)
    (tmp_path / "run" / "model" / missing).unlink()
    with pytest.raises(CheckpointError, match=missing):
        find_model(tmp_path / "run")


def test_folders_that_are_no_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        find_model(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"holds no model.*nor a checkpoint$"):
        find_model(tmp_path)
    (tmp_path / "demo" / "run").mkdir(parents=True)
    (tmp_path / "demo" / "run" / "config.toml").touch()
    with pytest.raises(CheckpointError, match=r"holds no model.*; .*demo/run is a run"):
        find_model(tmp_path / "demo")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def foreign(path: Path) -> None:
    save_file({"w": torch.zeros(1)}, path)


def garbage(path: Path) -> None:
    path.write_bytes(b"\x00" * 100)


def other_shape(path: Path) -> None:
    weights = load_tensors(path)
    weights["embedding.weight_VD"] = weights["embedding.weight_VD"][:-8].clone()
    save_file(weights, path, metadata=checkpoint.FORMAT)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [(truncated, "truncated"), (foreign, "not written by heedful"), (garbage, "truncated"), (other_shape, "embedding")],
)
def test_spoilt_weights_are_refused_with_the_file_named(
    tmp_path: Path, tokenizer: Tokenizer, spoil: Callable[[Path], None], message: str
) -> None:
    run_with_model(tmp_path / "run", tokenizer)
    path = tmp_path / "run" / "model" / "model.safetensors"
    spoil(path)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_model(tmp_path / "run", device=torch.device("cpu"))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_spoilt_state_is_named(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path, 3, snapshot(1.0))
    (folder / "state.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"state\.json"):
        checkpoint.load_snapshot(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors", "state.json"])
def test_a_checkpoint_that_is_not_ours_to_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder, open_file = save_checkpoint(tmp_path, 3, snapshot(1.0)), io.open

    def refuse(path: Path, *arguments: Any, **named: Any) -> Any:
        if Path(path) == folder / name:
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, *arguments, **named)

    monkeypatch.setattr(io, "open", refuse)
    with pytest.raises(PermissionError, match=re.escape(name)):
        checkpoint.load_snapshot(folder)


def test_the_state_is_plain_json(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path, 3, snapshot(1.0, step=3))
    assert json.loads((folder / "state.json").read_text()) == {"step": 3}


def test_views_of_one_tensor_are_saved_apart(tmp_path: Path) -> None:
    both: Tensor = torch.arange(6.0)
    folder = save_checkpoint(tmp_path, 1, Snapshot({"a": both[:3], "b": both[3:]}, {}, {}))
    assert load_tensors(folder / "model.safetensors")["b"].tolist() == [3.0, 4.0, 5.0]


@pytest.mark.slow
def test_a_model_is_loaded_without_the_compiler_whose_import_takes_a_second(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    run_with_model(tmp_path / "run", tokenizer)
    code = (
        "import sys, torch; from pathlib import Path; from heedful.model.checkpoint import load_model;"
        f"load_model(Path({str(tmp_path / 'run')!r}), device=torch.device('cpu'));"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
