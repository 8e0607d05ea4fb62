"""A connection of a client: uvicorn's, with a limit to their number and a time in which a request's head must come.

Clients that open connections and send nothing, or a letter now and then, would else keep them for ever. The time is
that of the whole head, so that letters do not prolong it. That of a body which is read is in `incoming.py`; one that is
still coming when the answer is out has its time here. How long an answer may take to be read is in `outgoing.py`, how a
connection ends in `lingering.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import cast

import h11
from starlette.applications import Starlette
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from heedful.serve.limits import Limits
from heedful.serve.lingering import Lingering
from heedful.serve.outgoing import Outgoing

TRY_AGAIN = "Retry-After: 1\r\n"
LINGER_SECONDS = 1.0  # with who is not heard any longer
LAST_ANSWER_SECONDS = 5.0  # for the rest of a request whose answer is the connection's last
log = logging.getLogger("uvicorn.error.connection")
# What uvicorn warns of here are clients' mistakes, with which they could fill the log. (It sets levels itself.)
log.addFilter(lambda record: record.levelno >= logging.ERROR)


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
        self.logger = log
        assert isinstance(config.app, Starlette)
        self.limits: Limits = config.app.state.front.limits
        self._timer: asyncio.TimerHandle | None = None
        self._awaited: type[h11.IDLE] | type[h11.SEND_BODY] | None = None  # what the timer is for: a head, or a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """One more, if there may be one more."""
        self._outgoing = Outgoing(transport, self.limits.answer_seconds)
        self._line = Lingering(transport, self._outgoing, self._is_sending, LAST_ANSWER_SECONDS)
        super().connection_made(cast("asyncio.Transport", self._line))
        if len(self.connections) > self.limits.connections:
            self._say("503 Service Unavailable", "Slowdown: too many connections", TRY_AGAIN)
            return transport.close()  # at once: it is one too many
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """One less."""
        self._await(None)
        self._outgoing.stop()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """The client says nothing more, and the transport closes when all is out."""
        super().eof_received()
        self._outgoing.watch()

    def pause_writing(self) -> None:
        """More is left to write than should wait."""
        super().pause_writing()
        self._outgoing.watch()

    def resume_writing(self) -> None:
        """The client reads; what is left of the last answer it must read, too."""
        super().resume_writing()
        self._outgoing.stop()
        if self.transport.is_closing():
            self._outgoing.watch()

    def data_received(self, data: bytes) -> None:
        """Something of a head or of a body."""
        if self.transport.is_closing():
            return
        super().data_received(data)
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
        is_unread = self.cycle is not None and self.cycle.response_complete and self._is_sending()
        if is_unread:
            self._await(h11.SEND_BODY)
        return is_unread

    def _is_sending(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY

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
            self._timer = self.loop.call_later(seconds, self._give_up if is_head else self._hang_up)

    def _give_up(self) -> None:
        seconds = self.limits.head_seconds
        self._refuse("408 Request Timeout", f"Invalid request: the head took longer than the limit of {seconds:g} s")

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP."""
        self._refuse("400 Bad Request", f"Invalid request: {msg}")

    def _refuse(self, status: str, text: str) -> None:
        """Say why, and end."""
        self._say(status, text)
        self._hang_up()

    def _say(self, status: str, text: str, headers: str = "") -> None:
        body = json.dumps({"error": text})
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}"
        self.transport.write(f"{head}Connection: close\r\n\r\n{body}".encode("ascii"))

    def _hang_up(self) -> None:
        self._line.end(LINGER_SECONDS)
