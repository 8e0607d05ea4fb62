"""What the user is told on the way, on stderr, beside the output proper.

Who cannot be told (a pipe whose reader has left, a terminal that has gone, a log on a full disk) does not end the work.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import IO, Any, TextIO, cast


class Unheard:
    """A stream like the one within, that goes on when nobody hears it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        """All else is the stream's."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As far as it goes."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """As far as it goes."""
        with suppress(OSError):
            self._stream.flush()


def listeners() -> IO[str]:
    """Whoever listens to stderr."""
    return cast("IO[str]", Unheard(sys.stderr))


def say(text: str) -> None:
    """One line; by print, for click would write past a bar into its line."""
    print(text, file=listeners(), flush=True)
