"""What a run comes to (§6.1): the average of its last checkpoints, as a model folder that stands alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from heedful.config.settings import Config
from heedful.data import language_detection
from heedful.data.atomic import explained, held_in_turn, replaced_folder
from heedful.data.run_folder import MODEL, TOKENIZER
from heedful.data.text_files import read_pairs
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError
from heedful.model import checkpoint
from heedful.score.new_card import RunFacts, write_training_card
from heedful.train.run.text import training_text
from heedful.translate.export.cache import keep_cache


def make_model(run: Path, facts: RunFacts, say: Callable[[str], None]) -> None:
    """Average the weights and write `model/`, which is replaced when all of it is there."""
    model, paths = run / MODEL, _weights_to_average(run, facts, say)
    with held_in_turn(model), explained(model, CheckpointError), replaced_folder(model) as folder:
        checkpoint.write_model(folder, checkpoint.average(paths), facts.config, run / TOKENIZER)
        _fit_language_id(run, facts.config, folder)
        steps = [int(path.parent.name.removeprefix("step-")) for path in paths]
        write_training_card(folder, run, facts, steps)
        keep_cache(model, folder)


def _weights_to_average(run: Path, facts: RunFacts, say: Callable[[str], None]) -> list[Path]:
    """The last checkpoints; a moving average of the weights is an average already."""
    train, end = facts.config.train, facts.place.step
    if train.ema_decay:
        say(f"the model is the moving average of the weights (train.ema_decay = {train.ema_decay})")
        return [checkpoint.step_folder(run, end) / checkpoint.WEIGHTS]
    paths = checkpoint.weights_to_average(run, end, last=train.average_last, every=train.checkpoint_steps)
    names = ", ".join(path.parent.name for path in paths)
    say(f"averaging {len(paths)} of at most {train.average_last} checkpoints: {names}")
    return paths


def _fit_language_id(run: Path, config: Config, folder: Path) -> None:
    """Learn to tell the two languages apart, for a server; what was learned before stays if the text has changed."""
    data, before = config.data, run / MODEL / language_detection.FILE
    text = training_text(run, config, Tokenizer.load(run / TOKENIZER))
    if not text.is_encoded():
        if before.is_file():
            shutil.copy(before, folder)
    elif data.source_language and data.target_language:
        samples = {
            data.source_language: (pair.source for pair in read_pairs(text.source, text.target)),
            data.target_language: (pair.target for pair in read_pairs(text.source, text.target)),
        }
        language_detection.fit(samples).save(folder)
