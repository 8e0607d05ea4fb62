"""§3.2.1: without the scaling by √d_k, large dot products push "the softmax into regions where it has extremely small
gradients"; additive attention does not need it.

Rows have one head, so that d_k may grow while d_v stays. The softmax's gradient is measured beside: the mean of
1 − Σ p², the trace of the softmax's Jacobian, which is 0 where all weight lies on one position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from heedful.inspection.attention_map import read, the_model
from heedful.lab.charts.chart import Curves, Series
from heedful.lab.experiment import Claim, Experiment, Results, Row
from heedful.lab.findings import Findings
from heedful.lab.metrics import PERPLEXITY
from heedful.lab.text import VALID
from heedful.lab.trained import Trained
from heedful.model.interface import TranslationModel
from heedful.model.registry import new_model

WIDTHS = (8, 32, 128, 512)
KINDS = ("scaled", "unscaled", "additive")
SENTENCES = 64
SOFTMAX, INITIAL, AFTER = "softmax", "initial gradient", "gradient"


def gradient(weights_HTS: Tensor) -> float:
    """The mean over heads and rows of Σ ∂p/∂score = Σ p (1 − p) = 1 − Σ p²."""
    return float((1 - weights_HTS.square().sum(dim=-1)).mean())


def softmax_gradients(trained: Trained) -> dict[str, float]:
    """Of a new model with these settings, and of the trained one, on validation sentences."""
    translator = trained.translator()
    model = the_model(translator)
    pairs = trained.text.pairs(VALID)[:SENTENCES]
    sources, targets = (
        translator.tokenizer.encode_batch(list(side))
        for side in zip(*((pair.source, pair.target) for pair in pairs), strict=True)
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trained.seed)
        initial = new_model(model.config, translator.tokenizer.vocab_size).eval().to(model.device)
    return {name: mean_gradient(each, sources, targets) for name, each in {INITIAL: initial, AFTER: model}.items()}


def mean_gradient(model: TranslationModel, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> float:
    """Over all sentences, layers and kinds of attention."""
    readings = (read(model, source, target) for source, target in zip(sources, targets, strict=True))
    recorders = (recorder for reading in readings for layers in reading.recorders.values() for recorder in layers)
    return fmean(gradient(weights_HTS) for recorder in recorders for weights_HTS in recorder.weights)


def name_of(kind: str, d_k: int) -> str:
    """Such as unscaled-512."""
    return f"{kind}-{d_k}"


def curves_by_width(results: Results, _: Path) -> Findings:
    """Perplexity and the softmax's gradient over d_k, a curve for each kind."""
    metrics = {"perplexity-by-d_k": PERPLEXITY, "gradient-by-d_k": f"{SOFTMAX}.{INITIAL}"}
    return Findings(charts={name: _curves(results, metric) for name, metric in metrics.items()})


def _curves(results: Results, metric: str) -> Curves:
    series = (Series(kind, tuple(_points(kind, results, metric))) for kind in KINDS)
    return Curves(
        title=f"scaling: {metric} by d_k, mean over seeds",
        x="d_k",
        y=metric,
        series=tuple(each for each in series if each.points),
        has_log_x=True,
        has_log_y=metric == PERPLEXITY,
    )


def _points(kind: str, results: Results, metric: str) -> Iterator[tuple[float, float]]:
    for d_k in WIDTHS:
        found = (result.value(metric) for result in results.get(name_of(kind, d_k), ()))
        values = [value for value in found if value is not None]
        if values:
            yield float(d_k), fmean(values)


def _claims() -> Iterator[Claim]:
    """The sentences of §3.2.1, and what it follows from (Britz 2017)."""
    suspected = "§3.2.1: extremely small gradients"
    yield Claim(
        row="unscaled-8",
        baseline="additive-8",
        metric=PERPLEXITY,
        expected="same",
        margin=0.05,
        source="§3.2.1: small d_k",
    )
    for d_k in (128, 512):
        unscaled = name_of("unscaled", d_k)
        outperformed = "§3.2.1: additive outperforms"
        yield Claim(
            row=unscaled, baseline=name_of("additive", d_k), metric=PERPLEXITY, expected="higher", source=outperformed
        )
        yield Claim(
            row=unscaled, baseline=name_of("scaled", d_k), metric=PERPLEXITY, expected="higher", source=suspected
        )
    yield Claim(
        row="unscaled-512",
        baseline="unscaled-8",
        metric=f"{SOFTMAX}.{INITIAL}",
        expected="lower",
        source="§3.2.1: dot products grow with d_k",
    )


SCALING = Experiment(
    name="scaling",
    question="Does attention need its scaling by √d_k, and the more the larger d_k is?",
    section="§3.2.1",
    minutes=40,
    steps=400,
    settings={"model": {"num_heads": 1, "d_v": 128}},
    rows=tuple(
        Row(name_of(kind, d_k), f"{kind}, d_k {d_k}", {"model": {"compatibility": kind, "d_k": d_k}})
        for d_k in WIDTHS
        for kind in KINDS
    ),
    claims=tuple(_claims()),
    measures={SOFTMAX: softmax_gradients},
    more=curves_by_width,
    quick=("scaled-8", "unscaled-8", "scaled-512", "unscaled-512"),
)
