"""What an experiment is: a question of the paper, predictions, and either rows to train or a function that measures.

A row is a change of the experiment's settings; with a seed it is one training run. Predictions are written down before
anything runs, with the paper's own figures. This module knows no training and no files of a lab folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from msgspec import Struct

from heedful.config.setting_layers import Layer
from heedful.config.setting_names import nearest
from heedful.errors import ConfigError
from heedful.lab.budget import COMMON, QUICK_STEPS, QUICK_VALIDATIONS, STEPS, VALIDATIONS, budget
from heedful.lab.findings import Findings
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.row_result import RowResult
from heedful.lab.statistics import Expected
from heedful.lab.text import PLAIN, Text
from heedful.lab.trained import Trained

T = TypeVar("T")
Say: TypeAlias = Callable[[str], None]
Stop: TypeAlias = Callable[[], bool]
Measure: TypeAlias = Callable[[Trained], dict[str, float]]
"""What is measured of a trained row besides perplexity and BLEU, by name."""
Results: TypeAlias = Mapping[str, Sequence[RowResult]]
"""Those of each row, in the order of their seeds."""

BASE = "base"


class Row(Struct, frozen=True):
    """One line of an experiment's table: a name, what it changes in words, and the settings that do so."""

    name: str
    change: str = ""
    settings: Layer = {}
    text: Text | None = None  # where it is not the experiment's
    rate: float = 1.0  # of learning, times the usual


class Claim(Struct, frozen=True, kw_only=True):
    """A prediction: how a row's metric stands to the baseline's. `margin` is what counts as the same.

    A metric is perplexity, BLEU, or `measure.name`. Perplexities are compared by their logarithms, so their margin is
    one of those: 0.05 is 5 %.
    """

    row: str
    metric: str
    expected: Expected
    source: str  # who says so, with the figures: "5.29 against 4.92"
    baseline: str = BASE
    margin: float = 0.0


@dataclass(frozen=True, slots=True)
class LabRequest:
    """What the user asks for."""

    output: Path
    data: Path | None = None  # folder of train.en, train.de, valid.en, valid.de; None: the built-in corpus
    seeds: tuple[int, ...] = (1, 2, 3)
    device: str = "auto"
    is_quick: bool = False
    command: str = ""  # as it was typed


class Experiment(Struct, frozen=True, kw_only=True):
    """An experiment has rows, or `measure` makes its findings without training any."""

    name: str
    question: str
    section: str  # of the paper
    minutes: float  # on two CPU cores, with three seeds
    steps: int = STEPS
    settings: Layer = {}  # of all rows, besides those of the budget
    rows: tuple[Row, ...] = ()
    claims: tuple[Claim, ...] = ()
    quick: tuple[str, ...] = ()  # the rows of --quick
    text: Text = PLAIN
    measures: dict[str, Measure] = {}
    more: Callable[[Results, Path], Findings] | None = None  # tables and charts of what was measured, in this folder
    has_own_text: bool = False  # always the built-in corpus, whatever --data says
    is_in_all: bool = True  # of `heedful lab all`
    measure: Callable[[LabRequest, Say, Stop], Findings | None] | None = None  # None: it was stopped

    def row(self, name: str) -> Row:
        """The row of that name."""
        return named(name, {row.name: row for row in self.rows}, f"row of {self.name}")

    def settings_of(self, row: Row, request: LabRequest) -> Layer:
        """All settings of a row that differ from the preset's."""
        steps = min(self.steps, QUICK_STEPS) if request.is_quick else self.steps
        schedule = budget(steps, QUICK_VALIDATIONS if request.is_quick else VALIDATIONS, rate=row.rate)
        return merged(COMMON, schedule, self.settings, row.settings)

    @property
    def metrics(self) -> tuple[str, ...]:
        """What its tables show: perplexity, BLEU, and what its claims are about."""
        return tuple(dict.fromkeys([PERPLEXITY, BLEU, *(claim.metric for claim in self.claims)]))

    def chosen_rows(self, request: LabRequest) -> tuple[Row, ...]:
        """All rows, or those of --quick."""
        return tuple(self.row(name) for name in self.quick) if request.is_quick else self.rows

    def text_of(self, row: Row) -> Text:
        """What the row is trained on."""
        return row.text or self.text

    def text_source(self, request: LabRequest) -> Path | None:
        """The folder that the text comes from; None: the built-in corpus."""
        return None if self.has_own_text or request.is_quick else request.data


def named(name: str, known: Mapping[str, T], kind: str) -> T:
    """What has this name; for an unknown one the nearest is told."""
    if name in known:
        return known[name]
    raise ConfigError(f"there is no {kind} {name!r}{nearest(name, known)}")


def merged(*layers: Layer) -> Layer:
    """Layers of settings as one, later ones winning."""
    result: Layer = {}
    for layer in layers:
        for section, fields in layer.items():
            result[section] = result.get(section, {}) | fields
    return result
