"""It learns: a copy task and the built-in corpus, to a bound; of the built-in pairs the demo's and the hardest."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import pytest

import heedful
from heedful.cli.demo import run_demo
from heedful.data.grammar.corpus import DEMO_SENTENCES
from heedful.data.grammar.corpus_files import write_corpus
from heedful.data.text_files import read_lines
from heedful.score.evaluation import validation_bleu
from heedful.translate.alignment import alignment_error_rate

pytestmark = pytest.mark.slow

SEED = 1


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
    assert right >= 80, f"{right} of 100 lines were copied"


@dataclass(frozen=True)
class Learned:
    """A run on the built-in corpus, and its held-out test: sentences and references."""

    run: Path
    sentences: list[str]
    references: list[str]
    language: str

    @cached_property
    def exact_bleu(self) -> float:
        return self.bleu(engine="torch")

    def bleu(self, *, engine: str) -> float:
        """Of the model's translations."""
        translator = heedful.Translator.load(self.run, device="cpu", engine=engine)
        found = [translation.text for translation in translator.translate(self.sentences)]
        return validation_bleu(found, [self.references], language=self.language).value


@pytest.fixture(scope="module", params=["en-de", "de-ko"])
def learned(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Learned:
    """The demo; and, of the hardest pair, half its text in steps half as large: not all of it, but whole sentences."""
    pair: str = request.param
    source, target = pair.split("-")
    folder = tmp_path_factory.mktemp(pair)
    if pair == "en-de":
        assert run_demo(pair, folder, seed=SEED, steps=None) == 0
    else:
        learn_half(folder, source, target)
    texts = (read_lines(folder / "corpus" / f"test.{language}") for language in (source, target))
    lines, references = (list(islice(text, 400)) for text in texts)
    return Learned(folder / "run", lines, references, target)


def learn_half(folder: Path, source: str, target: str) -> None:
    """Train with half of the demo's text, in small steps."""
    corpus = folder / "corpus"
    write_corpus(corpus, source, target, train_pairs=30_000)
    settings = {
        "train.seed": SEED,
        "train.steps": 500,
        "train.batch_tokens": 1024,
        "train.warmup_steps": 200,
        "train.checkpoint_steps": 10,
    }
    files = (corpus / f"train.{source}", corpus / f"train.{target}", folder / "run")
    heedful.train(*files, preset="tiny", settings=settings)


def test_the_demo_translates_all_its_sentences_right_and_has_seen_none(learned: Learned) -> None:
    if learned.language != "de":
        pytest.skip("not the demo")
    translator = heedful.Translator.load(learned.run, device="cpu", engine="torch")
    found = [translation.text for translation in translator.translate(DEMO_SENTENCES["en"])]
    assert tuple(found) == DEMO_SENTENCES["de"]
    for language in ("en", "de"):
        text = set(read_lines(learned.run.parent / "corpus" / f"train.{language}"))
        assert not text & set(DEMO_SENTENCES[language])


def test_the_built_in_corpus_is_learned(learned: Learned) -> None:
    assert learned.exact_bleu >= 75, f"BLEU {learned.exact_bleu:.1f}"


def test_int8_translates_as_well(learned: Learned) -> None:
    pytest.importorskip("ctranslate2")
    exact, rounded = learned.exact_bleu, learned.bleu(engine="ctranslate2")
    assert rounded >= exact - 0.3, f"BLEU {exact:.2f} in float32, {rounded:.2f} in int8"


def test_words_are_aligned_as_the_grammar_knows_them(learned: Learned) -> None:
    lines = (learned.run.parent / "corpus" / "test.alignments").read_text(encoding="utf-8").splitlines()
    gold = [tuple((int(i), int(j)) for i, j in (link.split("-") for link in line.split())) for line in lines]
    aligner = heedful.Aligner.load(learned.run, device="cpu")
    encode = aligner.tokenizer.encode
    pairs = list(zip(learned.sentences, learned.references, strict=True))
    found = [aligner.align(encode(source), encode(target)) for source, target in pairs]
    error = alignment_error_rate(found, gold[: len(found)])
    # With two seeds some 2 % into German and 8 to 9 % into Korean; less after the demo's steps: docs/attention.md
    assert error <= 0.15, f"{error:.1%}"
