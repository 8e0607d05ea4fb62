"""Exports: a trained model as a folder that other libraries load.

`marian` writes for Hugging Face's `MarianMTModel`, `ctranslate2` for CTranslate2, `cache` keeps what the engines use
beside the model. A format that cannot say what a model is refuses it with one line; nothing is approximated.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from heedful.data.atomic import flush_folder
from heedful.errors import CheckpointError


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes its name when all is on the disk; one that holds something stays as it is."""
    refuse_full(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".writing", dir=folder.parent))
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written ({error.strerror})") from None
    try:
        yield temporary
        temporary.chmod(0o755)
        flush_folder(temporary)
        temporary.replace(folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder}: cannot be written ({getattr(error, 'strerror', error)})") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def refuse_full(folder: Path) -> None:
    """An error, if there is something under this name that writing would destroy."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise CheckpointError(f"{folder}: is there already and is not an empty folder; name a new one")
