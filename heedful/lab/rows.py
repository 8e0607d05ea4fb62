"""One row with one seed: a training run in a folder of its own, and the result that it leaves.

Training is that of `heedful train`, so a row that was stopped or killed goes on from its last checkpoint. A finished
row keeps its model and its card; the checkpoints go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import msgspec
import torch

from heedful.config.setting_layers import Layer, preset, resolve
from heedful.config.settings import Config
from heedful.data.atomic import remove_folder
from heedful.data.run_folder import CHECKPOINTS, CONFIG, TOKENIZER, has_begun
from heedful.data.run_metrics import run_metrics
from heedful.data.tokenizer import Tokenizer
from heedful.errors import ConfigError, TrainingError
from heedful.lab.experiment import Measure, Say, Stop
from heedful.lab.row_result import (
    Conditions,
    Point,
    RowResult,
    comparable,
    differences,
    differing_settings,
    load,
    save,
)
from heedful.lab.text import PreparedText
from heedful.lab.trained import Trained
from heedful.model.checkpoint import load_config
from heedful.model.device import choose_device
from heedful.model.parameter_count import count, shapes_of_new
from heedful.score.provenance import now
from heedful.score.run_history import read_starts
from heedful.train.loop import Record
from heedful.train.run.plan import TrainingRequest, decide
from heedful.train.run.start import carry_out
from heedful.train.trainer import resolved_precision

OnRecord: TypeAlias = Callable[[Config, Record], None]
PRESET = "tiny"


@dataclass(frozen=True, slots=True)
class Job:
    """A row with a seed, its settings and its text, and the lab folder that it belongs to."""

    row: str
    seed: int
    layers: tuple[Layer, ...]
    text: PreparedText
    output: Path
    device: str
    command: str
    measures: Mapping[str, Measure]

    @property
    def name(self) -> str:
        """Rows of several experiments that share a text share a name only if they are the same."""
        return f"{self.row}-{self.seed}"

    @property
    def run(self) -> Path:
        """The folder of the training."""
        return self.output / "runs" / self.text.name / self.name

    @property
    def record(self) -> Path:
        """The file of the result."""
        return self.output / "rows" / self.text.name / f"{self.name}.json"

    @property
    def lock(self) -> Path:
        """What a process holds while it makes the row."""
        return self.record.with_name(f".{self.name}.lock")

    @property
    def config(self) -> Config:
        """All settings."""
        return resolve(preset(PRESET, *self.layers), *self.layers)


def kept_result(job: Job) -> RowResult | None:
    """The result that is there, if there is one; one that was made under other conditions is refused."""
    wanted = conditions(job)
    kept = load(job.record)
    if kept is not None:
        _refuse(job, job.record, list(differences(kept, wanted)))
    elif has_begun(job.run):
        before = comparable(load_config(job.run / CONFIG))
        _refuse(job, job.run, list(differing_settings(before, wanted.settings)))
    return kept


def conditions(job: Job) -> Conditions:
    """What a result of this row must have been made with."""
    config = job.config
    return Conditions(
        settings=comparable(config),
        text_sha256=job.text.digest,
        vocabulary=job.text.vocabulary,
        precision=resolved_precision(config.train, choose_device(job.device)),
        torch=str(torch.__version__),
    )


def _refuse(job: Job, place: Path, unlike: list[str]) -> None:
    if unlike:
        raise ConfigError(
            f"{place}: was made with other settings or conditions: {'; '.join(unlike)}; take a new folder (-o), or "
            f"make the row again with --redo {job.row}"
        )


def forget(job: Job) -> None:
    """Remove what a row has left, so that it is made again."""
    job.record.unlink(missing_ok=True)
    if job.run.exists():
        remove_folder(job.run)


def make_row(job: Job, *, say: Say, on_record: OnRecord, stop: Stop) -> RowResult | None:
    """Train the row, or go on with it; None if it was stopped."""
    plan = decide(TrainingRequest(job.run, PRESET, job.layers, device=job.device, name=job.name))
    diverged = ""
    try:
        if carry_out(plan, say=say, on_record=on_record, stop=stop).model is None:
            return None
    except TrainingError as error:
        say(f"{job.name}: {error}")
        diverged = "the gradient was not finite"
    result = _result(job, diverged)
    save(job.record, result)
    remove_folder(job.run / CHECKPOINTS)
    return result


def missing_measures(job: Job, result: RowResult) -> list[str]:
    """What this experiment measures besides and the result lacks."""
    return [] if result.diverged else [name for name in job.measures if name not in result.measured]


def with_measures(job: Job, result: RowResult, *, say: Say, stop: Stop) -> RowResult | None:
    """The result with all that this experiment measures besides, if it is finite; None if it was stopped."""
    for name in missing_measures(job, result):
        if stop():
            return None
        say(f"{job.name}: measuring {name}")
        found = job.measures[name](Trained(job.run, job.text, job.seed, job.device))
        finite = {what: value for what, value in found.items() if math.isfinite(value)}
        result = msgspec.structs.replace(result, measured={**result.measured, name: finite})
        save(job.record, result)
    return result


def _result(job: Job, diverged: str) -> RowResult:
    """What the run's folder says of its training."""
    wanted, start = conditions(job), read_starts(job.run)[-1]
    metrics, vocab_size = run_metrics(job.run), Tokenizer.load(job.run / TOKENIZER).vocab_size
    last = metrics["step"][-1] if metrics["step"] else {}
    return RowResult(
        **{name: getattr(wanted, name) for name in Conditions.__struct_fields__},
        row=job.row,
        seed=job.seed,
        text=job.text.name,
        parameters=count(shapes_of_new(job.config.model, vocab_size)),
        vocab_size=vocab_size,
        steps=last.get("step", 0),
        target_tokens=last.get("target_tokens", 0),
        seconds=last.get("seconds", 0.0),
        curve=tuple(Point(each["step"], each["perplexity"], each["bleu"]) for each in metrics["validation"]),
        diverged=diverged,
        machine=start.machine,
        version=start.version,
        commit=start.commit,
        date=now(),
        command=job.command,
    )
