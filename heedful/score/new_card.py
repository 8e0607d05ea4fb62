"""Makes the card of a model: of a run when its training ends, and of a model folder that has no card yet.

If an older card is about the same weights, bit for bit, its training and its scores are kept. The facts of a running
training are passed in as `RunFacts`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import msgspec
from msgspec import Struct

from heedful import __version__
from heedful.config.setting_layers import named_files
from heedful.config.settings import Config
from heedful.data.run_folder import MODEL, TOKENIZER, TRAINING_DATA, VALIDATION_DATA
from heedful.data.shards import is_current, open_shards
from heedful.data.text_to_ids import Encoding
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError
from heedful.model.checkpoint import ModelFiles, find_model, load_config, load_shapes, weights_digest
from heedful.model.parameter_count import count
from heedful.score.card import (
    CARD,
    Card,
    Corpus,
    TextFile,
    Training,
    copy_translations,
    load_card,
    text_file,
    write_card,
)
from heedful.score.card_tables import to_markdown
from heedful.score.provenance import machine, now
from heedful.score.run_history import Base, RunPoint, Start, TrainingPart, begin, read_base, read_starts, training_parts


def new_card(files: ModelFiles, name: str = "") -> Card:
    """A card with what is known of any model; the default name is that of its folder."""
    folder, config = Path(os.path.abspath(files.config.parent)), load_config(files.config)
    return Card(
        name=name or (folder.parent.name if folder.name == MODEL else folder.name),
        source_language=config.data.source_language,
        target_language=config.data.target_language,
        weights_sha256=weights_digest(files.weights),
        parameters=count(load_shapes(files.weights)),
        vocab_size=Tokenizer.load(files.tokenizer).vocab_size,
        config=named_files(config),
    )


def card_of(files: ModelFiles) -> Card | None:
    """The card beside a model, if it is about these weights."""
    card = card_in(files.config.parent)
    return card if card and card.weights_sha256 == weights_digest(files.weights) else None


def card_in(folder: Path) -> Card | None:
    """The card of a model folder; one that cannot be read is an error, as it must not be replaced."""
    return load_card(folder / CARD) if (folder / CARD).is_file() else None


def base_of(files: ModelFiles) -> Base:
    """How the card of a fine-tuned model names the model that it began from; a card that cannot be read is ignored."""
    card = None
    with suppress(CheckpointError):
        card = card_of(files)
    card = card or new_card(files)
    return Base(card.name, card.weights_sha256)


class RunFacts(Struct, frozen=True, kw_only=True):
    """What a card has to be told of a training: settings, how far it is, and what it computes with."""

    config: Config
    place: RunPoint
    precision: str
    device: str  # its type, such as cuda
    num_processes: int


def write_start(run: Path, name: str, facts: RunFacts, commit: str) -> None:
    """Record for the card that a run begins or goes on, here and now, with the code of this commit."""
    train = facts.config.train
    begin(
        run,
        Start(
            name=name,
            date=now(),
            version=__version__,
            commit=commit,
            machine=machine(facts.device, processes=facts.num_processes),
            precision=facts.precision,
            place=facts.place,
            planned_steps=train.steps,
            cooldown_steps=train.cooldown_steps,
        ),
    )


def write_training_card(folder: Path, run: Path, facts: RunFacts, averaged_steps: Sequence[int]) -> None:
    """Write the card of the model that a run has come to, into a folder that is to become the run's `model/`."""
    starts, before = read_starts(run), card_in(run / MODEL)
    names = [start.name for start in starts if start.name] or [run.absolute().name]
    card = new_card(find_model(folder), names[-1])
    kept = before if before and before.weights_sha256 == card.weights_sha256 else None
    if kept:
        card = msgspec.structs.replace(card, evaluations=kept.evaluations)
        copy_translations(run / MODEL, folder)
    if kept and kept.training:
        card = msgspec.structs.replace(card, name=kept.name, training=kept.training)
    else:
        card = msgspec.structs.replace(card, training=_training(run, facts, averaged_steps, starts))
    write_card(folder, card, to_markdown(card))


def _training(run: Path, facts: RunFacts, averaged_steps: Sequence[int], starts: Sequence[Start]) -> Training:
    config, place, tokenizer = facts.config, facts.place, Tokenizer.load(run / TOKENIZER)
    data, done = config.data, training_parts(starts, place)
    last = done[-1] if done else starts[-1]
    encodings = Encoding.for_training(config, tokenizer), Encoding.for_validation(config, tokenizer)
    valid = data.valid_source, data.valid_target
    return Training(
        date=now(),
        version=last.version,
        commit=last.commit,
        machine=last.machine,
        precision=last.precision,
        shares=done,
        base=read_base(run),
        seed=config.train.seed,
        steps=place.step,
        target_tokens=place.target_tokens,
        seconds=place.seconds,
        tokens_per_second=place.target_tokens / max(place.seconds, 1e-9),
        gpu_hours=_gpu_hours(done, place.step),
        averaged_steps=tuple(averaged_steps),
        training=_corpus(run / TRAINING_DATA, data.source, data.target, encodings[0]),
        validation=_corpus(run / VALIDATION_DATA, *valid, encodings[1]) if data.valid_source else None,
    )


def _gpu_hours(done: Sequence[TrainingPart], steps: int) -> float | None:
    """The GPU-hours of all starts; None without a GPU, or if a start is not known."""
    if sum(part.steps for part in done) < steps or not any(part.machine.gpu for part in done):
        return None
    return sum(part.machine.num_gpus * part.seconds for part in done) / 3600


def _corpus(shards: Path, source: Sequence[str], target: Sequence[str], encoding: Encoding) -> Corpus:
    """The counts of the shards, and digests of the files that still hold the text of the shards."""
    sources, targets = [Path(name) for name in source], [Path(name) for name in target]
    look = text_file if is_current(shards, sources, targets, encoding) else lambda path: TextFile(path.name)
    return Corpus(tuple(map(look, sources)), tuple(map(look, targets)), asdict(open_shards(shards).counts))
