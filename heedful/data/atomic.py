"""Files and folders that are written whole or not at all, and locks that one process holds at a time.

Everything is written beside its place under a temporary name, `.NAME.HOST.PID.writing`, flushed to the disk and then
renamed. A folder that is being replaced is called `.NAME.old` for a moment. Whoever next writes NAME removes what a
process that was killed left of it; whoever holds a folder's lock removes everything temporary in it. All failures are
OSErrors, which `explained` turns into one of our errors. This module knows bytes and paths only.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from heedful.errors import CheckpointError, HeedfulError

_ENDING, _OLD = ".writing", ".old"
_OLDER_ENDING = ".partial"  # of encoded text, in versions before this scheme
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)  # by another process


@contextmanager
def explained(path: Path, kind: type[HeedfulError], problem: str = "cannot be written") -> Iterator[None]:
    """Turn an OSError into one line about `path`. A broken pipe passes: it belongs to whoever reads our output."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise kind(f"{path}: {problem} ({error.strerror or error})") from None


# --------------------------------------------------------------------------------------------------------------- files


def write_file(path: Path, content: bytes) -> None:
    """Write a file; an older one stays until all of it is on the disk."""
    write_files({path: content})


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write files that belong together; none of them takes its name before all are on the disk."""
    with new_files(list(contents)) as temporary:
        for path, content in zip(temporary, contents.values(), strict=True):
            path.write_bytes(content)


@contextmanager
def new_files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Temporary names to write to, which become `paths` at the end. The mode of a file that is replaced stays."""
    temporary = [unfinished(path) for path in paths]
    try:
        yield temporary
        for written in temporary:
            flush(written)
        for written, path in zip(temporary, paths, strict=True):
            if path.exists():
                shutil.copymode(path, written)
            written.replace(path)
    finally:
        for written in temporary:
            written.unlink(missing_ok=True)
    for path in paths:
        remove_left_of(path)


# ------------------------------------------------------------------------------------------------------------- folders


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes its name at the end; only an empty one may have that name before."""
    refuse_full(folder)
    with temporary_folder(folder) as temporary:
        yield temporary
        flush_folder(temporary)
        temporary.replace(folder)


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes its name at the end; an older one stays until then."""
    with temporary_folder(folder) as temporary:
        yield temporary
        flush_folder(temporary)
        _replace(temporary, folder)


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """An empty folder under the temporary name of `folder`; what is left of it at the end is removed."""
    temporary = unfinished(folder)
    remove(temporary)
    remove_left_of(folder)
    try:
        temporary.mkdir(parents=True)
        yield temporary
    finally:
        remove(temporary)


def refuse_full(folder: Path) -> None:
    """Raise if there is something under this name that writing would destroy."""
    if not is_free(folder):
        raise CheckpointError(f"{folder}: is there already and is not an empty folder; name a new one")


def is_free(folder: Path) -> bool:
    """Whether there is nothing under this name, or an empty folder."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _replace(temporary: Path, folder: Path) -> None:
    old = _old(folder)
    remove(old)
    if folder.exists():
        folder.rename(old)
    temporary.rename(folder)
    flush(folder.parent)
    remove(old)


def remove_folder(folder: Path) -> None:
    """Remove a folder under a temporary name, so that one that is half removed is never taken for a whole one."""
    leaving = unfinished(folder)
    with suppress(OSError):
        folder.rename(leaving)
    remove(leaving)


def remove(path: Path) -> None:
    """Remove a file, a folder, or a link without what it leads to; what cannot be removed stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------------------ the disk


def flush_folder(folder: Path) -> None:
    """Flush a folder and everything in it, so that whatever has a name after a crash has its content, too."""
    for path in (*folder.rglob("*"), folder):
        flush(path)


def flush(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ----------------------------------------------------------------------------------------------------- temporary names


def unfinished(path: Path) -> Path:
    """The name under which this process writes a file or a folder."""
    path = path.absolute()  # the folder `.` has no name
    return path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}{_ENDING}")


def remove_left_of(path: Path) -> None:
    """Remove what dead processes left of a file or folder. A process of another machine may live: its files stay."""
    ours = f".{path.name}.{platform.node()}."
    with suppress(OSError):
        for left in path.parent.iterdir():
            process = left.name.removeprefix(ours).removesuffix(_ENDING)
            if left.name == ours + process + _ENDING and process.isdecimal() and not _may_live(int(process)):
                remove(left)


def _may_live(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it is another user's
    return True


def tidy(folder: Path, prefix: str = "") -> None:
    """Remove every temporary in a folder whose lock we hold, and put back what was being replaced.

    Only names that begin with `prefix` are meant: a folder of the user's may hold temporaries of others.
    """
    for ending in (_ENDING, _OLDER_ENDING):
        for left in folder.glob(f".{prefix}*{ending}"):
            remove(left)
    for old in folder.glob(f".{prefix}*{_OLD}"):
        replaced = folder / old.name.removeprefix(".").removesuffix(_OLD)
        if replaced.exists():
            remove(old)
        else:
            old.rename(replaced)


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}{_OLD}")


# --------------------------------------------------------------------------------------------------------------- locks


@contextmanager
def held(path: Path, in_use: HeedfulError, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock file, which is made if it is missing; raise `in_use` if another process holds it.

    Several may hold it `shared`, and nobody else then.

    The operating system releases it when the process ends, however it ends. Its holder may remove the file last. A
    file system without locks, as some networks have, is an OSError.
    """
    with open(path, "a+") as file:
        if not _lock(file.fileno(), path, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB):
            raise in_use
        yield


@contextmanager
def held_in_turn(folder: Path) -> Iterator[None]:
    """Hold a folder; wait while another process holds it. Where folders cannot be locked, nobody waits."""
    with ExitStack() as stack:
        with suppress(OSError):
            stack.callback(os.close, _wait_for(folder))
        yield


def _wait_for(folder: Path) -> int:
    """A descriptor of the folder that has this name once it is locked: another may replace it while we wait."""
    while True:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            if _lock(descriptor, folder, fcntl.LOCK_EX):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, path: Path, operation: int) -> bool:
    """Lock it; false if another process holds it, or if the path has become another file in the meantime."""
    try:
        fcntl.flock(descriptor, operation)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise OSError(error.errno, f"it cannot be locked: {error.strerror}", str(path)) from None
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
