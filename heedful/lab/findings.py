"""What an experiment leaves: tables, charts, and each claim as predicted, measured and judged."""

from __future__ import annotations

from msgspec import Struct

from heedful.lab.charts.chart import Curves, Spreads
from heedful.lab.statistics import Verdict
from heedful.score.tables import Section


class Judged(Struct, frozen=True):
    """A claim beside what was measured; `verdict` is empty where nothing was tested."""

    claim: str
    predicted: str
    measured: str
    verdict: Verdict | str = ""


class Findings(Struct, frozen=True):
    """The charts are named by the files that they become, without ending."""

    tables: tuple[Section, ...] = ()
    charts: dict[str, Curves | Spreads] = {}
    judged: tuple[Judged, ...] = ()
    notes: tuple[str, ...] = ()
