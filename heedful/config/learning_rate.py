"""The learning rate of each step: equation 3 (§5.3), and the cooldown, a switch that the paper does not have.

It knows steps and nothing else.
"""


def learning_rate(step: int, *, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), times a factor that is 1 in the paper.

    Steps count from 1. For base the peak, at step 4000, is 7.0e-4.
    """
    assert step >= 1, "the first step is step 1"
    rate: float = factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    return rate


def cooldown(step: int, *, steps: int, cooldown_steps: int) -> float:
    """The share of the rate that is left: 1 until the last `cooldown_steps`, which lower it in equal parts.

    Without cooldown steps it is always 1. At the last step it is 1 / cooldown_steps.
    """
    return min(1.0, (steps + 1 - step) / cooldown_steps) if cooldown_steps else 1.0
