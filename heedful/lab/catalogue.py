"""All experiments by name, in the order in which `heedful lab all` runs them."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.lab.experiment import Experiment, named
from heedful.lab.experiments.bottleneck import BOTTLENECK
from heedful.lab.experiments.embedding import EMBEDDING
from heedful.lab.experiments.experts import EXPERTS
from heedful.lab.experiments.heads import HEADS
from heedful.lab.experiments.order import ORDER
from heedful.lab.experiments.positions import POSITIONS
from heedful.lab.experiments.projections import PROJECTIONS
from heedful.lab.experiments.scaling import SCALING
from heedful.lab.experiments.smoothing import SMOOTHING
from heedful.lab.experiments.table2 import TABLE2
from heedful.lab.experiments.table3 import TABLE3
from heedful.lab.experiments.tuning import TUNING
from heedful.lab.table1.measuring import TABLE1

EXPERIMENTS = (
    *(TABLE1, TABLE2, TABLE3, SMOOTHING, POSITIONS, ORDER, SCALING, BOTTLENECK),
    *(PROJECTIONS, EMBEDDING, HEADS, EXPERTS, TUNING),
)
ALL = "all"


def chosen(name: str) -> Sequence[Experiment]:
    """The experiment of that name, or all that are about the paper."""
    if name == ALL:
        return [each for each in EXPERIMENTS if each.is_in_all]
    return [named(name, {each.name: each for each in EXPERIMENTS}, "experiment")]
