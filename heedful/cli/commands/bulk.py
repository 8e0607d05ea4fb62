"""`heedful bulk`: work in parts, on many cores or machines, that goes on after anything that dies.

The work is translating; `run` and `status` also serve `heedful prepare`, whose work is encoding.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
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
from heedful.cli.commands.translate import load_aligner, note_engine, note_unfinished
from heedful.cli.messages import say
from heedful.errors import TrainingError, about, counted

if TYPE_CHECKING:
    from heedful.data.parts.encoding import PairEncoding
    from heedful.data.parts.folder import PartFolder
    from heedful.data.parts.plan import PartsPlan
    from heedful.data.parts.status import PartsStatus
    from heedful.data.parts.work import Opening
    from heedful.translate.bulk import BulkTranslation

PATIENCE_HELP = "End a worker that has had no line ready for this many seconds."
workers_option = click.option(
    "--workers", type=click.IntRange(1), help="Processes on this machine, or on the cluster (Ray)."
)
ray_option = click.option("--ray", "address", metavar="ADDRESS", help="HOST:PORT of a Ray cluster, or auto.")
out_argument = click.argument("out", type=FILE)


class ShareType(click.ParamType[tuple[int, int]]):
    """I/N: the parts I, I + N, I + 2 N and so on."""

    name = "I/N"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> tuple[int, int]:
        share, slash, shares = str(value).partition("/")
        if not (slash and share.isdecimal() and shares.isdecimal() and int(share) < int(shares)):
            self.fail(f"{value!r} is no share; the first of eight is 0/8, the last one 7/8", param, context)
        return int(share), int(shares)


def refused(option: str, instead: str) -> Callable[..., Any]:
    """An option of heedful translate that does not work on parts."""

    def refuse(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None:
            raise click.UsageError(f"{option} does not work in parts; {instead}")

    told = f"Refused: {instead}."
    return click.option(option, type=FILE, help=told, hidden=True, expose_value=False, callback=refuse)


@click.group(short_help="Translate in parts, on many cores or machines.")
def bulk() -> None:
    """Translate more text than one process can: plan, run (as often and on as many machines as you like), join."""


@bulk.command(short_help="Cut files into parts, and decide how they are translated.")
@click.argument("files", type=FILE, nargs=-1, required=True)
@options.model
@click.option("-o", "--output", "out", type=FILE, required=True, help="Folder for the plan and the parts.")
@click.option("--part-lines", type=click.IntRange(1), default=50_000, show_default=True, help="Lines of a part.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Of each worker on a CPU.")
@search_flags
@options.split
@alternatives_option
@options.engine
@options.precision
@options.device
@options.family
@refused("--prefix", "heedful translate takes it")
@refused("--alignments", "--format jsonl writes the alignment of each line")
def plan(
    files: tuple[Path, ...],
    models: tuple[Path, ...],
    out: Path,
    part_lines: int,
    threads: int,
    form: str | None,
    split: bool,
    alternatives: int,
    engine: str,
    precision: str,
    device: str,
    **search: Any,
) -> None:
    """Cut FILES into parts, and decide how they are translated.

    The plan is written once; the same command again changes nothing.
    """
    from heedful.data.parts.plan import describe, refuse_inputs
    from heedful.translate.bulk import lines_per_second, plan_translation, resolved, time_needed, use_threads
    from heedful.translate.translation import Translator

    form = output_form(form, search, alternatives)
    refuse_what_would_not_count(search)
    refuse_inputs(files)
    use_threads(threads)
    translator = Translator.load(*models, device=device, engine=engine, precision=precision)
    note_unfinished(models)
    note_engine(translator)
    if form == "jsonl":
        load_aligner(models[0], device, is_needed=False)
    how = search_options(translator.options, token_scores=form == "jsonl", **search)
    work = resolved(
        translator,
        models,
        how,
        precision=precision,
        threads=threads,
        form=form,
        split=split,
        alternatives=alternatives,
    )
    made = plan_translation(out, files, part_lines, work, say)
    say(f"{out}: {describe(made)}, by {work.computed_by}")
    say(time_needed(made.num_lines, lines_per_second(out, made, work, translator), threads))


@bulk.command(short_help="Translate the parts that are not finished.")
@out_argument
@workers_option
@ray_option
@click.option("--share", type=ShareType(), help="Only the parts I, I + N, …, in this process: for array jobs.")
@click.option("--part", type=click.IntRange(0), help="Only this part, in this process.")
@click.option("--retry", is_flag=True, help="Try parts again that were set aside.")
@click.option("--patience", type=click.FloatRange(1), default=3600, show_default=True, help=PATIENCE_HELP)
@options.families
def run(
    out: Path,
    workers: int | None,
    address: str | None,
    share: tuple[int, int] | None,
    part: int | None,
    retry: bool,
    patience: float,
    families: tuple[str, ...],
) -> None:
    """Translate the parts in OUT that are not finished."""
    from heedful.data.parts.folder import PartFolder

    _refuse_two_ways(workers or address, share, part)
    folder = PartFolder.open(out)
    numbers = _numbers(folder, share, part)
    _end_cleanly_on_sigterm()
    with folder.held(shared=share is not None or part is not None):
        if retry:
            for number in folder.set_aside().keys() & set(numbers):
                folder.forget_trouble(number)
        work_on(folder, numbers, workers, address, patience, families)
    report(folder, numbers)


@bulk.command(short_help="Show how far the work is.")
@out_argument
def status(out: Path) -> None:
    """Show what is finished, what has failed, and how long the rest takes."""
    from heedful.data.parts.folder import PartFolder
    from heedful.data.parts.status import status_of

    folder = PartFolder.open(out)
    for line in _status_lines(folder, status_of(folder)):
        click.echo(line)


@bulk.command(short_help="Put the parts together.")
@out_argument
@click.option("-o", "--output", type=click.Path(), required=True, help="File (.gz, .xz, .zst too), - or folder.")
def join(out: Path, output: str) -> None:
    """Write one file; or, if OUTPUT is a folder or ends with /, one file for each input."""
    from heedful.data.parts.folder import PartFolder
    from heedful.data.parts.join import join_into_file, join_into_folder, refuse_unfinished

    folder = PartFolder.open(out)
    if folder.plan.kind == "encode":
        raise click.UsageError(f"{out} is encoded text; heedful prepare joins it")
    refuse_unfinished(folder)
    write = join_into_folder if output.endswith("/") or Path(output).is_dir() else join_into_file
    say(f"{output}: {counted(write(folder, Path(output)), 'line')}")


# ------------------------------------------------------------------------------------------------------------ running


def _refuse_two_ways(pool: object, share: object, part: object) -> None:
    if sum(way is not None for way in (pool, share, part)) > 1:
        raise click.UsageError("--workers and --ray, --share, and --part are three ways to run; choose one")


def _numbers(folder: PartFolder, share: tuple[int, int] | None, part: int | None) -> Sequence[int]:
    from heedful.data.parts.work import share_of

    num_parts = len(folder.plan.parts)
    if part is not None:
        if part >= num_parts:
            raise click.UsageError(f"--part {part}: there are {counted(num_parts, 'part')}, numbered from 0")
        return [part]
    return share_of(num_parts, *share) if share else range(num_parts)


def work_on(
    folder: PartFolder,
    among: Sequence[int],
    workers: int | None,
    address: str | None,
    patience: float,
    families: tuple[str, ...] = (),
) -> None:
    """Do those of these parts that are unfinished, here or by Ray; we hold the folder."""
    from heedful.data.parts.plan import refuse_changed_inputs
    from heedful.data.parts.ray_pool import Pool, work_on_ray
    from heedful.data.parts.work import work_through

    work = _work_of(folder.plan)
    refuse_changed_inputs(folder.root, folder.plan)
    work.refuse_changes()
    numbers = folder.unfinished(among)
    done = _teller(folder, numbers)
    if not numbers:
        return
    if workers or address:
        pool = Pool(workers or 0, address, work.threads, work.device == "cuda", patience)
        work_on_ray(folder, numbers, _with_families(work.opening, families), pool, done)
    else:
        if (cores := os.cpu_count() or 1) > work.threads and len(numbers) > 1 and work.device == "cpu":
            say(f"one process takes {work.threads} of {cores} cores; --workers {cores // work.threads} takes all")
        work_through(folder, numbers, work.opening, patience=patience, done=done)


def _with_families(open_worker: Opening, families: tuple[str, ...]) -> Opening:
    """The same in another process, which knows no models but ours."""
    if not families:
        return open_worker
    from heedful.translate.bulk import open_with_families

    return partial(open_with_families, open_worker, families, str(Path.cwd()))


def _work_of(plan: PartsPlan) -> BulkTranslation | PairEncoding:
    """What a plan is for."""
    if plan.kind == "encode":
        from heedful.data.parts.encoding import PairEncoding

        return PairEncoding.of(plan)
    from heedful.translate.bulk import BulkTranslation

    return BulkTranslation.of(plan)


def _teller(folder: PartFolder, numbers: Sequence[int]) -> Callable[[int], None]:
    """Report progress, a line a minute."""
    from heedful.cli.progress import Pace

    pace = Pace(sum(folder.plan.parts[number].lines for number in numbers), folder.plan.thing)

    def done(number: int) -> None:
        pace.add(folder.plan.parts[number].lines)

    return done


def report(folder: PartFolder, numbers: Sequence[int]) -> None:
    """Say how many parts are finished; raise if any was set aside."""
    failed = {number: trouble for number, trouble in folder.set_aside().items() if number in numbers}
    finished = len(folder.finished() & set(numbers))
    say(f"{folder.root}: {counted(finished, 'part')} of {len(numbers):,} finished")
    if failed:
        number, trouble = next(iter(failed.items()))
        raise TrainingError(
            f"{counted(len(failed), 'part')} set aside after {counted(trouble.strikes, 'failure')}; part {number}: "
            f"{trouble.errors[-1]}; heedful bulk run {folder.root} --retry tries again"
        )


def _end_cleanly_on_sigterm() -> None:
    """Leave on SIGTERM without a strike: an array job that is preempted has not failed."""

    def leave(signum: int, frame: object) -> None:
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, leave)


def _status_lines(folder: PartFolder, found: PartsStatus) -> list[str]:
    thing = folder.plan.thing
    done = f"{counted(len(found.finished), 'part')} of {found.num_parts:,}, {counted(found.finished_lines, thing)}"
    lines = [f"finished   {done}"]
    lines.append(f"failed     {counted(len(found.set_aside), 'part')}")
    lines += [f"           part {number}: {each.errors[-1]}" for number, each in found.set_aside.items()]
    lines.append(f"missing    {counted(found.missing, 'part')}, {counted(found.missing_lines, thing)}")
    if found.lines_per_second:
        lines.append(f"speed      {found.lines_per_second:,.1f} {thing}s/s by all workers together")
    if found.missing and found.seconds_left is not None:
        lines.append(f"time left  {about(found.seconds_left)}")
    if found.cut_lines:
        lines.append(f"too long   {counted(found.cut_lines, 'line')}: cut, translated in pieces and joined")
    if len(found.cpus) > 1 and folder.plan.kind == "translate":
        lines.append(
            f"warning    computed on {len(found.cpus)} kinds of CPU, whose bytes may differ: {'; '.join(found.cpus)}"
        )
    return lines
