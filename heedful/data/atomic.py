"""A file, whole or not at all: on the disk under another name before it takes its own. It knows bytes and paths."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """What had this name before stays until then. What goes wrong is an OSError, and leaves all as it was."""
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Files that belong together, each whole: none takes its name before all are on the disk."""
    try:
        for path, content in contents.items():
            with unfinished(path).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path in contents:
            unfinished(path).replace(path)
    finally:
        for path in contents:
            unfinished(path).unlink(missing_ok=True)
    for path in contents:
        clear_unfinished(path)


def flush_folder(folder: Path) -> None:
    """fsync all that is in a folder, and the folder: what has a name after that has its content, too."""
    for path in (*folder.rglob("*"), folder):
        flush(path)


def flush(path: Path) -> None:
    """fsync a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unfinished(path: Path) -> Path:
    """The name beside a file under which this process writes it."""
    return path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}.writing")


def clear_unfinished(path: Path) -> None:
    """Remove what processes that were killed left of a file. One of another machine may live: its files stay."""
    ours, ending = f".{path.name}.{platform.node()}.", ".writing"
    with suppress(OSError):  # the file itself is written
        for left in path.parent.iterdir():
            process = left.name.removeprefix(ours).removesuffix(ending)
            if left.name == ours + process + ending and process.isdecimal() and not _may_live(int(process)):
                left.unlink(missing_ok=True)


def _may_live(process: int) -> bool:
    if os.name == "nt":  # where asking would end it
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # another user's
    return True
