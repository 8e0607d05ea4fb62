"""Our own API under /api/: what the page shows of a translation, of a model and of its training."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from heedful.data.run_folder import METRICS
from heedful.data.run_metrics import Tail
from heedful.errors import CheckpointError, HeedfulError
from heedful.inspection import trace as inspection
from heedful.serve.disconnection import while_connected
from heedful.serve.extra_parameters import division, refuse_unsupported
from heedful.serve.gateway import Gateway, admitted
from heedful.serve.language_pairs import LanguagePair
from heedful.serve.limits import RefusalError, check_within
from heedful.serve.parameters import Parameters
from heedful.serve.queue import QueueClosedError, QueueFullError
from heedful.serve.service import AUTO
from heedful.serve.translation_task import SplitText
from heedful.translate.engine import SearchOptions

LARGEST_TABLE = 1024  # positions, and dimensions
EVENTS = "text/event-stream"
AT_ONCE = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # no proxy delays events; the second is for nginx
POLL, HEARTBEAT = 0.5, 15.0  # seconds
log = logging.getLogger("uvicorn.error")


async def prepare(gateway: Gateway) -> None:
    """Prepare every model for a look inside and for alignment; one that cannot be says so at the first request."""
    for pair in gateway.service.pairs.values():
        with suppress(HeedfulError, RefusalError, QueueClosedError):
            await gateway.service.look(pair, inspection.prepare)
    with suppress(QueueClosedError, QueueFullError):
        await gateway.service.prepare_aligning()


def _pair(gateway: Gateway, given: Parameters, text: str = "") -> LanguagePair:
    """The language pair of a request; missing languages are those of the first pair."""
    default, service = gateway.service.default, gateway.service
    target = given.text("target", default.target)
    source = given.text("source", default.source)
    if source == AUTO:
        routes = [code for code, _ in service.guesses(text, target) if code != target]
        source = routes[0] if routes else default.source
    return service.pair(source, target)


async def trace(request: Request, gateway: Gateway, given: Parameters) -> Response:
    """POST /api/trace: pieces, words, attention, the choices at each step, the tree of the beam."""
    text = given.text("q")
    pair = _pair(gateway, given, text)
    prefix, target = given.text("prefix", ""), given.text("target_text", "")
    gateway.limits.check_texts([text, prefix, target])
    look = partial(
        inspection.trace,
        text=text,
        options=_search(gateway, given, pair),
        prefix=prefix or None,
        target=target or None,
        layers=chosen_layers(given),
        hypothesis=given.integer("hypothesis", 0),
    )
    found = await while_connected(request, gateway.service.look(pair, look))
    return JSONResponse(found)


async def sentences(request: Request, gateway: Gateway, given: Parameters) -> Response:
    """POST /api/sentences: a text translated as /translate does, and the sentences that it was divided into."""
    text, source = given.text("q"), given.text("source", AUTO)
    target = given.text("target", gateway.service.default.target)
    gateway.limits.check_texts([text])
    refuse_unsupported(given, {})
    work = gateway.service.translate_apart(text, source=source, target=target, division=division(given))
    sides = await while_connected(request, work)
    return JSONResponse({name: _side(side) for name, side in zip(("source", "target"), sides, strict=True)})


def _side(side: SplitText) -> dict[str, Any]:
    """A side as JSON; `spaces` are before, between and after the sentences, so that there is one more of them."""
    return {"language": side.language, "sentences": side.document.units, "spaces": side.document.spaces}


def _search(gateway: Gateway, given: Parameters, pair: LanguagePair) -> SearchOptions:
    own = pair.translator.options
    beam_size, alpha = given.integer("beam_size", own.beam_size), given.number("alpha", own.alpha)
    check_within("beam_size", beam_size, 1, gateway.limits.beam)
    return SearchOptions(beam_size, alpha, own.max_extra)


def chosen_layers(given: Parameters) -> list[int] | None:
    layers = [_whole(layer) for layer in given.values.get("layers", []) if layer not in (None, "")]
    if None in layers:
        raise RefusalError(400, "Invalid request: layers must be whole numbers, in JSON an array of them")
    return [layer for layer in layers if layer is not None] or None


def _whole(value: Any) -> int | None:
    """A number, or its digits: a form sends all values as text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


async def model(request: Request, gateway: Gateway, given: Parameters) -> Response:
    """GET /api/model?source=&target=: the card of a model."""
    pair = _pair(gateway, given)
    sizes = await while_connected(request, gateway.service.look(pair, inspection.model_facts))
    return JSONResponse(sizes | {"card": await run_in_threadpool(inspection.folder_card, pair.folder)})


async def positions(request: Request, gateway: Gateway, given: Parameters) -> Response:
    """GET /api/positions?n=&d=: the positional encoding."""
    default = gateway.service.default.translator.config.model.d_model
    sizes = {"n": given.integer("n", 128), "d": given.integer("d", default)}
    for name, largest in {"n": LARGEST_TABLE, "d": max(LARGEST_TABLE, default)}.items():
        check_within(name, sizes[name], 1, largest)
    return JSONResponse(await run_in_threadpool(inspection.positions, sizes["n"], sizes["d"]))


async def run_metrics(request: Request, gateway: Gateway, given: Parameters) -> Response:
    """GET /api/run/metrics?source=&target=: the curves of the training; as events if the client accepts them."""
    pair = _pair(gateway, given)
    files = [folder / METRICS for folder in _run_folders(pair) if (folder / METRICS).is_file()]
    if not files:
        return JSONResponse({"step": [], "validation": []})  # a model without the run that it came from
    if EVENTS in request.headers.get("accept", ""):
        events = _events(gateway, Tail(files[0])) if request.method == "GET" else ()  # HEAD waits for none
        return StreamingResponse(events, media_type=EVENTS, headers=AT_ONCE)
    return JSONResponse(await run_in_threadpool(Tail(files[0]).more))


async def _events(gateway: Gateway, tail: Tail) -> AsyncIterator[str]:
    """Records as they are written, first all existing ones; `anew` if the run went back to a checkpoint.

    They end when the server stops, or when the run can no longer be read; somebody may have removed it.
    """
    quiet, is_anew = 0.0, True
    while not gateway.is_stopping:
        try:
            records = await run_in_threadpool(tail.more)
        except CheckpointError as error:
            log.error("%s", error)
            return
        is_anew |= tail.is_anew
        if any(records.values()):
            name, is_anew = "anew" if is_anew else "more", False
            yield f"event: {name}\ndata: {msgspec.json.encode(records).decode()}\n\n"
        elif quiet >= HEARTBEAT:
            yield ": still here\n\n"  # sending fails if the client has disconnected
        quiet = 0.0 if any(records.values()) or quiet >= HEARTBEAT else quiet + POLL
        await asyncio.sleep(POLL)


def _run_folders(pair: LanguagePair) -> list[Any]:
    """Where the run may be: `-m` names the run itself, its model folder, or one of its checkpoints."""
    if pair.folder is None:
        return []
    folder = pair.folder.resolve()
    return [folder, folder.parent, folder.parent.parent]


ROUTES = [
    Route("/api/trace", admitted(trace), methods=["POST"]),
    Route("/api/sentences", admitted(sentences), methods=["POST"]),
    Route("/api/model", admitted(model)),
    Route("/api/positions", admitted(positions)),
    Route("/api/run/metrics", admitted(run_metrics)),
]
