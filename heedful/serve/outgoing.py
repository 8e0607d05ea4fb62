"""An answer that nobody reads: whoever takes less than a kibibyte a second of what is left for them is cut off.

What fits the system's own buffers is gone at once and needs no reader. More than that, such as the answers to several
requests that were sent together, would else keep its connection, and its place among those that may be, for ever.
"""

from __future__ import annotations

import asyncio

SLOWEST = 1024  # bytes a second


class Outgoing:
    """Watches what a transport has left to write, once asked, until all of it is out."""

    def __init__(self, transport: asyncio.Transport, seconds: float) -> None:
        self._transport, self._seconds = transport, seconds
        self._left = 0  # when the timer was set
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """From now on, if not so already."""
        if self._timer is None and (left := self._transport.get_write_buffer_size()):
            self._left, self._timer = left, asyncio.get_running_loop().call_later(self._seconds, self._look)

    def stop(self) -> None:
        """All is out, or nobody is there."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _look(self) -> None:
        self._timer, left = None, self._transport.get_write_buffer_size()
        if left and self._left - left < SLOWEST * self._seconds:
            return self._transport.abort()
        self.watch()
