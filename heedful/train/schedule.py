"""The learning rate (§5.3, equation 3). It knows steps and nothing else; how the rate ends is `config/cooldown.py`."""


def learning_rate(step: int, *, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), times a factor that is 1 in the paper.

    Steps count from 1. For base the peak, at step 4000, is 7.0e-4.
    """
    assert step >= 1, "the first step is step 1"
    rate: float = factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    return rate
