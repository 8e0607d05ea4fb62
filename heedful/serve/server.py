"""The server: all routes, the frame around every answer, and a process that drains before it leaves.

Whatever happens, a client gets JSON with one line that says why, the headers of `HEADERS`, and an answer to its own
text. Text from clients is never part of HTML here.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heedful.errors import CheckpointError, ConfigError, DataError, DeviceError
from heedful.inspection.drawing import STATIC
from heedful.serve import deepl, inside, libretranslate
from heedful.serve.connection import Connection
from heedful.serve.front import Front, front_of
from heedful.serve.incoming import CLIENT_GONE
from heedful.serve.limits import Keys, Limits, RateLimit, RefusalError, busy
from heedful.serve.open_files import ACCEPTED_AT_ONCE, connections_within
from heedful.serve.prometheus import MEDIA_TYPE
from heedful.serve.queue import BatchQueue, QueueClosedError, QueueFullError
from heedful.serve.service import Service, load_pairs, num_workers
from heedful.serve.spec import openapi
from heedful.translate.translation import Translator

HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Expose-Headers": "Retry-After",
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
BACKLOG = 2048  # connections that wait to be taken, in the system; they are no open files yet
UNSENT_BYTES = 2**14  # of a connection that the system holds beyond what is on its way
LONGEST_HEAD = 2**18  # bytes of a request before its body: some clients put the text into the query string
LAST_WORDS = 2  # seconds for answers that are on their way to slow readers, when all else is done
KEEP_ALIVE_SECONDS = 75  # longer than a proxy keeps an idle connection, as a rule 60: else it sends into a closed one
LEAVING = "the server is shutting down"
log = logging.getLogger("uvicorn.error")


# ------------------------------------------------------------------------------------------------------------- routes


async def metrics(request: Request) -> Response:
    """GET /metrics."""
    front = front_of(request)
    queue, counts = front.service.queue, front.service.queue.counts
    counters = {
        "batches_total": counts.batches,
        "sentences_total": counts.units,
        "batch_seconds_total": counts.seconds,
        "queue_refused_total": counts.refused,
        "cancelled_total": counts.cancelled,
        "characters_total": front.service.characters,
    }
    gauges = {
        "queue_sentences": queue.waiting,
        "queue_aligning": front.service.aligning.waiting,
        "queue_looking": front.service.looking.waiting,
        "requests_in_flight": front.in_flight,
    }
    return PlainTextResponse(front.metrics.text(counters, gauges), media_type=MEDIA_TYPE)


async def spec(request: Request) -> Response:
    """GET /spec."""
    return JSONResponse(openapi(front_of(request).limits))


ROUTES = [
    *libretranslate.ROUTES,
    *deepl.ROUTES,
    *inside.ROUTES,
    Route("/metrics", metrics),
    Route("/spec", spec),
]
PATHS = {route.path for route in ROUTES}


def create_app(
    models: Sequence[Path | Translator],
    *,
    limits: Limits | None = None,
    keys: Collection[str] = (),
    requests_per_minute: int = 0,
    queue_size: int = 2048,
    device: str = "auto",
    engine: str = "auto",
) -> Starlette:
    """The application, with its models loaded."""
    pairs = load_pairs(models, device=device, engine=engine)
    service = Service(pairs, BatchQueue(max_waiting=queue_size, num_workers=num_workers(pairs)))
    front = Front(service, limits or Limits(), Keys(keys), RateLimit(requests_per_minute))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = Starlette(
        routes=ROUTES, middleware=[Middleware(Frame, front=front)], exception_handlers=HANDLERS, lifespan=lifespan
    )
    app.state.front = front
    if STATIC.is_dir():  # behind the routes, so that a wrong method of theirs stays a 405
        app.router.default = StaticFiles(directory=STATIC, html=True)
    return app


# ------------------------------------------------------------------------------------------------------------- errors


def _error(request: Request, status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    """In the shape that the route's clients know."""
    name = "message" if request.url.path.startswith("/v2/") else "error"
    return JSONResponse({name: text}, status, headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)
    return _error(request, error.status, error.text, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(request, error.status_code, error.detail, dict(error.headers or {}))


async def _full(request: Request, error: Exception) -> Response:
    assert isinstance(error, QueueFullError)
    return await _refused(request, busy("Slowdown: too many texts are waiting", error.retry_after))


async def _closed(request: Request, error: Exception) -> Response:
    return await _refused(request, busy(LEAVING, 1))


async def _users_mistake(request: Request, error: Exception) -> Response:
    return _error(request, 400, f"Invalid request: {error}")


async def _models_mistake(request: Request, error: Exception) -> Response:
    log.error("%s", error)
    return _error(request, 500, "the model cannot be used; see the server's log")


HANDLERS = {
    RefusalError: _refused,
    HTTPException: _http_error,
    QueueFullError: _full,
    QueueClosedError: _closed,
    DataError: _users_mistake,
    ConfigError: _users_mistake,
    CheckpointError: _models_mistake,
    DeviceError: _models_mistake,
}


# ------------------------------------------------------------------------------------------- around every answer


class Frame:
    """Counts requests, refuses them while the server is leaving, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, front: Front) -> None:
        self.app, self.front = app, front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begin, sent = perf_counter(), _Sent(send)
        self.front.in_flight += 1
        try:
            await self._answer(scope, receive, sent)
        except asyncio.CancelledError:  # the server leaves, and waits no longer
            if not sent.status:
                await self._leave(scope, receive, sent)
        except Exception:
            log.exception("a request failed")
            if sent.status:  # half an answer is out: let the connection break
                raise
            await _error(Request(scope), 500, "internal error")(scope, receive, sent)
        finally:
            self.front.in_flight -= 1
            route = scope["path"] if scope["path"] in PATHS else "other"
            self.front.metrics.observe(route, sent.status or CLIENT_GONE, perf_counter() - begin)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.front.draining:
            await self._leave(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            await Response(status_code=204)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _leave(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"Retry-After": "1", "Connection": "close"}
        await _error(Request(scope), 503, LEAVING, headers)(scope, receive, send)


class _Sent:
    """Adds the headers to what is sent, and remembers the status."""

    def __init__(self, send: Send) -> None:
        self.send, self.status = send, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *RAW_HEADERS]
        await self.send(message)


# ------------------------------------------------------------------------------------------------------------ process


class DrainingServer(uvicorn.Server):
    """On a signal new requests are refused, those in flight finish, and the process leaves with exit code 0."""

    def __init__(
        self, config: uvicorn.Config, front: Front, *, on_ready: Callable[[], None], drain_seconds: float
    ) -> None:
        super().__init__(config)
        self.front, self.on_ready, self.drain_seconds = front, on_ready, drain_seconds
        self.deadline: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say when clients may come; what makes the first look inside slow is done behind that."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # asyncio lets as many wait as it takes at once
        self.on_ready()
        self.preparing = asyncio.ensure_future(inside.prepare(self.front))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains, the second Ctrl-C leaves at once."""
        if self.front.draining and sig == signal.SIGINT:
            os._exit(128 + sig)  # a thread that is amid a batch would abort the process as Python ends
        self.front.draining = True

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: has all that was in flight left, or have we waited long enough?"""
        if self.front.draining:
            self.deadline = self.deadline or perf_counter() + self.drain_seconds
            self.should_exit |= not self.front.in_flight or perf_counter() > self.deadline
        return await super().on_tick(counter)


def configured(app: Starlette) -> uvicorn.Config:
    """How uvicorn serves it."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level="warning",
        use_colors=False,  # else uvicorn asks stdout, which may be closed
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=LAST_WORDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        backlog=ACCEPTED_AT_ONCE,
        h11_max_incomplete_event_size=LONGEST_HEAD,
    )


def run(app: Starlette, listener: socket.socket, *, on_ready: Callable[[], None], drain_seconds: int = 30) -> None:
    """Serve until a signal comes and what is in flight has finished."""
    server = DrainingServer(configured(app), app.state.front, on_ready=on_ready, drain_seconds=drain_seconds)
    _fit_connections(app.state.front)
    server.run([listener])
    leave(app.state.front.service.queues)


def leave(queues: Iterable[BatchQueue]) -> None:
    """End the process where a thread is amid a batch still: Python would end it amid C++, which aborts."""
    if any(queue.has_workers for queue in queues):
        os._exit(0)


def _fit_connections(front: Front) -> None:
    """No more of them than there can be open files."""
    wanted = front.limits.connections
    front.limits = replace(front.limits, connections=connections_within(wanted))
    if front.limits.connections < wanted:
        text = "connections are limited to %d, not %d: the system lets this process open no more files (ulimit -n)"
        log.warning(text, front.limits.connections, wanted)


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound; port 0 is any that is free.

    It is named a TCP socket in so many words: else asyncio leaves Nagle's algorithm on, and an answer waits for 40 ms.
    The system takes little more of an answer than can be sent now, so that what is left tells how fast a client reads.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as on_error:
            listener = on_error.enter_context(socket.socket(family, kind, socket.IPPROTO_TCP))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            listener.bind(address)
            listener.listen(BACKLOG)
            on_error.pop_all()
        return listener
    except OSError as error:
        remedy = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        text = f"{host}:{port} cannot be listened to ({error.strerror or error}); try another {remedy}"
        raise ConfigError(text) from None
