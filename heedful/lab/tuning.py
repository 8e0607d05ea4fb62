"""The same effort for every system of Table 2: one grid of learning rate and dropout, one seed, judged on validation.

What it finds is written into `systems.py` by hand, before Table 2 is run.
"""

from __future__ import annotations

from collections.abc import Iterator

from heedful.lab.experiment import BASE, Experiment, Row, merged
from heedful.lab.systems import SYSTEMS, settings_of, tuned

FACTORS, DROPOUTS = (0.25, 0.5, 1.0, 2.0), (0.1, 0.2, 0.3)


def grid(system: str) -> Iterator[Row]:
    """Every rate with every dropout."""
    for factor in FACTORS:
        for dropout in DROPOUTS:
            settings = merged(settings_of(system), tuned(factor, dropout))
            yield Row(f"tuning-{system}-{factor}-{dropout}", f"{SYSTEMS[system].change}: {factor}, {dropout}", settings)


TUNING = Experiment(
    name="tuning",
    question="Which learning rate and dropout suit each system? (Run it with --seeds 1.)",
    section="Table 2",
    minutes=480,
    rows=tuple(row for system in SYSTEMS for row in grid(system)),
    quick=tuple(f"tuning-{BASE}-{factor}-{DROPOUTS[1]}" for factor in FACTORS),
    is_in_all=False,
)
