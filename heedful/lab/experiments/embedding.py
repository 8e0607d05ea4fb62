"""§3.4 and §3.1: one matrix for both embeddings and the pre-softmax projection, embeddings times √d_model, residuals.

The paper gives no figures for these choices; what it builds on says what to expect.
"""

from __future__ import annotations

from heedful.lab.experiment import BASE, Claim, Experiment, Row
from heedful.lab.metrics import PERPLEXITY
from heedful.lab.statistics import Expected

SOURCES = {
    "untied": "§3.4, after Press and Wolf 2016: tying lowers perplexity",
    "unscaled": "§3.4: embeddings are multiplied by √d_model",
    "untied_unscaled": "§3.4: both",
    "no_residuals": "§3.1, after He 2016: residuals let stacks train",
}
WORSE: Expected = "higher"

EMBEDDING = Experiment(
    name="embedding",
    question="What do tied embeddings, their scaling by √d_model, and residual connections each give?",
    section="§3.4, §3.1",
    minutes=24,
    rows=(
        Row(BASE, "as in the paper"),
        Row("untied", "three matrices", {"model": {"tied_embeddings": False}}),
        Row("unscaled", "without × √d_model", {"model": {"scaled_embeddings": False}}),
        Row("untied_unscaled", "both", {"model": {"tied_embeddings": False, "scaled_embeddings": False}}),
        Row("no_residuals", "without residuals", {"model": {"residuals": False}}),
    ),
    claims=tuple(Claim(row=row, metric=PERPLEXITY, expected=WORSE, source=source) for row, source in SOURCES.items()),
    quick=(BASE, "untied", "no_residuals"),
)
