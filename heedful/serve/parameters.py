"""The parameters of a request, from JSON, a form or the query string, whichever a client uses."""

from __future__ import annotations

import codecs
import logging
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from heedful.serve.disconnection import CLIENT_GONE
from heedful.serve.limits import Limits, RefusalError

URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
MOST_FIELDS = 1000
# Its warnings are clients' mistakes, which could fill the log.
logging.getLogger("python_multipart").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The values of each name: those of a JSON array, or those that a form or query repeats, or the only one.

    A byte order mark is removed: text that a client read from a file may begin with one.
    """

    values: dict[str, list[Any]]
    arrays: frozenset[str] = frozenset()  # names whose value was a JSON array
    unread: str = ""  # why the body was not read, for the error message

    def text(self, name: str, default: str | None = None) -> str:
        """A string; required unless there is a default."""
        self.refuse_repeated(name)
        values = [value for value in self._unmarked(name) if value is not None]
        if not values or values[0] == "":
            return self._missing(name) if default is None else default
        if name in self.arrays or not isinstance(values[0], str):
            raise RefusalError(400, f"Invalid request: {name} must be a string")
        return values[0]

    def texts(self, name: str) -> list[str]:
        """One or more strings."""
        values = self._unmarked(name)
        if not values or (values in ([""], [None]) and name not in self.arrays):
            self._missing(name)
        if not all(isinstance(value, str) for value in values):
            raise RefusalError(400, f"Invalid request: {name} must be a string or an array of strings")
        return values

    def number(self, name: str, default: float) -> float:
        """A finite number, or a string of one; null counts as missing."""
        self.refuse_repeated(name)
        value = next(iter(self.values.get(name, [])), None)
        value = default if value is None else value
        try:
            number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
        except (ValueError, OverflowError):
            number = None
        if name in self.arrays or number is None or not abs(number) < 2**31:
            raise RefusalError(400, f"Invalid request: {name} is not a number, or too large a one")
        return number

    def integer(self, name: str, default: int) -> int:
        """A whole number, or a string of one."""
        number = self.number(name, default)
        if number != int(number):
            raise RefusalError(400, f"Invalid request: {name} is not a whole number")
        return int(number)

    def _unmarked(self, name: str) -> list[Any]:
        values = self.values.get(name, [])
        return [value.removeprefix("\ufeff") if isinstance(value, str) else value for value in values]

    def refuse_repeated(self, name: str) -> None:
        """Refuse a name that a form repeats: only one of its values would be used."""
        if name not in self.arrays and len(self.values.get(name, [])) > 1:
            raise RefusalError(400, f"Invalid request: {name} is given more than once")

    def _missing(self, name: str) -> str:
        raise RefusalError(400, f"Invalid request: missing {name} parameter{self.unread}")


async def read_parameters(request: Request, limits: Limits) -> Parameters:
    """Those of the query string and of the body, which wins where both give a name."""
    query = _urlencoded(request.scope["query_string"])
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await _body(request, limits)
    _refuse_encoded(request)
    if not body:  # whatever its Content-Type: many clients send one with every request
        return Parameters(query)
    if kind == "application/json" or kind.endswith("+json"):
        given = _json_object(body)
        arrays = frozenset(name for name, value in given.items() if isinstance(value, list))
        values = {name: value if isinstance(value, list) else [value] for name, value in given.items()}
        return Parameters(query | values, arrays)
    if kind == URLENCODED:
        looks_like_json = body.lstrip().startswith(b"{")  # curl -d calls every body a form
        return Parameters(query | _urlencoded(body), unread=_why_unread(kind) if looks_like_json else "")
    if kind == MULTIPART:
        return Parameters(query | await _multipart(request, body))
    return Parameters(query, unread=_why_unread(kind))


def _why_unread(kind: str) -> str:
    given = f"Content-Type {kind[:40]}" if kind else "no Content-Type"
    return f" (the body has {given}; JSON needs application/json)"


async def _body(request: Request, limits: Limits) -> bytes:
    """The whole body; one that is too large is refused as soon as that is known."""
    length = request.headers.get("content-length", "0")
    limits.check_body(int(length) if length.isdecimal() else 0)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            limits.check_body(len(body))
    except ClientDisconnect:
        raise RefusalError(CLIENT_GONE, "the client has left") from None
    return bytes(body)


def _refuse_encoded(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise RefusalError(400, f"Invalid request: Content-Encoding {encoding[:20]} is not supported; send it as it is")


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(body.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RefusalError(400, f"Invalid request: the body is no valid JSON ({error})") from None
    if not isinstance(given, dict):
        raise RefusalError(400, "Invalid request: the body is no JSON object")
    return given


def _urlencoded(given: bytes) -> dict[str, list[Any]]:
    """A form or a query string in UTF-8, escaped or not; starlette would take any other bytes for some letters."""
    try:
        text = given.decode()
        return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except UnicodeDecodeError as error:
        raise _not_utf8(error) from None
    except ValueError as error:
        raise RefusalError(400, f"Invalid request: {error}") from None


async def _multipart(request: Request, body: bytes) -> dict[str, list[Any]]:
    replayed = Request(request.scope, _replay(body))
    try:
        async with replayed.form(max_files=0, max_fields=MOST_FIELDS) as form:
            body.decode()  # there are no files in it
            return {name: form.getlist(name) for name in form}
    except HTTPException as error:
        raise RefusalError(400, f"Invalid request: {error.detail}") from None
    except UnicodeError as error:  # of a charset that the form names, too
        raise _not_utf8(error) from None


def _not_utf8(error: UnicodeError) -> RefusalError:
    reason = error.reason if isinstance(error, UnicodeDecodeError) else error
    return RefusalError(400, f"Invalid request: the form is not in UTF-8 ({reason})")


def _replay(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
