"""Text files → tokenizer and shards in a run's folder (§5.1): made once, and used as long as the text is the same.

What was made from other text is made anew, unless the run has learned from it already: then it is refused. It knows
checkpoints only as a sign of that; no model, no training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from heedful.config.settings import Config
from heedful.data.corpus import read_pairs
from heedful.data.encoding import Encoding
from heedful.data.run_folder import TOKENIZER, TRAINING_DATA, VALIDATION_DATA, Plan
from heedful.data.shards import Counts, is_current, is_of_other_text, prepare
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError, DataError
from heedful.model import checkpoint

QUIET_SECONDS = 10.0  # while text is read: so long nothing is said
FEW_PAIRS = 4096  # after so many it is time to look at the clock


def make_tokenizer(run: Path, made: Plan, say: Callable[[str], None]) -> Tokenizer:
    """The run's own, the one that its settings name, or one that is learned from its text."""
    path, config = run / TOKENIZER, made.config
    if path.exists() and _is_of_other_text(run, config):
        say("the training text is not what the vocabulary was made from: both are made anew")
        path.unlink()
    elif path.exists() and _is_of_another_file(run, config):
        say(f"{config.tokenizer.model} is not the vocabulary that was copied from it: the text is encoded anew")
        path.unlink()
    if not path.exists():
        if config.tokenizer.model:
            Tokenizer.load(Path(config.tokenizer.model)).save(path)
        else:
            _learn_tokenizer(made, say).save(path)
    return Tokenizer.load(path)


def make_shards(run: Path, config: Config, tokenizer: Tokenizer, say: Callable[[str], None]) -> None:
    """Those of the validation text if there is one, and of the training text, which takes longer."""
    data = config.data
    training = paths(data.source), paths(data.target), Encoding.for_training(config, tokenizer)
    if checkpoint.last_whole(run):
        _refuse_other_text(run, *training, say)
    if data.valid_source:
        validation = paths(data.valid_source), paths(data.valid_target), Encoding.for_validation(config, tokenizer)
        _encode("validation text", run / VALIDATION_DATA, *validation, say)
    _encode("training text", run / TRAINING_DATA, *training, say)


def has_its_text(run: Path, config: Config) -> bool:
    """Is the training text still where it was, and what the run learns from?"""
    encoding = Encoding.for_training(config, Tokenizer.load(run / TOKENIZER))
    try:
        return is_current(run / TRAINING_DATA, paths(config.data.source), paths(config.data.target), encoding)
    except DataError:  # a file has gone
        return False


def paths(names: Sequence[str]) -> list[Path]:
    """The files of a setting."""
    return [Path(name) for name in names]


def _is_of_other_text(run: Path, config: Config) -> bool:
    """Whether the text changed after the vocabulary was made; with a checkpoint, what there is must do.

    Encoded text knows its files by content; without it a younger file tells.
    """
    path, source, target = run / TOKENIZER, paths(config.data.source), paths(config.data.target)
    if checkpoint.last_whole(run) or not all(file.exists() for file in (*source, *target)):
        return False
    if any(file.stat().st_mtime_ns > path.stat().st_mtime_ns for file in (*source, *target)):
        return True
    return is_of_other_text(run / TRAINING_DATA, source, target, Encoding.for_training(config, Tokenizer.load(path)))


def _is_of_another_file(run: Path, config: Config) -> bool:
    """Whether the tokenizer that is to be reused was replaced since; with a checkpoint, the run's own must do."""
    reused = Path(config.tokenizer.model)
    if checkpoint.last_whole(run) or not reused.is_file():
        return False
    return reused.read_bytes() != (run / TOKENIZER).read_bytes()


def _learn_tokenizer(made: Plan, say: Callable[[str], None]) -> Tokenizer:
    """Of the size that the user named, or else as near to the preset's as the text allows."""
    config = made.config
    wanted, seed = config.tokenizer.vocab_size, config.train.seed
    lines = _training_lines(config, _now_and_then(say, "vocabulary"))
    if "tokenizer.vocab_size" in made.named:
        tokenizer = Tokenizer.learn(lines, wanted, seed=seed)
    else:
        tokenizer = Tokenizer.learn_at_most(lines, wanted, seed=seed)
    shrunk = f" (the text does not fill the preset's {wanted:,})" if tokenizer.vocab_size < wanted else ""
    say(f"vocabulary: {tokenizer.vocab_size:,} word pieces for both languages{shrunk}")
    return tokenizer


def _training_lines(config: Config, tell: Callable[[int], None]) -> Iterator[str]:
    pairs = read_pairs(paths(config.data.source), paths(config.data.target))
    for number, pair in enumerate(pairs, start=1):
        yield pair.source
        yield pair.target
        if number % FEW_PAIRS == 0:
            tell(number)


def _refuse_other_text(
    run: Path, source: Sequence[Path], target: Sequence[Path], encoding: Encoding, say: Callable[[str], None]
) -> None:
    """A run that has learned goes on with the text that it began with."""
    folder = run / TRAINING_DATA
    if _has_gone(folder, source, target) or is_current(folder, source, target, encoding):
        return
    if is_of_other_text(folder, source, target, encoding):
        raise CheckpointError(f"{run}: the training text is not what this run began with; take a new folder (-o)")
    say(f"{folder} was removed or damaged: it is made anew from the training text, which should be the same")


def _encode(
    what: str,
    folder: Path,
    source: Sequence[Path],
    target: Sequence[Path],
    encoding: Encoding,
    say: Callable[[str], None],
) -> None:
    if _has_gone(folder, source, target):
        missing = next(file for file in (*source, *target) if not file.exists())
        say(f"{what}: {missing} is not there; the run has its tokens; its card needs a digest too: name the new place")
        return
    tell = _now_and_then(say, what)
    shards = prepare(folder, source, target, encoding, progress=lambda counts: tell(counts.read))
    drawn = f", in {shards.num_encodings} encodings" if shards.num_encodings > 1 else ""
    say(f"{what}: {_counted(shards.counts)}{drawn}")


def _has_gone(folder: Path, source: Sequence[Path], target: Sequence[Path]) -> bool:
    """The text is elsewhere now, but its tokens are here."""
    return folder.is_dir() and not all(file.exists() for file in (*source, *target))


def _now_and_then(say: Callable[[str], None], what: str) -> Callable[[int], None]:
    """Says how many pairs were read: a large corpus takes minutes."""
    last = time.monotonic()

    def tell(num_pairs: int) -> None:
        nonlocal last
        if time.monotonic() - last >= QUIET_SECONDS:
            last = time.monotonic()
            say(f"{what}: {num_pairs:,} pairs read so far")

    return tell


def _counted(counts: Counts) -> str:
    return f"{counts.kept:,} of {counts.read:,} pairs, {counts.target_tokens:,} target tokens ({counts.left_out})"
