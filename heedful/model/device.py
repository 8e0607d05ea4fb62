"""Which device to compute on. `auto` is the best one that is there."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import torch

from heedful.config.optional_packages import install_line
from heedful.config.settings import FamilyConfig
from heedful.config.supported_settings import KERNELS
from heedful.errors import DeviceError

DEVICES = ("auto", "cpu", "cuda", "mps")
ONE_THREAD = ("mps",)  # devices that torch lets one thread alone compute on (pytorch#197805)
BFLOAT16_CAPABILITY = (8, 0)  # of the GPU; torch makes older ones take other numbers for it, which is slow
OUT_OF_MEMORY = ("can't allocate memory", "Storage size calculation overflowed")  # what torch says of it on a CPU
COMPILERS = ("gcc", "clang")  # that Triton looks for


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


def has_bfloat16(device: torch.device) -> bool:
    """Whether it computes in bfloat16 itself, and fast."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= BFLOAT16_CAPABILITY


def has_kernels(device: torch.device, model: FamilyConfig) -> bool:
    """Whether our kernels can compute such a model there."""
    return device.type == "cuda" and not lack_of_kernels(device, model)


def lack_of_kernels(device: torch.device, model: FamilyConfig) -> str:
    """What our kernels want and do not have on this GPU, or for such a model; or "".

    Triton compiles them, and a C compiler, which must find Python's headers, what launches them.
    """
    if find_spec("triton") is None:
        return f"Triton ({install_line('triton')})"
    if "CC" not in os.environ and not any(map(shutil.which, COMPILERS)):
        return "a C compiler (Debian: apt-get install gcc)"
    if not _has_headers():
        return "Python's headers (Debian: apt-get install python3-dev)"
    if not has_bfloat16(device):
        return "a GPU that has bfloat16 (compute capability 8.0)"
    unsupported = KERNELS.unsupported(model)
    return f"{unsupported.works} for {unsupported.setting}, and it is {unsupported.value}" if unsupported else ""


def _has_headers() -> bool:
    """Where Triton tells the compiler to look, or where the compiler looks by itself."""
    scheme = sysconfig.get_default_scheme()
    told = sysconfig.get_paths("posix_prefix" if scheme == "posix_local" else scheme)["include"]
    known = (os.environ.get(name, "").split(os.pathsep) for name in ("CPATH", "C_INCLUDE_PATH"))
    return any(Path(folder, "Python.h").is_file() for folder in (told, *chain(*known)) if folder)


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
