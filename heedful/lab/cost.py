"""What an experiment costs on this machine: a step of the tiny model is timed here, and compared with the declared."""

from __future__ import annotations

from functools import cache

from heedful.config.setting_layers import preset, resolve
from heedful.lab.budget import COMMON, QUICK_STEPS
from heedful.lab.experiment import Experiment, LabRequest
from heedful.lab.rows import PRESET
from heedful.lab.text import BUILT_IN_PIECES
from heedful.model.device import choose_device
from heedful.train.time_estimate import estimate

DECLARED_SECONDS = 0.1  # of a step of the tiny model, on the machine that the minutes are declared for
DECLARED_SEEDS = 3


def seconds_here(experiment: Experiment, request: LabRequest) -> float:
    """The declared minutes, scaled by the speed of this machine, the number of seeds, and what --quick leaves out."""
    share = 1.0 if experiment.measure else len(request.seeds) / DECLARED_SEEDS
    if request.is_quick and experiment.rows:
        share *= len(experiment.quick) / len(experiment.rows) * QUICK_STEPS / experiment.steps
    return 60 * experiment.minutes * share * _slowness(request.device)


@cache
def _slowness(device: str) -> float:
    """The time of a step here, divided by the declared time."""
    config = resolve(preset(PRESET), COMMON)
    return estimate(config, BUILT_IN_PIECES, choose_device(device)).seconds_per_step / DECLARED_SECONDS
