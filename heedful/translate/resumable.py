"""Translating a long file so that a killed run can go on: in parts beside the output, which are joined at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from heedful.data.atomic import explained, held, remove
from heedful.data.parts.folder import LOCK, PartFolder, PartOutput
from heedful.data.parts.join import join_into_file
from heedful.data.parts.plan import PLAN, PartText, read_plan
from heedful.data.parts.status import status_of
from heedful.data.parts.work import PATIENCE, work_through
from heedful.errors import CheckpointError, TrainingError
from heedful.translate.bulk import BulkTranslation, BulkTranslator, plan_translation
from heedful.translate.translation import Translator

PART_LINES = 10_000


@dataclass(frozen=True, slots=True)
class ResumableTranslation:
    """A file, its output, and whether to go on with what a killed run has left."""

    file: Path
    output: Path
    work: BulkTranslation
    resume: bool

    @property
    def root(self) -> Path:
        """The folder of the parts, until the output is written."""
        output = self.output.resolve()
        return output.with_name(f".{output.name}.parts")

    def run(
        self,
        translator: Translator,
        *,
        say: Callable[[str], None],
        found: Callable[[int], None],
        translated: Callable[[int], None],
    ) -> int:
        """Translate. `found` is called with the number of lines that were done before, `translated` for each new one.

        Returns how many lines were too long for the model and were cut.
        """
        folder = self._folder(say)
        with folder.held():
            self._translate(folder, translator, found, translated)
            for number, trouble in folder.set_aside().items():
                raise TrainingError(f"{self.file}: part {number} failed: {trouble.errors[-1]}")
            join_into_file(folder, self.output)
            cut_lines = status_of(folder).cut_lines
            remove(self.root)
        return cut_lines

    def _folder(self, say: Callable[[str], None]) -> PartFolder:
        if self.resume:
            self._refuse_another()
        else:
            self._remove_older()
        return PartFolder(self.root, plan_translation(self.root, [self.file], PART_LINES, self.work, say))

    def _refuse_another(self) -> None:
        is_there = (self.root / PLAN).exists()
        if is_there and not read_plan(self.root).is_of([self.file], PART_LINES, self.work.as_json()):
            raise CheckpointError(
                f"{self.output}: what is half written comes from another text, model or search; "
                f"leave --resume out to begin anew"
            )

    def _remove_older(self) -> None:
        """Remove what another run has left, unless that run is still at work."""
        in_use = CheckpointError(f"{self.output}: another process is writing it; wait for it, or name another file")
        with suppress(FileNotFoundError), explained(self.root, CheckpointError):
            if self.root.exists():
                with held(self.root / LOCK, in_use):
                    remove(self.root)

    def _translate(
        self,
        folder: PartFolder,
        translator: Translator,
        found: Callable[[int], None],
        translated: Callable[[int], None],
    ) -> None:
        for number in folder.set_aside():
            folder.forget_trouble(number)  # starting again is a retry
        found(sum(folder.plan.parts[number].lines for number in folder.finished()))
        opening = TellingTranslator(self.work, translator)
        opening.translated = translated
        work_through(folder, folder.unfinished(), lambda: opening, patience=PATIENCE, done=lambda number: None)


class TellingTranslator(BulkTranslator):
    """A worker that reports each line."""

    translated: Callable[[int], None]

    def outputs(self, part: PartText) -> Iterator[PartOutput]:
        """The output of each line."""
        for output in super().outputs(part):
            self.translated(1)
            yield output
