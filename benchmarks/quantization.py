"""What does int8 cost? One model's BLEU by the torch engine, and by CTranslate2 in float32 and int8, side by side.

    python -m benchmarks.quantization MODEL [-s test.en -r test.de] [--beam 4] [--keep]

Without files: the test sentences of the built-in corpus, if it has the model's languages. The last column is how many
lines differ from the torch engine's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.command import keep, keeping_parser, run
from benchmarks.record import machine
from heedful.data.grammar.corpus import held_out_examples
from heedful.data.text_files import read_lines
from heedful.data.tokenizer import Tokenizer
from heedful.model.checkpoint import find_model, load_config, load_model
from heedful.score.evaluation import evaluate
from heedful.translate.ctranslate2_engine import CTranslate2Engine
from heedful.translate.engine import Engine, SearchOptions
from heedful.translate.export.cache import cached_ctranslate2
from heedful.translate.export.ctranslate2 import num_positions
from heedful.translate.open_engine import search_engine
from heedful.translate.translation import Translator


@dataclass(frozen=True, slots=True)
class Text:
    """What is translated, and how it should have been."""

    name: str
    sources: list[str]
    references: list[str]


def text_of(model: Path, source: Path | None, reference: Path | None) -> Text:
    """The files, or the built-in corpus."""
    if source is not None and reference is not None:
        return Text(source.name, list(read_lines(source)), list(read_lines(reference)))
    data = load_config(find_model(model).config).data
    test = held_out_examples(data.source_language, data.target_language)[1]
    name = f"built-in {data.source_language}-{data.target_language}"
    return Text(name, [example.source for example in test], [example.target for example in test])


def engines(model: Path) -> dict[str, Engine]:
    """The three ways; exports are kept beside the model."""
    files = find_model(model)
    tokenizer, positions = Tokenizer.load(files.tokenizer), num_positions(load_config(files.config).model)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    found: dict[str, Engine] = {"torch float32": search_engine(load_model(model, device=torch.device("cpu")).model)}
    for quantize in ("float32", "int8"):
        folder = cached_ctranslate2(model, quantize=quantize)
        found[f"ctranslate2 {quantize}"] = CTranslate2Engine(folder, pieces, position_limit=positions)
    return found


def measure(model: Path, text: Text, beam_size: int) -> dict[str, dict[str, Any]]:
    """BLEU, seconds, and how many lines are not the first engine's."""
    files = find_model(model)
    config, tokenizer = load_config(files.config), Tokenizer.load(files.tokenizer)
    decode = config.decode
    options = SearchOptions(beam_size, decode.alpha, decode.max_extra, token_scores=False)
    figures: dict[str, dict[str, Any]] = {}
    first: list[str] | None = None
    for name, engine in engines(model).items():
        begin = time.perf_counter()
        translator = Translator(engine, tokenizer, config)
        found = [each.text for each in translator.translate(text.sources, options=options, split=False)]
        seconds = time.perf_counter() - begin
        first = first or found
        bleu = evaluate(found, [text.references], language=config.data.target_language).bleu
        others = sum(one != other for one, other in zip(first, found, strict=True))
        figures[name] = {"BLEU": round(bleu.value, 2), "seconds": round(seconds, 1), "other lines": others}
        print(
            f"{name:20}  BLEU {bleu.value:6.2f}  {seconds:6.1f} s  {others:5} of {len(found)} lines differ", flush=True
        )
    return figures


def main() -> None:
    """Measure, print, keep."""
    parser = keeping_parser(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("-s", "--source", type=Path)
    parser.add_argument("-r", "--reference", type=Path)
    parser.add_argument("--beam", type=int, default=4)
    given = parser.parse_args()
    if (given.source is None) != (given.reference is None):
        parser.error("-s and -r go together")
    text = text_of(given.model, given.source, given.reference)
    print(f"{machine()}: {len(text.sources):,} lines of {text.name}, beam {given.beam}")
    figures = measure(given.model, text, given.beam)
    lost = figures["torch float32"]["BLEU"] - figures["ctranslate2 int8"]["BLEU"]
    print(f"int8 loses {lost:.2f} BLEU")
    about = {"what": f"{text.name}, {len(text.sources):,} lines, beam {given.beam}", "int8 loses": round(lost, 2)}
    keep(given, f"quantization-{text.name.removesuffix('.xz').replace(' ', '-')}", about | figures)


if __name__ == "__main__":
    run(main)
