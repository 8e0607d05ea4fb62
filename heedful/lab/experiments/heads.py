"""§3.2.2: with several heads a model attends "to information from different representation subspaces at different
positions. With a single attention head, averaging inhibits this."

The built-in corpus is the text, whatever `--data` says: only it knows which noun a pronoun stands for. Perplexities of
different numbers of heads are compared in Table 3.
"""

from __future__ import annotations

from pathlib import Path

from heedful.lab.experiment import BASE, Claim, Experiment, Results
from heedful.lab.experiments.head_removal import PRONOUN, WITHOUT, removals
from heedful.lab.experiments.table3 import TABLE3
from heedful.lab.findings import Findings
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.score.tables import Rows, Section

REMOVAL = "heads"
PRONOUNS, MEAN_LOSS = f"{REMOVAL}.{PRONOUN}", f"{REMOVAL}.mean loss of {BLEU}"
ONE_HEAD = "§3.2.2: a single head inhibits this"
METRICS = (PERPLEXITY, BLEU, PRONOUN)
NAMES = ("h1", "h2", "h8")


def losses(results: Results, _: Path) -> Findings:
    """For each row a table of its heads with the first seed: what the model scores without that head."""
    tables = ((row, _table(each[0].measured.get(REMOVAL, {}))) for row, each in results.items())
    sections = (Section(f"{row}: each head removed, seed {results[row][0].seed}", table) for row, table in tables)
    return Findings(tables=tuple(section for section in sections if len(section.rows) > 1))


def _table(measured: dict[str, float]) -> Rows:
    heads = [name.partition(f"{WITHOUT} ")[2] for name in measured if name.startswith(f"{BLEU} {WITHOUT}")]
    rows = [[head, *(_change(measured, metric, head) for metric in METRICS)] for head in heads]
    return [["head", *(f"Δ {metric}" for metric in METRICS)], *rows]


def _change(measured: dict[str, float], metric: str, head: str) -> str:
    after, before = (measured.get(name) for name in (f"{metric} {WITHOUT} {head}", metric))
    return "–" if after is None or before is None else f"{after - before:+.2f}"


HEADS = Experiment(
    name="heads",
    question="What do several heads give, and what is lost without each of them?",
    section="§3.2.2; Table 3, row A",
    minutes=35,
    has_own_text=True,
    rows=tuple(TABLE3.row(name) for name in (BASE, *NAMES)),
    claims=(
        Claim(row="h1", metric=PRONOUNS, expected="lower", source=ONE_HEAD),
        Claim(row="h8", metric=MEAN_LOSS, expected="lower", source="Michel 2019: most heads can be removed"),
    ),
    measures={REMOVAL: removals},
    more=losses,
    quick=(BASE, "h1"),
)
