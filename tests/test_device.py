"""Which device is chosen, and what is said when it is not there."""

import pytest
import torch

from heedful.device import choose_device
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
