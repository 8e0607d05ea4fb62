"""The loop: when it logs, validates, writes and ends, and what it says when it cannot go on."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from heedful.config.setting_layers import resolve
from heedful.config.settings import Config
from heedful.errors import CheckpointError, DeviceError, TrainingError
from heedful.model.checkpoint import (
    Snapshot,
    checkpoint_steps,
    load_snapshot,
    save_checkpoint,
    step_folder,
    weights_to_average,
)
from heedful.model.interface import TranslationModel
from heedful.model.transformer import Transformer
from heedful.train import checkpoint_writer
from heedful.train.batching import Batch
from heedful.train.gradients import AnyBatch
from heedful.train.loop import (
    NON_FINITE_LIMIT,
    CheckpointRecord,
    EndRecord,
    PaceRecord,
    Record,
    Scores,
    StepRecord,
    StoppedError,
    Validate,
    ValidationRecord,
    train,
)
from heedful.train.processes import World
from heedful.train.trainer import Trainer
from tests.memory_shards import random_shards
from tests.narrowed import as_transformer

DATA = random_shards(100)


def config(**settings: object) -> Config:
    model = {"d_model": 16, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    base = {"batch_tokens": 60, "warmup_steps": 10, "steps": 45, "checkpoint_steps": 10, "validate_steps": 15}
    return resolve({"model": model, "data": {"max_length": 12}, "train": base | settings})


def run(
    settings: Config,
    folder: Path,
    *,
    validate: Validate | None = None,
    stop: Callable[[], bool] = lambda: False,
    trainer: Trainer | None = None,
) -> list[Record]:
    return list(train(trainer or new_trainer(settings), DATA, folder, validate=validate, stop=stop))


def new_trainer(settings: Config) -> Trainer:
    torch.manual_seed(0)
    return Trainer(Transformer(settings.model, 56), settings, device=torch.device("cpu"), world=World())


def steps_of(records: list[Record], kind: type) -> list[int]:
    return [record.step for record in records if isinstance(record, kind)]


def test_records_come_at_their_intervals_and_the_end_is_said(tmp_path: Path) -> None:
    records = run(config(), tmp_path, validate=lambda _: Scores(1.0, 2.7))
    assert steps_of(records, StepRecord) == [20, 40, 45]
    assert steps_of(records, ValidationRecord) == [15, 30, 45]
    assert steps_of(records, CheckpointRecord) == [10, 20, 30, 40, 45]
    assert records[-1] == EndRecord(45, "steps")


def test_the_micro_batches_of_a_step_share_its_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """§5.1: `train.batch_tokens` of each side are those of a whole step, in however many parts."""
    trainer, sizes = new_trainer(config(micro_batches=2, steps=20)), []
    step = trainer.step

    def watched(batches: Sequence[Batch]) -> None:
        sources = [len(batch.source.tokens_T) for batch in batches]
        sizes.append((sum(sources), sum(batch.num_target_tokens for batch in batches)))
        step(batches)

    monkeypatch.setattr(trainer, "step", watched)
    run(trainer.config, tmp_path, trainer=trainer)
    assert len(sizes) == 20
    assert all(30 < max(size) <= 60 for size in sizes)


def test_the_speed_is_that_of_the_steps_whatever_is_done_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step takes a second here; validations and checkpoints, which fall between two records, take a minute."""
    trainer = new_trainer(config())
    step, now = trainer.step, time.monotonic()

    def slow_step(batches: Sequence[AnyBatch]) -> None:
        nonlocal now
        now += 1
        step(batches)

    def slow(*_: object) -> Scores:
        nonlocal now
        now += 60
        return Scores(1.0, 2.7)

    monkeypatch.setattr(trainer, "step", slow_step)
    snapshot = trainer.snapshot
    monkeypatch.setattr(trainer, "snapshot", lambda: (slow(), snapshot())[1])
    monkeypatch.setattr("time.monotonic", lambda: now)
    records = [r for r in run(trainer.config, tmp_path, validate=slow, trainer=trainer) if isinstance(r, StepRecord)]
    tokens = [after - before for before, after in pairwise([0, *(record.target_tokens for record in records)])]
    speeds = [tokens[0] / 20, tokens[1] / 20, tokens[2] / 5]
    # The clock begins in real time, a moment later than ours; 60 s that counted would be far more.
    assert [record.tokens_per_second for record in records] == pytest.approx(speeds, rel=0.2)


def test_a_slow_start_gives_its_pace_until_the_first_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = new_trainer(config())
    step, now = trainer.step, time.monotonic()

    def slow_step(batches: Sequence[AnyBatch]) -> None:
        nonlocal now
        now += 4
        step(batches)

    monkeypatch.setattr(trainer, "step", slow_step)
    monkeypatch.setattr("time.monotonic", lambda: now)
    records = [r for r in run(trainer.config, tmp_path, trainer=trainer) if isinstance(r, PaceRecord)]
    assert steps_of([*records], PaceRecord) == [3, 6, 9, 12, 15, 18]
    # The clock begins in real time, a moment later than ours.
    assert [record.seconds_per_step for record in records] == pytest.approx([4.0] * 6, rel=0.2)
    assert [record.seconds_left for record in records] == pytest.approx([4.0 * (45 - r.step) for r in records])


@pytest.mark.parametrize("steps", [1, 45])
def test_the_first_record_tells_the_time_on_this_machine_and_a_slow_first_step_does_not_count(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = new_trainer(config(steps=steps))
    # A start of the same run on a machine a hundred times as slow is before this one.
    trainer.progress = replace(trainer.progress, seconds=1e6)
    step, now = trainer.step, time.monotonic()

    def slow_step(batches: Sequence[AnyBatch]) -> None:
        nonlocal now
        now += 300 if trainer.progress.step == 0 else 4
        step(batches)

    monkeypatch.setattr(trainer, "step", slow_step)
    monkeypatch.setattr("time.monotonic", lambda: now)
    records = [r for r in run(trainer.config, tmp_path, trainer=trainer) if isinstance(r, StepRecord | PaceRecord)]
    assert records[0].step == 1
    assert records[0].seconds_left == pytest.approx(300 * (steps - 1), rel=0.01)
    assert [r.seconds_left for r in records[1:]] == pytest.approx([4 * (steps - r.step) for r in records[1:]])


def test_the_model_is_validated_without_dropout_and_trained_with_it(tmp_path: Path) -> None:
    seen: list[bool] = []
    trainer = new_trainer(config())

    def validate(model: TranslationModel) -> Scores:
        seen.append(model.training)
        return Scores(1.0, 2.7)

    run(trainer.config, tmp_path, validate=validate, trainer=trainer)
    assert seen == [False] * 3
    assert trainer.model.training


def test_checkpoints_by_the_clock_serve_resume_and_not_the_average(tmp_path: Path) -> None:
    records = run(config(checkpoint_minutes=1e-9, steps=23), tmp_path)
    assert steps_of(records, CheckpointRecord) == list(range(1, 24))
    assert checkpoint_steps(tmp_path) == [10, 20, 22, 23]
    assert [path.parent.name[-2:] for path in weights_to_average(tmp_path, 23, last=5, every=10)] == ["10", "20", "23"]


def test_a_checkpoint_between_two_records_counts_the_skipped_steps_before_it(tmp_path: Path) -> None:
    trainer = new_trainer(config(checkpoint_steps=7, steps=14))
    spoilt = (2, 5, 9)
    weight = as_transformer(trainer.model).embedding.weight_VD
    weight.register_hook(lambda g: g * float("nan") if trainer.progress.step + 1 in spoilt else g)
    records = run(trainer.config, tmp_path, trainer=trainer)
    assert [load_snapshot(step_folder(tmp_path, step)).state["skipped_steps"] for step in (7, 14)] == [2, 3]
    assert [r.skipped_steps for r in records if isinstance(r, StepRecord)] == [3]


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one is let through when step 15 has been done; it must hold the weights of step 10."""
    trainer, gate = new_trainer(config(steps=20)), threading.Event()
    step, kept = trainer.step, dict[int, dict[str, Tensor]]()

    def counted_step(batches: Sequence[AnyBatch]) -> None:
        step(batches)
        kept[trainer.progress.step] = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
        if trainer.progress.step == 15:
            gate.set()

    def gated_save(run: Path, step: int, snapshot: Snapshot) -> Path:
        assert gate.wait(timeout=300)
        return save_checkpoint(run, step, snapshot)

    monkeypatch.setattr(trainer, "step", counted_step)
    monkeypatch.setattr(checkpoint_writer, "save_checkpoint", gated_save)
    run(trainer.config, tmp_path, trainer=trainer)
    for step_done in (10, 20):
        written = load_snapshot(step_folder(tmp_path, step_done)).weights
        assert all(torch.equal(written[name], weight) for name, weight in kept[step_done].items())


def test_a_checkpoint_that_cannot_be_written_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> Path:
        raise CheckpointError("no space left on device")

    monkeypatch.setattr(checkpoint_writer, "save_checkpoint", full_disk)
    trainer = new_trainer(config(steps=1000))
    with pytest.raises(CheckpointError, match="no space left"):
        run(trainer.config, tmp_path, trainer=trainer)
    assert trainer.progress.step < 1000


def test_a_wish_to_stop_is_granted_after_the_step_with_a_checkpoint(tmp_path: Path) -> None:
    wishes = iter([False] * 6 + [True])
    records = run(config(), tmp_path, stop=lambda: next(wishes))
    assert records[-1] == EndRecord(7, "stopped")
    assert checkpoint_steps(tmp_path) == [7]


def test_a_validation_that_is_stopped_is_owed_and_the_run_stops_with_a_checkpoint(tmp_path: Path) -> None:
    def stopped(_: TranslationModel) -> Scores:
        raise StoppedError

    trainer = new_trainer(config())
    records = run(trainer.config, tmp_path, validate=stopped, trainer=trainer)
    assert records[-1] == EndRecord(15, "stopped")
    assert not steps_of(records, ValidationRecord)
    assert trainer.model.training
    assert load_snapshot(step_folder(tmp_path, 15)).state["validation_is_due"]
    records = run(trainer.config, tmp_path, validate=lambda _: Scores(1.0, 2.7), trainer=trainer)
    assert steps_of(records, ValidationRecord) == [15, 30, 45]
    assert records[-1] == EndRecord(45, "steps")


class Waiting(World):
    """A process that waits for the first one, which was told to stop."""

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor.copy_(torch.tensor([0.0, 1.0]))


def test_a_process_that_waits_for_a_validation_stops_with_the_first_one(tmp_path: Path) -> None:
    trainer, asked = new_trainer(config()), list[bool]()
    trainer.world = Waiting(rank=1)
    trainer.progress = replace(trainer.progress, validation_is_due=True)

    def stop() -> bool:
        asked.append(True)
        return False

    records = run(trainer.config, tmp_path, validate=lambda _: Scores(1.0, 2.7), stop=stop, trainer=trainer)
    assert records[-1] == EndRecord(0, "stopped")
    assert not steps_of(records, ValidationRecord)
    assert trainer.progress.best_loss is None
    assert asked, "a signal would end this process at once, before the others"


def test_a_checkpoint_of_before_there_were_debts_owes_nothing(tmp_path: Path) -> None:
    snapshot = new_trainer(config()).snapshot()
    del snapshot.state["validation_is_due"]
    trainer = new_trainer(config())
    trainer.restore(snapshot, tmp_path)
    assert not trainer.progress.validation_is_due


def test_losses_that_stay_without_a_number_end_the_run_and_name_the_last_good_checkpoint(tmp_path: Path) -> None:
    trainer = new_trainer(config(steps=100))
    spoilt_from = 25
    weight = as_transformer(trainer.model).embedding.weight_VD
    weight.register_hook(lambda g: g * float("nan") if trainer.progress.step >= spoilt_from else g)
    with pytest.raises(TrainingError, match=r"step-000000[2-5]0") as caught:
        run(trainer.config, tmp_path, trainer=trainer)
    assert "not finite in the last" in str(caught.value)
    assert "another folder (-o)" in str(caught.value), "in the same one these settings may not change"
    assert trainer.progress.step >= spoilt_from + NON_FINITE_LIMIT
    assert "\n" not in str(caught.value)
    assert weight.isfinite().all()


def test_a_few_losses_without_a_number_are_skipped_and_counted(tmp_path: Path) -> None:
    trainer = new_trainer(config())
    weight = as_transformer(trainer.model).embedding.weight_VD
    weight.register_hook(lambda g: g * float("inf") if trainer.progress.step in (12, 13) else g)
    records = run(trainer.config, tmp_path, trainer=trainer)
    skipped = [record.skipped_steps for record in records if isinstance(record, StepRecord)]
    assert skipped == [2, 2, 2]
    assert records[-1] == EndRecord(45, "steps")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried …"),
        MemoryError(),
    ],
)
def test_out_of_memory_says_which_setting_to_change(tmp_path: Path, error: Exception) -> None:
    trainer = new_trainer(config())

    def fail(batches: Sequence[AnyBatch]) -> None:
        raise error

    trainer.step = fail  # type: ignore[method-assign]
    with pytest.raises(
        DeviceError, match=r"new folder \(-o\).*train\.micro_batches \(now 1.*train\.batch_tokens \(now 60\)"
    ):
        run(trainer.config, tmp_path, trainer=trainer)


def test_out_of_memory_in_a_validation_says_so_too(tmp_path: Path) -> None:
    def validate(model: TranslationModel) -> Scores:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(DeviceError, match=r"train\.micro_batches"):
        run(config(), tmp_path, validate=validate)


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    trainer = new_trainer(config())

    def fail(batches: Sequence[AnyBatch]) -> None:
        raise RuntimeError("something of ours")

    trainer.step = fail  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="something of ours"):
        run(trainer.config, tmp_path, trainer=trainer)


def test_patience_counts_validations_without_a_better_loss(tmp_path: Path) -> None:
    losses = iter([3.0, 2.0, 2.5, 2.1, 9.0])
    records = run(config(patience=2, validate_steps=3), tmp_path, validate=lambda _: Scores(next(losses), 1.0))
    assert records[-1] == EndRecord(12, "patience")
    assert checkpoint_steps(tmp_path)[-1] == 12


@pytest.mark.parametrize("remembered", [None, math.nan])
def test_a_loss_that_is_no_number_is_never_the_best_one(tmp_path: Path, remembered: float | None) -> None:
    losses = iter([math.nan, 3.0, math.nan, 2.0, 2.5, math.nan])
    trainer = new_trainer(config(patience=2, validate_steps=2))
    trainer.progress = replace(trainer.progress, best_loss=remembered)
    records = run(trainer.config, tmp_path, validate=lambda _: Scores(next(losses), 1.0), trainer=trainer)
    assert records[-1] == EndRecord(12, "patience")
    assert trainer.progress.best_loss == 2.0


def test_the_last_step_is_validated_whatever_its_number(tmp_path: Path) -> None:
    records = run(config(steps=5, validate_steps=2), tmp_path, validate=lambda _: Scores(1.0, 1.0))
    assert steps_of(records, ValidationRecord) == [2, 4, 5]


def test_patience_ends_with_losses_that_are_no_numbers(tmp_path: Path) -> None:
    trainer = new_trainer(config(patience=2, validate_steps=2))
    records = run(trainer.config, tmp_path, validate=lambda _: Scores(math.nan, 1.0), trainer=trainer)
    assert records[-1] == EndRecord(4, "patience")
    assert trainer.progress.best_loss is None


def test_a_run_that_ran_out_of_patience_goes_on_with_more_of_it_only(tmp_path: Path) -> None:
    trainer = new_trainer(config(patience=2, validate_steps=3))
    run(trainer.config, tmp_path, validate=lambda _: Scores(1.0, 1.0), trainer=trainer)
    assert trainer.progress.step == 9
    again = run(trainer.config, tmp_path, validate=lambda _: Scores(1.0, 1.0), trainer=trainer)
    assert again == [EndRecord(9, "patience")]
    trainer.config = config(patience=3, validate_steps=3)
    more = run(trainer.config, tmp_path, validate=lambda _: Scores(1.0, 1.0), trainer=trainer)
    assert more[-1] == EndRecord(12, "patience")
