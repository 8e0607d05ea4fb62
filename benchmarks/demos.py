"""Does every demo translate its sentences right? `make demos`, or `python -m benchmarks.demos [FOLDER] [--keep]`.

Trains what `make demo PAIR=… SEED=…` trains, for four pairs with three seeds each, and compares its eight sentences
with the grammar's. A demo that is finished in the folder is not trained again; it keeps the commit that trained it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.command import keep, keeping_parser, run
from heedful.cli.demo import run_demo
from heedful.data.grammar.corpus import DEMO_SENTENCES
from heedful.score.card import load_card
from heedful.translate.translation import Translator

PAIRS = ("en-de", "de-en", "ko-en", "en-ko")
SEEDS = (1, 2, 3)


def wrong_translations(model: Path, pair: str) -> list[dict[str, str]]:
    """The demo's sentences that come out otherwise than the grammar writes them."""
    source, target = pair.split("-")
    translator = Translator.load(model, device="cpu", engine="torch")
    found = [translation.text for translation in translator.translate(DEMO_SENTENCES[source])]
    sentences = zip(DEMO_SENTENCES[source], found, DEMO_SENTENCES[target], strict=True)
    return [{"source": s, "found": text, "right": right} for s, text, right in sentences if text != right]


def demo_row(pair: str, seed: int, folder: Path) -> dict[str, Any]:
    """Run one demo; what it translates, its score on the held-out test, and how long it trained."""
    if code := run_demo(pair, folder, seed=seed, steps=None):
        raise SystemExit(code)
    wrong = wrong_translations(folder / "run", pair)
    card = load_card(folder / "run")
    assert card.training is not None
    return {
        "pair": pair,
        "seed": seed,
        "right": len(DEMO_SENTENCES["en"]) - len(wrong),
        "wrong": wrong,
        "BLEU": round(card.evaluations[-1].report.bleu.value, 2),
        "trained by": card.training.commit,
        "text": (card.training.training.source[0].sha256 or "")[:16],
    }


def main() -> None:
    """Run all demos, print, keep."""
    parser = keeping_parser(__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("demo"), metavar="FOLDER")
    given = parser.parse_args()
    rows = [demo_row(pair, seed, given.folder / f"{pair}-{seed}") for pair in PAIRS for seed in SEEDS]
    for row in rows:
        print(f"{row['pair']} {row['seed']}: {row['right']} of 8 right, BLEU {row['BLEU']}")
        for wrong in row["wrong"]:
            print(f"  {wrong['source']}\n    → {wrong['found']}\n    ≠ {wrong['right']}")
    complete = sum(not row["wrong"] for row in rows)
    print(f"{complete} of {len(rows)} demos translate all their sentences right")
    keep(given, "demos", {"complete": complete, "demos": rows})


if __name__ == "__main__":
    run(main)
