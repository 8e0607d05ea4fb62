"""What every route starts from: the service, and the check of a request's key and rate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from heedful.serve.limits import Keys, Limits, RateLimit, RefusalError
from heedful.serve.parameters import Parameters, read_parameters
from heedful.serve.prometheus import Metrics
from heedful.serve.service import Service

SCHEMES = ("bearer", "deepl-auth-key")


@dataclass(slots=True)
class Gateway:
    """The service with its limits, keys and counts; one for each application."""

    service: Service
    limits: Limits = field(default_factory=Limits)
    keys: Keys = field(default_factory=Keys)
    rate: RateLimit = field(default_factory=RateLimit)
    metrics: Metrics = field(default_factory=Metrics)
    in_flight: int = 0
    is_stopping: bool = False  # the process ends when the requests in flight are answered

    async def admitted(self, request: Request) -> Parameters:
        """The parameters of a request that has the right key and has not come too often."""
        given = await read_parameters(request, self.limits)
        host, key = f"host {request.client.host if request.client else ''}", _key(request, given)
        try:
            self.keys.check(key)
        except RefusalError:
            if key:  # wrong keys are limited, so that nobody can guess them; a missing key needs no limit
                self.rate.check(host)
            raise
        self.rate.check(f"key {key}" if self.keys else host)
        return given


def _key(request: Request, given: Parameters) -> str:
    """The API key: in the header from DeepL's clients, among the parameters from LibreTranslate's."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in SCHEMES:
        return _decoded(key.strip())
    values = [*given.values.get("api_key", []), *given.values.get("auth_key", []), ""]
    return values[0] if isinstance(values[0], str) else ""


def _decoded(header: str) -> str:
    """A header in UTF-8, or in Latin-1 where it is not UTF-8; the server reads all headers as Latin-1."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header


def admitted(answer: Callable[[Request, Gateway, Parameters], Awaitable[Response]]) -> Callable[..., Any]:
    """The function of a route whose requests need the right key, and may not come too often."""

    async def endpoint(request: Request) -> Response:
        gateway = gateway_of(request)
        return await answer(request, gateway, await gateway.admitted(request))

    return endpoint


def gateway_of(request: Request) -> Gateway:
    """The gateway of the application that a request came to."""
    gateway = request.app.state.gateway
    assert isinstance(gateway, Gateway)
    return gateway
