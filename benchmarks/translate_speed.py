"""Translation on a CPU: our engines beside Hugging Face generate and CTranslate2 itself, in one run.

    python -m benchmarks.translate_speed [--preset base] [--sentences 96] [--length 28] [--vocab 8000] [--rounds 3]

One random-initialised model, one set of sentences of equal length in word pieces; the model is made to end its outputs
at about that length. Ours go from text to text; the others get and give ids, with the batch size that is best for each
on this machine. Contestants run one after the other, each in a process of its own (so that
its peak memory is its own), for several rounds; figures are medians over the rounds. `translate_cuda.py` is the same
for a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch

from benchmarks.record import machine, save
from heedful.checkpoint import load_model, save_model
from heedful.config import preset, resolve
from heedful.engines import SearchOptions
from heedful.export.cache import cached_ctranslate2
from heedful.export.marian import write_huggingface
from heedful.model.transformer import Transformer
from heedful.tokenizer import Tokenizer
from heedful.translation import Translator

BATCH_SIZES = (8, 16, 32, 64)
EOS_ID, EXTRA = 0, 20
TRIALS = 4  # of a contestant; whoever has more settings to try is tried once with each
ALONE = 20  # sentences translated one at a time
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
    torch.manual_seed(1)
    model = Transformer(config.model, tokenizer.vocab_size)
    end_at(model, length)
    save_model(folder / "model", model.state_dict(), config, folder / "tokenizer.model")
    cached_ctranslate2(folder / "model")
    write_huggingface(load_model(folder / "model", device=torch.device("cpu")), folder / "marian")
    lines = list(_of_length(tokenizer, text, length, num_sentences))
    (folder / "lines").write_text("\n".join(lines) + "\n", encoding="utf-8")


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
        found = list(translator.translate_lines((lines[n] for n in numbers), options=options))
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


def contestants(order: Order, name: str) -> dict[str, Translate]:
    """The settings in which a contestant is tried; the best one counts."""
    if name.startswith("ours"):
        return {"as it comes": ours(order, name.removeprefix("ours, "))}
    if name == "ctranslate2 itself":
        workers = sorted({1, torch.get_num_threads()})
        return {
            f"{size} a batch, {w} workers": ctranslate2_itself(order, size, w) for w in workers for size in BATCH_SIZES
        }
    return {f"{size} a batch": huggingface(order, size) for size in BATCH_SIZES[1:3]}


NAMES = ("ours, torch", "ours, ctranslate2", "ctranslate2 itself", "huggingface")


# ----------------------------------------------------------------------------------------------------------- measuring


def measure(order: Order, name: str) -> dict[str, Any]:
    """The figures of one contestant, in this process."""
    everything = list(range(len(order.lines)))
    best: dict[str, Any] = {"sentences/s": 0.0}
    settings = contestants(order, name)
    for setting, translate in list(settings.items()) * max(1, TRIALS // len(settings)):
        translate(everything[:4])
        begin = time.perf_counter()
        tokens = translate(everything)
        seconds = time.perf_counter() - begin
        if len(everything) / seconds > best["sentences/s"]:
            speed = {"sentences/s": len(everything) / seconds, "tokens/s": tokens / seconds}
            best = {"setting": setting, **speed, **latency(translate)}
    return best | {"peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def latency(translate: Translate) -> dict[str, float]:
    """Milliseconds for one sentence alone: the median, and what one in twenty exceeds."""
    times = []
    for number in range(ALONE):
        begin = time.perf_counter()
        translate([number])
        times.append(1000 * (time.perf_counter() - begin))
    times.sort()
    return {"latency p50 ms": statistics.median(times), "latency p95 ms": times[int(0.95 * (ALONE - 1))]}


def in_a_process(order: Order, name: str) -> dict[str, Any]:
    """`measure` in a new process."""
    command = [sys.executable, "-m", "benchmarks.translate_speed", "--one", name]
    arguments = ["--folder", str(order.folder), "--beam", str(order.beam_size)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def median_of(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each figure; the setting of the first round."""
    numbers = {key for key, value in rounds[0].items() if isinstance(value, float)}
    return {
        key: round(statistics.median(each[key] for each in rounds), 1) if key in numbers else value
        for key, value in rounds[0].items()
    }


def race(order: Order, rounds: int) -> dict[str, Any]:
    """All contestants, in turns; and the ratios that our bars speak of."""
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
    for _ in range(rounds):
        for name in NAMES:
            seen[name].append(in_a_process(order, name))
    figures: dict[str, Any] = {name: median_of(each) for name, each in seen.items()}
    speed = {name: figures[name]["sentences/s"] for name in NAMES}
    figures["ratios"] = {
        "ours, ctranslate2 / ctranslate2 itself": round(speed["ours, ctranslate2"] / speed["ctranslate2 itself"], 3),
        "ours, torch / huggingface": round(speed["ours, torch"] / speed["huggingface"], 2),
    }
    return figures


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--sentences", type=int, default=96)
    parser.add_argument("--length", type=int, default=28)
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="write the result to benchmarks/results/")
    parser.add_argument("--one", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--beam", type=int, default=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, print, keep."""
    given = arguments()
    if given.one:
        print(json.dumps(measure(Order(given.folder, given.beam), given.one)))
        return
    figures: dict[str, Any] = {
        "what": f"{given.preset}, {given.vocab:,} word pieces, {given.sentences} sentences of {given.length}",
        "threads": int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())),
    }
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), given.preset, given.sentences, given.length, given.vocab)
        for name, beam_size in (("beam 4", 4), ("greedy", 1)):
            figures[name] = race(Order(Path(folder), beam_size), given.rounds)
            for key, value in figures[name].items():
                print(f"{name:8} {key}: {value}", flush=True)
    if given.keep:
        print(f"kept in {save('translate_speed_cpu', figures)}")


if __name__ == "__main__":
    main()
