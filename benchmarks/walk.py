"""The files that a sentence passes: `make walk`, or `python -m benchmarks.walk`.

Two walks on the CPU, with a tiny model, one process and the torch engine: `heedful train` from its text files to the
end of the first backward pass, without validation; and `heedful translate` from stdin to stdout. A file counts if one
of its functions is called on the way.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from benchmarks.command import run
from heedful import PACKAGE
from heedful.cli.main import commands
from heedful.data.grammar.corpus_files import write_corpus

LINE = "The cat sat on the mat."
SETTINGS = ("train.steps=1", "train.batch_tokens=512", "train.average_last=1", "data.max_length=64")


class Arrived(BaseException):
    """The walk is over; nothing on the way may take this for an error of its own."""


@contextmanager
def files_called() -> Iterator[dict[str, None]]:
    """The files of heedful with a function that is called in this context, in the order of their first calls."""
    found: dict[str, None] = {}
    folder = f"{PACKAGE}{os.sep}"

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(folder) and code.co_name != "<module>":
            found.setdefault(Path(code.co_filename).relative_to(PACKAGE.parent).as_posix())

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


def call(*arguments: object) -> None:
    """A command, in this process."""
    with suppress(SystemExit):
        commands.main(list(map(str, arguments)), standalone_mode=False)


def training_walk(folder: Path) -> list[str]:
    """Text files → gradient."""
    files = ("-s", folder / "train.en", "-t", folder / "train.de", "-o", folder / "walked", "--device", "cpu")
    sets = [word for setting in SETTINGS for word in ("--set", setting)]
    plain_backward = torch.Tensor.backward

    def backward(*arguments: Any, **options: Any) -> None:
        plain_backward(*arguments, **options)  # type: ignore[no-untyped-call]
        raise Arrived

    torch.Tensor.backward = backward  # type: ignore[method-assign]
    try:
        with files_called() as found:
            call("train", *files, "--preset", "tiny", *sets)
    except Arrived:
        pass
    finally:
        torch.Tensor.backward = plain_backward  # type: ignore[method-assign]
    return list(found)


def translating_walk(folder: Path) -> list[str]:
    """stdin → stdout."""
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(f"{LINE}\n".encode()))
    try:
        with files_called() as found:
            call("translate", "-m", folder / "run", "--engine", "torch", "--device", "cpu")
    finally:
        sys.stdin = before
    return list(found)


def train_a_model(folder: Path) -> None:
    """One that may say anything."""
    write_corpus(folder, "en", "de", train_pairs=2000)
    files = ("-s", folder / "train.en", "-t", folder / "train.de", "-o", folder / "run", "--device", "cpu")
    call("train", *files, "--preset", "tiny", *(word for setting in SETTINGS for word in ("--set", setting)))


def quietly(walk: Callable[[Path], Any], folder: Path) -> Any:
    """Without what the commands say."""
    with redirect_stderr(io.StringIO()), redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        return walk(folder)


def main() -> None:
    """Walk, print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        quietly(train_a_model, folder)
        walks = {
            "text file → gradient": quietly(training_walk, folder),
            "stdin → stdout": quietly(translating_walk, folder),
        }
    for title, files in walks.items():
        print(f"{title}: {len(files)} files")
        print("".join(f"  {file}\n" for file in files))
    print(f"together: {len(set().union(*walks.values()))} files")


if __name__ == "__main__":
    run(main)
