"""Which device is chosen, and what is said when it is not there."""

import pytest
import torch

from heedful.config import PRESETS, preset, resolve
from heedful.device import COMPILERS, choose_device, has_kernels
from heedful.errors import DeviceError


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


def test_kernels_are_for_heads_that_fit_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("CC", COMPILERS[0])
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    gpu = torch.device("cuda", 0)
    assert all(has_kernels(gpu, resolve(preset(name)).model.widest_head) for name in PRESETS)
    one_head = resolve({"model": {"num_heads": 1, "d_k": 512, "d_v": 512}})  # table 3, row A
    assert not has_kernels(gpu, one_head.model.widest_head)
    assert not has_kernels(torch.device("cpu"), 64)
