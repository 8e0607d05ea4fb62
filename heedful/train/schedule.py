"""The learning rate (§5.3, equation 3), and a switch for its end. It knows steps and nothing else."""


def learning_rate(step: int, *, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), times a factor that is 1 in the paper.

    Steps count from 1. For base the peak, at step 4000, is 7.0e-4.
    """
    assert step >= 1, "the first step is step 1"
    rate: float = factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    return rate


def cooldown(step: int, *, steps: int, cooldown_steps: int) -> float:
    """What is left of the rate: all of it until the last `cooldown_steps`, which take it down in equal parts.

    Not in the paper; without such steps it is 1. The part of the last step is 1 / cooldown_steps.
    """
    return min(1.0, (steps + 1 - step) / cooldown_steps) if cooldown_steps else 1.0
