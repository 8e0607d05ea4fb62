"""The built-in corpus as files: a line per sentence, UTF-8, as any translator reads them.

`train.en`, `train.de`, `valid.*` and `test.*`; for the test set also `test.alignments` (Pharaoh: `0-0 1-2`, source word
and target word, counted from 0) and `test.links.jsonl` (`{"source": [["verb", 2, 1], …], "target": […]}`: kind, word,
head); for pairs into German `pronouns.tsv` (source, right target, wrong target). The files take their names
when all are complete. This module knows nothing of sentences.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from heedful.data.atomic import explained, new_files
from heedful.data.grammar.corpus import WRITERS, Example, held_out_examples, pronoun_cases, training_sentences
from heedful.data.grammar.words import text
from heedful.errors import DataError


def write_corpus(
    directory: Path, source_language: str, target_language: str, *, seed: int = 1, train_pairs: int = 200_000
) -> None:
    """Write train.en, train.de, valid.*, test.*, test.alignments, test.links.jsonl and, into German, pronouns.tsv."""
    languages = (source_language, target_language)
    valid, test = held_out_examples(*languages, seed=seed)
    cases = pronoun_cases(*languages, seed=seed)
    contents: dict[str, Iterable[str]] = {
        **_sides("valid", languages, valid),
        **_sides("test", languages, test),
        "test.alignments": (_pharaoh(example) for example in test),
        "test.links.jsonl": (
            json.dumps({"source": example.source_links, "target": example.target_links}) for example in test
        ),
    }
    if cases:
        contents["pronouns.tsv"] = (f"{case.source}\t{case.right}\t{case.wrong}" for case in cases)
    with _opened(directory, [*(f"train.{language}" for language in languages), *contents]) as files:
        _write_training(files, languages, seed=seed, train_pairs=train_pairs)
        for name, lines in contents.items():
            files[name].writelines(f"{line}\n" for line in lines)


def _sides(name: str, languages: tuple[str, str], examples: list[Example]) -> dict[str, Iterable[str]]:
    source, target = languages
    return {
        f"{name}.{source}": (example.source for example in examples),
        f"{name}.{target}": (example.target for example in examples),
    }


def _write_training(files: dict[str, TextIO], languages: tuple[str, str], *, seed: int, train_pairs: int) -> None:
    """Write the texts alone: alignments and links of the training sentences are in no file, and take time."""
    source, target = (files[f"train.{language}"] for language in languages)
    translate = WRITERS[languages[1]]
    for sentence, _, line in training_sentences(languages[0], seed=seed, count=train_pairs):
        source.write(line + "\n")
        target.write(text(translate(sentence)) + "\n")


def _pharaoh(example: Example) -> str:
    return " ".join(f"{i}-{j}" for i, j in example.alignment)


@contextmanager
def _opened(directory: Path, names: list[str]) -> Iterator[dict[str, TextIO]]:
    """Files to write to; they take their names when all are complete."""
    _refuse_other_things(directory, names)
    with explained(directory, DataError):
        directory.mkdir(parents=True, exist_ok=True)
        with new_files([directory / name for name in names]) as temporary, ExitStack() as stack:
            opened = (path.open("w", encoding="utf-8", newline="\n") for path in temporary)
            yield {name: stack.enter_context(file) for name, file in zip(names, opened, strict=True)}


def _refuse_other_things(directory: Path, names: list[str]) -> None:
    if directory.exists() and not directory.is_dir():
        raise DataError(f"{directory}: is a file, and a corpus is a folder; name another with -o")
    for name in names:
        if (directory / name).is_dir():
            raise DataError(f"{directory / name} is a directory; a file of the corpus is to have that name")
