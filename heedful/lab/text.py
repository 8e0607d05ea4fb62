"""The text of an experiment: pairs of a folder that the user names, or of the built-in corpus, cut to a small budget.

An experiment may make other pairs of them (shorter ones, joined ones). What it trains on lies in a folder of the lab,
with one vocabulary for all rows: perplexities per word piece can be compared only between rows with the same pieces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from heedful.config.setting_layers import Layer
from heedful.data.atomic import explained, held_in_turn, replaced_folder
from heedful.data.grammar.corpus import WRITERS, held_out_examples, pronoun_cases, training_sentences
from heedful.data.grammar.words import text as written
from heedful.data.run_folder import TOKENIZER
from heedful.data.text_files import SentencePair, read_pairs
from heedful.data.tokenizer import Tokenizer
from heedful.errors import DataError

Pairs: TypeAlias = Sequence[SentencePair]
Sets: TypeAlias = Mapping[str, Pairs]
"""The pairs of each set by its name; `train` and `valid` are always among them."""

SOURCE, TARGET = "en", "de"
TRAIN, VALID, PRONOUNS = "train", "valid", "pronouns.tsv"
VOCABULARY = "vocabulary.txt"
CAPTION_PAIRS, CAPTION_PIECES, CAPTION_SHORT = 6_000, 4_000, 12
BUILT_IN_PAIRS, BUILT_IN_PIECES, BUILT_IN_SHORT = 1_000, 1_600, 8
BUILT_IN_POOL = 16_000
PACKED = ("", ".xz", ".gz")


@dataclass(frozen=True, slots=True)
class Source:
    """All pairs that there are, and how many of them an experiment usually trains on."""

    name: str
    train: Pairs
    valid: Pairs
    num_pairs: int
    num_pieces: int
    short: int = CAPTION_SHORT  # the longest "short" sentence, in words; about half the sentences are no longer
    other_files: Mapping[str, str] = field(default_factory=dict)


def usual_sets(source: Source) -> Sets:
    """The first pairs to train on, and the validation text as it is."""
    return {TRAIN: source.train[: source.num_pairs], VALID: source.valid}


class Text(Struct, frozen=True):
    """What an experiment makes of a source; the name is added to that of the folder."""

    name: str
    make: Callable[[Source], Sets]
    vocabulary: Callable[[Source], Sets] | None = None  # whose pieces it has, if not its own: to compare perplexities


PLAIN = Text("", usual_sets)


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A folder of text and vocabulary, and the digests of both."""

    folder: Path
    digest: str
    vocabulary: str = ""  # its fingerprint

    @property
    def name(self) -> str:
        """The name that results call it by."""
        return self.folder.name

    def pairs(self, name: str) -> Pairs:
        """The pairs of a set."""
        return list(read_pairs([self.folder / f"{name}.{SOURCE}"], [self.folder / f"{name}.{TARGET}"]))

    def layer(self) -> Layer:
        """The settings that name its files."""
        names = {"source": TRAIN, "target": TRAIN, "valid_source": VALID, "valid_target": VALID}
        files = {field: [str(self.folder / _file(name, field))] for field, name in names.items()}
        return {"data": files, "tokenizer": {"model": str(self.folder / TOKENIZER)}}


def _file(name: str, field: str) -> str:
    return f"{name}.{SOURCE if field.endswith('source') else TARGET}"


# ------------------------------------------------------------------------------------------------------------- sources


def read_source(data: Path | None) -> Source:
    """The pairs of a folder, or of the built-in corpus."""
    return _built_in() if data is None else _of_folder(data)


def _of_folder(data: Path) -> Source:
    train, valid = (_read(data, name) for name in (TRAIN, VALID))
    return Source(data.resolve().name, train, valid, CAPTION_PAIRS, CAPTION_PIECES)


def _read(data: Path, name: str) -> Pairs:
    source, target = (find_text(data, f"{name}.{language}") for language in (SOURCE, TARGET))
    return list(read_pairs([source], [target]))


def find_text(folder: Path, name: str) -> Path:
    """The file of that name, plain or packed."""
    for ending in PACKED:
        if (path := folder / f"{name}{ending}").is_file():
            return path
    raise DataError(f"{folder / name}: is not there, nor as .xz or .gz; --data names the folder that holds it")


def _built_in() -> Source:
    """The built-in corpus, whose German pronouns show which noun they mean."""
    write = WRITERS[TARGET]
    sentences = training_sentences(SOURCE, seed=1, count=BUILT_IN_POOL)
    train = [SentencePair(line, written(write(sentence))) for sentence, _, line in sentences]
    valid, _ = held_out_examples(SOURCE, TARGET)
    cases = "".join(f"{case.source}\t{case.right}\t{case.wrong}\n" for case in pronoun_cases(SOURCE, TARGET))
    pairs = [SentencePair(example.source, example.target) for example in valid]
    return Source("built-in", train, pairs, BUILT_IN_PAIRS, BUILT_IN_PIECES, BUILT_IN_SHORT, {PRONOUNS: cases})


# ------------------------------------------------------------------------------------------------------------ on disk


def prepare(text: Text, source: Source, texts: Path) -> PreparedText:
    """Write the text and its vocabulary to a folder of `texts`, unless it is there; other text there is refused."""
    sets = text.make(source)
    learned_from = (text.vocabulary(source) if text.vocabulary else sets)[TRAIN]
    contents = {**_contents(sets), **source.other_files, VOCABULARY: _origin(learned_from, source.num_pieces)}
    digest = _digest(contents)
    folder = texts / "-".join(filter(None, (source.name, text.name)))
    with explained(folder, DataError):
        texts.mkdir(parents=True, exist_ok=True)
        with held_in_turn(texts):
            _refuse_other(folder, _read_back(folder, contents), digest)
            if not (folder / TOKENIZER).is_file():
                _write(folder, contents, _learn(learned_from, source.num_pieces))
    return PreparedText(folder, digest, Tokenizer.load(folder / TOKENIZER).fingerprint)


def _origin(learned_from: Pairs, num_pieces: int) -> str:
    """What the vocabulary is learned from. As one of the files it tells a text with other pieces apart."""
    return f"at most {num_pieces} pieces of text with SHA-256 {_digest(_contents({TRAIN: learned_from}))}\n"


def _refuse_other(folder: Path, kept: Mapping[str, str], digest: str) -> None:
    """Rows were trained on what is there."""
    if kept and (before := _digest(kept)) != digest:
        raise DataError(
            f"{folder}: the text is {digest[:8]}, was {before[:8]}; take a new folder (-o), or remove this one and "
            f"make its rows again with --redo"
        )


def _write(folder: Path, contents: Mapping[str, str], tokenizer: Tokenizer) -> None:
    with replaced_folder(folder) as temporary:
        for name, content in contents.items():
            (temporary / name).write_bytes(content.encode())
        tokenizer.save(temporary / TOKENIZER)


def _contents(sets: Sets) -> dict[str, str]:
    """The files of all sets."""
    found = {}
    for name, pairs in sets.items():
        found[f"{name}.{SOURCE}"] = "".join(f"{pair.source}\n" for pair in pairs)
        found[f"{name}.{TARGET}"] = "".join(f"{pair.target}\n" for pair in pairs)
    return found


def _digest(contents: Mapping[str, str]) -> str:
    each = {name: hashlib.sha256(content.encode()).hexdigest() for name, content in contents.items()}
    return hashlib.sha256("\n".join(f"{name} {each[name]}" for name in sorted(each)).encode()).hexdigest()


def _read_back(folder: Path, names: Mapping[str, str]) -> dict[str, str]:
    return {name: (folder / name).read_bytes().decode() for name in names if (folder / name).is_file()}


def _learn(pairs: Pairs, num_pieces: int) -> Tokenizer:
    lines = (line for pair in pairs for line in (pair.source, pair.target))
    return Tokenizer.learn_at_most(lines, num_pieces, seed=1)
