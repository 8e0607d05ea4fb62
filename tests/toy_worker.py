"""A worker that writes lines in capitals, and does what some lines tell it: fail, hang, or end its process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from heedful.data.parts.folder import PartFolder, PartOutput, line_output
from heedful.data.parts.plan import PartsPlan, PartText, cut, write_plan
from heedful.data.parts.work import Opening

NUM_PARTS, PART_LINES = 40, 5


@dataclass
class ToyWorker:
    """It leaves in `log` how often it was opened, and how often each part was begun."""

    log: Path
    computed_by: str = "letters"

    def __post_init__(self) -> None:
        self.note("opened")

    def note(self, what: str) -> None:
        self.log.mkdir(exist_ok=True)
        with (self.log / what).open("a") as file:
            file.write("x")

    def has_happened(self, what: str) -> bool:
        """Whether it did so before; it has now."""
        before = (self.log / what).exists()
        self.note(what)
        return before

    def outputs(self, part: PartText) -> Iterator[PartOutput]:
        (lines,) = part.texts
        self.note(f"begun-{part.number}")
        for line in lines:
            self.obey(line)
            yield line_output([line.upper()])
        if "die at the end" in lines and not self.has_happened("died at the end"):
            self.die()

    def obey(self, line: str) -> None:
        if line == "poison" or (line == "die" and not self.has_happened("died")):
            self.die()
        if line == "fail":
            raise ValueError("this line\nis hopeless")
        if line == "hang":
            time.sleep(1000)
        if line == "slow":
            time.sleep(0.2)

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def times(log: Path, what: str) -> int:
    """How often it happened."""
    path = log / what
    return path.stat().st_size if path.exists() else 0


def opening(log: Path) -> Opening:
    """Opens a worker, in any process."""
    return partial(ToyWorker, log)


def toy_folder(root: Path, *, told: dict[int, str] | None = None, name: str = "text") -> PartFolder:
    """A plan for 40 parts of 5 lines, of which the middle line of some says what to do."""
    lines = [f"line {number}" for number in range(NUM_PARTS * PART_LINES)]
    for part, command in (told or {}).items():
        lines[part * PART_LINES + 2] = command
    (root.parent / name).write_text("".join(f"{line}\n" for line in lines))
    root.mkdir()
    inputs, parts = cut(root, [root.parent / name], PART_LINES, print)
    write_plan(root, PartsPlan({}, PART_LINES, tuple(inputs), tuple(parts)))
    return PartFolder.open(root)


def expected(folder: PartFolder) -> list[str]:
    """The text in capitals, part by part."""
    lines = Path(folder.plan.inputs[0].file.path).read_text().splitlines(keepends=True)
    return ["".join(lines[n : n + PART_LINES]).upper() for n in range(0, len(lines), PART_LINES)]


def found(folder: PartFolder, number: int) -> str:
    """What a finished part holds."""
    return folder.verified_output(number).read_text()
