"""The text of a run (§5.1): checked before anything is made, then turned into tokenizer and shards, once.

What was made from other text is made anew, unless the run has learned from it already: then it is refused. This module
knows checkpoints only as a sign of that; no model, no training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.config.settings import TEXT_FILES, Config, DataConfig
from heedful.data.run_folder import TOKENIZER, TRAINING_DATA, VALIDATION_DATA
from heedful.data.shards import Shards, is_current, is_of_other_text, prepare
from heedful.data.text_files import (
    fingerprint,
    is_tsv,
    read_pairs,
    refuse_odd_names,
    refuse_other_than_text,
    refuse_pipe,
)
from heedful.data.text_to_ids import Encoding
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError, ConfigError, DataError, counted
from heedful.model.checkpoint import last_whole

QUIET_SECONDS = 10.0  # between two messages on how much text was read
FEW_PAIRS = 4096  # between two looks at the clock


# ------------------------------------------------------------------------------------------------------------ checks


def check_text(data: DataConfig, changed: Mapping[str, tuple[Any, Any]]) -> None:
    """Refuse what is wrong with the names of the files, and with the validation text, which is small."""
    files = _files(data)
    refuse_odd_names(files)
    if not data.source:
        raise ConfigError("data.source names no file; give the training text with -s SOURCE -t TARGET")
    for name in files:
        refuse_other_than_text(Path(name))
    _refuse_unpaired("", data.source, data.target)
    _refuse_unpaired("valid_", data.valid_source, data.valid_target)
    _refuse_missing(changed)
    for name in files:
        refuse_pipe(Path(name))
    _refuse_bad_validation(data)


def missing_text(run: Path, data: DataConfig) -> list[str]:
    """The files that training would miss; a run that has its shards needs none."""
    return [] if (run / TRAINING_DATA).exists() else [name for name in _files(data) if not Path(name).is_file()]


def _files(data: DataConfig) -> list[str]:
    return [*data.source, *data.target, *data.valid_source, *data.valid_target]


def _refuse_unpaired(part: str, source: Sequence[str], target: Sequence[str]) -> None:
    """Each source file needs its translation, unless it is a TSV that holds both."""
    names = [f"--{part.replace('_', '-')}{side} (data.{part}{side})" for side in ("source", "target")]
    if (target or not all(is_tsv(Path(file)) for file in source)) and len(source) != len(target):
        raise ConfigError(
            f"{names[0]} names {counted(len(source), 'file')} but {names[1]} {len(target)}; "
            f"give both, line by line, or one .tsv with both as the source"
        )


def _refuse_missing(changed: Mapping[str, tuple[Any, Any]]) -> None:
    """A run goes on without its text, but a file that is named for the first time must be there."""
    for name in (f"data.{field}" for field in TEXT_FILES):
        _, files = changed.get(name, ((), ()))
        if missing := [file for file in files if not Path(file).exists()]:
            raise DataError(f"{missing[0]}: no such file ({name})")


def _refuse_bad_validation(data: DataConfig) -> None:
    """Its mistakes are reported before the training text is encoded, which takes long."""
    source, target = _paths(data.valid_source), _paths(data.valid_target)
    if not source or not all(file.exists() for file in (*source, *target)):
        return  # there is none, or it moved after its shards were made
    try:
        fingerprint((*source, *target))
        # All pairs are read, as the sides must end together.
        num_whole = sum(1 for pair in read_pairs(source, target) if pair.source.strip() and pair.target.strip())
        if not num_whole:
            raise DataError(f"{' and '.join(data.valid_source + data.valid_target)}: each pair is empty on a side")
    except DataError as error:
        raise DataError(f"{error} (data.valid_source, data.valid_target)") from None


# ------------------------------------------------------------------------------------------------------ preparations


@dataclass(frozen=True, slots=True)
class RunText:
    """The training or the validation text of a run: its files, and the shards that are made from them."""

    kind: str
    shards: Path
    source: list[Path]
    target: list[Path]
    encoding: Encoding

    def missing(self) -> list[Path]:
        """The files that are not there."""
        return [file for file in (*self.source, *self.target) if not file.exists()]

    def is_encoded(self) -> bool:
        """Whether the files are there, and the shards hold this text."""
        return is_current(self.shards, self.source, self.target, self.encoding)

    def differs(self) -> bool:
        """Whether the shards are whole and hold another text."""
        return is_of_other_text(self.shards, self.source, self.target, self.encoding)


def training_text(run: Path, config: Config, tokenizer: Tokenizer) -> RunText:
    """What the run learns from."""
    source, target = _paths(config.data.source), _paths(config.data.target)
    return RunText("training text", run / TRAINING_DATA, source, target, Encoding.for_training(config, tokenizer))


def _validation_text(run: Path, config: Config, tokenizer: Tokenizer) -> RunText:
    source, target = _paths(config.data.valid_source), _paths(config.data.valid_target)
    return RunText("validation text", run / VALIDATION_DATA, source, target, Encoding.for_validation(config, tokenizer))


def _paths(names: Sequence[str]) -> list[Path]:
    return [Path(name) for name in names]


def prepare_text(
    run: Path,
    config: Config,
    *,
    has_exact_vocab_size: bool,
    say: Callable[[str], None],
    encode: Callable[[RunText], None] | None = None,
) -> None:
    """Make tokenizer and shards, as far as the run does not have them; the short validation text comes first.

    `encode` makes the shards of the training text, if not this process does.
    """
    _drop_outdated_tokenizer(run, config, say)
    if not (run / TOKENIZER).exists():
        _make_tokenizer(config, has_exact_vocab_size, say).save(run / TOKENIZER)
    tokenizer = Tokenizer.load(run / TOKENIZER)
    training = training_text(run, config, tokenizer)
    if last_whole(run):
        _refuse_other_text(run, training, say)
    if config.data.valid_source:
        _encode(_validation_text(run, config, tokenizer), say)
    if encode is None or training.is_encoded():
        _encode(training, say)
    else:
        encode(training)


def _drop_outdated_tokenizer(run: Path, config: Config, say: Callable[[str], None]) -> None:
    """Remove one that was made from what is there no longer; a run with a checkpoint keeps its own."""
    path, model = run / TOKENIZER, Path(config.tokenizer.model)
    if not path.exists() or last_whole(run):
        return
    if _is_from_other_text(run, config):
        say("the training text is not what the vocabulary was made from: both are made anew")
        path.unlink()
    elif model.is_file() and model.read_bytes() != path.read_bytes():
        say(f"{model} is not the vocabulary that was copied from it: the text is encoded anew")
        path.unlink()


def _is_from_other_text(run: Path, config: Config) -> bool:
    """Whether the text changed after the vocabulary was made: a file is younger, or the shards hold other text."""
    path, files = run / TOKENIZER, _paths([*config.data.source, *config.data.target])
    if not all(file.exists() for file in files):
        return False
    if any(file.stat().st_mtime_ns > path.stat().st_mtime_ns for file in files):
        return True
    return training_text(run, config, Tokenizer.load(path)).differs()


def _make_tokenizer(config: Config, has_exact_vocab_size: bool, say: Callable[[str], None]) -> Tokenizer:
    """The one that the settings name, else one that is learned from the text.

    It has the size that the user named, or else as near to the preset's as the text allows.
    """
    if config.tokenizer.model:
        return Tokenizer.load(Path(config.tokenizer.model))
    if config.tokenizer.kind == "char":
        return _make_characters(config, say)
    wanted, learn = config.tokenizer.vocab_size, Tokenizer.learn if has_exact_vocab_size else Tokenizer.learn_at_most
    tokenizer = learn(_training_lines(config, _now_and_then(say, "vocabulary")), wanted, seed=config.train.seed)
    shrunk = f" (the text does not fill the preset's {wanted:,})" if tokenizer.vocab_size < wanted else ""
    say(f"vocabulary: {tokenizer.vocab_size:,} word pieces for both languages{shrunk}")
    return tokenizer


def _make_characters(config: Config, say: Callable[[str], None]) -> Tokenizer:
    lines = _training_lines(config, _now_and_then(say, "vocabulary"))
    tokenizer = Tokenizer.learn_characters(lines, config.tokenizer.vocab_size, seed=config.train.seed)
    say(f"vocabulary: {tokenizer.vocab_size:,} characters and bytes for both languages")
    return tokenizer


def _training_lines(config: Config, tell: Callable[[int], None]) -> Iterator[str]:
    pairs = read_pairs(_paths(config.data.source), _paths(config.data.target))
    for number, pair in enumerate(pairs, start=1):
        yield pair.source
        yield pair.target
        if number % FEW_PAIRS == 0:
            tell(number)


def _refuse_other_text(run: Path, text: RunText, say: Callable[[str], None]) -> None:
    """A run that has learned goes on with the text that it began with."""
    if _has_moved(text) or text.is_encoded():
        return
    if text.differs():
        raise CheckpointError(f"{run}: the training text is not what this run began with; take a new folder (-o)")
    say(f"{text.shards} was removed or damaged: it is made anew from the training text, which should be the same")


def _encode(text: RunText, say: Callable[[str], None]) -> None:
    if _has_moved(text):
        say(
            f"{text.kind}: {text.missing()[0]} is not there; the run has its tokens; its card needs a digest too: name "
            f"the new place"
        )
        return
    tell = _now_and_then(say, text.kind)
    shards = prepare(text.shards, text.source, text.target, text.encoding, progress=lambda counts: tell(counts.read))
    say(f"{text.kind}: {describe(shards)}")


def describe(shards: Shards) -> str:
    """How much text there is, and what was left out."""
    drawn = f", in {shards.num_encodings} encodings" if shards.num_encodings > 1 else ""
    counts = shards.counts
    found = f"{counts.kept:,} of {counts.read:,} pairs, {counts.target_tokens:,} target tokens"
    return f"{found} ({counts.left_out}){drawn}"


def _has_moved(text: RunText) -> bool:
    """Whether the shards are here and the files are not."""
    return text.shards.is_dir() and bool(text.missing())


def _now_and_then(say: Callable[[str], None], kind: str) -> Callable[[int], None]:
    """Say how many pairs were read, at intervals: a large corpus takes minutes."""
    last = time.monotonic()

    def tell(num_pairs: int) -> None:
        nonlocal last
        if time.monotonic() - last >= QUIET_SECONDS:
            last = time.monotonic()
            say(f"{kind}: {num_pairs:,} pairs read so far")

    return tell
