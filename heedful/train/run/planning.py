"""What a start is to do, decided before anything is made: its settings, from all that the user and the run say.

What is wrong with them, and can be seen without much reading, is refused here and leaves no trace. It reads settings,
names of files and the small validation text; it writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from heedful.config.settings import TEXT_FILES, Config, DataConfig, Layer, differences, to_layer
from heedful.data.corpus import (
    fingerprint,
    is_tsv,
    languages_of,
    read_pairs,
    refuse_odd_names,
    refuse_other_than_text,
    refuse_pipe,
)
from heedful.data.run_folder import CHECKPOINTS, MODEL, TOKENIZER, TRAINING_DATA, Plan, has_begun, make_plan
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError, ConfigError, DataError, counted
from heedful.model import checkpoint
from heedful.score.run_history import read_base
from heedful.train.cautions import cautions_at_start, cautions_of_new_weights

TEXT = [f"data.{field}" for field in TEXT_FILES]


@dataclass(frozen=True, slots=True)
class Order:
    """What a user asks for: where the run lies, its settings in layers, and where it computes."""

    run: Path
    preset: str | None = None
    layers: tuple[Layer, ...] = ()
    from_model: Path | None = None
    device: str = "auto"
    name: str = ""  # what the model's card calls it; empty: as the run's folder
    recipe: Layer = field(default_factory=dict)  # one of ours
    own_file: Layer = field(default_factory=dict)  # a file of settings that the user wrote


def plan(order: Order) -> Plan:
    """The settings of this start, checked; languages taken from the files' names where they are not set."""
    _refuse_unseen_checkpoints(order.run)
    fine_tuned = [_layer_of_model(order.from_model)] if order.from_model else []
    ours, layers = [*fine_tuned, order.recipe], list(order.layers)
    made = make_plan(order.run, preset_name=order.preset, layers=layers, ours=ours, own_file=order.own_file)
    if order.from_model:
        _refuse_other_sizes(order.from_model, made.config)
    data = made.config.data
    refuse_odd_names([str(order.run), *_files(data)])
    if not data.source:
        raise ConfigError("data.source names no file; give the training text with -s SOURCE -t TARGET")
    for name in _files(data):
        refuse_other_than_text(Path(name))
    _refuse_unpaired("", data.source, data.target)
    _refuse_unpaired("valid_", data.valid_source, data.valid_target)
    _refuse_missing(made)
    for name in _files(data):
        refuse_pipe(Path(name))
    _refuse_bad_validation(data)
    _refuse_to_begin_anew(order.run)
    _refuse_to_forget_the_base(order)
    _refuse_steps_that_are_done(order.run, made)
    return replace(made, config=_with_languages(_with_own_vocabulary(order.run, made)))


def missing_text(run: Path, config: Config) -> list[str]:
    """Files that a start would refuse, and a dry one need not have; a run that has its tokens needs none."""
    return [] if (run / TRAINING_DATA).exists() else [name for name in _files(config.data) if not Path(name).is_file()]


def _files(data: DataConfig) -> list[str]:
    """All text that a run is told to read."""
    return [*data.source, *data.target, *data.valid_source, *data.valid_target]


def warnings(order: Order, config: Config, device: str) -> list[str]:
    """What a user should read of a plan that is not refused; once: who goes on has read it."""
    if checkpoint.last_whole(order.run) is not None:
        return _another_base(order)
    of_weights = [] if order.from_model else cautions_of_new_weights(config)
    return [f"warning: {caution}" for caution in (*cautions_at_start(config, device), *of_weights)]


def _another_base(order: Order) -> list[str]:
    """A run that goes on reads no model but its own; who names another one may think that it does."""
    if order.from_model is None:
        return []
    began, weights = read_base(order.run), checkpoint.find_model(order.from_model).weights
    if began and checkpoint.weights_digest(weights) == began.weights_sha256:
        return []
    origin = f" (it began from {began.name}, weights {began.weights_sha256[:8]})" if began else ""
    return [
        f"warning: --from {order.from_model} is not read: {order.run} goes on from its own checkpoint{origin}; to "
        f"fine-tune that model take a new folder (-o)"
    ]


def _refuse_unpaired(part: str, source: Sequence[str], target: Sequence[str]) -> None:
    """Each source file needs its translation, unless it is a TSV that holds both."""
    names = [f"--{part.replace('_', '-')}{side} (data.{part}{side})" for side in ("source", "target")]
    if (target or not all(is_tsv(Path(file)) for file in source)) and len(source) != len(target):
        raise ConfigError(
            f"{names[0]} names {counted(len(source), 'file')} but {names[1]} {len(target)}; "
            f"give both, line by line, or one .tsv with both as the source"
        )


def _refuse_bad_validation(data: DataConfig) -> None:
    """It is small: what is wrong with it is said before the training text is encoded."""
    source, target = [Path(name) for name in data.valid_source], [Path(name) for name in data.valid_target]
    if not source or not all(file.exists() for file in (*source, *target)):
        return  # none, or gone elsewhere since its tokens were made
    try:
        fingerprint((*source, *target))
        # All pairs are read, as the sides must end together.
        num_whole = sum(1 for pair in read_pairs(source, target) if pair.source.strip() and pair.target.strip())
        if not num_whole:
            raise DataError(f"{' and '.join(data.valid_source + data.valid_target)}: each pair is empty on a side")
    except DataError as error:
        raise DataError(f"{error} (data.valid_source, data.valid_target)") from None


def _refuse_missing(made: Plan) -> None:
    """A run goes on without its text, but a file that is named for the first time must be there."""
    for name, (_, files) in made.changed.items():
        if name in TEXT and (missing := [file for file in files if not Path(file).exists()]):
            raise DataError(f"{missing[0]}: no such file ({name})")


def _refuse_unseen_checkpoints(run: Path) -> None:
    """A link to a disk that is not there now, or a folder that is not ours to read: a run would begin anew."""
    folder = run / CHECKPOINTS
    if os.path.lexists(folder):
        try:
            os.listdir(folder)
        except OSError as error:
            raise CheckpointError(
                f"{folder}: cannot be read ({error.strerror}), and the run goes on from what is there"
            ) from None


def _refuse_to_begin_anew(run: Path) -> None:
    """A model that a run has come to is not replaced by one that has just begun."""
    if (run / MODEL / checkpoint.WEIGHTS).exists() and checkpoint.last_whole(run) is None:
        raise CheckpointError(
            f"{run}: its model is here, but no checkpoint to go on from, and to begin anew would replace it; take a "
            f"new folder (-o), with --from {run} to train that model on"
        )


def _refuse_to_forget_the_base(order: Order) -> None:
    """A run that was killed before it had a checkpoint must be told once more what it begins from."""
    base = read_base(order.run)
    is_without_weights = has_begun(order.run) and checkpoint.last_whole(order.run) is None
    if base and order.from_model is None and is_without_weights:
        raise ConfigError(f"{order.run} was to begin from {base.name}, and has no checkpoint yet; name it with --from")


def _refuse_steps_that_are_done(run: Path, made: Plan) -> None:
    """Steps cannot be taken back; as many as there are end the run where it stands."""
    steps, done = made.config.train.steps, max(checkpoint.checkpoint_steps(run), default=0)
    if "train.steps" in made.changed and steps < done:
        raise ConfigError(
            f"train.steps = {steps}, but the run {run} is already at step {done}; "
            f"train.steps={done} ends it there, and a new folder (-o) begins anew"
        )


def _layer_of_model(path: Path) -> Layer:
    """Fine-tuning takes sizes, tokenizer and languages from the model that it starts from."""
    files = checkpoint.find_model(path)
    config = to_layer(checkpoint.load_config(files.config))
    languages = {name: config["data"][name] for name in ("source_language", "target_language")}
    return {"model": config["model"], "tokenizer": {"model": str(files.tokenizer)}, "data": languages}


def _refuse_other_sizes(path: Path, config: Config) -> None:
    """A model that is fine-tuned keeps its sizes; dropout is a matter of training."""
    own = checkpoint.load_config(checkpoint.find_model(path).config)
    before, after = (msgspec.structs.replace(config, model=each.model.spelled_out) for each in (own, config))
    for name, (has, wanted) in differences(before, after).items():
        if name != "model.dropout":
            raise ConfigError(
                f"{name} = {wanted!r}, but the model {path} has {has!r}, and --from keeps its sizes; leave {name} out"
            )


def _with_own_vocabulary(run: Path, made: Plan) -> Config:
    """A tokenizer that is reused has the size that it has: a preset's says nothing, and another one is refused."""
    config, own = made.config, run / TOKENIZER
    if not config.tokenizer.model:
        return config
    named = Path(config.tokenizer.model)
    is_own = checkpoint.last_whole(run) or not named.is_file()
    reused = own if has_begun(run) and own.is_file() and is_own else named
    wanted, size = config.tokenizer.vocab_size, Tokenizer.load(reused).vocab_size
    if "tokenizer.vocab_size" in made.named and wanted != size:
        raise ConfigError(
            f"tokenizer.vocab_size = {wanted}, but {config.tokenizer.model} has {size} word pieces; "
            f"leave it out, or set it to {size}"
        )
    return msgspec.structs.replace(config, tokenizer=msgspec.structs.replace(config.tokenizer, vocab_size=size))


def _with_languages(config: Config) -> Config:
    data = config.data
    source, target = languages_of(data.source, data.target)
    data = msgspec.structs.replace(
        data, source_language=data.source_language or source, target_language=data.target_language or target
    )
    return msgspec.structs.replace(config, data=data)
