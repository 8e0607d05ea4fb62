"""A connection that ends before it closes (RFC 9112, 9.6).

To close with bytes unread resets a connection, and may take the answer from a client that is still sending. So the
server says that nothing more comes, throws away what does, and closes when the client has, or in a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from heedful.serve.outgoing import Outgoing


class Lingering:
    """A transport like the one within; `is_sending` tells whether the client is in the middle of a request."""

    def __init__(
        self, transport: asyncio.Transport, outgoing: Outgoing, is_sending: Callable[[], bool], seconds: float
    ) -> None:
        self._transport, self._outgoing = transport, outgoing
        self._is_sending, self._seconds = is_sending, seconds
        self._has_ended = False

    def __getattr__(self, name: str) -> Any:
        """All else is the transport's."""
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Nothing more is said."""
        return self._has_ended or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Unless that was all."""
        if not self.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """At once, or when the request has come whose answer was the last."""
        if self._is_sending() and not self._has_ended:
            return self.end(self._seconds)
        self._close()

    def end(self, seconds: float) -> None:
        """Say nothing more; close with the client, or in so many seconds."""
        if self.is_closing():
            return
        self._has_ended = True
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(seconds, self._close)
        with suppress(OSError):  # the client may have gone a moment ago
            self._transport.write_eof()

    def _close(self) -> None:
        """When all that was said is out, which needs a client that reads."""
        self._transport.close()
        self._outgoing.watch()
