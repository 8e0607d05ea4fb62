"""Exports that the engines use, kept beside the model: made once, and again when the weights have changed.

They lie in the model folder's `.cache`, under a digest of the weights, so that an old one is never taken for a new one.
Where that folder cannot be written to, they are made in a temporary one, for this process.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import torch

from heedful.checkpoint import find_model, load_model
from heedful.errors import CheckpointError
from heedful.export.ctranslate2 import write_ctranslate2

CACHE, VERSION = ".cache", "1"


def cache_file(model: Path, name: str) -> Path:
    """Where something that follows from a model's weights is kept; the file is the caller's to write."""
    files = find_model(model)
    return files.weights.parent / CACHE / f"{name}-{_digest(files.weights, files.tokenizer)}"


def cached_ctranslate2(model: Path, *, quantize: str = "int8") -> Path:
    """The folder of the export, which is written if it is not there; older ones are removed."""
    folder = cache_file(model, f"ctranslate2-{quantize}")
    if (folder / "model.bin").exists():
        return folder
    loaded = load_model(model, device=torch.device("cpu"))
    if not _is_writable(folder.parent):
        folder = _temporary() / folder.name
    try:
        write_ctranslate2(loaded, folder, quantize=quantize)
    except CheckpointError:
        if not (folder / "model.bin").exists():  # else another process was quicker
            raise
    _remove_older(folder)
    return folder


def _digest(*files: Path) -> str:
    digest = hashlib.sha256(VERSION.encode())
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="heedful-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_older(folder: Path) -> None:
    kind = folder.name.rpartition("-")[0]
    for other in folder.parent.glob(f"{kind}-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
