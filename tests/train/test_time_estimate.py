"""A dry run says how long training will take: soon, in little memory, and without a trace."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from heedful.cli.commands.train import _time
from heedful.config.setting_layers import preset, resolve, setting
from heedful.config.settings import ModelConfig
from heedful.errors import DeviceError, about
from heedful.model.checkpoint import MOMENTS, STATE, WEIGHTS
from heedful.model.parameter_count import count, shapes_of_new
from heedful.train import time_estimate
from heedful.train.run.plan import Plan
from heedful.train.time_estimate import estimate
from tests import ROOT

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 seconds"), (1, "1 second"), (119, "119 seconds"), (150, "2 minutes"), (4e4, "11 hours"), (9e6, "104 days")],
)
def test_a_time_is_told_in_one_unit(seconds: float, text: str) -> None:
    assert about(seconds) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["train.micro_batches=5"],
        ["model.num_encoder_layers=12"],
        ["model.num_encoder_layers=5", "model.num_decoder_layers=2"],
        ["train.r_drop=5"],
    ],
)
@pytest.mark.parametrize("name", ["tiny", "base"])
def test_a_slice_is_scaled_by_the_work_that_it_leaves_out(
    name: str, settings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine where each token of each parameter takes a nanosecond."""
    monkeypatch.setattr(time_estimate._Slice, "seconds", lambda part, rows: 1e-9 * rows * work(part))
    config = resolve(preset(name), *map(setting, settings))
    found = estimate(config, config.tokenizer.vocab_size, CPU)
    whole = count(shapes_of_new(config.model, config.tokenizer.vocab_size))
    assert found.seconds_per_step == pytest.approx(1e-9 * config.train.batch_tokens * whole)


def work(part: time_estimate._Slice) -> int:
    return sum(parameter.numel() for parameter in part.model.parameters())


@pytest.mark.parametrize("model", [ModelConfig(), ModelConfig(num_encoder_layers=12), ModelConfig(d_model=1024)])
def test_a_part_of_a_model_keeps_the_shares_of_its_parts(model: ModelConfig) -> None:
    part, vocab_size = time_estimate._part(model, 36_000)
    ratios = [
        count(shapes_of_new(model, 36_000), name) / count(shapes_of_new(part, vocab_size), name)
        for name in ("encoder", "decoder", "embedding")
    ]
    assert ratios == pytest.approx([6.0] * 3)


def test_a_slow_machine_gets_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def slow(part: time_estimate._Slice, rows: int) -> float:
        asked.append(rows)
        return 60.0

    monkeypatch.setattr(time_estimate._Slice, "seconds", slow)
    config = resolve(preset("tiny"))
    assert estimate(config, 1600, CPU).rows == time_estimate.FIRST_ROWS
    assert asked == [time_estimate.FIRST_ROWS]


@pytest.mark.slow
def test_a_measurement_leaves_the_random_numbers_as_they_were() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    estimate(resolve(preset("tiny")), 1600, CPU)
    assert torch.equal(torch.get_rng_state(), before)


# A small process between: the largest memory of a child counts what its parent had when it was forked.
MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print("measured", used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, flush=True)
sys.exit(code)
"""


def dry_run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """A dry run in a folder of its own, which is home and place of temporary files too."""
    folder.mkdir()
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": os.environ["PATH"]}
    environment |= {"HOME": str(folder), "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "heedful", "train", "-s", "a.en", "-t", "a.de", "-o", "run", *more, "--dry-run"]
    command = [sys.executable, "-c", MEASURED, *command]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "small", "base", "big"])
def test_a_dry_run_takes_seconds_and_little_memory_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    done = dry_run(tmp_path / "folder", "--preset", name, "--device", "cpu")
    seconds, memory = map(float, done.stdout.splitlines()[-1].removeprefix("measured ").split())
    assert re.search(r"^time          about [\d,]+ (seconds|minutes|hours|days) on this machine: ", done.stdout, re.M)
    assert seconds < 10, "on one thread, whatever else runs"
    assert memory < 1e9
    assert not list((tmp_path / "folder").iterdir())


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="cuda is here")
def test_a_device_that_is_not_here_is_not_measured(tmp_path: Path) -> None:
    done = dry_run(tmp_path / "folder", "--preset", "tiny", "--device", "cuda")
    assert done.returncode == 0
    assert "time          not measured: device cuda was asked for, but torch" in done.stdout


def test_kernels_are_not_compiled_for_a_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(time_estimate, "has_kernels", lambda *_: True)
    monkeypatch.setattr(time_estimate, "resolved_precision", lambda *_: "bf16")
    with pytest.raises(DeviceError, match="our kernels are not compiled on this machine yet"):
        estimate(resolve(preset("tiny")), 1600, CPU)
    (tmp_path / "cache" / "ABC").mkdir(parents=True)
    (tmp_path / "cache" / "ABC" / f"{time_estimate.A_KERNEL}.json").touch()
    time_estimate._refuse_to_compile()


def test_the_kernel_that_is_looked_for_is_one_of_ours() -> None:
    pytest.importorskip("triton")
    from heedful.fast.cuda import attention_tiles

    assert hasattr(attention_tiles, time_estimate.A_KERNEL)


def test_a_run_whose_steps_are_done_needs_no_time(tmp_path: Path) -> None:
    plan = Plan(
        tmp_path, resolve(preset("tiny")), "cpu", "cpu", "", "auto", None, has_exact_vocab_size=False, messages=()
    )
    (tmp_path / "checkpoints" / "step-00000750").mkdir(parents=True)
    for name in (WEIGHTS, MOMENTS, STATE):
        (tmp_path / "checkpoints" / "step-00000750" / name).touch()
    assert _time(plan, 1600, 1) == "none: all 750 steps are done"
