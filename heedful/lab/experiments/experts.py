"""§1 on conditional computation (Shazeer 2017): more parameters for the same operations. The paper names it and goes
another way; its Table 2 has such a model beside the Transformer.

A token takes two experts. Each is half as wide as the feed-forward network that it stands for, so that a token costs
the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor, nn

from heedful.inspection.attention_map import read, the_model
from heedful.lab.experiment import BASE, Claim, Experiment, Results, Row
from heedful.lab.findings import Findings
from heedful.lab.metrics import PERPLEXITY
from heedful.lab.text import VALID
from heedful.lab.trained import Trained
from heedful.model.experts import Experts
from heedful.score.tables import Section

USE, LARGEST, LEAST = "use", "largest share", "smallest share"
SENTENCES, HALF = 200, 256
MORE_CAPACITY = "Shazeer 2017: more capacity at the same cost"


def shares_of_experts(trained: Trained) -> dict[str, float]:
    """The largest and the smallest share of a layer's gates that one expert has, in shares of an even one."""
    translator = trained.translator()
    model, pairs = the_model(translator), trained.text.pairs(VALID)[:SENTENCES]
    encode = translator.tokenizer.encode_batch
    sources, targets = encode([pair.source for pair in pairs]), encode([pair.target for pair in pairs])
    with counted_gates(model) as sums:
        for source, target in zip(sources, targets, strict=True):
            read(model, source, target)
    shares = [sum_G * len(sum_G) / sum_G.sum() for sum_G in sums.values()]
    if not shares:
        return {}
    return {
        LARGEST: fmean(float(share_G.max()) for share_G in shares),
        LEAST: fmean(float(share_G.min()) for share_G in shares),
    }


@contextmanager
def counted_gates(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Within this context the gates of every mixture are summed over the tokens that pass it."""
    sums: dict[str, Tensor] = {}

    def count(name: str, experts: Experts, x_TD: Tensor) -> None:
        with torch.no_grad():
            sums[name] = sums.get(name, torch.zeros(())) + experts.gates(x_TD).sum(dim=0).cpu()

    places = [(name, part) for name, part in model.named_modules() if isinstance(part, Experts)]
    handles = [
        part.register_forward_hook(lambda part, inputs, _, name=name: count(name, part, inputs[0]))
        for name, part in places
    ]
    try:
        yield sums
    finally:
        for handle in handles:
            handle.remove()


def balance(results: Results, _: Path) -> Findings:
    """How evenly the experts are used, with the first seed."""
    rows = {row: each[0].measured.get(USE, {}) for row, each in results.items() if each}
    table = [[row, *(f"{found[name]:.2f}" for name in (LARGEST, LEAST))] for row, found in rows.items() if found]
    return Findings(tables=(Section("Use of experts, 1 is even", [["row", LARGEST, LEAST], *table]),) if table else ())


def _row(num_experts: int) -> Row:
    settings = {"model": {"num_experts": num_experts, "d_ff": HALF}}
    return Row(f"experts{num_experts}", f"{num_experts} experts of half the width", settings)


EXPERTS = Experiment(
    name="experts",
    question="Do several feed-forward networks, two for each token, translate better at the same cost?",
    section="§1; Table 2",
    minutes=25,
    rows=(Row(BASE, "one network"), *map(_row, (4, 8))),
    claims=tuple(
        Claim(row=row, metric=PERPLEXITY, expected="lower", source=MORE_CAPACITY) for row in ("experts4", "experts8")
    ),
    measures={USE: shares_of_experts},
    more=balance,
    quick=(BASE, "experts4"),
)
