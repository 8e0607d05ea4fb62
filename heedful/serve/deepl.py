"""DeepL's HTTP API under /v2, as far as its clients need it to translate."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from heedful.data.languages import language_name
from heedful.serve.disconnection import while_connected
from heedful.serve.extra_parameters import division, refuse_unsupported
from heedful.serve.gateway import Gateway, admitted
from heedful.serve.limits import RefusalError
from heedful.serve.parameters import Parameters
from heedful.serve.service import AUTO, Service

NO_LIMIT = 10**12  # characters; clients want a number
OF_LIBRETRANSLATE = {"alternatives": ("0",), "format": ("text",)}


async def translate(request: Request, gateway: Gateway, given: Parameters) -> Response:
    """POST /v2/translate."""
    texts, tags = given.texts("text"), given.text("tag_handling", "")
    gateway.limits.check_texts(texts)
    if tags not in ("", "html"):
        raise RefusalError(400, f"Value for 'tag_handling' not supported: {tags[:20]}")
    refuse_unsupported(given, OF_LIBRETRANSLATE)
    source = _code(gateway.service, given.text("source_lang", AUTO))
    target = _code(gateway.service, given.text("target_lang"))
    work = gateway.service.translate(texts, source=source, target=target, form=tags or "text", division=division(given))
    answers = await while_connected(request, work)
    translations = [
        {"detected_source_language": answer.language.upper(), "text": answer.text, "billed_characters": len(text)}
        for text, answer in zip(texts, answers, strict=True)
    ]
    return JSONResponse({"translations": translations})


def _code(service: Service, language: str) -> str:
    """EN-US → en, unless a model is of that very variant."""
    known = {code.lower().replace("_", "-"): code for code in (*service.languages, AUTO)}
    language = language.lower().replace("_", "-")
    return known.get(language) or known.get(language.partition("-")[0]) or language


async def languages(request: Request, gateway: Gateway, given: Parameters) -> Response:
    """GET or POST /v2/languages?type=source|target."""
    kind = given.text("type", "source")
    if kind not in ("source", "target"):
        raise RefusalError(400, f"Value for 'type' not supported: {kind[:20]}")
    codes = dict.fromkeys(pair[kind == "target"] for pair in gateway.service.pairs)
    return JSONResponse([_language(code, kind) for code in codes])


def _language(code: str, kind: str) -> dict[str, Any]:
    formality = {"supports_formality": False} if kind == "target" else {}
    return {"language": code.upper(), "name": language_name(code)} | formality


async def usage(request: Request, gateway: Gateway, given: Parameters) -> Response:
    """GET or POST /v2/usage."""
    return JSONResponse({"character_count": gateway.service.characters, "character_limit": NO_LIMIT})


ROUTES = [
    Route("/v2/translate", admitted(translate), methods=["POST"]),
    Route("/v2/languages", admitted(languages), methods=["GET", "POST"]),
    Route("/v2/usage", admitted(usage), methods=["GET", "POST"]),
]
