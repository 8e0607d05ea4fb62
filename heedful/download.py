"""A URL → a file, whole or not at all; what a broken download left is gone on with (HTTP's Range)."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeAlias

from heedful import __version__

TIMEOUT_SECONDS = 60
BLOCK_BYTES = 2**20
SAY_EVERY = 100 * 2**20
# http.client's errors are what a server that breaks off causes.
NO_NETWORK = (urllib.error.URLError, http.client.HTTPException, OSError)

Say: TypeAlias = Callable[[str], None]


def download_to(path: Path, url: str, say: Say) -> None:
    """Fetch a file under another name, and give it its own when it is whole."""
    part = path.with_name(f"{path.name}.part")
    _continue(url, part, say)
    part.replace(path)


def _continue(url: str, part: Path, say: Say) -> None:
    """Ask for what is missing; a server that cannot give a part gives the whole."""
    begun = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": f"heedful/{__version__}"} | ({"Range": f"bytes={begun}-"} if begun else {})
    request = urllib.request.Request(url, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416 or not begun:  # 416: there is nothing behind what we have
            raise
        if _total(error.headers.get("Content-Range")) != begun:
            part.unlink()
            _continue(url, part, say)
        return
    with answer, part.open("ab" if answer.status == 206 else "wb") as file:
        _copy(answer, file, say)


def _total(content_range: str | None) -> int | None:
    """The size behind the slash of `Content-Range: bytes */1234`."""
    found = re.fullmatch(r"bytes .*/(\d+)", content_range or "")
    return int(found[1]) if found else None


def _copy(answer: http.client.HTTPResponse, file: IO[bytes], say: Say) -> None:
    expected, got, said = answer.headers.get("Content-Length"), 0, 0
    while block := answer.read(BLOCK_BYTES):
        file.write(block)
        got += len(block)
        if got - said >= SAY_EVERY:
            said = got
            say(f"  {file.tell() / 1e6:,.0f} MB")
    if expected is not None and got < int(expected):
        raise http.client.IncompleteRead(b"", int(expected) - got)
