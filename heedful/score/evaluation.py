"""Strings in, `Report` out: how good translations are (§6), with all that is needed to publish the figures.

`evaluate` scores lines, `evaluate_files` scores files, `evaluate_model` translates first. Perplexity (Table 3) is
computed from the caller's log-probabilities. Nothing here knows a model: a translator is anything with `translate`, and
torch is not imported.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Protocol

from heedful.data.languages import base_language, is_code
from heedful.data.stdio import STDIN, input_lines
from heedful.data.text_files import language_of, read_lines, refuse_tsv
from heedful.errors import DataError, counted
from heedful.score import scores
from heedful.score.paper_bleu import multi30k_bleu, paper_bleu
from heedful.score.report import Perplexity, Report


class _Translation(Protocol):
    @property
    def text(self) -> str: ...


class Translates(Protocol):
    """What `evaluate_model` asks of a translator."""

    def translate(self, texts: list[str], /, *, split: bool) -> Sequence[_Translation]:
        """One translation a line, in order; a line is one segment unless it is to be split."""
        ...


def evaluate(
    hypotheses: Iterable[str],
    references: Iterable[Iterable[str]],
    *,
    language: str = "",
    hypotheses_name: str = "the list of hypotheses",
    reference_names: Sequence[str] = (),
) -> Report:
    """Score hypotheses against one or several references; the names are for error messages.

    Where every hypothesis is empty, BLEU is 0 as sacreBLEU has it, with a note.
    """
    lines, targets = checked(hypotheses, references, language, hypotheses_name, reference_names)
    return _report(lines, targets, language)


def evaluate_files(
    hypotheses: str | PathLike[str], references: Iterable[str | PathLike[str]], *, language: str = ""
) -> Report:
    """Score a file (- is stdin) against references; the language is the first one in a reference's name."""
    if isinstance(references, str | PathLike):
        raise TypeError("evaluate_files takes a list of references; put the path in brackets: [reference]")
    scored, paths = Path(hypotheses), [Path(reference) for reference in references]
    for path in (scored, *paths):
        refuse_tsv(path)
    return evaluate(
        list(input_lines(scored)),
        [list(read_lines(path)) for path in paths],
        language=language or next(filter(None, map(language_of, paths)), ""),
        hypotheses_name="<stdin>" if scored == STDIN else str(scored),
        reference_names=[str(path) for path in paths],
    )


def evaluate_model(
    translator: Translates,
    source_lines: Iterable[str],
    references: Iterable[Iterable[str]],
    *,
    language: str = "",
    source_name: str = "the source",
    reference_names: Sequence[str] = (),
) -> Report:
    """Translate the source, each line as one segment, and score what came out.

    The numbers of lines are checked first.
    """
    lines, targets = checked(source_lines, references, language, source_name, reference_names)
    translations = translator.translate(lines, split=False)
    return _report([translation.text for translation in translations], targets, language)


def validation_bleu(hypotheses: Sequence[str], references: scores.References, *, language: str = "") -> scores.Bleu:
    """BLEU alone and without an interval: what training asks for, every few minutes."""
    return scores.bleu(hypotheses, references, tokenizer=scores.choose_tokenizer(language).name)


def perplexity(total_negative_log_likelihood: float, num_tokens: int) -> float:
    """exp(total / tokens): per word piece as in the paper, or per word if words were counted. In nats."""
    if num_tokens < 1:
        raise DataError("perplexity needs at least one token; the text is empty")
    try:
        return math.exp(total_negative_log_likelihood / num_tokens)
    except OverflowError:
        return math.inf


def perplexities(total_negative_log_likelihood: float, num_pieces: int, num_words: int | None = None) -> Perplexity:
    """Both perplexities of one text. A word is what stands between spaces."""
    per_word = None if num_words is None else perplexity(total_negative_log_likelihood, num_words)
    return Perplexity(perplexity(total_negative_log_likelihood, num_pieces), num_pieces, per_word, num_words)


def _lines(texts: Iterable[str]) -> list[str]:
    """A list of strings from any iterable of strings, except a string itself."""
    is_list = isinstance(texts, Iterable) and not isinstance(texts, str)
    lines = list(texts) if is_list else []
    wrong = [line for line in lines if not isinstance(line, str)] if is_list else [texts]
    if wrong:
        how = "lines are a list of strings, and references a list of such lists: evaluate(lines, [lines])"
        raise TypeError(f"{how}; found {repr(wrong[0])[:80]}")
    return lines


def checked(
    texts: Iterable[str],
    references: Iterable[Iterable[str]],
    language: str,
    name: str,
    reference_names: Sequence[str],
) -> tuple[list[str], list[list[str]]]:
    """The lines of a text and of its references; raise for what cannot be scored, before a model has to work."""
    lines, targets = _lines(texts), list(map(_lines, references))
    if not isinstance(language, str):
        raise TypeError(f'language is a code such as "de", or "" where it is not known, not {language!r}')
    if not targets:
        raise DataError(f"{name}: there is no reference to compare with")
    if not lines:
        raise DataError(f"{name}: there are no lines")
    names = reference_names or [f"reference {number}" for number in range(1, len(targets) + 1)]
    for reference_name, reference in zip(names, targets, strict=True):
        if len(reference) != len(lines):
            raise DataError(
                f"{name} has {counted(len(lines), 'line')} and {reference_name} has {len(reference):,}; "
                f"line n of the one is compared with line n of the other"
            )
        if not any(line.strip() for line in reference):
            raise DataError(f"{reference_name}: every line is empty, so there is nothing to compare with")
    return lines, targets


def _report(hypotheses: Sequence[str], references: scores.References, language: str) -> Report:
    tokenizer, paper, multi30k = scores.choose_tokenizer(language), paper_bleu(language), multi30k_bleu(language)
    num = scores.NUM_RESAMPLES if len(hypotheses) <= scores.MAX_RESAMPLED_LINES else 0
    return Report(
        num_lines=len(hypotheses),
        num_references=len(references),
        language=base_language(language),
        tokenizer=tokenizer,
        bleu=scores.bleu(hypotheses, references, tokenizer=tokenizer.name, num_resamples=num),
        chrf=scores.chrf(hypotheses, references, num_resamples=num),
        ter=scores.ter(hypotheses, references, language=language, num_resamples=num),
        paper_bleu=paper.score(hypotheses, references, num_resamples=num) if paper else None,
        lowercased_tokenised=multi30k.score(hypotheses, references, num_resamples=num) if multi30k else None,
        notes=(
            *_notes(hypotheses, references),
            *_language_notes(language),
            *_tokenizer_notes(tokenizer, references[0]),
        ),
    )


def _notes(hypotheses: Sequence[str], references: scores.References) -> list[str]:
    """What a careful reader would want to know about the lines."""
    notes, total = [], len(hypotheses)
    sides = {"hypotheses": hypotheses}  # which another system may have made: ours writes NFC
    sides |= {f"lines of reference {number}": lines for number, lines in enumerate(references, start=1)}
    for name, lines in sides.items():
        if empty := _count(lines, lambda line: not line.strip()):
            notes.append(f"{empty} of {total} {name} are empty")
        if composed := _count(lines, lambda line: not unicodedata.is_normalized("NFC", line)):
            notes.append(
                f"{composed} of {total} {name} are not in NFC, as our output is: letters that look the same count as "
                "errors; bring the file to NFC and score again"
            )
    if (tokenised := _count(hypotheses, lambda line: line.endswith(" ."))) * 10 >= total:
        notes.append(f"{tokenised} of {total} hypotheses end in ' .' and look tokenised; BLEU wants plain text")
    if total > scores.MAX_RESAMPLED_LINES:
        notes.append(f"no intervals: {total} lines are more than the {scores.MAX_RESAMPLED_LINES} that fit in memory")
    return notes


def _language_notes(language: str) -> list[str]:
    """Note a name instead of a code: without the note, the paper's BLEU would be missing silently."""
    if not language or is_code(language):
        return []
    return [f"{language!r} is no code of a language, such as de: metrics of one language were not chosen by it"]


def _tokenizer_notes(tokenizer: scores.TokenizerChoice, reference: Sequence[str]) -> list[str]:
    """Note text that 13a does not suit: a file's name may not say its language, or wrongly, as .kr does."""
    language = scores.language_of_letters(reference) if tokenizer.name == "13a" else ""
    if not language:
        return []
    option = f"--language {language} takes {scores.choose_tokenizer(language).name}"
    return [f"the references are in the letters of {language}, which 13a does not suit; {option}"]


def _count(lines: Sequence[str], holds: Callable[[str], bool]) -> int:
    return sum(map(holds, lines))
