"""Which device is chosen, and what is said when it is not there."""

from pathlib import Path

import pytest
import torch

from heedful.config.setting_layers import PRESETS, preset, resolve
from heedful.config.settings import ModelConfig
from heedful.errors import DeviceError
from heedful.model.device import COMPILERS, choose_device, has_kernels, lack_of_kernels
from heedful.train.cautions import cautions_at_start
from heedful.train.trainer import resolved_precision

BASE = ModelConfig()


def test_each_process_needs_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("auto", local_rank=1) == torch.device("cuda", 1)
    with pytest.raises(DeviceError, match=r"3 processes need as many GPUs, and torch finds 2; lower --nproc"):
        choose_device("auto", local_rank=2)
    assert choose_device("cpu", local_rank=2) == torch.device("cpu")


def test_an_unknown_device_is_named_with_the_known_ones() -> None:
    with pytest.raises(DeviceError, match="'tpu' is unknown; choose one of auto, cpu, cuda, mps"):
        choose_device("tpu")


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """One on which all is there that kernels want."""
    pytest.importorskip("triton")
    (tmp_path / "Python.h").touch()
    monkeypatch.setenv("CC", COMPILERS[0])
    monkeypatch.setenv("CPATH", f"nowhere:{tmp_path}")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    return torch.device("cuda", 0)


def test_kernels_are_for_heads_that_fit_them(gpu: torch.device) -> None:
    assert all(has_kernels(gpu, resolve(preset(name)).model) for name in PRESETS)
    one_head = resolve({"model": {"num_heads": 1, "d_k": 512, "d_v": 512}})  # table 3, row A
    assert not has_kernels(gpu, one_head.model)
    assert not has_kernels(torch.device("cpu"), BASE)


def test_without_pythons_headers_there_are_no_kernels(gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_paths", lambda scheme: {"include": "/nowhere"})
    assert has_kernels(gpu, BASE)
    monkeypatch.delenv("CPATH")
    assert "python3-dev" in lack_of_kernels(gpu, BASE)
    assert not has_kernels(gpu, BASE)


def test_the_headers_are_where_triton_looks_for_them(
    gpu: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CPATH")
    told = {"posix_prefix": {"include": str(tmp_path)}, "posix_local": {"include": "/nowhere"}}
    monkeypatch.setattr("sysconfig.get_paths", told.__getitem__)
    monkeypatch.setattr("sysconfig.get_default_scheme", lambda: "posix_local")  # as Debian says
    assert has_kernels(gpu, BASE)


def test_a_start_without_kernels_says_what_they_lack(gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    config = resolve(preset("tiny"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert cautions_at_start(config, "cuda") == []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    (found,) = cautions_at_start(config, "cuda")
    assert "compute capability 8.0" in found
    assert cautions_at_start(resolve(preset("tiny"), {"train": {"precision": "fp32"}}), "cuda") == []


@pytest.mark.parametrize(("capability", "precision"), [((9, 0), "bf16"), ((8, 0), "bf16"), ((7, 5), "fp32")])
def test_a_gpu_without_bfloat16_trains_in_float32_unless_told(
    capability: tuple[int, int], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    gpu = torch.device("cuda", 0)
    assert resolved_precision(resolve({}).train, gpu) == precision
    assert resolved_precision(resolve({"train": {"precision": "bf16"}}).train, gpu) == "bf16"
    assert resolved_precision(resolve({}).train, torch.device("cpu")) == "fp32"
