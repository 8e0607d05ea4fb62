"""A file, whole or not at all: on the disk under another name before it takes its own. It knows bytes and paths."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """What had this name before stays until then. What goes wrong is an OSError, and leaves all as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
