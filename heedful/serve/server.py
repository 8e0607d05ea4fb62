"""The server as a process: it listens, runs uvicorn, and answers what is in flight before it ends.

uvicorn's own limits hold here. Slow clients, and many connections, are left to a reverse proxy (docs/serving.md).
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from heedful.errors import ConfigError
from heedful.serve import page_api
from heedful.serve.queue import BatchQueue

BACKLOG = 2048  # connections that the system holds until the server accepts them
LONGEST_HEAD = 2**18  # bytes of a request before its body: some clients put the text into the query string
KEEP_ALIVE_SECONDS = 75  # longer than the 60 of a usual proxy, which could otherwise write to a closed connection


class Server(uvicorn.Server):
    """The first signal ends it with exit code 0 after the requests in flight; a second Ctrl-C ends it at once."""

    def __init__(self, app: Starlette, *, on_ready: Callable[[], None], drain_seconds: int) -> None:
        super().__init__(configured(app, drain_seconds))
        self.gateway, self.on_ready = app.state.gateway, on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Report that clients may connect, then prepare what would make the first look inside slow."""
        await super().startup(sockets)
        self.on_ready()
        self.preparing = asyncio.ensure_future(page_api.prepare(self.gateway))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """uvicorn's own would raise the signal again at the end, so that the exit code were not 0."""
        if self.should_exit and sig == signal.SIGINT:
            os._exit(128 + sig)  # a normal exit would abort where a thread is inside C++
        self.gateway.is_stopping = self.should_exit = True


def configured(app: Starlette, drain_seconds: int) -> uvicorn.Config:
    """uvicorn's settings."""
    return uvicorn.Config(
        app,
        http="h11",  # the only one with a limit to the head
        ws="none",
        log_level="error",  # its warnings are clients' mistakes, which could fill the log
        use_colors=False,  # otherwise uvicorn asks stdout, which may be closed
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=app.state.gateway.limits.connections + 1,  # uvicorn refuses from this number on
        timeout_graceful_shutdown=drain_seconds,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=LONGEST_HEAD,
    )


def run(app: Starlette, listener: socket.socket, *, on_ready: Callable[[], None], drain_seconds: int = 30) -> None:
    """Serve until a signal comes and the requests in flight are answered."""
    Server(app, on_ready=on_ready, drain_seconds=drain_seconds).run([listener])
    end_busy_process(app.state.gateway.service.queues)


def end_busy_process(queues: Iterable[BatchQueue]) -> None:
    """End the process at once if a worker still has a batch: a normal exit would abort inside the engine's C++."""
    if any(queue.has_workers for queue in queues):
        os._exit(0)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any free one.

    The protocol is given because asyncio turns Nagle's algorithm off only where it is; with it an answer waits 40 ms.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as on_error:
            listener = on_error.enter_context(socket.socket(family, kind, socket.IPPROTO_TCP))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            on_error.pop_all()
        return listener
    except OSError as error:
        remedy = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        text = f"{host}:{port} cannot be listened to ({error.strerror or error}); try another {remedy}"
        raise ConfigError(text) from None
