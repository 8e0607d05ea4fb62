"""Decides what a start of training does, from the user's request and the run folder; it writes nothing.

Mistakes that can be found quickly are refused here, so they leave no trace. This module reads the settings, the names
of the text files, the validation text, which is small, and the run folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from heedful.config.learning_rate import cooldown
from heedful.config.recipe import is_ours, read_recipe
from heedful.config.setting_layers import Layer, differences, to_layer
from heedful.config.settings import Config
from heedful.data.run_folder import CHECKPOINTS, MODEL, TOKENIZER, has_begun
from heedful.data.text_files import languages_of, refuse_odd_names
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError, ConfigError
from heedful.model import checkpoint
from heedful.model.checkpoint import ModelFiles
from heedful.model.device import choose_device
from heedful.score.run_history import read_base, read_starts
from heedful.train.cautions import cautions_at_start, cautions_of_new_weights
from heedful.train.run.interruption import is_launched
from heedful.train.run.settings import Settings, settings_of_start
from heedful.train.run.text import check_text, missing_text


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What the user asks for: a run folder, layers of settings, and a device."""

    run: Path
    preset: str | None = None
    layers: tuple[Layer, ...] = ()  # flags and --set; later ones win
    from_model: Path | None = None  # the model to fine-tune
    device: str = "auto"
    recipe: Path | None = None
    name: str = ""  # for the model's card; if empty, the name of the recipe, or of the run folder


@dataclass(frozen=True, slots=True)
class Plan:
    """What a start does: in which folder, with which settings, from which weights."""

    run: Path
    config: Config
    device: str  # as the user named it
    device_type: str  # cpu, cuda or mps; a named device may be missing here, so a plan can be made on any machine
    name: str  # for the model's card
    precision: str  # what train.precision = auto meant at the last start, or auto if that is unknown
    base: ModelFiles | None  # the model to fine-tune; not read if the run has a checkpoint
    has_exact_vocab_size: bool  # the user set the size; otherwise a small text may give a smaller vocabulary
    messages: tuple[str, ...]  # for the user: what has changed, and warnings


def decide(request: TrainingRequest) -> Plan:
    """Decide what this start does, without writing anything."""
    run = request.run
    _refuse_unreadable_checkpoints(run)
    base = _base(request)
    settings = _settings(request, base)
    if base:
        _refuse_other_sizes(request.from_model, base, settings.config)
    refuse_odd_names([str(run)])
    check_text(settings.config.data, settings.changed)
    _refuse_to_replace_the_model(run)
    _refuse_to_forget_the_base(request)
    _refuse_to_take_steps_back(run, settings)
    config = _with_languages(_with_facts_of_tokenizer(run, settings))
    device_type = choose_device("auto").type if request.device == "auto" else request.device
    return Plan(
        run=run,
        config=config,
        device=request.device,
        device_type=device_type,
        name=request.name or (request.recipe.stem if request.recipe else ""),
        precision=_precision_of_last_start(run),
        base=base,
        has_exact_vocab_size="tokenizer.vocab_size" in settings.given,
        messages=() if is_launched() else tuple(_messages(request, settings, config, device_type)),
    )


def _base(request: TrainingRequest) -> ModelFiles | None:
    """The model to fine-tune. Once the run has its own checkpoint, that model may be gone."""
    if request.from_model is None:
        return None
    if checkpoint.last_whole(request.run) and not request.from_model.exists():
        return None
    return checkpoint.find_model(request.from_model)


# --------------------------------------------------------------------------------------------------------- settings


def _settings(request: TrainingRequest, base: ModelFiles | None) -> Settings:
    """The settings of a new run come from preset, recipe, model and flags; an existing run keeps its own."""
    preset_name, recipe = read_recipe(request.recipe) if request.recipe else (None, {})
    of_model = [_layer_of_model(base)] if base else []
    preset_name = request.preset or preset_name
    if request.recipe and is_ours(request.recipe):
        return settings_of_start(request.run, preset_name, request.layers, ours=[*of_model, recipe], own_file={})
    return settings_of_start(request.run, preset_name, request.layers, ours=of_model, own_file=recipe)


def _layer_of_model(base: ModelFiles) -> Layer:
    """Fine-tuning takes sizes, tokenizer and languages from the model that it starts with."""
    config = to_layer(checkpoint.load_config(base.config))
    languages = {name: config["data"][name] for name in ("source_language", "target_language")}
    return {"model": config["model"], "tokenizer": {"model": str(base.tokenizer)}, "data": languages}


def _with_facts_of_tokenizer(run: Path, settings: Settings) -> Config:
    """A reused tokenizer keeps its kind and size: a preset's are ignored, different ones from the user refused."""
    config, own = settings.config, run / TOKENIZER
    if not config.tokenizer.model:
        return config
    named = Path(config.tokenizer.model)
    keeps_own = has_begun(run) and own.is_file() and (checkpoint.last_whole(run) or not named.is_file())
    tokenizer = Tokenizer.load(own if keeps_own else named)
    facts = {"kind": tokenizer.kind, "vocab_size": tokenizer.vocab_size}
    for name, fact in facts.items():
        wanted = getattr(config.tokenizer, name)
        if f"tokenizer.{name}" in settings.given and wanted != fact:
            raise ConfigError(
                f"tokenizer.{name} = {wanted}, but that of {config.tokenizer.model} is {fact}; "
                f"leave it out, or set it to {fact}"
            )
    return msgspec.structs.replace(config, tokenizer=msgspec.structs.replace(config.tokenizer, **facts))


def _with_languages(config: Config) -> Config:
    """Languages that are not set follow from the file names."""
    data = config.data
    source, target = languages_of(data.source, data.target)
    data = msgspec.structs.replace(
        data, source_language=data.source_language or source, target_language=data.target_language or target
    )
    return msgspec.structs.replace(config, data=data)


def _precision_of_last_start(run: Path) -> str:
    """A run keeps the precision that `auto` gave it, even on another device. If none is recorded, a CPU had fp32."""
    last = checkpoint.last_whole(run)
    if last is None:
        return "auto"
    if starts := read_starts(run):
        return starts[-1].precision
    return "fp32" if checkpoint.load_state(last).get("device") == "cpu" else "auto"


# --------------------------------------------------------------------------------------------------------- refusals


def _refuse_unreadable_checkpoints(run: Path) -> None:
    """With a broken link or without permission, a run with checkpoints would look like one that has none."""
    folder = run / CHECKPOINTS
    if os.path.lexists(folder):
        try:
            os.listdir(folder)
        except OSError as error:
            raise CheckpointError(
                f"{folder}: cannot be read ({error.strerror}), and the run goes on from what is there"
            ) from None


def _refuse_other_sizes(path: Path | None, base: ModelFiles, config: Config) -> None:
    """Fine-tuning keeps the model's sizes; dropout may change."""
    own = checkpoint.load_config(base.config)
    before, after = (msgspec.structs.replace(config, model=each.model.spelled_out) for each in (own, config))
    for name, (has, wanted) in differences(before, after).items():
        if name != "model.dropout":
            raise ConfigError(
                f"{name} = {wanted!r}, but the model {path} has {has!r}, and --from keeps its sizes; leave {name} out"
            )


def _refuse_to_replace_the_model(run: Path) -> None:
    """A finished model is never replaced by one that has just begun to train."""
    if (run / MODEL / checkpoint.WEIGHTS).exists() and checkpoint.last_whole(run) is None:
        raise CheckpointError(
            f"{run}: its model is here, but no checkpoint to go on from, and to begin anew would replace it; take a "
            f"new folder (-o), with --from {run} to train that model on"
        )


def _refuse_to_forget_the_base(request: TrainingRequest) -> None:
    """A fine-tuning run that was killed before its first checkpoint needs --from again."""
    run, base = request.run, read_base(request.run)
    if base and request.from_model is None and has_begun(run) and checkpoint.last_whole(run) is None:
        raise ConfigError(f"{run} was to begin from {base.name}, and has no checkpoint yet; name it with --from")


def _refuse_to_take_steps_back(run: Path, settings: Settings) -> None:
    """Fewer steps than the run has done are refused; exactly as many end it there."""
    steps, done = settings.config.train.steps, checkpoint.resume_step(run)
    if "train.steps" in settings.changed and steps < done:
        raise ConfigError(
            f"train.steps = {steps}, but the run {run} is already at step {done}; "
            f"train.steps={done} ends it there, and a new folder (-o) begins anew"
        )


# --------------------------------------------------------------------------------------------------------- messages


def _messages(request: TrainingRequest, settings: Settings, config: Config, device_type: str) -> Iterator[str]:
    for name in missing_text(request.run, config.data):  # training stops at this; a dry run does not
        yield f"warning: {name}: no such file; training needs it"
    yield from settings.scaled
    for name, (before, after) in settings.changed.items():
        yield f"changed since the last start: {name} = {_plain(after)} (was {_plain(before) or 'not set'})"
    if _rate_rises_again(request.run, settings):
        yield "the run had begun to cool down: its learning rate rises again"
    if checkpoint.last_whole(request.run):
        yield from _unread_model(request)
        return
    of_weights = [] if request.from_model else cautions_of_new_weights(config)
    for caution in (*cautions_at_start(config, device_type), *of_weights):
        yield f"warning: {caution}"


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _rate_rises_again(run: Path, settings: Settings) -> bool:
    """Whether the run has begun its cooldown, and its last step has now been moved further away."""
    last, train = max(1, checkpoint.resume_step(run)), settings.config.train
    if last >= train.steps:
        return False
    now = {"steps": train.steps, "cooldown_steps": train.cooldown_steps}
    before = {name: settings.changed.get(f"train.{name}", (value,))[0] for name, value in now.items()}
    return cooldown(last, **before) < cooldown(last, **now)


def _unread_model(request: TrainingRequest) -> Iterator[str]:
    """A run with a checkpoint goes on from there; warn if --from names another model than it began with."""
    files, base = _base(request), read_base(request.run)
    if files is None or (base and checkpoint.weights_digest(files.weights) == base.weights_sha256):
        return
    origin = f" (it began from {base.name}, weights {base.weights_sha256[:8]})" if base else ""
    yield (
        f"warning: --from {request.from_model} is not read: {request.run} goes on from its own checkpoint{origin}; to "
        f"fine-tune that model take a new folder (-o)"
    )
