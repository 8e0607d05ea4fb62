"""What all rows of the lab share: the tiny preset, trained for a number of steps and cooling down over the last half.

Without the cooldown, seeds of the same row differ by several BLEU, and few differences can be told.
"""

from __future__ import annotations

from heedful.config.setting_layers import Layer

STEPS, QUICK_STEPS = 800, 160
PEAK = (2.0, 300)  # a factor of 2 with 300 steps of warm-up: where the rate peaks, whatever the budget
WARMUP_SHARE = 0.25
VALIDATIONS, QUICK_VALIDATIONS = 4, 2

COMMON: Layer = {
    "model": {"dropout": 0.2},
    "train": {"average_last": 1, "keep_checkpoints": 1, "checkpoint_steps": 100},
}


def budget(steps: int, validations: int = VALIDATIONS, *, rate: float = 1.0) -> Layer:
    """The schedule of so many steps; its rate peaks at `rate` times the usual."""
    factor, of_warmup = PEAK
    warmup = min(of_warmup, max(1, round(WARMUP_SHARE * steps)))
    return {
        "train": {
            "steps": steps,
            "warmup_steps": warmup,
            "learning_rate_factor": round(rate * factor * (warmup / of_warmup) ** 0.5, 4),
            "cooldown_steps": steps // 2,
            "validate_steps": max(1, steps // validations),
        }
    }
