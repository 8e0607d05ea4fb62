"""One process at a time: a file that it holds. The operating system lets go when the process ends, however it ends.

It knows nothing of what the file guards. Who holds it may remove it, as the last thing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heedful.errors import HeedfulError

HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)  # by another process


@contextmanager
def held(path: Path, in_use: HeedfulError) -> Iterator[None]:
    """Hold this file, which is made where it is missing; raises `in_use` where another process holds it.

    Where the file system has no locks, as some of a network, that is an OSError of its own.
    """
    with open(path, "a") as file:
        if not _is_ours(file.fileno(), path):
            raise in_use
        yield


def _is_ours(descriptor: int, path: Path) -> bool:
    """Locked, and still the file of this name: who held it until now may have removed it."""
    try:
        _lock(descriptor)
    except OSError as error:
        if error.errno in HELD:
            return False
        raise OSError(error.errno, f"it cannot be locked: {error.strerror}", str(path)) from None
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except (FileNotFoundError, PermissionError):  # on Windows it is there until all have let go
        return False


def _lock(descriptor: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
