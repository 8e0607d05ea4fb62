"""Translating batches that are made already, and telling each translation as soon as it is found.

`Translator` and `TorchEngine` serve streams: they read ahead, and keep the order. Here a batch is known whole, so the
engine takes it at once; and a client with a short sentence should not wait for another's long one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from heedful.translate.engine import Hypothesis, SearchOptions
from heedful.translate.translation import Translation, Translator


class ServingTranslator(Translator):
    """A translator for texts that are a batch."""

    @classmethod
    def of(cls, translator: Translator) -> ServingTranslator:
        """The same engine and settings."""
        made = cls(translator.engine, translator.tokenizer, translator.config)
        made.options = translator.options
        return made

    def translate_batch(self, texts: Sequence[str], options: SearchOptions) -> Iterator[tuple[int, Translation]]:
        """The number of each text, which is one sentence, and its translation, as they are found.

        What has no letter and no digit (a dash, a bullet, the full stop behind a tag) says the same in every language,
        and is no sentence: a model would make one of it.
        """
        pending: deque[Any] = deque()
        spoken = [text if any(map(str.isalnum, text)) else "" for text in texts]
        requests = list(self._requests(spoken, None, pending, options, split=False))
        lines = list(pending)
        owners = [number for number, line in enumerate(lines) for _ in line.parts]
        parts: list[dict[int, list[Hypothesis]]] = [{} for _ in lines]
        for request, hypotheses in self.engine.translate_batch(requests, options):
            owner = owners[request]
            parts[owner][request] = hypotheses
            if len(parts[owner]) == len(lines[owner].parts):
                found = [found for _, found in sorted(parts[owner].items())]
                yield owner, self._translation(lines[owner], found, options)
        yield from ((n, Translation(texts[n], texts[n], (), 0)) for n, line in enumerate(lines) if not line.parts)
