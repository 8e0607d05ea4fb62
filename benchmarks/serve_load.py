"""`heedful serve` under load: many clients at once against one, on loopback, every answer checked.

    python -m benchmarks.serve_load MODEL TEXT [--seconds 60] [--clients 64] [--keep]

TEXT is a file of source sentences. First each sentence is asked for alone: its answer is what every later one must be.
Then one client asks for as many as it can, then all of them together; each waits for its answer before it asks again.
The bars are about batching, so the engine is ours unless told: CTranslate2 needs 1.6 ms for a sentence alone and 0.9 in
a batch, so that two cores cannot give five times what one client gets. Clients live in a process of their own, as real
ones do. The server's memory is read while they work: flat means that the last quarter of the time needs no more than
the second.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.command import keep, keeping_parser, run
from heedful.data.text_files import read_lines
from heedful.errors import CheckpointError

SENTENCES = 500
MEMORY_SECONDS = 0.5
BARS = {"speed_up": 5.0, "memory_growth": 0.05}


@dataclass(slots=True)
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    host: str
    port: int
    source: str = ""
    target: str = ""

    def memory(self) -> int:
        """Bytes that it holds in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) * 1024 if found else 0


@contextmanager
def running(model: Path, arguments: tuple[str, ...]) -> Iterator[Server]:
    """`heedful serve` on a free port; at the end it must leave with exit code 0."""
    command = [sys.executable, "-m", "heedful", "serve", "-m", str(model), "--port", "0", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.match(r"(\w+) → (\w+): http://([\d.]+):(\d+)", said)
        if not found:
            process.terminate()
            raise CheckpointError(f"{said}{process.stderr.read()}".strip())
        try:
            yield Server(process, found[3], int(found[4]), found[1], found[2])
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=60)
    assert code == 0, f"the server left with exit code {code}"


@dataclass(slots=True)
class Tally:
    """What the clients of one phase saw."""

    seconds: list[float] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)


class Client:
    """One connection that is kept, and one request at a time."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def __aenter__(self) -> Client:
        self.reader, self.writer = await asyncio.open_connection(self.server.host, self.server.port)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    async def ask(self, text: str) -> tuple[int, Any]:
        """Status and answer."""
        body = json.dumps({"q": text, "source": self.server.source, "target": self.server.target}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self.writer.write(head.encode() + b"\r\n\r\n" + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
        assert length
        return int(answer.split(maxsplit=2)[1]), json.loads(await self.reader.readexactly(int(length[1])))


async def expected_answers(server: Server, texts: list[str]) -> dict[str, str]:
    """What each text gets when nobody else is there."""
    async with Client(server) as client:
        return {text: (await client.ask(text))[1]["translatedText"] for text in texts}


async def phase(server: Server, expected: dict[str, str], num_clients: int, seconds: float) -> Tally:
    """So many clients for so long."""
    tally, end = Tally(), time.perf_counter() + seconds
    watch = asyncio.ensure_future(_watch(server, tally))
    await asyncio.gather(*(_client(server, expected, number, end, tally) for number in range(num_clients)))
    watch.cancel()
    return tally


async def _client(server: Server, expected: dict[str, str], number: int, end: float, tally: Tally) -> None:
    texts, turn = list(expected), 37 * number
    async with Client(server) as client:
        while (begin := time.perf_counter()) < end:
            text = texts[turn % len(texts)]
            status, answer = await client.ask(text)
            tally.seconds.append(time.perf_counter() - begin)
            if status != 200:
                tally.errors.append(f"{status} {answer}")
            elif answer != {"translatedText": expected[text]}:
                tally.wrong.append((text, answer["translatedText"]))
            turn += 1


async def _watch(server: Server, tally: Tally) -> None:
    while True:
        tally.memory.append(server.memory())
        await asyncio.sleep(MEMORY_SECONDS)


def figures(tally: Tally, seconds: float) -> dict[str, Any]:
    """The numbers of one phase."""
    times = sorted(tally.seconds)
    return {
        "requests_per_second": round(len(times) / seconds, 1),
        "median_ms": round(1000 * statistics.median(times), 1),
        "p99_ms": round(1000 * times[int(0.99 * (len(times) - 1))], 1),
        "errors": len(tally.errors),
        "wrong": len(tally.wrong),
    }


def memory_growth(memory: list[int]) -> float:
    """How much more the last quarter of the time needed than the second."""
    quarter = max(1, len(memory) // 4)
    before, after = max(memory[quarter : 2 * quarter] or memory), max(memory[-quarter:])
    return round(after / before - 1, 4)


async def measure(server: Server, texts: list[str], num_clients: int, seconds: float) -> dict[str, Any]:
    """All phases."""
    expected = await expected_answers(server, texts)
    alone = await phase(server, expected, 1, max(2.0, seconds / 4))
    together = await phase(server, expected, num_clients, seconds)
    one, many = figures(alone, max(2.0, seconds / 4)), figures(together, seconds)
    for text, answer in together.wrong[:5]:
        print(f"wrong: {text!r} gave {answer!r}, not {expected[text]!r}")
    return {
        "clients": num_clients,
        "seconds": seconds,
        "one": one,
        "many": many,
        "speed_up": round(many["requests_per_second"] / one["requests_per_second"], 2),
        "memory_mb": [round(size / 2**20, 1) for size in (together.memory[0], max(together.memory))],
        "memory_growth": memory_growth(together.memory),
    }


def main() -> None:
    """Measure, print, keep; exit code 1 if a bar is missed."""
    parser = keeping_parser(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--engine", default="torch")
    given = parser.parse_args()
    texts = list(dict.fromkeys(read_lines(given.text)))[:SENTENCES]
    with running(given.model, ("--engine", given.engine)) as server:
        result = asyncio.run(measure(server, texts, given.clients, given.seconds))
    result["engine"], result["threads"] = given.engine, os.environ.get("OMP_NUM_THREADS", "all")
    print(json.dumps(result, indent=1))
    keep(given, "serve-load", result)
    missed = [
        *(["errors or wrong answers"] if result["many"]["errors"] or result["many"]["wrong"] else []),
        *(["speed_up"] if result["speed_up"] < BARS["speed_up"] else []),
        *(["memory_growth"] if result["memory_growth"] > BARS["memory_growth"] else []),
    ]
    sys.exit(f"missed: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    run(main)
