"""How well are words aligned? `python -m benchmarks.alignment MODEL…` prints the error on the built-in corpus.

How much each head counts is learned on validation sentences; the error is over the 1,000 test sentences with the
grammar's translations. All links of the grammar count as sure. The numbers are in docs/attention.md.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.command import parser, run
from heedful.data.grammar.corpus import held_out_examples
from heedful.model.checkpoint import find_model, load_config
from heedful.translate.alignment import Aligner, alignment_error_rate


def measure(model: Path) -> None:
    """Print one line."""
    data = load_config(find_model(model).config).data
    pair = data.source_language, data.target_language
    test, aligner = held_out_examples(*pair)[1], Aligner.load(model, device="cpu")
    encode = aligner.tokenizer.encode
    found = [aligner.align(encode(example.source), encode(example.target)) for example in test]
    error = alignment_error_rate(found, [example.alignment for example in test])
    alone = ", ".join(aligner.choice.source_alone + aligner.choice.target_alone) or "no word"
    print(f"{'-'.join(pair)}: error {error:.1%}; alone stays {alone}")


def main() -> None:
    """A line for each model."""
    asked = parser(__doc__)
    asked.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    for model in asked.parse_args().models:
        measure(model)


if __name__ == "__main__":
    run(main)
