"""Does a head look at the noun that a pronoun stands for? `python -m benchmarks.attention MODEL` (into German).

For each kind of attention the head that is best on the validation set's pronoun links, and its share over all held-out
pronoun cases; the kind whose head is best on the validation set comes first. Then the two sentences that people know,
with the weights of that head at the pronoun. The numbers are in docs/attention.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.command import parser, run
from heedful.data.grammar.corpus import pronoun_cases
from heedful.data.grammar.pronouns import PronounCase
from heedful.inspection.attention_map import Kind, attention_map
from heedful.inspection.head_roles import GRAMMAR, hits, roles, validation_maps
from heedful.translate.translation import Translator

PAIRS = {
    "The animal didn't cross the road because it was too tired.": (
        "Das Tier überquerte die Straße nicht, weil es zu müde war."
    ),
    "The animal didn't cross the road because it was too wide.": (
        "Das Tier überquerte die Straße nicht, weil sie zu breit war."
    ),
}
PRONOUN = 7  # the word in both languages
NAMES: dict[Kind, str] = {
    "cross": "cross, writing the pronoun",
    "decoder": "decoder, writing the pronoun",
    "encoder": "encoder, reading “it”",
}


@dataclass(frozen=True, slots=True)
class PronounReport:
    """The share of held-out pronoun cases in which one head, chosen before, looks at the right noun."""

    kind: Kind
    layer: int
    head: int
    validation: float
    hits_P: Tensor  # 1 for each case in which it does: first those of the subject, then those of the object

    @property
    def share(self) -> float:
        """Of all cases."""
        return float(self.hits_P.mean())


def pronoun_report(translator: Translator, kind: Kind, num_sentences: int = 1_000) -> PronounReport:
    """The head that is best on the validation links, measured on all held-out cases (into German alone)."""
    languages = (translator.source_language, translator.target_language)
    chosen_LH = roles(validation_maps(translator, num_sentences), kind).shares_LH[GRAMMAR["pronoun"]]
    layer, head = divmod(int(chosen_LH.argmax()), chosen_LH.size(1))
    found_LHP = torch.cat([pronoun_hits(translator, kind, case) for case in pronoun_cases(*languages)], dim=-1)
    return PronounReport(kind, layer, head, float(chosen_LH[layer, head]), found_LHP[layer, head])


def pronoun_hits(translator: Translator, kind: Kind, case: PronounCase) -> Tensor:
    """Which heads look at the right noun in one case; layers × heads × 1."""
    weights_LHWW = attention_map(translator, case.source, case.right).words(kind)
    return hits(weights_LHWW, GRAMMAR["pronoun"], [pronoun_place(kind, case)], own=kind == "encoder")


def pronoun_place(kind: Kind, case: PronounCase) -> tuple[int, frozenset[int]]:
    """From "it" or from the pronoun being written; to the noun of the source, or to the one that is already written."""
    both = (case.source_links, case.target_links)
    source, target = (next(link for link in links if link.kind == "pronoun") for links in both)
    row = source.word if kind == "encoder" else target.word
    return row, frozenset([target.head + 1 if kind == "decoder" else source.head])


def weights_at_pronoun(translator: Translator, report: PronounReport, source: str, target: str) -> str:
    """The three words with the largest weight, itself aside."""
    found = attention_map(translator, source, target)
    row = found.words(report.kind)[report.layer, report.head, PRONOUN].tolist()
    shares = {word: row[place] for place, word in enumerate(found.columns(report.kind).words)}
    if report.kind == "encoder":
        del shares["it"]
    best = sorted(shares, key=lambda word: -shares[word])[:3]
    return ", ".join(f"{word} {shares[word]:.2f}" for word in best)


def measure(model: Path) -> None:
    """Print a line for each kind of attention, and for each of the two sentences."""
    translator = Translator.load(model, device="cpu", engine="torch")
    reports = [pronoun_report(translator, kind) for kind in NAMES]
    for report in sorted(reports, key=lambda each: -each.validation):
        name = NAMES[report.kind]
        head = f"layer {report.layer + 1}, head {report.head + 1}"
        print(
            f"{name}: {head}, validation {report.validation:.1%}, held out {report.share:.1%} of {len(report.hits_P)}"
        )
        subject_P, object_P = report.hits_P.chunk(2)
        print(f"  the noun is the subject: {subject_P.mean():.1%}, the object: {object_P.mean():.1%}")
        for source, target in PAIRS.items():
            print(f"  … {source.split('because ')[1]:22} → {weights_at_pronoun(translator, report, source, target)}")


def main() -> None:
    """Measure and print."""
    asked = parser(__doc__)
    asked.add_argument("model", type=Path, metavar="MODEL")
    measure(asked.parse_args().model)


if __name__ == "__main__":
    run(main)
