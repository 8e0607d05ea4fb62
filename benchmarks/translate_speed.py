"""Translation on a CPU: our engines beside Hugging Face generate and CTranslate2 itself, in one run.

    python -m benchmarks.translate_speed [--preset base] [--sentences 96] [--length 28] [--rounds 4] [--without-peers]
        [--keep]

One random-initialised model, one set of sentences of equal length in word pieces; the model is made to end its outputs
at about that length. Ours go from text to text; the others get and give ids, with the batch size that is best for each
on this machine, which is found first. Then all contestants wait in processes of their own (so that the peak memory of
each is its own) and translate in turns, round by round, so that whatever else slows the machine slows all of them.
Speeds are medians over the rounds, and so is the ratio of two that ran in the same round.
`translate_cuda.py` is the same for a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch

from benchmarks.command import keep, keeping_parser, run
from benchmarks.record import machine
from heedful.config.setting_layers import preset, resolve
from heedful.config.settings import Config
from heedful.data.tokenizer import Tokenizer
from heedful.model.checkpoint import load_model, save_model
from heedful.model.transformer import Transformer
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.export.cache import cached_ctranslate2
from heedful.translate.export.marian import write_huggingface
from heedful.translate.open_engine import search_engine
from heedful.translate.translation import Translator

BATCH_SIZES = (8, 16, 32, 64)
EOS_ID, EXTRA = 0, 20
WARM_UP, SOME, ALONE = 16, 64, 20  # sentences: before all else, to find the best setting, and one at a time
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]

Translate: TypeAlias = Callable[[list[int]], int]  # numbers of sentences → how many tokens came out


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be translated, and how."""

    folder: Path
    beam_size: int

    @property
    def lines(self) -> list[str]:
        return (self.folder / "lines").read_text(encoding="utf-8").splitlines()

    @property
    def ids(self) -> list[list[int]]:
        tokenizer = Tokenizer.load(self.folder / "model" / "tokenizer.model")
        return tokenizer.encode_batch(self.lines)


# ---------------------------------------------------------------------------------------------------------- the model


def prepare(folder: Path, name: str, num_sentences: int, length: int, vocab_size: int) -> None:
    """A random model of that preset, its exports, and sentences of `length` pieces."""
    text = list(_text(4 * vocab_size))
    tokenizer = Tokenizer.learn_at_most(text, vocab_size, seed=1)
    tokenizer.save(folder / "tokenizer.model")
    layer = {"data": {"source_language": "xx", "target_language": "yy", "max_length": 4 * length}}
    config = resolve(preset(name), layer)
    lines = list(_of_length(tokenizer, text, length, num_sentences))
    (folder / "lines").write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = ending_at(length, config, tokenizer.vocab_size, tokenizer.encode_batch(lines[:4]))
    save_model(folder / "model", model.state_dict(), config, folder / "tokenizer.model")
    cached_ctranslate2(folder / "model")
    write_huggingface(load_model(folder / "model", device=torch.device("cpu")), folder / "marian")


def ending_at(length: int, config: Config, vocab_size: int, sources: list[list[int]]) -> Transformer:
    """The random model whose outputs are nearest to this length, of those made to end at several places."""
    found: dict[float, Transformer] = {}
    for place in range(length, 3 * length, max(1, length // 7)):
        torch.manual_seed(1)
        model = Transformer(config.model, vocab_size).eval()
        end_at(model, place)
        options = SearchOptions(beam_size=1, max_extra=EXTRA)
        outputs = search_engine(model).translate([Request(ids) for ids in sources], options)
        mean = statistics.mean(len(best.ids) for best, *_ in outputs)
        found[abs(mean - length)] = model
        if mean >= length:
            break
    return found[min(found)]


@torch.no_grad()
def end_at(model: Transformer, length: int) -> None:
    """Make the eos likely from this position on: one dimension is left to the position alone, and tells it.

    It is the cosine that changes its sign there. No token and no sub-layer writes to it, and only the eos reads it.
    """
    d_model = model.config.d_model
    waves = [abs(10000 ** (-even / d_model) * length - math.pi / 2) for even in range(0, d_model, 2)]
    place = 2 * waves.index(min(waves)) + 1
    for name, parameter in model.named_parameters():
        if name.endswith(("W_O.weight", "W_2.weight", "W_2.bias")):
            parameter[place] = 0.0
        elif name.endswith("norm.weight"):
            parameter[place] = 1.3  # the norm shrinks what nothing is added to
    model.embedding.weight_VD[:, place] = 0.0
    model.embedding.weight_VD[EOS_ID, place] = -100.0


def _text(num_words: int) -> Iterator[str]:
    draw = random.Random(1)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(num_words)]
    for _ in range(2000):
        yield " ".join(words[int(num_words * draw.random() ** 3)] for _ in range(40))


def _of_length(tokenizer: Tokenizer, text: list[str], length: int, number: int) -> Iterator[str]:
    """The beginnings of lines that have just so many pieces."""
    for line in text:
        start = tokenizer.decode(tokenizer.encode(line)[:length])
        if len(tokenizer.encode(start)) == length:
            yield start
            number -= 1
        if not number:
            return
    raise SystemExit("too few lines of this length; ask for fewer sentences")


# --------------------------------------------------------------------------------------------------------- contestants


def ours(order: Order, engine: str) -> Translate:
    """Text to text, through the translator."""
    translator, lines = Translator.load(order.folder / "model", device="cpu", engine=engine), order.lines
    options = SearchOptions(beam_size=order.beam_size, max_extra=EXTRA, token_scores=False)

    def translate(numbers: list[int]) -> int:
        found = list(translator.translate_lines((lines[n] for n in numbers), options=options, split=False))
        assert all(each.text for each in found)
        return sum(len(each.hypotheses[0].parts[0].ids) for each in found)

    return translate


def ctranslate2_itself(order: Order, batch_size: int, workers: int) -> Translate:
    """Its own translate_batch on tokens that are ready."""
    import ctranslate2

    tokenizer = Tokenizer.load(order.folder / "model" / "tokenizer.model")
    sources = [tokenizer.pieces(ids) for ids in order.ids]
    threads = torch.get_num_threads() // workers
    folder = str(cached_ctranslate2(order.folder / "model"))
    translator: Any = ctranslate2.Translator(folder, "cpu", inter_threads=workers, intra_threads=threads)

    def translate(numbers: list[int]) -> int:
        found = translator.translate_batch(
            [sources[n] for n in numbers],
            beam_size=order.beam_size,
            length_penalty=0.6,
            max_decoding_length=len(sources[0]) + EXTRA,
            max_batch_size=batch_size,
        )
        return sum(len(each.hypotheses[0]) for each in found)

    return translate


def huggingface(order: Order, batch_size: int) -> Translate:
    """MarianMTModel.generate on ids that are ready."""
    from transformers import MarianMTModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    model: Any = MarianMTModel.from_pretrained(order.folder / "marian").eval()
    ids_NS = torch.tensor([[*ids, 0] for ids in order.ids])
    length = ids_NS.size(1) - 1

    @torch.no_grad()
    def translate(numbers: list[int]) -> int:
        total = 0
        for batch_N in torch.tensor(numbers).split(batch_size):
            inputs = ids_NS[batch_N]
            found = model.generate(
                input_ids=inputs,
                attention_mask=torch.ones_like(inputs),
                num_beams=order.beam_size,
                do_sample=False,
                max_length=None,
                max_new_tokens=length + EXTRA,
            )
            total += int((found[:, 1:] != model.config.pad_token_id).sum()) - len(batch_N)  # eos not counted
        return total

    return translate


NAMES = ("ours, torch", "ours, ctranslate2", "ctranslate2 itself", "huggingface")


def settings(name: str) -> list[tuple[int, ...]]:
    """What a contestant is tried with; ours as they come."""
    if name == "ctranslate2 itself":
        return [(size, workers) for workers in sorted({1, torch.get_num_threads()}) for size in BATCH_SIZES]
    return [(size,) for size in BATCH_SIZES[1:]] if name == "huggingface" else [()]


def contestant(order: Order, name: str, setting: tuple[int, ...]) -> Translate:
    """One of them, ready to go."""
    if name == "ctranslate2 itself":
        return ctranslate2_itself(order, *setting)
    return huggingface(order, *setting) if name == "huggingface" else ours(order, name.removeprefix("ours, "))


# ----------------------------------------------------------------------------------------------------------- measuring


def work(order: Order, name: str, setting: tuple[int, ...]) -> None:
    """A contestant's process: does what it is told, line by line, and answers with figures."""
    translate, everything = contestant(order, name, setting), list(range(len(order.lines)))
    translate(everything[:WARM_UP])
    for line in sys.stdin:
        if line == "alone\n":
            figures = latency(translate) | {"peak MB": peak_mb()}
        else:
            begin = time.perf_counter()
            tokens = translate(everything if line == "all\n" else everything[:SOME])
            figures = {"seconds": time.perf_counter() - begin, "tokens": tokens}
        print(json.dumps(figures), flush=True)


def latency(translate: Translate) -> dict[str, float]:
    """Milliseconds for one sentence alone: the median, and what one in twenty exceeds."""
    times = []
    for number in range(ALONE):
        begin = time.perf_counter()
        translate([number])
        times.append(1000 * (time.perf_counter() - begin))
    times.sort()
    return {"latency p50 ms": statistics.median(times), "latency p95 ms": times[int(0.95 * (ALONE - 1))]}


def peak_mb() -> float:
    """The most memory that this process had at once; what its parent had does not count."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


class Worker:
    """A contestant in a process of its own."""

    def __init__(self, order: Order, name: str, setting: tuple[int, ...]) -> None:
        command = [sys.executable, "-m", "benchmarks.translate_speed", "--one", name]
        command += ["--folder", str(order.folder), "--beam", str(order.beam_size)]
        command += ["--setting", ",".join(map(str, setting))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what: str) -> dict[str, Any]:
        """Tell it, and wait for the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def end(self) -> None:
        """Let it go."""
        self.process.communicate()


def best_setting(order: Order, name: str) -> tuple[int, ...]:
    """The quickest of its settings, each tried once."""
    tried = settings(name)
    if len(tried) == 1:
        return tried[0]
    seconds: dict[tuple[int, ...], float] = {}
    for setting in tried:
        worker = Worker(order, name, setting)
        seconds[setting] = worker.ask("some")["seconds"]
        worker.end()
    return min(seconds, key=seconds.__getitem__)


def race(order: Order, rounds: int, names: Sequence[str]) -> dict[str, Any]:
    """These contestants, in turns; and the ratios that our bars speak of."""
    chosen = {name: best_setting(order, name) for name in names}
    workers = {name: Worker(order, name, setting) for name, setting in chosen.items()}
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(rounds):
        for place in range(len(names)):  # another one begins each round
            name = names[(number + place) % len(names)]
            seen[name].append(workers[name].ask("all"))
    figures: dict[str, Any] = {}
    for name, worker in workers.items():
        figures[name] = {"setting": described(chosen[name])} | speeds(seen[name], len(order.lines))
        figures[name] |= {key: round(value, 1) for key, value in worker.ask("alone").items()}
        worker.end()
    figures["ratios"] = {
        f"{one} / {other}": ratio(seen[one], seen[other])
        for one, other in (("ours, ctranslate2", "ctranslate2 itself"), ("ours, torch", "huggingface"))
        if other in names
    }
    return figures


def described(setting: tuple[int, ...]) -> str:
    """For people."""
    names = ("a batch", "workers")
    return ", ".join(f"{value} {name}" for value, name in zip(setting, names, strict=False)) or "as it comes"


def speeds(rounds: list[dict[str, Any]], num_sentences: int) -> dict[str, float]:
    """Medians over the rounds."""
    return {
        "sentences/s": round(statistics.median(num_sentences / each["seconds"] for each in rounds), 1),
        "tokens/s": round(statistics.median(each["tokens"] / each["seconds"] for each in rounds), 1),
        "tokens a sentence": round(statistics.mean(each["tokens"] for each in rounds) / num_sentences, 1),
    }


def ratio(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> float:
    """How many times as fast, in the median round."""
    pairs = zip(ours, theirs, strict=True)
    times = [float(other["seconds"] / one["seconds"]) for one, other in pairs]
    return round(statistics.median(times), 3)


def arguments() -> argparse.Namespace:
    parser = keeping_parser(__doc__)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--sentences", type=int, default=96)
    parser.add_argument("--length", type=int, default=28)
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--without-peers", action="store_true", help="ours alone")
    parser.add_argument("--one", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--beam", type=int, default=4, help=argparse.SUPPRESS)
    parser.add_argument("--setting", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, print, keep."""
    given = arguments()
    if given.one:
        setting = tuple(int(number) for number in given.setting.split(",") if number)
        work(Order(given.folder, given.beam), given.one, setting)
        return
    figures: dict[str, Any] = {
        "what": f"{given.preset}, {given.vocab:,} word pieces, {given.sentences} sentences of {given.length}",
        "threads": int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())),
    }
    contestants = [name for name in NAMES if name.startswith("ours") or not given.without_peers]
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), given.preset, given.sentences, given.length, given.vocab)
        for name, beam_size in (("beam 4", 4), ("greedy", 1)):
            figures[name] = race(Order(Path(folder), beam_size), given.rounds, contestants)
            for key, value in figures[name].items():
                print(f"{name:8} {key}: {value}", flush=True)
    keep(given, "translate_speed_cpu", figures)


if __name__ == "__main__":
    run(main)
