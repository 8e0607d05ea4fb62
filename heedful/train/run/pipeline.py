"""The whole road (§5, §6.1): text files → tokenizer → shards → training → averaged model, in one run folder.

Every step is done once: what a run folder already holds is used as it is. So starting a finished run only averages its
checkpoints anew, and starting one that was killed goes on from its last checkpoint. It knows the order of things, and
how none of them is done.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from heedful.config.cooldown import cooldown
from heedful.config.settings import Config, to_toml
from heedful.data import language_id
from heedful.data.atomic import explained, held_in_turn, replaced_folder
from heedful.data.corpus import read_pairs
from heedful.data.metrics import run_metrics
from heedful.data.run_folder import (
    CONFIG,
    METRICS,
    MODEL,
    TOKENIZER,
    TRAINING_DATA,
    VALIDATION_DATA,
    Plan,
    append_metrics,
    cut_metrics,
    has_begun,
    locked,
    tidy_run,
    write_config,
)
from heedful.data.shards import Shards, made_from, open_shards
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError, counted
from heedful.model import checkpoint
from heedful.model.device import choose_device, explained_out_of_memory
from heedful.model.transformer import Transformer
from heedful.score.model_card import RunFacts, base_of, card_in, write_start, write_training_card
from heedful.score.provenance import commit
from heedful.score.run_history import Place, keep_base
from heedful.train.batching import derived_seed
from heedful.train.loop import (
    EndRecord,
    PaceRecord,
    Record,
    Scores,
    StepRecord,
    Validate,
    ValidationRecord,
    train,
    validated,
)
from heedful.train.processes import World, check_micro_batches, process_group, world_from_environment
from heedful.train.run.interruption import Interrupted, Interruption, is_launched
from heedful.train.run.planning import Order, plan, warnings
from heedful.train.run.preparing import has_its_text, make_shards, make_tokenizer, paths
from heedful.train.trainer import Progress, Trainer, deterministic_algorithms
from heedful.train.validation import make_validate
from heedful.translate.export.cache import keep_cache

WEIGHTS_TOO_LARGE = (
    "weights and moments do not fit; in a new folder (-o), lower the sizes of model, or take another --device"
)
INITIAL_WEIGHTS = 0  # beside (seed, step ≥ 1, micro-batch), the initial weights are step 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has come to."""

    run: Path
    model: Path | None  # None: the run was stopped and can be started again
    step: int
    seconds: float  # of training, interruptions not counted
    reason: str
    scores: Scores | None


def run_training(
    order: Order,
    *,
    say: Callable[[str], None],
    on_record: Callable[[Config, Record], None],
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Start a run, or go on with it: prepare what is missing, train, and average.

    `say` hears what the user should know; `on_record` what happens; `stop` is asked after each step, and while
    validating.
    """
    world, code = world_from_environment(), commit()  # a checkout may move on while this trains
    made = plan(order)
    check_micro_batches(world, made.config.train.micro_batches)
    device = choose_device(order.device, local_rank=world.local_rank)
    say_first = say if world.is_first else _say_nothing
    with ExitStack() as stack:
        if world.is_first:
            stack.enter_context(locked(order.run))
            _clean_up(order, made)
        stack.enter_context(process_group(world, device))
        stack.enter_context(deterministic_algorithms())
        tokenizer, shards, valid = _prepared(order.run, made, world, say_first)
        for warning in warnings(order, made.config, device.type) if world.is_first else ():
            say(warning)
        with explained_out_of_memory(f"{WEIGHTS_TOO_LARGE} (now {device})"):
            trainer = _trainer(order, made.config, tokenizer, device=device, world=world, say=say_first)
        if world.is_first:
            write_start(order.run, order.name, _facts(trainer), code)
        validate = make_validate(valid, tokenizer, made.config, stop=stop) if valid else None
        return _train(trainer, shards, order, validate=validate, stop=stop, on_record=on_record, say=say_first)


def prepare_run(order: Order, *, say: Callable[[str], None]) -> None:
    """Tokenizer and shards, without training: what can go wrong with the text goes wrong here."""
    made = plan(order)
    with locked(order.run):
        _clean_up(order, made)
        _prepared(order.run, made, World(), say)


@contextmanager
def interruptible(run: Path, *, say: Callable[[str], None]) -> Iterator[Interruption]:
    """Signals are wishes in here; one that ends the run at once leaves word of what is kept, and how to go on."""
    try:
        with Interruption() as interruption:
            yield interruption
    except Interrupted:
        if world_from_environment().is_first:
            say(f"stopped at once; {_kept(run)}")
        raise


def _kept(run: Path) -> str:
    if last := checkpoint.last_whole(run):
        return f"{last} is kept, and the same command goes on from there"
    if has_begun(run):
        return f"vocabulary and encoded text are kept in {run}, and the same command goes on from there"
    if (run / TOKENIZER).exists():
        return f"the vocabulary is kept in {run}, and the same command goes on from there"
    return "nothing was made yet, and the same command begins anew"


def _say_nothing(text: str) -> None:
    """What the other ranks say."""


def _clean_up(order: Order, made: Plan) -> None:
    """Take away what a killed start left half done; what a run that has begun says of itself stays as it is."""
    run = order.run
    tidy_run(run)
    card_in(run / MODEL)  # one that cannot be read would not be replaced: better said now than in the end
    if not has_begun(run):
        if not _is_config_of(run, made.config):
            (run / TOKENIZER).unlink(missing_ok=True)  # made by other settings, and used by nothing yet
        write_config(run, made.config)
        keep_base(run, base_of(checkpoint.find_model(order.from_model)) if order.from_model else None)


def _keep_plan(run: Path, made: Plan, say: Callable[[str], None]) -> None:
    """From now on the run has these settings: its text is what it began with, so nothing will refuse them."""
    write_config(run, made.config)
    for line in made.scaled:
        say(line)
    for name, (before, after) in made.changed.items():
        say(f"changed since the last start: {name} = {_plain(after)} (was {_plain(before) or 'not set'})")
    if _is_rate_to_rise(run, made):
        say("the run had begun to cool down: its learning rate rises again")


def _is_rate_to_rise(run: Path, made: Plan) -> bool:
    """Has the run cooled down, for an end that is another now, and does it go on?"""
    last, train = max(checkpoint.checkpoint_steps(run), default=1), made.config.train
    if last >= train.steps:
        return False
    now = {"steps": train.steps, "cooldown_steps": train.cooldown_steps}
    before = now | {name: made.changed[f"train.{name}"][0] for name in now if f"train.{name}" in made.changed}
    return cooldown(last, **before) < cooldown(last, **now)


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _is_config_of(run: Path, config: Config) -> bool:
    path = run / CONFIG
    return path.is_file() and path.read_bytes() == to_toml(config).encode()


# ---------------------------------------------------------------------------------------------------- text → numbers


def _prepared(
    run: Path, made: Plan, world: World, say: Callable[[str], None]
) -> tuple[Tokenizer, Shards, Shards | None]:
    """Tokenizer and shards; the first rank makes them, the others open what it made."""
    if world.is_first:
        say_text = _say_nothing if is_launched() else say  # whoever launched this has said it
        tokenizer = make_tokenizer(run, made, say_text)
        make_shards(run, made.config, tokenizer, say_text)
        _keep_plan(run, made, say)
    world.barrier()
    valid = open_shards(run / VALIDATION_DATA) if made.config.data.valid_source else None
    return Tokenizer.load(run / TOKENIZER), open_shards(run / TRAINING_DATA), valid


# ------------------------------------------------------------------------------------------------ numbers → a model


def _trainer(
    order: Order,
    config: Config,
    tokenizer: Tokenizer,
    *,
    device: torch.device,
    world: World,
    say: Callable[[str], None],
) -> Trainer:
    """A trainer at the place where the run stands: its last checkpoint, a model to fine-tune, or new weights."""
    torch.manual_seed(derived_seed(config.train.seed, INITIAL_WEIGHTS))
    model = Transformer(config.model, tokenizer.vocab_size)
    if config.train.depth_scaled_init:
        model.scale_by_depth()
    last = checkpoint.last_whole(order.run)
    base = checkpoint.find_model(order.from_model) if last is None and order.from_model else None
    if base:
        checkpoint.load_weights(model, checkpoint.load_tensors(base.weights), base.weights)
    trainer = Trainer(model, config, device=device, world=world)
    if last is not None:
        _resume(trainer, last, say)
    else:
        say(f"training begins: {counted(config.train.steps, 'step')} on {device}")
    if base and world.is_first:
        keep_base(order.run, base_of(base))
        # From now on the run needs that model no more.
        checkpoint.save_checkpoint(order.run, 0, trainer.snapshot().on_host())
    if world.is_first:
        cut_metrics(order.run, trainer.progress.step)
    world.barrier()
    return trainer


def _resume(trainer: Trainer, last: Path, say: Callable[[str], None]) -> None:
    try:
        snapshot = checkpoint.load_snapshot(last)
        trainer.restore(snapshot, last)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; without {last} the run {_without(last)}") from None
    say(f"going on from step {trainer.progress.step:,} ({last})")
    for name, now in trainer.surroundings().items():
        before = snapshot.state.get(name)
        if before != now:
            say(f"{name} is {now}, was {before}: the weights may differ in the last bits from those of an unbroken run")


def _without(last: Path) -> str:
    """What a run does that has lost its last checkpoint; of those before it some are there for averaging only."""
    others = (folder for folder in last.parent.glob("step-*") if folder != last)
    return (
        "goes on from the checkpoint before it" if any(map(checkpoint.is_whole, others)) else "has none to go on from"
    )


def _train(
    trainer: Trainer,
    shards: Shards,
    order: Order,
    *,
    validate: Validate | None,
    stop: Callable[[], bool],
    on_record: Callable[[Config, Record], None],
    say: Callable[[str], None],
) -> Outcome:
    run, reason = order.run, ""
    scores = _last_scores(run)
    trainer.progress = _with_validations(trainer.progress, run, trainer.config.train.steps)
    if validate:
        trainer.progress = _with_validation_text(trainer.progress, made_from(run / VALIDATION_DATA))
    for record in train(trainer, shards, run, validate=validate, stop=stop):
        if isinstance(record, ValidationRecord):
            scores = record.scores
        if isinstance(record, EndRecord):
            reason = record.reason
        if trainer.world.is_first:
            _log(run, record)
            on_record(trainer.config, record)
    finished = reason in ("steps", "patience")
    if finished and trainer.world.is_first:
        _finish(trainer, run, say)
    model, progress = run / MODEL if finished else None, trainer.progress
    return Outcome(run, model, progress.step, progress.seconds, reason, scores)


def _last_scores(run: Path) -> Scores | None:
    """Those of the last validation that a run has behind it."""
    records = _validations(run)
    if not records:
        return None
    loss, perplexity, bleu = (records[-1].get(name) for name in ("loss", "perplexity", "bleu"))
    return Scores(math.nan if loss is None else loss, math.nan if perplexity is None else perplexity, bleu)


def _with_validations(progress: Progress, run: Path, steps: int) -> Progress:
    """What the checkpoint could not know: that a validation it owes was done since, or that the run ends here."""
    losses = [record["loss"] for record in _validations(run) if record["step"] == progress.step]
    if progress.owes_validation and losses:
        return validated(progress, math.nan if losses[0] is None else losses[0])
    return replace(progress, owes_validation=progress.owes_validation or (progress.step >= steps and not losses))


def _with_validation_text(progress: Progress, text: str) -> Progress:
    """Losses on two texts cannot be compared: on another one patience begins anew."""
    if progress.validation_text in ("", text):
        return replace(progress, validation_text=text)
    return replace(progress, validation_text=text, best_loss=None, validations_without_gain=0)


def _validations(run: Path) -> list[dict[str, Any]]:
    return run_metrics(run)["validation"] if (run / METRICS).is_file() else []


def _log(run: Path, record: Record) -> None:
    if isinstance(record, StepRecord):
        append_metrics(run, {"kind": "step"} | asdict(record))
    elif isinstance(record, PaceRecord):
        append_metrics(run, {"kind": "pace"} | asdict(record))
    elif isinstance(record, ValidationRecord):
        append_metrics(run, {"kind": "validation", "step": record.step} | asdict(record.scores))


def _finish(trainer: Trainer, run: Path, say: Callable[[str], None]) -> None:
    """§6.1: what to translate with is the average of the last checkpoints; or the moving average at the last step.

    The model's folder is replaced when all of it is there: a card with scores is at no moment without them.
    """
    config, model = trainer.config, run / MODEL
    train_config = config.train
    if train_config.ema_decay:
        paths = [checkpoint.step_folder(run, checkpoint.checkpoint_steps(run)[-1]) / checkpoint.WEIGHTS]
        say(f"the model is the moving average of the weights (train.ema_decay = {train_config.ema_decay})")
    else:
        paths = checkpoint.weights_to_average(run, last=train_config.average_last, every=train_config.checkpoint_steps)
        names = ", ".join(path.parent.name for path in paths)
        say(f"averaging {len(paths)} of at most {train_config.average_last} checkpoints: {names}")
    with held_in_turn(model), explained(model, CheckpointError), replaced_folder(model) as folder:
        checkpoint.write_model(folder, checkpoint.average(paths), config, run / TOKENIZER)
        _fit_language_id(run, config, folder)
        steps = [int(path.parent.name.removeprefix("step-")) for path in paths]
        write_training_card(folder, run, _facts(trainer), steps)
        keep_cache(model, folder)


def _facts(trainer: Trainer) -> RunFacts:
    """What the run's card has to be told."""
    progress = trainer.progress
    return RunFacts(
        config=trainer.config,
        place=Place(progress.step, progress.target_tokens, progress.seconds),
        precision=trainer.precision,
        device=trainer.device.type,
        num_processes=trainer.world.size,
    )


def _fit_language_id(run: Path, config: Config, folder: Path) -> None:
    """What tells the two languages apart, for a server that is not told; where the text and its languages are known.

    Where the text has gone, or is another now, what was fitted on it before stays.
    """
    data, before = config.data, run / MODEL / language_id.FILE
    if not has_its_text(run, config):
        if before.is_file():
            shutil.copy(before, folder)
    elif data.source_language and data.target_language:
        source, target = paths(data.source), paths(data.target)
        samples = {
            data.source_language: (pair.source for pair in read_pairs(source, target)),
            data.target_language: (pair.target for pair in read_pairs(source, target)),
        }
        language_id.fit(samples).save(folder)
