"""§1, §4 and Bahdanau 2015: an encoder that says all in one vector loses long sentences; attention does not.

Two of the rows differ in attention alone. Sentences are long because they are several in a row: one to four captions
are joined, in training and in validation. Scores are measured by the length of the source, on joined captions that are
held out of the training text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import cycle
from pathlib import Path

from heedful.data.text_files import SentencePair
from heedful.lab.experiment import BASE, Claim, Experiment, Results, Row
from heedful.lab.experiments.by_length import LENGTHS, curves_by_length, quality_by_length, words
from heedful.lab.findings import Findings
from heedful.lab.metrics import BLEU, PERPLEXITY
from heedful.lab.quality import quality
from heedful.lab.text import TRAIN, VALID, Pairs, Sets, Source, Text
from heedful.lab.trained import Trained

TEST, NUM_TEST, LONGEST = "test", 2_500, 50  # single pairs, which become a thousand; words
EDGES = (0, 10, 20, 30, 40, LONGEST)
SHORT, LONG = "11-20", "31-40"
DROP = f"drop of {BLEU}, %"
SIZES = (1, 2, 3, 4)


def joined(pairs: Pairs) -> Iterator[SentencePair]:
    """One pair, the next two as one, the next three, the next four, and again; those that are too long are left out."""
    rest = iter(pairs)
    for size in cycle(SIZES):
        parts = [pair for _, pair in zip(range(size), rest, strict=False)]
        if len(parts) < size:
            return
        whole = SentencePair(" ".join(pair.source for pair in parts), " ".join(pair.target for pair in parts))
        if words(whole.source) <= LONGEST:
            yield whole


def joined_sets(source: Source) -> Sets:
    """Twice as many single pairs as usual, as joining leaves fewer; the last ones of the training text to test.

    Of a small text at most a quarter is held out, and no pair is both trained and tested on.
    """
    num_test = min(NUM_TEST, len(source.train) // 4)
    train, test = source.train[:-num_test][: 2 * source.num_pairs], source.train[-num_test:]
    return {TRAIN: [*joined(train)], VALID: [*joined(source.valid)], TEST: [*joined(test)]}


def measured_by_length(trained: Trained) -> dict[str, float]:
    """Scores of the whole test text and of each group of sentences of like length, and how far BLEU drops."""
    translator, pairs = trained.translator(), trained.text.pairs(TEST)
    found = quality(translator, pairs) | quality_by_length(translator, pairs, EDGES)
    return found | drop(found)


def drop(found: Mapping[str, float]) -> dict[str, float]:
    """How much lower BLEU is of long sentences than of short ones, in shares: a poor model has little to lose."""
    short, long = (found.get(f"{BLEU} {group}") for group in (SHORT, LONG))
    return {} if not short or long is None else {DROP: 100 * (1 - long / short)}


def findings(results: Results, _: Path) -> Findings:
    """The curves by length."""
    return Findings(charts=curves_by_length("bottleneck", results))


ATTENTION, ONE_VECTOR = "gru-attention", "gru-one-vector"
ONE_WAY: dict[str, object] = {
    "family": "recurrent",
    "cell": "gru",
    "num_layers": 1,
    "d_model": 152,
    "bidirectional": False,
    "reverse_source": True,
    "readout": "tanh",
}


def _gru(name: str, attention: str, change: str) -> Row:
    """The same GRU, from the end of the source to its beginning, with or without attention."""
    return Row(name, change, {"model": {**ONE_WAY, "attention": attention}})


BOTTLENECK = Experiment(
    name="bottleneck",
    question="Does translation without attention fall with the length of the sentence, and with attention not?",
    section="§1; Bahdanau 2015, figure 2",
    minutes=45,
    text=Text("joined", joined_sets),
    rows=(
        Row(BASE, "Transformer"),
        _gru(ATTENTION, "additive", "GRU, additive attention"),
        _gru(ONE_VECTOR, "none", "the same GRU without attention"),
    ),
    claims=(
        Claim(row=ONE_VECTOR, baseline=ATTENTION, metric=PERPLEXITY, expected="higher", source="Bahdanau 2015"),
        Claim(
            row=ONE_VECTOR,
            baseline=ATTENTION,
            metric=f"{LENGTHS}.{DROP}",
            expected="higher",
            source="Bahdanau 2015, figure 2: it falls with length",
        ),
        Claim(row=BASE, baseline=ATTENTION, metric=BLEU, expected="higher", source="§1: recurrence is surpassed"),
    ),
    measures={LENGTHS: measured_by_length},
    more=findings,
    quick=(ATTENTION, ONE_VECTOR),
)
