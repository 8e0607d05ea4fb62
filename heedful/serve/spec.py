"""The API described for programs: OpenAPI 3.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heedful import __version__
from heedful.serve.extra_parameters import DIVISIONS, UNSUPPORTED
from heedful.serve.limits import Limits

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}
SPLIT = TEXT | {
    "enum": list(DIVISIONS),
    "description": "0: by lines; 1: by lines and sentences; nonewlines: by sentences",
}
LANGUAGE = TEXT | {"description": "A language's code, or auto"}
ANYTHING: Schema = {"type": "object", "additionalProperties": True}
FORMS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})


def _either(*schemas: Schema) -> Schema:
    return {"oneOf": list(schemas)}


def _text(limits: Limits) -> Schema:
    return TEXT | {"maxLength": limits.characters}


def _texts(limits: Limits) -> Schema:
    return _list(TEXT) | {"maxItems": limits.batch}


DETECTED = _object(confidence=NUMBER, language=TEXT)
ERROR = _object(("error",), error=TEXT)
DEEPL_ERROR = _object(("message",), message=TEXT)


def _answers(ok: Schema, error: Schema, media: str = "application/json") -> Schema:
    refused = {"content": {"application/json": {"schema": error}}}
    problems = {
        "400": "The request is wrong, or over a limit, which is named",
        "403": "The API key is wrong",
        "413": "The body is too large",
        "429": "Too many requests; see Retry-After",
        "503": "The queue is full, or the server is leaving; see Retry-After",
    }
    good = {"description": "The answer", "content": {media: {"schema": ok}}}
    return {"200": good} | {status: {"description": text} | refused for status, text in problems.items()}


def _post(summary: str, body: Schema, ok: Schema, error: Schema = ERROR) -> Schema:
    content = {kind: {"schema": body} for kind in FORMS}
    operation = {"summary": summary, "requestBody": {"required": True, "content": content}}
    return {"post": operation | {"responses": _answers(ok, error)}}


def _get(summary: str, ok: Schema, query: Mapping[str, Schema] | None = None, error: Schema = ERROR) -> Schema:
    parameters = [{"name": name, "in": "query", "schema": schema} for name, schema in (query or {}).items()]
    return {"get": {"summary": summary, "parameters": parameters, "responses": _answers(ok, error)}}


def openapi(limits: Limits) -> Schema:
    """The whole description, with the limits of this server."""
    info = {
        "title": "heedful",
        "version": __version__,
        "description": "LibreTranslate's API at the root, DeepL's under /v2, and a look inside the model under /api.",
        "license": {"name": "MIT"},
    }
    paths = _libretranslate(limits) | _deepl(limits) | _inside(limits) | _operations()
    return {"openapi": "3.0.3", "info": info, "paths": paths}


def _libretranslate(limits: Limits) -> Schema:
    text = _text(limits)
    body = _object(
        ("q", "source", "target"),
        q=_either(text, _texts(limits)),
        source=LANGUAGE,
        target=TEXT,
        format=TEXT | {"enum": ["text", "html"], "default": "text"},
        alternatives=WHOLE | {"minimum": 0, "maximum": limits.alternatives, "default": 0},
        split_sentences=SPLIT,
        api_key=TEXT,
    )
    translated = _object(
        ("translatedText",),
        translatedText=_either(TEXT, _list(TEXT)),
        detectedLanguage=_either(DETECTED, _list(DETECTED)),
        alternatives=_either(_list(TEXT), _list(_list(TEXT))),
    )
    detect = _object(("q",), q=text, api_key=TEXT)
    known = _list(_object(code=TEXT, name=TEXT, targets=_list(TEXT)))
    return {
        "/translate": _post("Translate text or HTML", body, translated),
        "/detect": _post("Which language is this?", detect, _list(DETECTED)),
        "/languages": _get("What can be translated into what", known),
        "/frontend/settings": _get("What a page should know", ANYTHING),
        "/health": _get("Is the server there?", _object(("status",), status=TEXT)),
    }


def _deepl(limits: Limits) -> Schema:
    body = _object(
        ("text", "target_lang"),
        text=_texts(limits),
        source_lang=TEXT,
        target_lang=TEXT,
        tag_handling=TEXT | {"enum": ["html"]},
        split_sentences=SPLIT,
        formality=TEXT | {"enum": list(UNSUPPORTED["formality"]), "default": "default"},
        preserve_formatting=TRUTH | {"enum": [False], "default": False},
        show_billed_characters=TRUTH,
    )
    one = _object(detected_source_language=TEXT, text=TEXT, billed_characters=WHOLE)
    usage = _object(character_count=WHOLE, character_limit=WHOLE)
    languages = _list(_object(language=TEXT, name=TEXT, supports_formality=TRUTH))
    kind = {"type": TEXT | {"enum": ["source", "target"]}}
    return {
        "/v2/translate": _post("Translate, as DeepL's clients do", body, _object(translations=_list(one)), DEEPL_ERROR),
        "/v2/languages": _get("Languages, as DeepL's clients ask", languages, kind, DEEPL_ERROR),
        "/v2/usage": _get("Characters translated so far", usage, error=DEEPL_ERROR),
    }


def _inside(limits: Limits) -> Schema:
    body = _object(
        ("q",),
        q=_text(limits),
        source=TEXT,
        target=TEXT,
        beam_size=WHOLE | {"minimum": 1, "maximum": limits.beam},
        alpha=NUMBER | {"minimum": 0, "maximum": 100},
        prefix=TEXT | {"description": "What the translation must begin with"},
        target_text=TEXT | {"description": "Look at this translation instead of the model's own"},
        layers=_list(WHOLE),
        hypothesis=WHOLE | {"description": "Whose attention and vectors; 0, the best, unless told"},
        api_key=TEXT,
    )
    text = _object(("q",), q=_text(limits), source=LANGUAGE, target=TEXT, api_key=TEXT)
    side = _object(("language", "sentences", "spaces"), language=TEXT, sentences=_list(TEXT), spaces=_list(TEXT))
    sides = _object(("source", "target"), source=side, target=side)
    pair = {"source": TEXT, "target": TEXT}
    return {
        "/api/trace": _post("Pieces, words, attention, choices and beam of one sentence", body, ANYTHING),
        "/api/sentences": _post("Translate text, and say which sentences it was divided into", text, sides),
        "/api/model": _get("The model's card", ANYTHING, pair),
        "/api/positions": _get("The positional encoding", ANYTHING, {"n": WHOLE, "d": WHOLE}),
        "/api/run/metrics": _get("The curves of the training", ANYTHING, pair),
    }


def _operations() -> Schema:
    text = {"200": {"description": "Prometheus' text format", "content": {"text/plain": {"schema": TEXT}}}}
    return {
        "/metrics": {"get": {"summary": "Numbers for Prometheus", "responses": text}},
        "/spec": _get("This description", ANYTHING),
    }
