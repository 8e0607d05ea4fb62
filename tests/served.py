"""What the tests of the server share: an engine whose answers can be told apart, and a server on a free port."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import uvicorn
from starlette.applications import Starlette

from heedful.config.setting_layers import resolve
from heedful.data.tokenizer import Tokenizer
from heedful.serve.server import configured, listen
from heedful.translate.engine import Computing, Engine, Request, SearchOptions
from heedful.translate.search import Hypothesis
from heedful.translate.translation import Translator

TOKENIZER = Tokenizer.learn_at_most(["a b c d e f g", "the cat sat on the mat"] * 3, 400, seed=1)


class ShoutingEngine(Engine):
    """Translates a text into itself with "!" behind it, the n-th best with n of them; `before` is called first."""

    def __init__(self, before: Callable[[list[str]], None] = lambda texts: None) -> None:
        self.before = before

    def computing(self, options: SearchOptions) -> Computing:
        return Computing("a fake", "cpu")

    def translate_windows(
        self, windows: Iterable[Sequence[Request]], options: SearchOptions
    ) -> Iterator[list[Hypothesis]]:
        texts = [TOKENIZER.decode(request.source_ids) for request in chain.from_iterable(windows)]
        self.before(texts)
        for text in texts:
            yield [_hypothesis(text + "!" * rank, -float(rank)) for rank in range(1, options.n_best + 1)]

    def score(self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Iterator[list[float]]:
        return iter(())

    def next_tokens(self, request: Request, count: int) -> list[tuple[int, float]]:
        ids = TOKENIZER.encode(TOKENIZER.decode(request.source_ids) + "!")
        return [((*ids, TOKENIZER.eos_id)[len(request.prefix_ids)], 1.0)]


def _hypothesis(text: str, score: float) -> Hypothesis:
    ids = TOKENIZER.encode(text)
    return Hypothesis(tuple(ids), score, score, (-1.0,) * (len(ids) + 1))


def shouting(source: str = "en", target: str = "de", before: Callable[[list[str]], None] | None = None) -> Translator:
    config = resolve({"data": {"source_language": source, "target_language": target}})
    return Translator(ShoutingEngine(before) if before else ShoutingEngine(), TOKENIZER, config)


@contextmanager
def serving(app: Starlette, drain_seconds: int = 2) -> Iterator[str]:
    """The address of a server in a thread of its own."""
    with listen("127.0.0.1", 0) as listener:
        server = uvicorn.Server(configured(app, drain_seconds))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            app.state.gateway.is_stopping = server.should_exit = True
            thread.join()
