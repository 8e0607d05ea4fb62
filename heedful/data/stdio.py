"""Text in and out of commands: from a file or stdin, to a file or stdout; files are written whole or not at all."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import TextIO, cast

from heedful.data.atomic import explained, new_files
from heedful.data.compression import packed_writer, refuse_missing_library
from heedful.data.not_plain_text import refuse_by_content
from heedful.data.text_files import decode_lines, read_lines
from heedful.errors import DataError

STDIN = STDOUT = Path("-")
BURST = 4096


def input_lines(path: Path) -> Iterator[str]:
    """The lines of a file (.gz, .xz and .zst too), or of stdin for `-`, as they come."""
    return _stdin_lines() if path == STDIN else read_lines(path)


def _stdin_lines() -> Iterator[str]:
    name, file = "<stdin>", _stdin()
    refuse_by_content(name, file.peek())  # only what has arrived: the first line is answered before more arrive
    yield from decode_lines(file, name)


def _stdin() -> BufferedReader:
    """stdin through our own buffer: Python could not close its own while a thread waits there for a line."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except OSError:  # not a real file, as in tests
        return BufferedReader(cast(RawIOBase, sys.stdin.buffer))


def bursts(lines: Iterator[str]) -> Iterator[list[str]]:
    """The lines that have arrived, as soon as any has: a writer that waits for an answer after each line gets it."""
    ready: queue.Queue[str | BaseException] = queue.Queue(maxsize=BURST)
    threading.Thread(target=_read_into, args=(ready, lines), daemon=True, name="heedful-lines").start()
    while True:
        burst, end = _take(ready)
        if burst:
            yield burst
        if isinstance(end, StopIteration):
            return
        if end is not None:
            raise end


def _take(ready: queue.Queue[str | BaseException]) -> tuple[list[str], BaseException | None]:
    """Wait for a line and take all that are there; also return how the input ended, if it did."""
    burst: list[str] = []
    while len(burst) < BURST and not (burst and ready.empty()):
        item = ready.get()
        if isinstance(item, BaseException):
            return burst, item
        burst.append(item)
    return burst, None


def _read_into(ready: queue.Queue[str | BaseException], lines: Iterator[str]) -> None:
    try:
        for line in lines:
            ready.put(line)
        ready.put(StopIteration())
    except BaseException as error:
        ready.put(error)


@contextmanager
def output_file(path: Path | None) -> Iterator[TextIO]:
    """Text to stdout (None or `-`), or to a file, whole or not at all, compressed as its name says. A pipe stays."""
    if path is None or path == STDOUT:
        yield _stdout()
        sys.stdout.flush()
        return
    with ExitStack() as stack:
        stack.enter_context(explained(path, DataError))
        refuse_missing_library(path)
        written = path if is_special(path) else stack.enter_context(new_files([path.resolve()]))[0]
        packed = stack.enter_context(packed_writer(written, path))
        yield stack.enter_context(TextIOWrapper(packed, encoding="utf-8", newline="\n"))


def _stdout() -> TextIO:
    if sys.stdout is None:
        raise DataError("stdout is closed; name a file to write to with -o")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    return sys.stdout


def is_special(path: Path) -> bool:
    """Whether it is a pipe, a device, a folder (which cannot be opened), or a name in /dev or /proc."""
    return path.exists() and (not path.is_file() or path.absolute().parts[1] in ("dev", "proc"))
