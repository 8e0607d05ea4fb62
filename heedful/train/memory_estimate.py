"""How much memory training needs, computed from the settings."""

from __future__ import annotations

from dataclasses import dataclass

from heedful.config.settings import Config
from heedful.model.parameter_count import count, shapes_of_new

ROWS_AT_ONCE = 256  # of the logits, on a CPU


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes that training needs, roughly."""

    parameters: int  # weights, gradients, Adam's two moments, and a moving average if there is one
    activations: int | None  # kept for the backward pass of one micro-batch; None: nobody has counted them
    logits: int  # and what the loss makes of them

    @property
    def total(self) -> int:
        """All that is known."""
        return self.parameters + (self.activations or 0) + self.logits


def memory_estimate(config: Config, vocab_size: int, *, device: str) -> MemoryEstimate:
    """What one process will need in float32 without our kernels: a count of the tensors that autograd keeps."""
    rows, kept = config.train.micro_batch_tokens, config.model.kept_numbers
    return MemoryEstimate(
        parameters=(20 if config.train.ema_decay else 16) * count(shapes_of_new(config.model, vocab_size)),
        activations=None if kept is None else 4 * rows * kept,
        logits=4 * vocab_size * _numbers_of_a_word(config, rows, device),
    )


def _numbers_of_a_word(config: Config, rows: int, device: str) -> int:
    """At the peak of the loss: of each row its logits and what they become; on a CPU of few rows, and a gradient."""
    if device == "cpu" and config.train.precision != "bf16":
        return (9 if config.train.r_drop else 5) * min(rows, ROWS_AT_ONCE) + config.model.d_model
    return (7 if config.train.r_drop else 3) * rows
