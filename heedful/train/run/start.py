"""A plan carried out (§5, §6.1): text files → tokenizer → shards → training → averaged model, in one run folder.

Every part is made once: what the run folder holds is used as it is. Starting a finished run only averages its
checkpoints again; starting one that was killed goes on from its last checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from heedful.config.setting_layers import to_toml
from heedful.config.settings import Config
from heedful.data.run_folder import (
    CONFIG,
    MODEL,
    TOKENIZER,
    TRAINING_DATA,
    VALIDATION_DATA,
    has_begun,
    locked,
    tidy_run,
    write_config,
)
from heedful.data.run_metrics import append_metrics, cut_metrics
from heedful.data.shards import made_from, open_shards
from heedful.data.tokenizer import Tokenizer
from heedful.model import checkpoint
from heedful.model.device import choose_device
from heedful.score.new_card import RunFacts, base_of, card_in, write_start
from heedful.score.provenance import commit
from heedful.score.run_history import RunPoint, keep_base
from heedful.train.loop import EndRecord, PaceRecord, Record, Scores, StepRecord, ValidationRecord, train
from heedful.train.processes import check_micro_batches, process_group, world_from_environment
from heedful.train.run.finish import make_model
from heedful.train.run.interruption import Interrupted, Interruption, is_launched
from heedful.train.run.plan import Plan
from heedful.train.run.resume import last_scores, make_trainer, with_validations
from heedful.train.run.text import RunText, prepare_text
from heedful.train.trainer import Trainer, deterministic_algorithms
from heedful.train.validation import make_validate

Say = Callable[[str], None]
OnRecord = Callable[[Config, Record], None]
Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has come to."""

    run: Path
    model: Path | None  # None: the run was stopped and can be started again
    step: int
    seconds: float  # of training, interruptions not counted
    reason: str
    scores: Scores | None


def carry_out(plan: Plan, *, say: Say, on_record: OnRecord, stop: Stop = lambda: False) -> Outcome:
    """Start the run, or go on with it: prepare what is missing, train, and average.

    `say` hears what the user should know, `on_record` what happens; `stop` is asked after each step, and while
    validating.
    """
    world, code = world_from_environment(), commit()  # now, as a checkout may move on while this trains
    check_micro_batches(world, plan.config.train.micro_batches)
    device = choose_device(plan.device, local_rank=world.local_rank)
    say = say if world.is_first else _say_nothing
    lock = locked(plan.run) if world.is_first else nullcontext()
    with lock, process_group(world, device), deterministic_algorithms():
        if world.is_first:
            _prepare(plan, _say_nothing if is_launched() else say)  # the launcher has prepared all, and said it
        world.barrier()
        tokenizer = Tokenizer.load(plan.run / TOKENIZER)
        trainer = make_trainer(plan, tokenizer.vocab_size, device=device, world=world, say=say)
        if world.is_first:
            cut_metrics(plan.run, trainer.progress.step)
            write_start(plan.run, plan.name, _facts(trainer), code)
        world.barrier()
        scores, reason = _train(plan, trainer, tokenizer, on_record=on_record, stop=stop)
        is_finished = reason in ("steps", "patience")
        if is_finished and world.is_first:
            make_model(plan.run, _facts(trainer), say)
    model, progress = plan.run / MODEL if is_finished else None, trainer.progress
    return Outcome(plan.run, model, progress.step, progress.seconds, reason, scores)


def prepare_run(plan: Plan, *, say: Say, encode: Callable[[RunText], None] | None = None) -> None:
    """Tokenizer and shards, without training: mistakes in the text are found here, before several processes start.

    `encode` makes the shards of the training text, if not this process does.
    """
    with locked(plan.run):
        _prepare(plan, say, encode)


def _prepare(plan: Plan, say: Say, encode: Callable[[RunText], None] | None = None) -> None:
    """Make tokenizer and shards; then record the plan's settings, as nothing can refuse them any more."""
    tidy_run(plan.run)
    card_in(plan.run / MODEL)  # raises if it cannot be read, as it could not be replaced in the end
    if not has_begun(plan.run):
        _begin(plan)
    if checkpoint.last_whole(plan.run) is None:
        keep_base(plan.run, base_of(plan.base) if plan.base else None)
    say = _said_before(plan.messages, say)
    prepare_text(plan.run, plan.config, has_exact_vocab_size=plan.has_exact_vocab_size, say=say, encode=encode)
    write_config(plan.run, plan.config)


def _said_before(messages: Sequence[str], say: Say) -> Say:
    """`say`, with these messages before its first word; a mistake in the text that shows at once stays alone."""
    waiting = list(messages)

    def tell(word: str) -> None:
        while waiting:
            say(waiting.pop(0))
        say(word)

    return tell


def _begin(plan: Plan) -> None:
    """Settings come first; a tokenizer that a killed start made by other settings goes."""
    config = plan.run / CONFIG
    if not (config.is_file() and config.read_bytes() == to_toml(plan.config).encode()):
        (plan.run / TOKENIZER).unlink(missing_ok=True)
    write_config(plan.run, plan.config)


def _train(
    plan: Plan, trainer: Trainer, tokenizer: Tokenizer, *, on_record: OnRecord, stop: Stop
) -> tuple[Scores | None, str]:
    """Train to the end, or to a stop; returns the last scores and why it ended."""
    run, config = plan.run, plan.config
    scores, reason = last_scores(run), ""
    validation = run / VALIDATION_DATA if config.data.valid_source else None
    text = made_from(validation) if validation else None
    trainer.progress = with_validations(trainer.progress, run, steps=config.train.steps, text=text)
    validate = make_validate(open_shards(validation), tokenizer, config, stop=stop) if validation else None
    shards = open_shards(run / TRAINING_DATA).weighted(config.data.weights)
    for record in train(trainer, shards, run, validate=validate, stop=stop):
        if isinstance(record, ValidationRecord):
            scores = record.scores
        if isinstance(record, EndRecord):
            reason = record.reason
        if trainer.world.is_first:
            _log(run, record)
            on_record(config, record)
    return scores, reason


def _facts(trainer: Trainer) -> RunFacts:
    """What the card has to be told."""
    progress = trainer.progress
    return RunFacts(
        config=trainer.config,
        place=RunPoint(progress.step, progress.target_tokens, progress.seconds),
        precision=trainer.precision,
        device=trainer.device.type,
        num_processes=trainer.world.size,
    )


def _log(run: Path, record: Record) -> None:
    if isinstance(record, StepRecord):
        append_metrics(run, {"kind": "step"} | asdict(record))
    elif isinstance(record, PaceRecord):
        append_metrics(run, {"kind": "pace"} | asdict(record))
    elif isinstance(record, ValidationRecord):
        append_metrics(run, {"kind": "validation", "step": record.step} | asdict(record.scores))


@contextmanager
def interruptible(run: Path, *, say: Say) -> Iterator[Interruption]:
    """Signals end the run after a checkpoint; one that ends it at once is followed by word of what is kept."""
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


def _say_nothing(message: str) -> None:
    """For the processes that are not the first, and what the launcher has said already."""
