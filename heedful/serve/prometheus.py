"""Metrics in Prometheus' format: counters, a histogram of latencies, and gauges."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Metrics:
    """The requests of each route; unknown paths count as "other", so that clients cannot make the list long."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    between: Counter[tuple[str, int]] = field(default_factory=Counter)  # answers in a time up to the n-th bound
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def observe(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self.requests[route, status] += 1
        self.between[route, bisect_left(BOUNDS, seconds)] += 1
        self.seconds[route] += seconds

    def text(self, counters: Mapping[str, float], gauges: Mapping[str, float]) -> str:
        """All metrics as text, with these counters and gauges added."""
        lines = [*self._requests(), *self._seconds()]
        for kind, numbers in (("counter", counters), ("gauge", gauges)):
            for name, value in numbers.items():
                lines += [f"# TYPE heedful_{name} {kind}", f"heedful_{name} {value!r}"]
        return "\n".join(lines) + "\n"

    def _requests(self) -> Iterator[str]:
        yield "# TYPE heedful_requests_total counter"
        for (route, status), count in sorted(self.requests.items()):
            yield f'heedful_requests_total{{route="{route}",status="{status}"}} {count}'

    def _seconds(self) -> Iterator[str]:
        yield "# TYPE heedful_request_seconds histogram"
        for route, total in sorted(self.seconds.items()):
            counts = list(accumulate(self.between[route, n] for n in range(len(BOUNDS) + 1)))
            for bound, count in zip((*BOUNDS, "+Inf"), counts, strict=True):
                yield f'heedful_request_seconds_bucket{{route="{route}",le="{bound}"}} {count}'
            yield f'heedful_request_seconds_sum{{route="{route}"}} {total:.6f}'
            yield f'heedful_request_seconds_count{{route="{route}"}} {counts[-1]}'
