"""LibreTranslate's HTTP API at the root: what most clients of self-hosted translators speak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from heedful.data.languages import language_name
from heedful.serve.disconnection import while_connected
from heedful.serve.extra_parameters import division, refuse_unsupported
from heedful.serve.gateway import Gateway, admitted, gateway_of
from heedful.serve.limits import RefusalError, check_within
from heedful.serve.parameters import Parameters
from heedful.serve.service import AUTO
from heedful.serve.translation_task import Answer

OF_DEEPL = {"tag_handling": ()}  # here `format` says it
FRONTEND_TIMEOUT = 500  # milliseconds that a page waits for the next key


async def translate(request: Request, gateway: Gateway, given: Parameters) -> Response:
    """POST /translate."""
    texts, source, target = given.texts("q"), given.text("source"), given.text("target")
    given.refuse_repeated("q")
    form, num_alternatives = given.text("format", "text"), given.integer("alternatives", 0)
    gateway.limits.check_texts(texts)
    check_within("alternatives", num_alternatives, 0, gateway.limits.alternatives)
    refuse_unsupported(given, OF_DEEPL)
    work = gateway.service.translate(
        texts,
        source=source,
        target=target,
        form=form,
        num_alternatives=num_alternatives,
        division=division(given),
    )
    answers = await while_connected(request, work)
    fields = _fields(answers, with_language=source == AUTO, with_alternatives=num_alternatives > 0)
    return JSONResponse(fields if "q" in given.arrays else {name: values[0] for name, values in fields.items()})


def _fields(answers: Sequence[Answer], *, with_language: bool, with_alternatives: bool) -> dict[str, list[Any]]:
    fields: dict[str, list[Any]] = {"translatedText": [answer.text for answer in answers]}
    if with_language:
        fields["detectedLanguage"] = [_language(answer.language, answer.confidence or 0.0) for answer in answers]
    if with_alternatives:
        fields["alternatives"] = [list(answer.alternatives) for answer in answers]
    return fields


def _language(code: str, confidence: float) -> dict[str, Any]:
    return {"confidence": round(100 * confidence), "language": code}


async def detect(request: Request, gateway: Gateway, given: Parameters) -> Response:
    """POST /detect."""
    text = given.text("q")
    gateway.limits.check_texts([text])
    return JSONResponse([_language(code, confidence) for code, confidence in gateway.service.detect(text)])


async def languages(request: Request) -> Response:
    """GET /languages."""
    known = gateway_of(request).service.languages
    return JSONResponse([{"code": c, "name": language_name(c), "targets": targets} for c, targets in known.items()])


async def health(request: Request) -> Response:
    """GET /health."""
    if not gateway_of(request).service.queue.is_alive:
        raise RefusalError(503, "the worker has stopped")
    return JSONResponse({"status": "ok"})


async def frontend_settings(request: Request) -> Response:
    """GET /frontend/settings."""
    gateway = gateway_of(request)
    target = gateway.service.default.target
    settings = {
        "charLimit": gateway.limits.characters,
        "frontendTimeout": FRONTEND_TIMEOUT,
        "apiKeys": bool(gateway.keys),
        "keyRequired": bool(gateway.keys),
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": {"code": target, "name": language_name(target)},
        },
    }
    return JSONResponse(settings)


ROUTES = [
    Route("/translate", admitted(translate), methods=["POST"]),
    Route("/detect", admitted(detect), methods=["POST"]),
    Route("/languages", languages),
    Route("/health", health),
    Route("/frontend/settings", frontend_settings),
]
