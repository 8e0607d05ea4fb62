"""Exports that the engines use, kept beside the model: made once, and again when the weights have changed.

They lie in the model folder's `.cache`, under a digest of the weights, so that an old one is never taken for a new one.
One process at a time writes there, so that what lies there half written was left by one that is dead. Where the folder
cannot be written to, or another process does so just now, they are made in a temporary one, for this process.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import torch

from heedful.data.atomic import held, remove, tidy
from heedful.errors import CheckpointError
from heedful.model.checkpoint import LoadedModel, ModelFiles, find_model, load_config, load_model, weights_digest
from heedful.translate.export.ctranslate2 import CTRANSLATE2, write_ctranslate2

CACHE, LOCK, VERSION = ".cache", ".lock", "2"


def cache_file(model: Path, name: str) -> Path:
    """Where something that follows from a model's weights is kept; the file is the caller's to write."""
    files = find_model(model)
    return files.weights.parent / CACHE / f"{name}-{_digest(files)}"


def cached_ctranslate2(model: Path, *, quantize: str = "int8") -> Path:
    """The folder of the export, which is written if it is not there; older ones are removed."""
    CTRANSLATE2.refuse(load_config(find_model(model).config).model)  # also what an older version has exported
    folder = cache_file(model, f"ctranslate2-{quantize}")
    if (folder / "model.bin").exists():
        return folder
    loaded = load_model(model, device=torch.device("cpu"))
    with _held_or_temporary(folder.parent) as place:
        export = place / folder.name
        if not (export / "model.bin").exists():  # else another process was quicker
            export = _written(loaded, export, quantize)
        _remove_others(export)
    return export


def _written(loaded: LoadedModel, export: Path, quantize: str) -> Path:
    """Write the export here, or where the disk is full, in a temporary folder; returns which."""
    try:
        write_ctranslate2(loaded, export, quantize=quantize)
    except CheckpointError:
        export = _temporary() / export.name
        write_ctranslate2(loaded, export, quantize=quantize)
    return export


def keep_cache(before: Path, after: Path) -> None:
    """Let the model that is to take another's place have its cache, if the weights are the same."""
    with suppress(OSError, CheckpointError):
        if (before / CACHE).is_dir() and _digest(find_model(before)) == _digest(find_model(after)):
            (before / CACHE).rename(after / CACHE)


def _digest(files: ModelFiles) -> str:
    with files.tokenizer.open("rb") as file:
        tokenizer = hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(f"{VERSION} {weights_digest(files.weights)} {tokenizer}".encode()).hexdigest()[:16]


@contextmanager
def _held_or_temporary(cache: Path) -> Iterator[Path]:
    """The cache, held against other processes; or a folder for this process alone."""
    with ExitStack() as stack:
        try:
            cache.mkdir(exist_ok=True)
            stack.enter_context(held(cache / LOCK, CheckpointError(f"{cache}: another process is writing there")))
        except (OSError, CheckpointError):
            cache = _temporary()
        yield cache


def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="heedful-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_others(folder: Path) -> None:
    """Remove older exports of its kind, and what a killed process had begun to write; we hold the place."""
    kind = folder.name.rpartition("-")[0]
    tidy(folder.parent)
    for other in folder.parent.glob(f"{kind}-*"):
        if other != folder:
            remove(other)
