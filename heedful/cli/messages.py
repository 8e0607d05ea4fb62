"""Messages to the user, on stderr, apart from the output proper.

A message that cannot be written (a closed pipe or terminal, a log on a full disk) is dropped, and the work goes on.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import IO, Any, TextIO, cast


class ForgivingStream:
    """A stream that drops what cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        """Everything else is the stream's own."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or drop the text."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, or drop what is left."""
        with suppress(OSError):
            self._stream.flush()


def forgiving_stderr() -> IO[str]:
    """Stderr as it is now."""
    return cast("IO[str]", ForgivingStream(sys.stderr))


def say(text: str) -> None:
    """Write one line, by print, as click would write into the line of a progress bar."""
    print(text, file=forgiving_stderr(), flush=True)
