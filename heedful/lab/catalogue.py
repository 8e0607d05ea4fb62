"""All experiments by name, in the order in which `heedful lab all` runs them."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.lab.bottleneck import BOTTLENECK
from heedful.lab.embedding import EMBEDDING
from heedful.lab.experiment import Experiment, named
from heedful.lab.experts import EXPERTS
from heedful.lab.heads import HEADS
from heedful.lab.order import ORDER
from heedful.lab.positions import POSITIONS
from heedful.lab.projections import PROJECTIONS
from heedful.lab.scaling import SCALING
from heedful.lab.smoothing import SMOOTHING
from heedful.lab.table1 import TABLE1
from heedful.lab.table2 import TABLE2
from heedful.lab.table3 import TABLE3
from heedful.lab.tuning import TUNING

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
