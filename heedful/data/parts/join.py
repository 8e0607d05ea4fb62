"""The outputs of all parts as one file, or as one file for each input."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from heedful.data.parts.folder import PartFolder
from heedful.data.stdio import STDOUT, output_file
from heedful.errors import CheckpointError, DataError, counted


def refuse_unfinished(folder: PartFolder) -> None:
    """Refuse to join before all parts are there."""
    missing = len(folder.plan.parts) - len(folder.finished())
    if missing:
        raise CheckpointError(
            f"{folder.root}: {counted(missing, 'part')} of {len(folder.plan.parts):,} not finished; "
            f"heedful bulk run {folder.root} goes on, heedful bulk status {folder.root} says what failed"
        )


def join_into_file(folder: PartFolder, output: Path) -> int:
    """Write all outputs into one file, in order; returns its number of lines."""
    _refuse_to_replace_inputs(folder, [output])
    return _write(folder, range(len(folder.plan.parts)), output)


def join_into_folder(folder: PartFolder, output: Path) -> int:
    """Write one output for each input, with the input's path relative to the folder that all inputs share."""
    paths = [Path(each.file.path) for each in folder.plan.inputs]
    shared = os.path.commonpath([path.parent for path in paths])
    outputs = [output / path.relative_to(shared) for path in paths]
    _refuse_to_replace_inputs(folder, outputs)
    parts = {number: list(some) for number, some in _by_input(folder)}
    for place in outputs:
        place.parent.mkdir(parents=True, exist_ok=True)
    return sum(_write(folder, parts.get(number, []), place) for number, place in enumerate(outputs))


def _by_input(folder: PartFolder) -> Iterator[tuple[int, Iterable[int]]]:
    return groupby(range(len(folder.plan.parts)), key=lambda number: folder.plan.parts[number].ranges[0].input)


def _write(folder: PartFolder, numbers: Iterable[int], output: Path) -> int:
    lines = 0
    with output_file(output) as file:
        for number in numbers:
            with folder.verified_output(number).open("rb") as part:
                shutil.copyfileobj(part, file.buffer)
            lines += folder.record(number).lines
    return lines


def _refuse_to_replace_inputs(folder: PartFolder, outputs: Iterable[Path]) -> None:
    inputs = {Path(each.file.path).resolve() for each in folder.plan.inputs}
    for output in outputs:
        if output != STDOUT and output.resolve() in inputs:
            raise DataError(f"{output} is an input, and would be replaced; name another place with -o")
