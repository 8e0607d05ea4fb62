"""Translation on a GPU: `heedful translate` beside Hugging Face generate, on the same sentences and weights.

    python -m benchmarks.translate_cuda TEXT [--tokenizer FILE] [--preset base] [--sentences 100000] [--keep]

TEXT is a file of real sentences; without a tokenizer one of 37,000 words is learned from it. The model is
random-initialised, and outputs are given the length of their sources: `--max-extra 0` ends them there, and a random
model does not end before. Ours goes from text to text: the command in a process of its own, start included, and the
command's own loop in this process, once its kernels are compiled and its graphs captured. Hugging Face gets ids that
are ready, sorted by length, and gives ids, in bfloat16, with the batch size that is best for it; its lengths are forced
too. One sentence at a time: milliseconds of a call. Memory is what torch has allocated at most.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch

from benchmarks.command import keep, keeping_parser, need_gpu, run
from benchmarks.record import machine
from heedful.cli.commands.translate import write_translations
from heedful.config.setting_layers import preset, resolve
from heedful.data.text_files import read_lines
from heedful.data.tokenizer import Tokenizer
from heedful.model.checkpoint import load_model, save_model
from heedful.model.transformer import Transformer
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.export.marian import write_huggingface
from heedful.translate.open_engine import search_engine
from heedful.translate.translation import Translator

GPU = torch.device("cuda")
VOCAB_SIZE = 37_000
WARM_UP, ALONE, PEER_ALONE = 3000, 100, 20  # sentences
FIRST_ALONE = f"the first {PEER_ALONE} alone, p50 ms"
PEER_SENTENCES, PEER_BATCHES = 1024, (128, 512)
SEARCHES = {"beam 4": ["-b", "4"], "greedy": ["--greedy"]}


def prepare(folder: Path, given: argparse.Namespace) -> None:
    """A random model, its export, and the sentences."""
    lines = list(read_lines(given.text))
    tokenizer = (
        Tokenizer.load(given.tokenizer)
        if given.tokenizer
        else Tokenizer.learn_at_most(lines[:200_000], VOCAB_SIZE, seed=1)
    )
    tokenizer.save(folder / "tokenizer.model")
    config = resolve(preset(given.preset), {"data": {"source_language": "xx", "target_language": "yy"}})
    torch.manual_seed(1)
    model = Transformer(config.model, tokenizer.vocab_size)
    save_model(folder / "model", model.state_dict(), config, folder / "tokenizer.model")
    write_huggingface(load_model(folder / "model", device=torch.device("cpu")), folder / "marian")
    lines = [line for line in lines if line.strip()]
    chosen = (lines * (1 + given.sentences // len(lines)))[: given.sentences]
    (folder / "lines").write_text("\n".join(chosen) + "\n", encoding="utf-8")


def options_of(name: str) -> SearchOptions:
    """As the command's flags would give them."""
    return SearchOptions(beam_size=4 if name == "beam 4" else 1, max_extra=0, token_scores=False)


# --------------------------------------------------------------------------------------------------------------- ours


def command(folder: Path, name: str, num_sentences: int) -> float:
    """Seconds of the whole command."""
    flags = ["--device", "cuda", "--max-extra", "0", *SEARCHES[name]]
    files = [str(folder / "lines"), "-o", str(folder / "out")]
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "heedful", "translate", "-m", str(folder / "model"), *flags, *files], check=True
    )
    seconds = time.perf_counter() - begin
    assert sum(1 for _ in (folder / "out").open(encoding="utf-8")) == num_sentences
    return seconds


def stream(translator: Translator, lines: list[str], options: SearchOptions, out: Path) -> tuple[float, int, int]:
    """Seconds from text to text on disk, how many tokens came out, and bytes of memory."""
    tokens = 0

    def counted() -> Iterator[Any]:
        nonlocal tokens
        for translation in translator.translate_lines(lines, options=options, split=False):
            tokens += sum(len(part.ids) for part in translation.hypotheses[0].parts)
            yield translation

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    write_translations(counted(), "text", out)
    return time.perf_counter() - begin, tokens, torch.cuda.max_memory_allocated()


def latencies(translate: Callable[[int], Any], number: int) -> dict[str, float]:
    """Milliseconds of one sentence alone: percentiles."""
    times = []
    for n in range(number):
        begin = time.perf_counter()
        translate(n)
        times.append(1000 * (time.perf_counter() - begin))
    cuts = statistics.quantiles(times[number // 10 :], n=100)
    return {f"latency p{p} ms": round(cuts[p - 1], 1) for p in (50, 95, 99)}


def ours(folder: Path, name: str, lines: list[str]) -> dict[str, Any]:
    """All figures of one search."""
    translator, options = Translator.load(folder / "model", device="cuda"), options_of(name)
    list(translator.translate_lines(lines[:WARM_UP], options=options, split=False))
    gc.freeze()  # as the command does
    seconds, tokens, memory = stream(translator, lines, options, folder / "out")
    alone = latencies(lambda n: translator.translate([lines[n]], options=options, split=False), ALONE)
    first = latencies(lambda n: translator.translate([lines[n]], options=options, split=False), PEER_ALONE)
    return {
        "sentences/s": round(len(lines) / seconds),
        "tokens/s": round(tokens / seconds),
        "tokens a sentence": round(tokens / len(lines), 1),
        "peak memory, GB": round(memory / 1e9, 2),
        **alone,
        FIRST_ALONE: first["latency p50 ms"],
    }


def any_length(folder: Path, lines: list[str]) -> dict[str, Any]:
    """Memory for 100,000 lines of which every 500th is a whole document; outputs may be longer than their sources."""
    lines = (lines * (1 + 100_000 // len(lines)))[:100_000]
    mixed = [" ".join(lines[n : n + 1 + n // 50 % 400]) if n % 500 == 0 else line for n, line in enumerate(lines)]
    translator = Translator.load(folder / "model", device="cuda")
    options = msgspec.structs.replace(options_of("greedy"), max_extra=10)
    half = {}
    for share, part in (("half of them", mixed[: len(mixed) // 2]), ("all", mixed)):
        _, _, memory = stream(translator, part, options, folder / "out")
        half[f"peak memory, {share}, GB"] = round(memory / 1e9, 2)
    return half | {"longest line, words": max(len(line.split()) for line in mixed)}


def independence(folder: Path, lines: list[str]) -> dict[str, Any]:
    """How far results in float32 depend on the company: all together, in another order, and one by one."""
    loaded = load_model(folder / "model", device=GPU)
    requests = [Request(loaded.tokenizer.encode(line)) for line in lines[:600]]
    options = SearchOptions(beam_size=4, max_extra=0)
    figures: dict[str, Any] = {}
    for precision in ("fp32", "bf16"):
        engine = search_engine(loaded.model, precision=precision)
        together = list(engine.translate(requests, options))
        reversed_ = list(engine.translate(requests[::-1], options))[::-1]
        alone = [next(engine.translate([request], options)) for request in requests[:40]]
        for name, others in (("in another order", reversed_), ("alone", alone)):
            pairs = list(zip(together, others, strict=False))
            figures[f"{precision}, {name}"] = {
                "same ids": f"{sum(a[0].ids == b[0].ids for a, b in pairs)} of {len(pairs)}",
                "largest difference of scores": max(abs(a[0].score - b[0].score) for a, b in pairs),
            }
    return figures


# --------------------------------------------------------------------------------------------------------------- peer


def huggingface(folder: Path, name: str, lines: list[str]) -> dict[str, Any]:
    """MarianMTModel.generate on ids that are ready."""
    from transformers import MarianMTModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model: Any = MarianMTModel.from_pretrained(folder / "marian", dtype=torch.bfloat16).to(GPU).eval()
    tokenizer = Tokenizer.load(folder / "tokenizer.model")
    ids = sorted(tokenizer.encode_batch(lines[:PEER_SENTENCES]), key=len)
    torch.cuda.reset_peak_memory_stats()

    @torch.no_grad()
    def translate(batch: list[list[int]]) -> int:
        longest = max(map(len, batch)) + 1
        pad = model.config.pad_token_id
        inputs = torch.tensor([[*each, 0, *[pad] * (longest - len(each) - 1)] for each in batch], device=GPU)
        found = model.generate(
            input_ids=inputs,
            attention_mask=(inputs != pad).long(),
            num_beams=4 if name == "beam 4" else 1,
            do_sample=False,
            max_length=None,
            min_new_tokens=longest,
            max_new_tokens=longest,
        )
        return int(found.numel())

    best: dict[str, Any] = {"sentences/s": 0}
    for size in PEER_BATCHES:
        translate(ids[:size])
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for first in range(0, len(ids), size):
            translate(ids[first : first + size])
        torch.cuda.synchronize()
        speed = len(ids) / (time.perf_counter() - begin)
        if speed > best["sentences/s"]:
            best = {"setting": f"{size} a batch", "sentences/s": round(speed)}
    alone = tokenizer.encode_batch(lines[:PEER_ALONE])
    times = latencies(lambda n: translate([alone[n]]), PEER_ALONE)
    memory = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    return best | {FIRST_ALONE: times["latency p50 ms"], "peak memory, GB": memory}


def race(folder: Path, name: str, lines: list[str], *, with_peer: bool) -> dict[str, Any]:
    """Both, and the ratio."""
    figures: dict[str, Any] = {"ours": ours(folder, name, lines)}
    seconds = command(folder, name, len(lines))
    figures["the command, start included"] = {
        "seconds": round(seconds, 1),
        "sentences/s": round(len(lines) / seconds),
    }
    if with_peer:
        torch.cuda.empty_cache()
        figures["huggingface"] = peer = huggingface(folder, name, lines)
        figures["ratios to huggingface"] = {
            "sentences/s": round(figures["ours"]["sentences/s"] / peer["sentences/s"], 1),
            "latency": round(peer[FIRST_ALONE] / figures["ours"][FIRST_ALONE], 1),
        }
    return figures


def main() -> None:
    """Measure, print, keep."""
    parser = keeping_parser(__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--without-peer", action="store_true")
    given = parser.parse_args()
    need_gpu()
    print(machine())
    figures: dict[str, Any] = {"what": f"{given.preset}, {given.sentences:,} sentences of {given.text.name}"}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder, given)
        lines = (folder / "lines").read_text(encoding="utf-8").splitlines()
        measures: dict[str, Callable[[], dict[str, Any]]] = {
            **{name: partial(race, folder, name, lines, with_peer=not given.without_peer) for name in SEARCHES},
            "lines of any length": partial(any_length, folder, lines),
            "company": partial(independence, folder, lines),
        }
        for name, measure in measures.items():
            figures[name] = measure()
            torch.cuda.empty_cache()
            print(name, figures[name], flush=True)
            keep(given, "translate_speed_cuda", figures)


if __name__ == "__main__":
    run(main)
