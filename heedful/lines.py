"""Text in and out of commands: a file or stdin, a file or stdout; and a file is written whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from heedful.corpus import decode_lines, read_lines
from heedful.errors import DataError

STDIN = Path("-")


def input_lines(path: Path) -> Iterator[str]:
    """The lines of a file (.gz and .xz too), or of stdin for `-`, as they come."""
    return decode_lines(sys.stdin.buffer, "<stdin>") if path == STDIN else read_lines(path)


@contextmanager
def output_file(path: Path | None) -> Iterator[TextIO]:
    """stdout, or a file that takes its name when all is written; what had that name before stays until then."""
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield sys.stdout
        sys.stdout.flush()
        return
    temporary = path.with_name(f".{path.name}.writing")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        temporary.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)
