"""What a client may ask for, and how often: limits, API keys, a rate, and the error for a refused request."""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

MOST_CLIENTS = 10_000  # that the rate limit remembers


class RefusalError(Exception):
    """A request that gets an error instead of an answer."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, dict(headers or {})


def busy(text: str, retry_after: int) -> RefusalError:
    """The refusal (503) of a request that may succeed later; `retry_after` is in seconds."""
    return RefusalError(503, text, {"Retry-After": str(retry_after)})


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one request may ask for, and how many connections there may be."""

    body: int = 2**20  # bytes
    characters: int = 20_000  # in all texts of a request
    batch: int = 128  # texts of a request
    alternatives: int = 8
    beam: int = 16
    connections: int = 900  # at once

    def check_body(self, size: int) -> None:
        """Refuse a body of this size, or one of which this much has arrived."""
        if size > self.body:
            raise RefusalError(413, f"Invalid request: the body exceeds the limit of {self.body} bytes")

    def check_texts(self, texts: Collection[str]) -> None:
        """Refuse too many texts, and too many characters in all of them."""
        if len(texts) > self.batch:
            raise RefusalError(400, f"Invalid request: request ({len(texts)}) exceeds batch limit ({self.batch})")
        size = sum(map(len, texts))
        if size > self.characters:
            raise RefusalError(400, f"Invalid request: request ({size}) exceeds text limit ({self.characters})")


def check_within(name: str, number: int, least: int, most: int) -> None:
    """Refuse a number that is too small or too large."""
    if not least <= number <= most:
        raise RefusalError(400, f"Invalid request: {name} ({number}) is not within {least} and {most}")


class Keys:
    """The API keys that the server accepts; without any it is open to everybody, and ignores what key they send."""

    def __init__(self, keys: Collection[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def check(self, key: str) -> None:
        """Refuse a wrong key; every key is compared, in constant time."""
        matches = [hmac.compare_digest(_digest(key), digest) for digest in self._digests]
        if self._digests and not any(matches):
            raise RefusalError(403, "Invalid API key")


def _digest(key: str) -> bytes:
    """A hash, so that all keys are equally long."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


@dataclass(slots=True)
class RateLimit:
    """At most `per_minute` requests a minute for each client, at once or spread out; 0: no limit."""

    per_minute: int = 0
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)  # requests left, and when

    def check(self, client: str) -> None:
        """Count a request of this client, or refuse it."""
        if not self.per_minute:
            return
        now = self.clock()
        left, before = self._buckets.pop(client, (float(self.per_minute), now))
        left = min(float(self.per_minute), left + (now - before) * self.per_minute / 60)
        self._buckets[client] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = math.ceil((1 - left) * 60 / self.per_minute)
            text = f"Slowdown: {self.per_minute} per 1 minute"
            raise RefusalError(429, text, {"Retry-After": str(max(1, wait))})
