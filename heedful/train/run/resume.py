"""Where a run stands: at its last checkpoint, else at the model to fine-tune, else at new weights.

The metrics tell what the checkpoint could not know: the validations that came after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from heedful.config.settings import Config
from heedful.data.run_folder import METRICS
from heedful.data.run_metrics import run_metrics
from heedful.errors import CheckpointError, counted
from heedful.model import checkpoint
from heedful.model.device import explained_out_of_memory
from heedful.model.interface import TranslationModel
from heedful.model.registry import new_model
from heedful.train.batching import derived_seed
from heedful.train.loop import Scores, validated
from heedful.train.processes import World
from heedful.train.run.plan import Plan
from heedful.train.trainer import Progress, Trainer

INITIAL_WEIGHTS = 0  # beside (seed, step ≥ 1, micro-batch), the initial weights are step 0
WEIGHTS_TOO_LARGE = (
    "weights and moments do not fit; in a new folder (-o), lower the sizes of model, or take another --device"
)


def make_trainer(
    plan: Plan, vocab_size: int, *, device: torch.device, world: World, say: Callable[[str], None]
) -> Trainer:
    """A trainer that goes on where the run stands."""
    last = checkpoint.last_whole(plan.run)
    with explained_out_of_memory(f"{WEIGHTS_TOO_LARGE} (now {device})"):
        model = _new_model(plan.config, vocab_size)
        if plan.base and last is None:
            checkpoint.load_weights(model, checkpoint.load_tensors(plan.base.weights), plan.base.weights)
        trainer = Trainer(model, plan.config, device=device, world=world, precision=plan.precision)
        if last:
            _restore(trainer, last, say)
        else:
            say(f"training begins: {counted(plan.config.train.steps, 'step')} on {device}")
    if plan.base and last is None and world.is_first:  # so that the run never reads the other model again
        checkpoint.save_checkpoint(plan.run, 0, trainer.snapshot().on_host())
    return trainer


def _new_model(config: Config, vocab_size: int) -> TranslationModel:
    torch.manual_seed(derived_seed(config.train.seed, INITIAL_WEIGHTS))
    model = new_model(config.model, vocab_size)
    if config.train.depth_scaled_init:
        model.scale_by_depth()
    return model


def _restore(trainer: Trainer, last: Path, say: Callable[[str], None]) -> None:
    try:
        snapshot = checkpoint.load_snapshot(last)
        trainer.restore(snapshot, last)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; without {last} the run {_fate_without(last)}") from None
    say(f"going on from step {trainer.progress.step:,} ({last})")
    for name, now in trainer.surroundings().items():
        before = snapshot.state.get(name)
        if before != now:
            say(f"{name} is {now}, was {before}: the weights may differ in the last bits from those of an unbroken run")


def _fate_without(last: Path) -> str:
    """What a run does without its last checkpoint; some of those before it serve averaging only."""
    others = (folder for folder in last.parent.glob("step-*") if folder != last)
    return (
        "goes on from the checkpoint before it" if any(map(checkpoint.is_whole, others)) else "has none to go on from"
    )


def with_validations(progress: Progress, run: Path, *, steps: int, text: str | None) -> Progress:
    """The progress, with what the metrics know of validations; `text` is a digest of the validation text, if any.

    The validation of this step may have been made since the checkpoint, or be due because the run now ends here.
    """
    losses = [record["loss"] for record in _validations(run) if record["step"] == progress.step]
    if progress.validation_is_due and losses:
        progress = validated(progress, math.nan if losses[0] is None else losses[0])
    elif progress.step >= steps and not losses:
        progress = replace(progress, validation_is_due=True)
    if text is None:
        return progress
    if progress.validation_text not in ("", text):  # losses on two texts cannot be compared: patience begins anew
        progress = replace(progress, best_loss=None, validations_without_gain=0)
    return replace(progress, validation_text=text)


def last_scores(run: Path) -> Scores | None:
    """Those of the run's last validation."""
    records = _validations(run)
    if not records:
        return None
    loss, perplexity, bleu = (records[-1].get(name) for name in ("loss", "perplexity", "bleu"))
    return Scores(math.nan if loss is None else loss, math.nan if perplexity is None else perplexity, bleu)


def _validations(run: Path) -> list[dict[str, Any]]:
    return run_metrics(run)["validation"] if (run / METRICS).is_file() else []
