"""How the learning rate ends: a switch that the paper does not have. It knows steps and nothing else."""


def cooldown(step: int, *, steps: int, cooldown_steps: int) -> float:
    """What is left of the rate: all of it until the last `cooldown_steps`, which take it down in equal parts.

    Without such steps it is 1. The part of the last step is 1 / cooldown_steps.
    """
    return min(1.0, (steps + 1 - step) / cooldown_steps) if cooldown_steps else 1.0
