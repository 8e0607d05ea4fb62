"""The application: all routes, the errors, and the middleware around every answer.

An error is always JSON with one line that says why. Every answer has the headers of `HEADERS`. Text from clients is
never put into HTML.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heedful.errors import ConfigError, DataError, HeedfulError
from heedful.inspection.page_file import PAGE
from heedful.serve import deepl, libretranslate, page_api
from heedful.serve.disconnection import CLIENT_GONE
from heedful.serve.gateway import Gateway, gateway_of
from heedful.serve.language_pairs import load_pairs
from heedful.serve.limits import Keys, Limits, RateLimit, RefusalError, busy
from heedful.serve.prometheus import MEDIA_TYPE
from heedful.serve.queue import BatchQueue, QueueClosedError, QueueFullError
from heedful.serve.service import Service, num_workers
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
SHUTTING_DOWN = "the server is shutting down"
log = logging.getLogger("uvicorn.error")


# ------------------------------------------------------------------------------------------------------------- routes


async def metrics(request: Request) -> Response:
    """GET /metrics."""
    gateway = gateway_of(request)
    queue, counts = gateway.service.queue, gateway.service.queue.counts
    counters = {
        "batches_total": counts.batches,
        "sentences_total": counts.units,
        "batch_seconds_total": counts.seconds,
        "queue_refused_total": counts.refused,
        "cancelled_total": counts.cancelled,
        "characters_total": gateway.service.characters,
    }
    gauges = {
        "queue_sentences": queue.waiting,
        "queue_aligning": gateway.service.aligning.waiting,
        "queue_looking": gateway.service.looking.waiting,
        "requests_in_flight": gateway.in_flight,
    }
    return PlainTextResponse(gateway.metrics.text(counters, gauges), media_type=MEDIA_TYPE)


async def spec(request: Request) -> Response:
    """GET /spec."""
    return JSONResponse(openapi(gateway_of(request).limits))


ROUTES = [
    *libretranslate.ROUTES,
    *deepl.ROUTES,
    *page_api.ROUTES,
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
    gateway = Gateway(service, limits or Limits(), Keys(keys), RateLimit(requests_per_minute))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = Starlette(
        routes=ROUTES, middleware=[Middleware(Frame, gateway=gateway)], exception_handlers=HANDLERS, lifespan=lifespan
    )
    app.state.gateway = gateway
    if PAGE.is_dir():  # after the routes, so that a wrong method of a route is still 405
        app.router.default = StaticFiles(directory=PAGE, html=True)
    return app


# ------------------------------------------------------------------------------------------------------------- errors


def _error(request: Request, status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    """An error in the form that the clients of this route know."""
    name = "message" if request.url.path.startswith("/v2/") else "error"
    return JSONResponse({name: text}, status, headers)


async def _refused(request: Request, error: Exception) -> Response:
    refusal = _refusal(error)
    return _error(request, refusal.status, refusal.text, refusal.headers)


def _refusal(error: Exception) -> RefusalError:
    """What the client is told of an error; why a model cannot be used goes to the log alone."""
    match error:
        case RefusalError():
            return error
        case HTTPException():
            return RefusalError(error.status_code, error.detail, error.headers)
        case QueueFullError():
            return busy("Slowdown: too many texts are waiting", error.retry_after)
        case QueueClosedError():
            return busy(SHUTTING_DOWN, 1)
        case DataError() | ConfigError():
            return RefusalError(400, f"Invalid request: {error}")
    log.error("%s", error)
    return RefusalError(500, "the model cannot be used; see the server's log")


HANDLERS = dict.fromkeys((RefusalError, HTTPException, QueueFullError, QueueClosedError, HeedfulError), _refused)


# ------------------------------------------------------------------------------------------- around every answer


class Frame:
    """The middleware: counts requests, answers failed and cancelled ones, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self.app, self.gateway = app, gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begin, sent = perf_counter(), _Sent(send)
        self.gateway.in_flight += 1
        try:
            answer = Response(status_code=204) if scope["method"] == "OPTIONS" else self.app
            await answer(scope, receive, sent)
        except asyncio.CancelledError:  # the process ends, and --drain-seconds are over
            if not sent.status:
                headers = {"Retry-After": "1", "Connection": "close"}
                await _error(Request(scope), 503, SHUTTING_DOWN, headers)(scope, receive, sent)
        except Exception:
            log.exception("a request failed")
            if sent.status:  # a part of the answer is sent: uvicorn closes the connection
                raise
            await _error(Request(scope), 500, "internal error")(scope, receive, sent)
        finally:
            self.gateway.in_flight -= 1
            route = scope["path"] if scope["path"] in PATHS else "other"
            self.gateway.metrics.observe(route, sent.status or CLIENT_GONE, perf_counter() - begin)


class _Sent:
    """Sends messages, with the headers added, and keeps the status."""

    def __init__(self, send: Send) -> None:
        self.send, self.status = send, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *RAW_HEADERS]
        await self.send(message)
