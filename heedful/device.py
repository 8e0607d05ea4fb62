"""Which device to compute on. `auto` is the best one that is there."""

from __future__ import annotations

import torch

from heedful.errors import DeviceError

DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(name: str, *, local_rank: int = 0) -> torch.device:
    """The device of that name; of several GPUs the one with this process's number."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(kind for kind in ("cuda", "mps", "cpu") if there[kind])
    if name not in there:
        raise DeviceError(f"device {name!r} is unknown; choose one of {', '.join(DEVICES)}")
    if not there[name]:
        raise DeviceError(f"device {name} was asked for, but torch {torch.__version__} finds none; use --device cpu")
    if name == "cuda" and local_rank >= torch.cuda.device_count():
        raise DeviceError(
            f"{local_rank + 1} processes need as many GPUs, and torch finds {torch.cuda.device_count()}; "
            f"lower --nproc, or use --device cpu"
        )
    return torch.device(name, local_rank) if name == "cuda" else torch.device(name)
