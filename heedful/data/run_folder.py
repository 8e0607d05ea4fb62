"""A run's folder: the names of its files, and who is using it. It knows no model and no training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from heedful.config.setting_layers import to_toml
from heedful.config.settings import Config
from heedful.data.atomic import explained, held, tidy, write_file
from heedful.errors import CheckpointError

CONFIG, TOKENIZER, METRICS, LOCK = "config.toml", "tokenizer.model", "metrics.jsonl", ".lock"
BASE = "base.json"
CHECKPOINTS, MODEL = "checkpoints", "model"
TRAINING_DATA, VALIDATION_DATA = "data/train", "data/valid"
ENCODING = "encoding"  # of text that is encoded in parts


def has_begun(run: Path) -> bool:
    """Whether anything was made by the run's settings: encoded text, or a checkpoint. Before that they may change."""
    return (run / TRAINING_DATA).is_dir() or any((run / CHECKPOINTS).glob("step-*"))


def write_config(run: Path, config: Config) -> None:
    """Write config.toml."""
    write_text(run / CONFIG, to_toml(config))


def write_text(path: Path, text: str) -> None:
    """Write a file of the run, whole or not at all."""
    with explained(path, CheckpointError):
        write_file(path, text.encode())


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold the run folder. If it was made for this start and nothing came of it, it is removed at the end."""
    made = _make_folder(run)
    in_use = CheckpointError(f"{run}: another process is using this run; wait for it or take another")
    with ExitStack() as stack:
        stack.callback(_remove_empty, made)
        with explained(run / LOCK, CheckpointError):
            stack.enter_context(held(run / LOCK, in_use))
        if made:
            stack.callback(_empty_if_bare, run)
        yield


def tidy_run(run: Path) -> None:
    """Remove what a killed start was writing or removing, and put back what it was replacing; we hold the run."""
    for folder in (run, run / CHECKPOINTS, (run / TRAINING_DATA).parent):
        tidy(folder)


def _make_folder(run: Path) -> list[Path]:
    """Make the folder and its parents; return those that were missing, the innermost first."""
    if run.is_file():
        raise CheckpointError(f"{run}: is a file, and a run is a folder; name another with -o")
    missing = [folder for folder in (run, *run.parents) if not folder.exists()]
    with explained(run, CheckpointError, "cannot be made"):
        foreign = run.is_dir() and any(run.iterdir()) and not _is_ours(run)
        run.mkdir(parents=True, exist_ok=True)
    if foreign:
        raise CheckpointError(f"{run}: is not empty and is not a heedful run; take another folder")
    return missing


def _is_ours(run: Path) -> bool:
    """A run has a lock; a copy may have only settings and what they made. A config.toml alone may be anybody's."""
    return (run / LOCK).exists() or ((run / CONFIG).exists() and has_begun(run))


def _empty_if_bare(run: Path) -> None:
    """Remove settings and lock if there is nothing else. The lock is still held: another start finds its file gone."""
    with suppress(OSError):
        if {path.name for path in run.iterdir()} <= {CONFIG, BASE, LOCK}:
            for name in (CONFIG, BASE, LOCK):
                (run / name).unlink(missing_ok=True)


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove the folders that are empty: another start may have written into one of them."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
