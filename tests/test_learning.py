"""It learns: a copy task and the built-in corpus, to a bound, with a seed that is another one every day."""

from __future__ import annotations

import datetime
import random
from pathlib import Path

import pytest

import heedful
from heedful.corpus import read_lines
from heedful.evaluation import validation_bleu
from heedful.grammar import write_corpus

SEED = datetime.datetime.now(datetime.UTC).toordinal()


def test_a_copy_task_is_learned(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    lines = [" ".join(rng.choice("abcdefgh") for _ in range(rng.randint(2, 9))) for _ in range(4000)]
    for name in ("text.xx", "text.yy"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines[:-100]))
    settings = {
        "train.seed": SEED,
        "train.steps": 300,
        "train.batch_tokens": 1024,
        "train.warmup_steps": 100,
        "train.learning_rate_factor": 0.5,
        "train.checkpoint_steps": 10,
        "model.num_layers": 1,
        "model.d_model": 64,
        "model.d_ff": 128,
    }
    heedful.train(tmp_path / "text.xx", tmp_path / "text.yy", tmp_path / "run", preset="tiny", settings=settings)
    translator = heedful.Translator.load(tmp_path / "run", device="cpu")
    copies = [translation.text for translation in translator.translate(lines[-100:])]
    right = sum(copy == line for copy, line in zip(copies, lines[-100:], strict=True))
    assert right >= 80, f"seed {SEED}: {right} of 100 lines were copied"


@pytest.mark.parametrize("pair", ["en-de", "ko-en"])
def test_the_built_in_corpus_is_learned(tmp_path: Path, pair: str) -> None:
    """In a quarter of the demo's steps: not all of it, but more than single words."""
    source, target = pair.split("-")
    write_corpus(tmp_path, source, target, train_pairs=30_000)
    files = (tmp_path / f"train.{source}", tmp_path / f"train.{target}", tmp_path / "run")
    heedful.train(*files, preset="tiny", settings={"train.steps": 250, "train.seed": SEED})
    translator = heedful.Translator.load(tmp_path / "run", device="cpu")
    lines, references = (list(read_lines(tmp_path / f"test.{language}"))[:200] for language in (source, target))
    bleu = validation_bleu([t.text for t in translator.translate(lines)], [references], language=target).value
    assert bleu >= 50, f"seed {SEED}: BLEU {bleu:.1f}"
