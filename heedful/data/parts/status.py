"""How far the work in a folder is."""

from __future__ import annotations

from dataclasses import dataclass

from heedful.data.parts.folder import PartFolder, PartRecord, PartTrouble

RECENT_SECONDS = 1800.0  # the speed is that of the parts that were finished so long before the last one


@dataclass(frozen=True, slots=True)
class PartsStatus:
    """How many parts and lines are done, and how fast."""

    num_parts: int
    finished: dict[int, PartRecord]
    set_aside: dict[int, PartTrouble]
    finished_lines: int
    missing_lines: int  # of parts that are not set aside
    lines_per_second: float  # of all workers together; 0 if no part is finished

    @property
    def missing(self) -> int:
        """How many parts are still to be done."""
        return self.num_parts - len(self.finished) - len(self.set_aside)

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this speed; None if no part is finished."""
        return self.missing_lines / self.lines_per_second if self.lines_per_second else None

    @property
    def cut_lines(self) -> int:
        """How many lines of the finished parts were too long, and done in pieces."""
        return sum(record.cut_lines for record in self.finished.values())

    @property
    def cpus(self) -> list[str]:
        """The kinds of CPU that finished parts were computed on."""
        return sorted({record.cpu for record in self.finished.values()})


def status_of(folder: PartFolder) -> PartsStatus:
    """The status that the folder's files show."""
    finished, parts = folder.records(), folder.plan.parts
    set_aside = {number: each for number, each in folder.set_aside().items() if number not in finished}
    done = sum(parts[number].lines for number in finished)
    failed = sum(parts[number].lines for number in set_aside)
    missing = folder.plan.num_lines - done - failed
    return PartsStatus(len(parts), finished, set_aside, done, missing, _speed(list(finished.values())))


def _speed(records: list[PartRecord]) -> float:
    if not records:
        return 0.0
    end = max(record.finished for record in records)
    recent = [record for record in records if end - record.finished < RECENT_SECONDS]
    begin = min(record.finished - record.seconds for record in recent)
    return sum(record.source_lines for record in recent) / max(end - begin, 1e-3)
