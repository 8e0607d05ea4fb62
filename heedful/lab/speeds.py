"""How fast the rows of an experiment train here: real steps, timed in one short run with nothing beside it.

Trainings themselves may share their machine with other work, so that their seconds cannot be compared. A Transformer is
also timed in plain torch, as the other families have no fast modules of their own. `rate` is what a large product of
matrices sustains: the paper counts FLOP as seconds × such a rate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median

import msgspec
import torch
from msgspec import Struct

from heedful.config.settings import ModelConfig
from heedful.data.atomic import explained, write_file
from heedful.data.run_folder import TOKENIZER, TRAINING_DATA
from heedful.data.shards import open_shards
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError
from heedful.lab.experiment import Experiment, LabRequest, Say
from heedful.lab.row_result import Conditions, RowResult, differences
from heedful.lab.rows import PRESET, Job, conditions
from heedful.lab.training_rows import jobs_of
from heedful.model.device import choose_device
from heedful.model.registry import new_model
from heedful.score.provenance import Machine, commit, machine
from heedful.train.batching import step_batches
from heedful.train.gradients import Objective, PlainGradients
from heedful.train.processes import ALONE
from heedful.train.run.plan import TrainingRequest, decide
from heedful.train.run.start import prepare_run
from heedful.train.trainer import Trainer, deterministic_algorithms

FILE = "speeds.json"
PLAIN = ", plain torch"
WARM_UP, SECONDS = 3, 20.0
SIZE, PRODUCTS = 2048, 5


class Speeds(Struct, frozen=True, kw_only=True):
    """Seconds of a step of each row, and operations a second of a large product, on one machine."""

    seconds_per_step: dict[str, float]
    rate: float
    machine: Machine
    threads: int
    commit: str
    conditions: dict[str, Conditions] = {}  # of each row


def measure_speeds(experiment: Experiment, request: LabRequest, say: Say) -> Speeds:
    """Time every row with the first seed, and keep the speeds beside the report."""
    device = choose_device(request.device)
    seconds: dict[str, float] = {}
    jobs = [job for job in jobs_of(experiment, request) if job.seed == request.seeds[0]]
    for job in jobs:
        for name, is_plain in _ways(job):
            seconds[name] = seconds_per_step(job, device, is_plain=is_plain, say=say)
            say(f"{name}: {seconds[name]:.3f} s a step")
    speeds = Speeds(
        seconds_per_step=seconds,
        rate=sustained_rate(device),
        machine=machine(device.type),
        threads=torch.get_num_threads(),
        commit=commit(),
        conditions={job.row: conditions(job) for job in jobs},
    )
    _save(request.output / experiment.name / FILE, speeds)
    return speeds


def _ways(job: Job) -> Iterator[tuple[str, bool]]:
    yield job.row, False
    if type(job.config.model) is ModelConfig:
        yield f"{job.row}{PLAIN}", True


def seconds_per_step(job: Job, device: torch.device, *, is_plain: bool, say: Say) -> float:
    """The median over real steps, after the first ones, which prepare much."""
    if not (job.run / TRAINING_DATA).is_dir():
        prepare_run(decide(TrainingRequest(job.run, PRESET, job.layers, device=job.device)), say=say)
    torch.manual_seed(job.seed)
    model = new_model(job.config.model, Tokenizer.load(job.run / TOKENIZER).vocab_size)
    with deterministic_algorithms():
        trainer = Trainer(model, job.config, device=device, world=ALONE)
        if is_plain:
            objective = Objective(model, job.config.train)
            trainer.gradients = PlainGradients(objective, world=ALONE, autocast=trainer.precision == "bf16")
        return median(islice(_step_times(trainer, job), WARM_UP, None))


def _step_times(trainer: Trainer, job: Job) -> Iterator[float]:
    """Seconds of one step after another, for a while."""
    steps = step_batches(open_shards(job.run / TRAINING_DATA), trainer.gradients.make, job.config.train)
    begun, count = time.perf_counter(), 0
    while count <= WARM_UP or time.perf_counter() - begun < SECONDS:
        batches, before = next(steps), time.perf_counter()
        trainer.step(batches)
        float(trainer.totals.gradient_norm)  # waits for the device
        count += 1
        yield time.perf_counter() - before


def sustained_rate(device: torch.device) -> float:
    """Operations a second of a product of large matrices in float32."""
    matrix = torch.randn(SIZE, SIZE, device=device)
    times = []
    for _ in range(PRODUCTS):
        before = time.perf_counter()
        float((matrix @ matrix)[0, 0])  # waits for the device
        times.append(time.perf_counter() - before)
    return 2 * SIZE**3 / median(times)


def is_timed(speeds: Speeds, result: RowResult) -> bool:
    """Whether the row was timed with the settings and the text of this result; the seed may differ."""
    timed = speeds.conditions.get(result.row)
    if timed is None or result.row not in speeds.seconds_per_step:
        return False
    return all(each.startswith("train.seed ") for each in differences(timed, result))


def load_speeds(folder: Path) -> Speeds | None:
    """The speeds beside a report, if they were measured."""
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Speeds)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise CheckpointError(f"{path}: cannot be read as speeds ({error}); --time measures them again") from None


def _save(path: Path, speeds: Speeds) -> None:
    with explained(path, CheckpointError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, msgspec.json.format(msgspec.json.encode(speeds), indent=1) + b"\n")
