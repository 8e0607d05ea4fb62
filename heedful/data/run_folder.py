"""A run's folder: which configuration it has, whether it may go on with another one, and who is using it.

Every start of a run folder is a resume; the first one finds nothing to resume from. It knows files and settings; no
model, no training.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.config.recipe import read_recipe
from heedful.config.settings import (
    DEFAULT_PRESET,
    TEXT_FILES,
    Config,
    Layer,
    differences,
    located_files,
    preset,
    resolve,
    to_layer,
    to_toml,
)
from heedful.config.shortening import scaled_schedule, without_schedule
from heedful.data.atomic import explained, held, tidy, write_file
from heedful.errors import CheckpointError, ConfigError

CONFIG, TOKENIZER, METRICS, LOCK = "config.toml", "tokenizer.model", "metrics.jsonl", ".lock"
BASE = "base.json"
CHECKPOINTS, MODEL = "checkpoints", "model"
TRAINING_DATA, VALIDATION_DATA = "data/train", "data/valid"

# What may change between two starts of a run. Files may move: what counts is what is in them.
MAY_CHANGE = frozenset(
    [
        "train.steps",
        "train.cooldown_steps",
        "train.patience",
        "train.checkpoint_steps",
        "train.checkpoint_minutes",
        "train.keep_checkpoints",
        "train.average_last",
        "train.validate_steps",
        "decode.beam_size",
        "decode.alpha",
        "decode.max_extra",
        *(f"data.{field}" for field in TEXT_FILES),
    ]
)
MAY_BE_NAMED = frozenset(["data.source_language", "data.target_language"])  # if the run did not know them


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of this start: which ones the user named, which changed, and which were scaled."""

    config: Config
    named: frozenset[str]
    changed: dict[str, tuple[Any, Any]]
    scaled: tuple[str, ...] = ()  # a line for each setting of a new run with fewer steps


def make_plan(
    run: Path,
    *,
    preset_name: str | None,
    layers: list[Layer],
    ours: Sequence[Layer] = (),
    own_file: Layer | None = None,
) -> Plan:
    """Merge settings: preset < ours < the user's file < layers for a new run; an existing run keeps its own.

    `ours` are settings that the user did not write: one of our recipes, or the sizes of a model to fine-tune. A run
    stores absolute paths of its text, so it can be resumed from another working folder.
    """
    given = [own_file or {}, *layers]
    named = frozenset(
        f"{section}.{field}" for layer in (*ours, *given) for section in layer for field in layer[section]
    )
    if not has_begun(run):
        ours = [preset(preset_name or DEFAULT_PRESET), *ours]
        resolve(*ours, *given)  # refuses a mistake before anything is scaled
        scaled = scaled_schedule(ours, own_file or {}, layers)
        return Plan(located_files(resolve(*ours, scaled.layer, *given)), named, {}, scaled.lines)
    chosen = [_whole_model(preset_name), preset(preset_name)] if preset_name else []
    _, stored = read_recipe(run / CONFIG)
    before = located_files(resolve(stored))
    after = located_files(resolve(to_layer(before), *map(without_schedule, (*chosen, *ours)), *given))
    changed = differences(before, after)
    if after.tokenizer.model:
        changed.pop("tokenizer.vocab_size", None)  # the tokenizer's own size counts, not the preset's
    for name in changed:
        if name in MAY_BE_NAMED and not changed[name][0]:
            continue
        if name not in MAY_CHANGE and not (name == "tokenizer.model" and _is_tokenizer_of(run, after)):
            of_preset = preset_name and name not in named
            value = f"{changed[name][1]!r} (preset {preset_name})" if of_preset else repr(changed[name][1])
            remedy = "leave --preset out" if of_preset else f"leave {name} as it was"
            raise ConfigError(
                f"{name} = {value}, but the run {run} has {changed[name][0]!r}; take a new folder (-o), or {remedy}"
            )
    return Plan(after, named, changed)


def _is_tokenizer_of(run: Path, config: Config) -> bool:
    """Whether the file that is named now holds the run's own tokenizer."""
    given, own = Path(config.tokenizer.model), run / TOKENIZER
    return given.is_file() and own.is_file() and given.read_bytes() == own.read_bytes()


def _whole_model(preset_name: str) -> Layer:
    """All sizes of a preset's model, including those that it takes from base."""
    return {"model": to_layer(resolve(preset(preset_name)))["model"]}


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
        raise CheckpointError(f"{run}: is not empty and no run of ours; take another folder")
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


def cut_metrics(run: Path, step: int) -> None:
    """Remove the lines of all steps after the checkpoint that the run goes on from."""
    path = run / METRICS
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    kept = [line for line in lines if _step_of(line) <= step]
    write_text(path, "".join(f"{line}\n" for line in kept))


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # the line that was being written when the machine died


def _is_json(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def append_metrics(run: Path, record: Mapping[str, Any]) -> None:
    """Add a line to metrics.jsonl. JSON has no NaN or infinity: such a value becomes null."""
    numbers = {name: value if _is_json(value) else None for name, value in record.items()}
    with explained(run / METRICS, CheckpointError), open(run / METRICS, "a", encoding="utf-8") as file:
        file.write(json.dumps(numbers, ensure_ascii=False, allow_nan=False) + "\n")
