"""Which language is this? A small model of character n-grams, fitted on the training text and stored with the model.

Naive Bayes over the n-grams of one to three characters: each language keeps its most frequent n-grams with their
log-probabilities, and all others share the rest. It distinguishes only the languages that it was fitted on; a text in
characters that none of them uses gets no confidence. It knows neither torch nor models.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from heedful.errors import CheckpointError

FILE = "languages.json"
FORMAT = {"format": "heedful languages", "version": 1}
ORDERS = (1, 2, 3)
KEPT = 2000  # n-grams of each language
SAMPLED = 20_000  # lines of each language; more change little
LONGEST_TEXT = 5000  # characters that detection looks at
RARE = 0.5  # the count of an n-gram that was not seen
LEAST = math.log(1e-5)  # no n-gram is less likely: the training text is only a sample


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """The log-probabilities of the n-grams of each language; `unseen` is that of any other n-gram."""

    log_probs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    unseen: Mapping[str, float] = field(default_factory=dict)

    def detect(self, text: str) -> list[tuple[str, float]]:
        """All languages, the likeliest first, each with a confidence between 0 and 1.

        The confidence is the posterior probability, times the share of the text's letters that the language uses.
        """
        grams = Counter(_ngrams(text[:LONGEST_TEXT]))
        likelihoods = {language: self._log_likelihood(grams, language) for language in self.log_probs}
        highest = max(likelihoods.values(), default=0.0)
        # Each character is counted once for every order, so the sum is too large by that factor.
        masses = {language: math.exp((value - highest) / len(ORDERS)) for language, value in likelihoods.items()}
        total = sum(masses.values())
        found = [(language, mass / total * self._known(grams, language)) for language, mass in masses.items()]
        return sorted(found, key=lambda item: (-item[1], -masses[item[0]]))

    def _log_likelihood(self, grams: Counter[str], language: str) -> float:
        log_probs, unseen = self.log_probs[language], self.unseen[language]
        return sum(count * log_probs.get(gram, unseen) for gram, count in grams.items())

    def share_of_letters(self, text: str, language: str) -> float:
        """The share of a text's letters that the language uses: almost 0 in another script."""
        return self._known(Counter(_ngrams(text[:LONGEST_TEXT])), language)

    def _known(self, grams: Counter[str], language: str) -> float:
        letters = {gram: count for gram, count in grams.items() if len(gram) == 1 and gram.isalpha()}
        known = sum(count for letter, count in letters.items() if letter in self.log_probs[language])
        return known / (sum(letters.values()) or 1)

    def save(self, folder: Path) -> None:
        """Write `languages.json` into a model's folder."""
        content = FORMAT | {"log_probs": self.log_probs, "unseen": self.unseen}
        (folder / FILE).write_text(json.dumps(content, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def fit(samples: Mapping[str, Iterable[str]]) -> LanguageModel:
    """Fit a model on lines of text in each language."""
    counts = {language: Counter[str]() for language in samples}
    for language, lines in samples.items():
        for line in islice(lines, SAMPLED):
            counts[language].update(_ngrams(line))
    kept = {language: _kept(count) for language, count in counts.items() if count}
    totals = {language: counts[language].total() + RARE for language in kept}
    log_probs = {
        language: {gram: _log_prob(count, totals[language]) for gram, count in grams.items()}
        for language, grams in kept.items()
    }
    return LanguageModel(log_probs, {language: _log_prob(RARE, totals[language]) for language in kept})


def _kept(count: Counter[str]) -> dict[str, int]:
    """The most frequent n-grams, and every letter: a script such as Chinese has thousands of them."""
    return dict(count.most_common(KEPT)) | {gram: number for gram, number in count.items() if len(gram) == 1}


def _log_prob(count: float, total: float) -> float:
    return round(max(LEAST, math.log(count / total)), 4)


class _Stored(Struct, frozen=True):
    """The part of `languages.json` that is read."""

    version: Literal[1]
    log_probs: dict[str, dict[str, float]]
    unseen: dict[str, float]


def load(folder: Path) -> LanguageModel:
    """Read `languages.json` of a model's folder; a folder without it gives a model that knows no language."""
    path = folder / FILE
    if not path.exists():
        return LanguageModel()
    damaged = CheckpointError(f"{path}: damaged, or not written by heedful; remove it, and no language is guessed")
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_Stored)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        raise damaged from None
    if stored.log_probs.keys() != stored.unseen.keys():
        raise damaged
    return LanguageModel(stored.log_probs, stored.unseen)


def merge(models: Sequence[LanguageModel]) -> LanguageModel:
    """One model of all languages; for a language that two models know, the first one counts."""
    merged = LanguageModel()
    for model in reversed(models):
        merged = LanguageModel({**merged.log_probs, **model.log_probs}, {**merged.unseen, **model.unseen})
    return merged


def _ngrams(text: str) -> Iterator[str]:
    """The n-grams of each word, with a space before and after it, whatever its case."""
    for word in text.casefold().split():
        padded = f" {word} "
        for order in ORDERS:
            yield from (padded[n : n + order] for n in range(len(padded) - order + 1))
