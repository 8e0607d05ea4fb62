"""Work for a client, which ends when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from heedful.serve.limits import RefusalError

Result = TypeVar("Result")
CLIENT_GONE = 499  # nginx's status for it; nobody reads the answer


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work, which is cancelled if the client disconnects first."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise RefusalError(CLIENT_GONE, "the client has left")
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
