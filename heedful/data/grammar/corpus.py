"""Sentences as a parallel corpus: training, validation and test pairs.

A pair of languages decides only how trees are written; which trees are drawn follows from the seed alone, so the
corpora of all six pairs say the same. A source text occurs once. Held-out sentences are drawn apart from those for
training, so that they do not depend on how many there are. Knows no grammar of any language, and no files.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from heedful.data.grammar.demo import DEMO
from heedful.data.grammar.english import english
from heedful.data.grammar.german import german
from heedful.data.grammar.korean import korean
from heedful.data.grammar.links import Link, links, relations_of
from heedful.data.grammar.phrases import Draw
from heedful.data.grammar.pronouns import PronounCase, pronoun_sentences, wrong_pronoun
from heedful.data.grammar.reserved import is_held_out
from heedful.data.grammar.sampling import sentences
from heedful.data.grammar.trees import Sentence
from heedful.data.grammar.words import Word, alignment, text
from heedful.errors import ConfigError

LANGUAGES = ("en", "de", "ko")
"""The languages that every sentence can be written in."""

WRITERS: dict[str, Callable[[Sentence], list[Word]]] = {"en": english, "de": german, "ko": korean}
"""What writes a tree in a language."""

_PRONOUN_CASES = 400
# So many draws in a row without a new sentence, and we take it that there is none.
_TRIES = 50_000


@dataclass(frozen=True, slots=True)
class Example:
    """A sentence and its translation; alignment and links count the words between spaces, from 0."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]
    source_links: tuple[Link, ...]
    target_links: tuple[Link, ...]


class WrittenSentence(NamedTuple):
    """A tree and its text in one language."""

    sentence: Sentence
    words: list[Word]
    line: str


def check_pair(source_language: str, target_language: str) -> None:
    """Refuse what is not two different languages of the corpus."""
    possible = ", ".join(LANGUAGES)
    for side, language in (("source", source_language), ("target", target_language)):
        if language not in LANGUAGES:
            raise ConfigError(f"the built-in corpus has no {side} language {language!r}; it has {possible}")
    if source_language == target_language:
        raise ConfigError(f"{source_language}-{target_language} is no pair of languages; take two of {possible}")


def training_sentences(language: str, *, seed: int, count: int) -> Iterator[WrittenSentence]:
    """Sentences without a reserved combination, all different, and none of the demonstration's."""
    draws = sentences(Draw(f"train {seed}"))
    shown = (sentence for sentence in draws if not is_held_out(sentence) and sentence not in DEMO)
    return _distinct(shown, language, count)


def held_out_examples(
    source_language: str, target_language: str, *, seed: int = 1, count: int = 1_000
) -> tuple[list[Example], list[Example]]:
    """Pairs for validation and pairs for test, `count` each: all different, all with a reserved combination."""
    check_pair(source_language, target_language)
    draws = sentences(Draw(f"held out {seed}"))
    held_out = _distinct((sentence for sentence in draws if is_held_out(sentence)), source_language, 2 * count)
    examples = [example(written, target_language) for written in held_out]
    return examples[:count], examples[count:]


def _distinct(draws: Iterator[Sentence], language: str, count: int) -> Iterator[WrittenSentence]:
    if count < 0:
        raise ConfigError(f"the built-in corpus cannot have {count} sentences")
    seen: set[str] = set()
    failures = 0
    while len(seen) < count:
        sentence = next(draws)
        words = WRITERS[language](sentence)
        line = text(words)
        failures = failures + 1 if line in seen else 0
        if failures == _TRIES:
            raise ConfigError(f"the built-in corpus has no {count:,} sentences; ask for {len(seen):,} or fewer")
        if not failures:
            seen.add(line)
            yield WrittenSentence(sentence, words, line)


def example(written: WrittenSentence, target_language: str) -> Example:
    """A written sentence with its translation."""
    sentence, source, line = written
    target = WRITERS[target_language](sentence)
    relations = relations_of(sentence)
    return Example(line, text(target), alignment(source, target), links(relations, source), links(relations, target))


def pronoun_cases(source_language: str, target_language: str, *, seed: int = 1) -> list[PronounCase]:
    """Held-out sentences in which the pronoun's gender depends on its antecedent; only German has such pronouns."""
    if target_language != "de":
        return []
    cases: dict[str, PronounCase] = {}
    for role in ("subject", "object"):
        enough = len(cases) + _PRONOUN_CASES // 2
        draws = pronoun_sentences(Draw(f"pronouns {role} {seed}"), role)
        while len(cases) < enough:
            case = _pronoun_case(next(draws), WRITERS[source_language])
            cases.setdefault(case.source, case)
    return list(cases.values())


def _pronoun_case(sentence: Sentence, write_source: Callable[[Sentence], list[Word]]) -> PronounCase:
    source, right, relations = write_source(sentence), german(sentence), relations_of(sentence)
    wrong = text(german(wrong_pronoun(sentence)))
    return PronounCase(text(source), text(right), wrong, links(relations, source), links(relations, right))


DEMO_SENTENCES: dict[str, tuple[str, ...]] = {
    language: tuple(text(WRITERS[language](sentence)) for sentence in DEMO) for language in LANGUAGES
}
"""Sentences for a demonstration to translate, by source language; the first two differ in what "it" stands for."""
