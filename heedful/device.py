"""Which device to compute on. `auto` is the best one that is there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import torch

from heedful.errors import DeviceError

DEVICES = ("auto", "cpu", "cuda", "mps")
ONE_THREAD = ("mps",)  # devices that torch lets one thread alone compute on (pytorch#197805)
BFLOAT16_CAPABILITY = (8, 0)  # of the GPU; older ones have no such numbers
OUT_OF_MEMORY = ("can't allocate memory", "Storage size calculation overflowed")  # what torch says of it on a CPU
COMPILERS = ("gcc", "clang", "cc")
# The kernels hold 64 tokens of a whole head in shared memory: heads of 256 do not fit the 99 KB of smaller GPUs, and
# those of 512 no GPU.
WIDEST_HEAD = 128


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


def has_kernels(device: torch.device, widest_head: int) -> bool:
    """Whether our kernels can run there for such heads: Triton compiles them, and a C compiler what launches them."""
    if device.type != "cuda" or find_spec("triton") is None or widest_head > WIDEST_HEAD:
        return False
    has_compiler = "CC" in os.environ or any(map(shutil.which, COMPILERS))
    return has_compiler and torch.cuda.get_device_capability(device) >= BFLOAT16_CAPABILITY


@contextmanager
def explained_out_of_memory(remedy: str) -> Iterator[None]:
    """Turns torch's out-of-memory errors into one line that says what to lower."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        is_known = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if not is_known and not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        raise DeviceError(f"out of memory: {remedy}") from None
