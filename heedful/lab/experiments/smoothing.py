"""§5.4 on label smoothing: "This hurts perplexity, as the model learns to be more unsure, but improves […] BLEU".

Its rows are rows of Table 3, so after that experiment it costs nothing.
"""

from __future__ import annotations

from heedful.lab.experiment import BASE, Claim, Experiment
from heedful.lab.experiments.table3 import TABLE3
from heedful.lab.metrics import BLEU, PERPLEXITY

NONE, TWICE = "smoothing0", "smoothing0.2"

SMOOTHING = Experiment(
    name="smoothing",
    question="Does label smoothing hurt perplexity and help BLEU?",
    section="§5.4; Table 3, row D",
    minutes=0,
    rows=tuple(TABLE3.row(name) for name in (BASE, NONE, TWICE)),
    claims=(
        Claim(row=BASE, baseline=NONE, metric=PERPLEXITY, expected="higher", source="§5.4; 4.92 against 4.67"),
        Claim(row=BASE, baseline=NONE, metric=BLEU, expected="higher", source="§5.4; 25.8 against 25.3"),
        Claim(row=TWICE, baseline=NONE, metric=PERPLEXITY, expected="higher", source="5.47 against 4.67"),
        Claim(row=TWICE, baseline=NONE, metric=BLEU, expected="higher", source="25.7 against 25.3"),
    ),
    quick=(BASE, NONE),
)
