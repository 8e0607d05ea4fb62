"""`heedful translate`: one line out for each line in."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedful.cli.commands import options
from heedful.cli.commands.options import FILE
from heedful.cli.commands.search_flags import (
    alternatives_option,
    output_form,
    refuse_what_would_not_count,
    search_flags,
    search_options,
)
from heedful.cli.messages import say
from heedful.errors import counted

if TYPE_CHECKING:
    from heedful.translate.alignment import Aligner
    from heedful.translate.bulk import BulkTranslation
    from heedful.translate.engine import SearchOptions
    from heedful.translate.json_records import Details
    from heedful.translate.translation import Translation, Translator


@click.command(short_help="Translate a file or stdin, line by line.")
@options.model
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default="-")
@click.option("-o", "--output", type=FILE, help="Write here instead of to stdout (-).")
@search_flags
@click.option("--prefix", type=FILE, help="File with what each translation must begin with, line by line.")
@options.split
@click.option("--alignments", type=FILE, help="Write word alignments here, as Pharaoh does: 0-0 1-2.")
@alternatives_option
@click.option("--resume", is_flag=True, help="Go on with the half-written output of a killed run.")
@options.engine
@options.precision
@options.device
@options.family
def translate(
    models: tuple[Path, ...],
    file: Path,
    output: Path | None,
    form: str | None,
    prefix: Path | None,
    split: bool,
    alignments: Path | None,
    alternatives: int,
    resume: bool,
    engine: str,
    precision: str,
    device: str,
    **search: Any,
) -> None:
    """Translate FILE (- is stdin): one line out for each line in, in order, and nothing else.

    A line is translated sentence by sentence. With -o, a long FILE is translated in parts, and --resume goes on with
    those that a killed run has finished.
    """
    import torch

    from heedful.data.stdio import input_lines
    from heedful.translate.bulk import resolved
    from heedful.translate.json_records import Details
    from heedful.translate.translation import Translator

    form = output_form(form, search, alternatives)
    refuse_what_would_not_count(search)
    _refuse_to_overwrite({"FILE": file, "--prefix": prefix, "-o": output, "--alignments": alignments})
    _check_text(file, prefix)
    num_lines = _num_lines(file)
    in_parts = _is_resumable(file, output, prefix, alignments, resume, num_lines)
    translator = Translator.load(*models, device=device, engine=engine, precision=precision)
    note_unfinished(models)
    note_engine(translator)
    gc.freeze()  # what was loaded stays: nobody need look through it for garbage, again and again
    how = search_options(translator.options, token_scores=form == "jsonl", **search)
    aligner = (
        load_aligner(models[0], device, is_needed=alignments is not None) if alignments or form == "jsonl" else None
    )
    if in_parts:
        work = resolved(
            translator,
            models,
            how,
            precision=precision,
            threads=torch.get_num_threads(),
            form=form,
            split=split,
            alternatives=alternatives,
        )
        _translate_in_parts(translator, work, file, in_parts, resume, num_lines)
        return
    details = Details(translator, aligner, alternatives, how) if alignments or form == "jsonl" else None
    prefixes = input_lines(prefix) if prefix else None
    translations = _translations(translator, file, how, prefixes, split)
    cut = write_translations(_shown(translations, file, output, num_lines), form, output, alignments, details)
    if cut:
        limit, what = translator.config.data.max_length, "with a sentence longer" if split else "longer"
        say(
            f"{counted(len(cut), 'line')} {what} than data.max_length = {limit} pieces of the model, "
            f"the first is line {cut[0]:,}: cut there, translated in parts and joined"
        )


def _num_lines(file: Path) -> int | None:
    """The number of lines of a plain file. Others cannot be read twice, or only slowly."""
    from heedful.data.compression import is_compressed
    from heedful.data.text_files import count_lines

    return count_lines(file) if file.is_file() and not is_compressed(file) else None


def _is_resumable(
    file: Path, output: Path | None, prefix: Path | None, alignments: Path | None, resume: bool, num_lines: int | None
) -> Path | None:
    """The output if it is to be written in parts: the file is long, or --resume was given."""
    from heedful.data.stdio import STDOUT, is_special
    from heedful.translate.resumable import PART_LINES

    is_able = file.is_file() and not (prefix or alignments or output in (None, STDOUT))
    if output is None or not is_able or is_special(output):
        if resume:
            raise click.UsageError("--resume takes a FILE and an output (-o FILE), and no --prefix and --alignments")
        return None
    return output if resume or (num_lines or 0) > PART_LINES else None


def _translate_in_parts(
    translator: Translator, work: BulkTranslation, file: Path, output: Path, resume: bool, num_lines: int | None
) -> None:
    from heedful.cli.progress import Pace
    from heedful.translate.resumable import ResumableTranslation

    pace = Pace(num_lines, "line")
    try:
        cut = ResumableTranslation(file, output, work, resume).run(
            translator, say=say, found=pace.skip, translated=pace.add
        )
    except KeyboardInterrupt:
        say(f"{output} is not written yet; the same command with --resume goes on")
        raise
    finally:
        pace.close()
    if cut:
        say(f"{counted(cut, 'line')} too long for the model: cut there, translated in parts and joined")


def _shown(
    translations: Iterator[Translation], file: Path, output: Path | None, num_lines: int | None
) -> Iterator[Translation]:
    """The same translations; progress is shown unless they go to the terminal themselves."""
    from heedful.cli.progress import Pace
    from heedful.data.stdio import STDIN

    if sys.stdout is not None and sys.stdout.isatty() and (output is None or file == STDIN):
        yield from translations
        return
    pace = Pace(num_lines, "line")
    try:
        for translation in translations:
            yield translation
            pace.add(1)
    finally:
        pace.close()


def note_unfinished(models: tuple[Path, ...]) -> None:
    """Say which of the models are of runs that have not ended."""
    from heedful.model.checkpoint import steps_so_far

    for model in models:
        if so_far := steps_so_far(model):
            say(f"{model} is not finished: step {so_far[0]:,} of {so_far[1]:,}")


def note_engine(translator: Translator) -> None:
    """Why the torch engine translates, where a faster one is here and cannot compute this model."""
    computing = translator.engine.computing(translator.options)
    if computing.reason:
        say(f"{computing.engine} translates: {computing.reason}")


def _check_text(file: Path, prefix: Path | None) -> None:
    """Refuse text that cannot be translated, before the model is loaded; stdin is checked as it is read."""
    from heedful.data.stdio import STDIN
    from heedful.data.text_files import read_lines, refuse_other_than_text, refuse_tsv
    from heedful.errors import DataError

    if file != STDIN and not os.path.exists(file) and len(str(file).split()) > 1:  # which may be too long for a name
        raise DataError(f'{file}: no such file; a sentence comes by stdin: echo "…" | heedful translate -m MODEL')
    for path in (path for path in (file, prefix) if path not in (None, STDIN)):
        refuse_tsv(path)
        refuse_other_than_text(path)
    if prefix is None or not (prefix.is_file() and file.is_file()):  # what can be read once is compared at its end
        return
    num_prefixes, num_lines = (sum(1 for _ in read_lines(path)) for path in (prefix, file))
    if num_prefixes != num_lines:
        raise DataError(
            f"--prefix {prefix} has {counted(num_prefixes, 'line')} but {file} has {num_lines:,}; give one for each, "
            f"an empty one where the translation may begin as it likes"
        )


def _refuse_to_overwrite(files: dict[str, Path | None]) -> None:
    """One file under two names: what is read would be replaced by what is written; and stdin is read once."""
    if files["FILE"] == files["--prefix"] == Path("-"):
        raise click.UsageError("FILE and --prefix are both stdin; name a file for one of them")
    if files["-o"] in (None, Path("-")) and files["--alignments"] == Path("-"):
        raise click.UsageError("translations and --alignments are both for stdout; name a file for one of them")
    named = {name: path for name, path in files.items() if path is not None and path != Path("-")}
    for (other, before), (name, path) in combinations(named.items(), 2):
        if name in ("-o", "--alignments") and _is_same(before, path):
            raise click.UsageError(f"{name} {path} is the file of {other}, and would replace it; name another one")


def _is_same(one: Path, other: Path) -> bool:
    """Some disks take large and small letters for the same. (A hard link is another file: it is replaced.)"""
    one, other = one.resolve(), other.resolve()
    is_alike = one.parent == other.parent and one.name.casefold() == other.name.casefold()
    return one == other or (is_alike and one.exists() and other.exists() and one.samefile(other))


def load_aligner(model: Path, device: str, *, is_needed: bool) -> Aligner | None:
    """Says which word comes from which; None, with a line that says why, for a model that cannot be aligned."""
    from heedful.errors import ConfigError
    from heedful.translate.alignment import Aligner

    try:
        return Aligner.load(model, device=device)
    except ConfigError as error:
        if is_needed:
            raise
        say(f"the records have no alignment: {error}")
        return None


def write_translations(
    translations: Iterator[Translation],
    form: str,
    output: Path | None,
    alignments: Path | None = None,
    details: Details | None = None,
) -> list[int]:
    """Write them as they come; returns the numbers of the lines that were cut, too long for the model."""
    from heedful.data.stdio import STDOUT, output_file
    from heedful.translate.output_form import formatted

    cut: list[int] = []
    with output_file(output) as out, output_file(alignments) if alignments else nullcontext() as links:
        for number, translation in enumerate(translations):
            out.writelines([f"{line}\n" for line in formatted(form, number, translation, details)])
            if output in (None, STDOUT):  # a reader may be waiting for this line
                out.flush()
            if links is not None and details is not None:
                links.write(f"{details.alignment(translation)}\n")
            if translation.is_cut:
                cut.append(number + 1)
    return cut


def _translations(
    translator: Translator, file: Path, how: SearchOptions, prefixes: Iterator[str] | None, split: bool
) -> Iterator[Translation]:
    """Translate what stdin has brought at once. Samples depend on a line's number, so they are one sequence."""
    from heedful.data.stdio import STDIN, bursts, input_lines

    if file != STDIN or prefixes is not None or how.sampling is not None:
        yield from translator.translate_lines(input_lines(file), options=how, prefixes=prefixes, split=split)
        return
    for burst in bursts(input_lines(file)):
        yield from translator.translate_lines(burst, options=how, split=split)
