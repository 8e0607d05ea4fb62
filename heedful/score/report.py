"""The scores of one set of lines, as they are kept and as they are shown (§6). It computes none of them."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from heedful.errors import counted
from heedful.score.scores import ENOUGH_LINES, Bleu, Score, TokenizerChoice
from heedful.score.tables import Rows, plain_table


class Perplexity(Struct, frozen=True):
    """exp of the mean negative log-likelihood: per word piece as in the paper, and per word where words were counted.

    Only the latter can be compared between models with different vocabularies.
    """

    per_piece: float
    num_pieces: int
    per_word: float | None = None
    num_words: int | None = None


class Report(Struct, frozen=True, kw_only=True):
    """The scores of one set of lines. sacreBLEU's are `bleu`, `chrf` and `ter`; the other kinds of BLEU stand apart."""

    num_lines: int
    num_references: int
    language: str
    tokenizer: TokenizerChoice
    bleu: Bleu
    chrf: Score
    ter: Score
    paper_bleu: Bleu | None = None  # German and French
    lowercased_tokenised: Bleu | None = None  # where words stand between spaces
    perplexity: Perplexity | None = None
    contrastive_accuracy: float | None = None  # a share: 1.0 is every pair right
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """All fields as JSON, which msgspec reads back."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def to_text(self) -> str:
        """Tables for people."""
        lines, references = counted(self.num_lines, "line"), counted(self.num_references, "reference")
        heading = [f"{lines}, {references}, target language {self.language or 'not known'}"]
        tables = plain_table(score_rows(self)), plain_table(_bleu_rows(self))
        tokenizer = f"BLEU's tokenizer is {self.tokenizer.name}: {self.tokenizer.reason}"
        notes = [tokenizer, *(f"note: {remark}" for remark in self.remarks)]
        return "\n\n".join(map("\n".join, [heading, *tables, notes]))

    @property
    def remarks(self) -> list[str]:
        """What to know before believing the figures: the notes, and that lines are few, or short."""
        remarks = list(self.notes)
        if self.bleu.precisions[0] and not self.bleu.precisions[3]:  # where 4-grams could match, smoothing leaves some
            remarks.append("no hypothesis has 4 tokens, so there are no 4-grams, and BLEU is 0 however good they are")
        if self.num_lines < ENOUGH_LINES:
            lines = counted(self.num_lines, "line")
            remarks.append(f"{lines}: of fewer than {ENOUGH_LINES} the intervals are too narrow")
        return remarks

    @property
    def bleus(self) -> list[Bleu]:
        """Every kind of BLEU in this report, sacreBLEU's first."""
        return [score for score in (self.bleu, self.paper_bleu, self.lowercased_tokenised) if score is not None]

    @property
    def scores(self) -> list[Score]:
        """Every score, sacreBLEU's three first."""
        return [self.bleu, self.chrf, self.ter, *self.bleus[1:]]


def score_rows(report: Report, cases: str = "") -> Rows:
    """The one table of scores, for a report and on a card; `cases` names those of the contrastive accuracy."""
    rows = [["metric", "score", "95 % interval", "signature"]]
    for score in report.scores:
        interval = f"{score.interval.mean:.2f} ± {score.interval.margin:.2f}" if score.interval else ""
        lower = " (lower is better)" if score is report.ter else ""
        rows.append([score.name + lower, f"{score.value:.2f}", interval, score.signature])
    if report.perplexity:
        rows.append(["perplexity per word piece", f"{report.perplexity.per_piece:.3f}", "", ""])
        if report.perplexity.per_word is not None:
            rows.append(["perplexity per word", f"{report.perplexity.per_word:.3f}", "", ""])
    if report.contrastive_accuracy is not None:
        rows.append(["contrastive accuracy", f"{report.contrastive_accuracy:.1%}", "", cases])
    return rows


def _bleu_rows(report: Report) -> Rows:
    head = ["n-grams found, %", "1", "2", "3", "4", "brevity penalty", "system length", "reference length"]
    rows = [
        [
            score.name,
            *(f"{precision:.1f}" for precision in score.precisions),
            f"{score.brevity_penalty:.3f}",
            f"{score.system_length}",
            f"{score.reference_length}",
        ]
        for score in report.bleus
    ]
    return [head, *rows]
