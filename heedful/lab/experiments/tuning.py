"""The same effort for every system of Table 2: one grid of learning rate and dropout, one seed, judged on validation.

The report says which of the grid is best for each system, as it stands in `systems.py` before Table 2 is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from heedful.lab.experiment import BASE, Experiment, Results, Row
from heedful.lab.experiments.systems import SYSTEMS, sizes, tuned
from heedful.lab.findings import Findings
from heedful.lab.metrics import PERPLEXITY
from heedful.score.tables import Section

RATES, DROPOUTS = (0.25, 0.5, 1.0, 2.0), (0.1, 0.2)
STEPS = 400


def name_of(system: str, rate: float, dropout: float) -> str:
    """The row of one place in the grid."""
    return f"tuning-{system}-{rate}-{dropout}"


def grid(system: str) -> Iterator[Row]:
    """Every rate with every dropout."""
    for rate in RATES:
        for dropout in DROPOUTS:
            change = f"{SYSTEMS[system].change}: {rate}, {dropout}"
            yield tuned(Row(name_of(system, rate, dropout), change, sizes(system)), rate, dropout)


def best(results: Results, _: Path) -> Findings:
    """The place of each system's lowest perplexity, as Python for `systems.py`."""
    found = {system: place for system in SYSTEMS if (place := _best(system, results))}
    table = [["system", "rate, times the usual", "dropout"], *([name, *map(str, at)] for name, at in found.items())]
    note = f"For heedful/lab/experiments/systems.py: `TUNED = {found}`."
    return Findings(tables=(Section("Best of the grid", table),), notes=(note,)) if found else Findings()


def _best(system: str, results: Results) -> tuple[float, float] | None:
    scores = {
        (rate, dropout): value
        for rate in RATES
        for dropout in DROPOUTS
        for result in results.get(name_of(system, rate, dropout), ())[:1]
        if (value := result.value(PERPLEXITY)) is not None
    }
    return min(scores, key=lambda place: scores[place]) if scores else None


TUNING = Experiment(
    name="tuning",
    question="Which learning rate and dropout suit each system? (Run it with --seeds 1.)",
    section="Table 2",
    minutes=435,
    steps=STEPS,
    rows=tuple(row for system in SYSTEMS for row in grid(system)),
    more=best,
    quick=tuple(name_of(BASE, rate, DROPOUTS[1]) for rate in RATES),
    is_in_all=False,
)
