"""Does a head look at the noun that a pronoun stands for? `python -m benchmarks.attention MODEL` (into German).

For each kind of attention the head that is best on the validation set's pronoun links, and its share over all held-out
pronoun cases; the kind whose head is best on the validation set comes first. Then the two sentences that people know,
with the weights of that head at the pronoun. The numbers are in docs/attention.md.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.command import parser, run
from heedful.inspection.attention_map import Kind, attention_map
from heedful.inspection.heads import PronounReport, pronoun_report
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
