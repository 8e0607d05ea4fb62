"""One training step (§5.3): from a step's micro-batches to the new weights; and what a checkpoint holds of it.

How a micro-batch becomes gradients is the affair of `gradients.py`. A dropout mask follows from (seed, step,
micro-batch) and nothing else here is random, so a run that was killed and is started again does what it would have
done. It knows nothing of text, of where batches come from, or of when to validate and to stop.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from heedful.config.learning_rate import cooldown, learning_rate
from heedful.config.settings import Config, TrainConfig
from heedful.errors import CheckpointError, DeviceError
from heedful.model.checkpoint import Snapshot, load_weights, refuse_other_shapes
from heedful.model.device import has_bfloat16
from heedful.model.interface import TranslationModel
from heedful.train.batching import derived_seed
from heedful.train.gradients import AnyBatch, make_gradients
from heedful.train.moving_average import MovingAverage
from heedful.train.processes import World
from heedful.train.running_sums import Totals

ADAM_BETAS, ADAM_EPS = (0.9, 0.98), 1e-9  # §5.3
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what Adam knows of each parameter


@dataclass(frozen=True, slots=True)
class Progress:
    """What the run remembers beside weights and moments; written to state.json."""

    step: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    skipped_steps: int = 0
    best_loss: float | None = None
    validations_without_gain: int = 0
    validation_is_due: bool = False  # at this step, where the run was stopped
    validation_text: str = ""  # what `best_loss` was measured on: a digest


class Trainer:
    """Model, optimizer and the place of the run: what one step does, and what a checkpoint holds."""

    def __init__(
        self, model: TranslationModel, config: Config, *, device: torch.device, world: World, precision: str = "auto"
    ) -> None:
        """`precision` is what `train.precision = auto` means, if that is known already."""
        self.model, self.config, self.device, self.world = model, config, device, world
        self.progress = Progress()
        train = config.train
        asked = precision if train.precision == "auto" else train.precision
        self.precision = resolved_precision(msgspec.structs.replace(train, precision=asked), device)
        model.to(device, torch.float64 if self.precision == "fp64" else torch.float32).train()
        self.gradients = make_gradients(model, config, precision=self.precision, world=world)
        self.optimizer = make_optimizer(model, config.train.weight_decay)
        decay = config.train.ema_decay
        self.average = MovingAverage(self.gradients.weights(), decay) if decay else None
        self.totals = Totals(device)

    def step(self, batches: Sequence[AnyBatch]) -> None:
        """One optimizer step over this rank's micro-batches; a step whose gradient is not finite changes nothing."""
        step = self.progress.step + 1
        own_tokens = sum(batch.num_target_tokens for batch in batches)
        # Counted on the host, so that the device need not wait.
        tokens = int(self.world.sum(torch.tensor([own_tokens])).item())
        sums_2 = self._add_gradients(step, batches, factor=1 / tokens)
        self._update(step, sums_2, own_tokens)
        self.progress = replace(self.progress, step=step, target_tokens=self.progress.target_tokens + tokens)

    def _add_gradients(self, step: int, batches: Sequence[AnyBatch], *, factor: float) -> Tensor:
        sums_2 = torch.zeros_like(self.totals.sums_3[:2])
        for i, batch in enumerate(batches):
            seed = derived_seed(self.config.train.seed, step, self.world.rank + i * self.world.size)
            ends = {"is_first": i == 0, "is_last": i == len(batches) - 1}
            sums_2 += self.gradients.add(batch, seed=seed, factor=factor, **ends).to(sums_2)
        return sums_2

    def _update(self, step: int, sums_2: Tensor, tokens: int) -> None:
        norm = nn.utils.get_total_norm(self.gradients.tensors())
        bad = ~norm.isfinite()
        self._optimizer_step(step, bad)
        if self.average is not None:
            self.average.update(step, bad)
        self.totals.add(sums_2, tokens, norm)

    def _optimizer_step(self, step: int, bad: Tensor) -> None:
        """Adam with the rate of equation 3, unless the gradient is bad; decided on the device, without waiting."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(step)
        if self.device.type == "mps":
            if not bad.item():
                self.optimizer.step()
        else:
            # The fused kernels read this flag (it is what torch's GradScaler sets).
            self.optimizer.found_inf = bad.float()  # type: ignore[attr-defined]
            self.optimizer.step()

    def count_skipped_steps(self) -> None:
        """Move what the device has counted so far to the progress; this waits for the device."""
        skipped = self.progress.skipped_steps + int(self.totals.skipped_steps)
        self.totals.skipped_steps.zero_()
        self.progress = replace(self.progress, skipped_steps=skipped)

    def learning_rate(self, step: int) -> float:
        """Equation 3 with this run's settings, and its end."""
        train, d_model = self.config.train, self.config.model.d_model
        rate = learning_rate(step, d_model=d_model, warmup_steps=train.warmup_steps, factor=train.learning_rate_factor)
        return rate * cooldown(step, steps=train.steps, cooldown_steps=train.cooldown_steps)

    def averaged(self) -> AbstractContextManager[None]:
        """Within this context the model has the weights to translate with: their moving average, if there is one."""
        return nullcontext() if self.average is None else self.average.in_place()

    def snapshot(self) -> Snapshot:
        """A copy of what is needed to go on, on the device; a moving average takes the place of the weights."""
        names = {name: p for name, p in self.model.named_parameters() if p in self.optimizer.state}
        state = self.optimizer.state
        moments = {f"{key}.{n}": state[p][key] for n, p in names.items() for key in MOMENTS}
        if self.average is not None:
            moments |= {f"weight.{name}": tensor for name, tensor in self.model.state_dict().items()}
        kept = {name: tensor.clone() for name, tensor in moments.items()}
        with self.averaged():
            weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        return Snapshot(weights, kept, asdict(self.progress) | self.surroundings())

    def surroundings(self) -> dict[str, str | int]:
        """What the bits of the result depend on, beside the settings."""
        return {
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "device": self.device.type,
            "processes": self.world.size,
        }

    def restore(self, snapshot: Snapshot, origin: Path) -> None:
        """Go on from a snapshot."""
        load_weights(self.model, snapshot.weights, origin)
        moments = dict(snapshot.moments)
        if self.average is not None:
            self.average.begin_here()
            learning = {name: moments.pop(name) for name in snapshot.moments if name.startswith("weight.")}
            load_weights(self.model, {n.removeprefix("weight."): t for n, t in learning.items()}, origin)
        self._restore_moments(moments, origin)
        try:
            due = snapshot.state.get("owes_validation", False)  # its name in older checkpoints
            state = {"validation_is_due": due, "validation_text": ""} | snapshot.state
            self.progress = msgspec.convert({name: state[name] for name in asdict(self.progress)}, Progress)
        except KeyError as error:
            raise CheckpointError(f"{origin}: the state lacks {error}; remove this checkpoint") from None
        except msgspec.ValidationError as error:
            raise CheckpointError(
                f"{origin}: the state is not what was written ({error}); remove this checkpoint"
            ) from None

    def _restore_moments(self, moments: Mapping[str, Tensor], origin: Path) -> None:
        """Of their parameters' shapes: the fused kernels would read and write behind those that are smaller."""
        known = {name: p for name, p in self.model.named_parameters() if f"step.{name}" in moments}
        shapes = {f"{key}.{n}": () if key == "step" else tuple(p.shape) for n, p in known.items() for key in MOMENTS}
        refuse_other_shapes(moments, shapes, origin)
        for name, parameter in known.items():
            self.optimizer.state[parameter] = {key: moments[f"{key}.{name}"].to(self.device) for key in MOMENTS}


def make_optimizer(model: TranslationModel, weight_decay: float) -> torch.optim.Adam:
    """Adam as in §5.3; with `train.weight_decay`, not in the paper, a step also shrinks matrices by rate × decay."""
    matrices = [parameter for parameter in model.parameters() if is_matrix(parameter)]
    others = [parameter for parameter in model.parameters() if not is_matrix(parameter)]
    groups: list[dict[str, Any]] = [{"params": matrices, "weight_decay": weight_decay}, {"params": others}]
    fused = model.device.type != "mps"
    return torch.optim.Adam(groups, lr=0.0, betas=ADAM_BETAS, eps=ADAM_EPS, fused=fused, decoupled_weight_decay=True)


def is_matrix(parameter: Tensor) -> bool:
    """Whether it has two dimensions at least; a column of gains, stored as X × 1, is a vector."""
    return parameter.squeeze().dim() > 1


def resolved_precision(train: TrainConfig, device: torch.device) -> str:
    """fp32, bf16 or fp64: `auto` is bf16 where CUDA has it and fp32 elsewhere."""
    if train.precision == "fp64" and device.type == "mps":
        raise DeviceError("train.precision = fp64 is not possible on mps; use fp32, or --device cpu")
    return train.precision if train.precision != "auto" else ("bf16" if has_bfloat16(device) else "fp32")


@contextmanager
def deterministic_algorithms() -> Iterator[None]:
    """The same bits from the same run: torch raises an error where it has no deterministic way.

    Its flags and the CPU's random numbers are afterwards as they were found: the process may be somebody's notebook.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    settings: Any = torch.utils.deterministic
    mode, fills = torch.get_deterministic_debug_mode(), settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    settings.fill_uninitialized_memory = False
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        settings.fill_uninitialized_memory = fills
