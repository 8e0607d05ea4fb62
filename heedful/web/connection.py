"""A connection of a client: uvicorn's, with a limit to their number and a time in which a request's head must come.

Clients that open connections and send nothing, or a letter now and then, would else keep them for ever. The time is
that of the whole head, so that letters do not prolong it. That of a body which is read is in `incoming.py`; one that is
still coming when the answer is out has its time here. What comes behind the last word is read for a moment and thrown
away: to close a connection with bytes unread resets it, and may take the answer from the client (RFC 9112, 9.6).
"""

from __future__ import annotations

import asyncio
import json

import h11
from starlette.applications import Starlette
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from heedful.web.limits import Limits

TRY_AGAIN = "Retry-After: 1\r\n"
LINGER_SECONDS = 1.0


class Connection(H11Protocol):
    """One client's connection; the limits are those of the application's front."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(config.app, Starlette)
        self.limits: Limits = config.app.state.front.limits
        self._timer: asyncio.TimerHandle | None = None
        self._awaited: type[h11.IDLE] | type[h11.SEND_BODY] | None = None  # what the timer is for: a head, or a body
        self._has_ended = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """One more, if there may be one more."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._say("503 Service Unavailable", "Slowdown: too many connections", TRY_AGAIN)
            return transport.close()  # at once: it is one too many
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """One less."""
        self._await(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something of a head or of a body."""
        if self._has_ended or self.transport.is_closing():
            return
        super().data_received(data)
        if not self._has_ended:
            self._watch()

    def on_response_complete(self) -> None:
        """The answer is out; its request may still be coming."""
        super().on_response_complete()
        self._watch_body()

    def _watch(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self._await(h11.IDLE)
        elif not self._watch_body():
            self._await(None)

    def _watch_body(self) -> bool:
        """Nobody reads a body whose answer is out: it has this time to end, so that the answer is not cut off."""
        is_unread = self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY
        if is_unread:
            self._await(h11.SEND_BODY)
        return is_unread

    def _await(self, state: type[h11.IDLE] | type[h11.SEND_BODY] | None) -> None:
        """Give what comes in this state its time; what has it already gets no more."""
        if state is self._awaited:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._awaited, self._timer = state, None
        if state is not None and not self.transport.is_closing():
            is_head = state is h11.IDLE
            seconds = self.limits.head_seconds if is_head else self.limits.body_seconds
            self._timer = self.loop.call_later(seconds, self._give_up if is_head else self._end)

    def _give_up(self) -> None:
        seconds = self.limits.head_seconds
        self._refuse("408 Request Timeout", f"Invalid request: the head took longer than the limit of {seconds:g} s")

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP."""
        self._refuse("400 Bad Request", f"Invalid request: {msg}")

    def _refuse(self, status: str, text: str) -> None:
        """Say why, and end."""
        if not self._has_ended and not self.transport.is_closing():
            self._say(status, text)
            self._end()

    def _say(self, status: str, text: str, headers: str = "") -> None:
        body = json.dumps({"error": text})
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}"
        self.transport.write(f"{head}Connection: close\r\n\r\n{body}".encode("ascii"))

    def _end(self) -> None:
        """Say nothing more, and close when the client does, or soon."""
        self._has_ended = True
        self._unset_keepalive_if_required()
        self._await(None)
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)
