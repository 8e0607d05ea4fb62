"""A URL → a file, whole or not at all; a broken download is resumed (HTTP's Range).

Beside the part that has arrived (`NAME.part`) lies its version (`NAME.part.json`: URL, and ETag or date). A download is
resumed only if the server still has that version; otherwise it starts again.
"""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeAlias

import msgspec
from msgspec import Struct

from heedful import __version__

TIMEOUT_SECONDS = 60
BLOCK_BYTES = 2**20
SAY_EVERY = 100 * 2**20
# A server that breaks off causes an error of http.client, and a redirection to something other than a URL a ValueError.
NO_NETWORK = (urllib.error.URLError, http.client.HTTPException, OSError, ValueError)

Say: TypeAlias = Callable[[str], None]


def download_to(path: Path, url: str, say: Say) -> None:
    """Fetch a file as `NAME.part`, and rename it when it is complete."""
    part = path.with_name(f"{path.name}.part")
    _continue(url, part, say)
    part.replace(path)
    _name_file(part).unlink(missing_ok=True)


class _Named(Struct, frozen=True):
    """The version that a part belongs to: HTTP's validator, a strong ETag or else a date."""

    url: str
    validator: str


def _name_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _begun(url: str, part: Path) -> tuple[int, str]:
    """How many bytes can be kept, and of which version; (0, "") if none."""
    try:
        named, size = msgspec.json.decode(_name_file(part).read_bytes(), type=_Named), part.stat().st_size
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return 0, ""
    return (size, named.validator) if named.url == url and size else (0, "")


def _remember_name(url: str, part: Path, answer: http.client.HTTPResponse) -> None:
    """Record the version before anything is written; without one the download cannot be resumed."""
    tag = answer.headers.get("ETag", "")
    validator = tag if tag.startswith('"') else answer.headers.get("Last-Modified", "")
    _forget(part)
    if validator:
        _name_file(part).write_bytes(msgspec.json.encode(_Named(url, validator)))


def _forget(part: Path) -> None:
    _name_file(part).unlink(missing_ok=True)
    part.unlink(missing_ok=True)


def _continue(url: str, part: Path, say: Say) -> None:
    """Ask for the missing part; a server with another version, or without ranges, sends the whole file."""
    begun, validator = _begun(url, part)
    headers = {"User-Agent": f"heedful/{__version__}"}
    headers |= {"Range": f"bytes={begun}-", "If-Range": validator} if begun else {}
    request = urllib.request.Request(url, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416 or not begun:  # 416: nothing comes after what we have
            raise
        if _total(error.headers.get("Content-Range")) != begun:
            _forget(part)
            _continue(url, part, say)
        return
    with answer:
        if answer.status != 206 or not begun:
            _remember_name(url, part, answer)
        elif answer.headers.get("Content-Range", "").startswith(f"bytes {begun}-"):
            say(f"  going on after {begun / 1e6:,.1f} MB")
        else:
            _forget(part)
            return _continue(url, part, say)
        with part.open("ab") as file:
            _copy(answer, file, say)


def _total(content_range: str | None) -> int | None:
    """The size after the slash in `Content-Range: bytes */1234` or `bytes 200-999/1234`."""
    found = re.fullmatch(r"bytes .*/(\d+)", content_range or "")
    return int(found[1]) if found else None


def _copy(answer: http.client.HTTPResponse, file: IO[bytes], say: Say) -> None:
    """Write what comes; raise if the server sends less than it named, which http.client does not always notice."""
    begun = said = file.tell()
    whole = max(begun + (answer.length or 0), _total(answer.headers.get("Content-Range")) or 0)
    while block := answer.read(BLOCK_BYTES):
        file.write(block)
        if file.tell() - said >= SAY_EVERY:
            said = file.tell()
            say(f"  {said / 1e6:,.0f} MB")
    if file.tell() < whole:
        raise http.client.HTTPException(f"the server broke off, {whole - file.tell():,} bytes are missing")
