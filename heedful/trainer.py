"""One training step (§5.3, §5.4): what happens between a batch and the new weights, and what a checkpoint holds of it.

It knows the model only as something that gives a loss. A dropout mask follows from (seed, step, micro-batch) and
nothing else here is random, so a run that was killed and is started again does what it would have done.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from heedful.batching import Batch, derived_seed
from heedful.checkpoint import Snapshot, load_weights
from heedful.config import Config, TrainConfig
from heedful.distributed import World
from heedful.errors import CheckpointError, DeviceError
from heedful.loss import projected_loss
from heedful.model.transformer import Transformer
from heedful.schedule import learning_rate

ADAM_BETAS, ADAM_EPS = (0.9, 0.98), 1e-9  # §5.3


@dataclass(frozen=True, slots=True)
class Progress:
    """What the run remembers beside weights and moments; written to state.json."""

    step: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    skipped_steps: int = 0
    best_loss: float | None = None
    validations_without_gain: int = 0


class Objective(nn.Module):
    """Model and loss in one module, so that DistributedDataParallel sees every use of every weight."""

    def __init__(self, model: Transformer, label_smoothing: float) -> None:
        super().__init__()
        self.model, self.label_smoothing = model, label_smoothing

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The sums over the target tokens: smoothed loss, true negative log-likelihood."""
        hidden_TD = self.model.decode(batch.target_in, self.model.encode(batch.source))
        sums = projected_loss(hidden_TD, self.model.embedding.weight_VD, batch.target_out_T, self.label_smoothing)
        return sums.smoothed, sums.negative_log_likelihood


@dataclass
class Totals:
    """Sums since the last record; they stay on the device until then."""

    device: torch.device
    sums: Tensor = field(init=False)  # smoothed loss, negative log-likelihood, tokens; of finite steps only
    skipped_steps: Tensor = field(init=False)
    skipped_in_a_row: Tensor = field(init=False)
    gradient_norm: Tensor = field(init=False)

    def __post_init__(self) -> None:
        real = torch.float32 if self.device.type == "mps" else torch.float64
        self.sums = torch.zeros(3, dtype=real, device=self.device)
        self.skipped_steps = torch.zeros((), dtype=torch.int64, device=self.device)
        self.skipped_in_a_row = torch.zeros((), dtype=torch.int64, device=self.device)
        self.gradient_norm = torch.zeros((), device=self.device)


class Trainer:
    """Model, optimizer and the place of the run: what one step does, and what a checkpoint holds."""

    def __init__(self, model: Transformer, config: Config, *, device: torch.device, world: World) -> None:
        self.model, self.config, self.device, self.world = model, config, device, world
        self.progress = Progress()
        self.precision = resolved_precision(config.train, device)
        model.to(device, torch.float64 if self.precision == "fp64" else torch.float32).train()
        objective = Objective(model, config.train.label_smoothing)
        self.objective: nn.Module = DistributedDataParallel(objective) if world.size > 1 else objective
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=0.0, betas=ADAM_BETAS, eps=ADAM_EPS, fused=device.type != "mps"
        )
        self.totals = Totals(device)

    def step(self, batches: list[Batch]) -> None:
        """One optimizer step over this rank's micro-batches; a step whose gradient is not finite changes nothing."""
        step = self.progress.step + 1
        tokens = self._all_tokens(batches)
        sums = torch.zeros_like(self.totals.sums)
        for i, batch in enumerate(batches):
            sums += self._backward(step, i, batch, tokens, is_last=i == len(batches) - 1)
        self._update(step, sums)
        self.progress = replace(self.progress, step=step, target_tokens=self.progress.target_tokens + tokens)

    def _all_tokens(self, batches: list[Batch]) -> int:
        """The target tokens of the whole step, on all ranks; counted on the host, so the device need not wait."""
        tokens = torch.tensor([sum(batch.num_target_tokens for batch in batches)])
        return int(self.world.sum(tokens).item())

    def _backward(self, step: int, i: int, batch: Batch, tokens: int, *, is_last: bool) -> Tensor:
        """Add the gradient of one micro-batch: that of its loss sum over the tokens of the whole step."""
        micro_batch = self.world.rank + i * self.world.size
        torch.manual_seed(derived_seed(self.config.train.seed, step, micro_batch))
        with self._gradient_sync(is_last):
            with self._autocast():
                smoothed, nll = self.objective(batch.to(self.device))
            # DistributedDataParallel takes the mean over ranks; the factor makes it the sum.
            (smoothed * (self.world.size / tokens)).backward()
        count = smoothed.new_tensor(batch.num_target_tokens)
        return torch.stack([smoothed.detach(), nll, count]).to(self.totals.sums)

    def _gradient_sync(self, is_last: bool) -> AbstractContextManager[Any]:
        if isinstance(self.objective, DistributedDataParallel) and not is_last:
            return self.objective.no_sync()
        return nullcontext()

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16")

    def _update(self, step: int, sums: Tensor) -> None:
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        bad = ~norm.isfinite()
        self._optimizer_step(step, bad)
        totals = self.totals
        totals.sums += torch.where(bad, 0.0, sums)
        totals.gradient_norm = torch.where(bad, totals.gradient_norm, norm.to(totals.gradient_norm))
        totals.skipped_steps += bad
        totals.skipped_in_a_row = (totals.skipped_in_a_row + 1) * bad

    def _optimizer_step(self, step: int, bad: Tensor) -> None:
        """Adam with the rate of equation 3, unless the gradient is bad; decided on the device, without waiting."""
        self.optimizer.param_groups[0]["lr"] = self.learning_rate(step)
        if self.device.type == "mps":
            if not bad.item():
                self.optimizer.step()
        else:
            # The fused kernels read this flag (it is what torch's GradScaler sets).
            self.optimizer.found_inf = bad.float()  # type: ignore[attr-defined]
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def learning_rate(self, step: int) -> float:
        """Equation 3 with this run's settings."""
        train = self.config.train
        return learning_rate(
            step,
            d_model=self.config.model.d_model,
            warmup_steps=train.warmup_steps,
            factor=train.learning_rate_factor,
        )

    def snapshot(self) -> Snapshot:
        """Everything that is needed to go on from here."""
        names = {name: p for name, p in self.model.named_parameters() if p in self.optimizer.state}
        state = self.optimizer.state
        moments = {f"{key}.{n}": state[p][key] for n, p in names.items() for key in ("step", "exp_avg", "exp_avg_sq")}
        weights = {name: tensor.cpu() for name, tensor in self.model.state_dict().items()}
        return Snapshot(weights, {n: t.cpu() for n, t in moments.items()}, asdict(self.progress) | self.surroundings())

    def surroundings(self) -> dict[str, str | int]:
        """What the bits of the result depend on, beside the settings."""
        threads = torch.get_num_threads()
        return {
            "torch": torch.__version__,
            "threads": threads,
            "device": self.device.type,
            "processes": self.world.size,
        }

    def restore(self, snapshot: Snapshot, origin: Path) -> None:
        """Go on from a snapshot."""
        load_weights(self.model, snapshot.weights, origin)
        try:
            for name, parameter in self.model.named_parameters():
                if f"step.{name}" in snapshot.moments:
                    keys = ("step", "exp_avg", "exp_avg_sq")
                    moments = {key: snapshot.moments[f"{key}.{name}"].to(self.device) for key in keys}
                    self.optimizer.state[parameter] = moments
            fields = {name: snapshot.state[name] for name in asdict(self.progress)}
        except KeyError as error:
            raise CheckpointError(f"{origin}: the state lacks {error}; remove this checkpoint") from None
        self.progress = Progress(**fields)


def resolved_precision(train: TrainConfig, device: torch.device) -> str:
    """fp32, bf16 or fp64: `auto` is bf16 on CUDA and fp32 elsewhere."""
    if train.precision == "fp64" and device.type == "mps":
        raise DeviceError("train.precision = fp64 is not possible on mps; use fp32, or --device cpu")
    return train.precision if train.precision != "auto" else ("bf16" if device.type == "cuda" else "fp32")


def use_deterministic_algorithms() -> None:
    """The same bits from the same run: torch raises an error where it has no deterministic way."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
