"""The error tree: what a user can cause, and can mend.

HeedfulError
├── ConfigError       a setting that is unknown, of the wrong kind, or that contradicts another
├── DataError         a text file that is missing, misaligned, not UTF-8, empty or too small
├── CheckpointError   a model or run folder that is missing, incomplete, foreign or in use
│   └── DivergedError a model that computes NaN
├── DeviceError       a device or a library that was asked for and is not there, or too little memory
└── TrainingError     a run that cannot go on: the loss is no number and stays so

A message is one line that names the field or the file:line, the value, and the remedy. The command line prints it and
leaves with exit code 2 (1 for a TrainingError: the command was right, the run failed). An `assert` anywhere in this
package is about our own mistakes, never about the user's.
"""

from __future__ import annotations


class HeedfulError(Exception):
    """Something that the user can mend; its text is one line."""


class ConfigError(HeedfulError):
    """A setting is unknown, of the wrong kind, or contradicts another."""


class DataError(HeedfulError):
    """A text file is missing, misaligned, not UTF-8, empty or too small."""


class CheckpointError(HeedfulError):
    """A model or run folder is missing, incomplete, foreign or in use."""


class DivergedError(CheckpointError):
    """A model computes NaN."""

    def __init__(self) -> None:
        super().__init__("the model computes no numbers (NaN): its training diverged, or it is damaged")

    def __reduce__(self) -> tuple[type[DivergedError], tuple[()]]:
        """From another process it comes pickled: made anew, without its text."""
        return type(self), ()


class DeviceError(HeedfulError):
    """A device or library that was asked for is not there, or has too little memory."""


class TrainingError(HeedfulError):
    """A run cannot go on."""


def counted(number: int, thing: str) -> str:
    """1 step, 2,000 steps."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def about(seconds: float) -> str:
    """A time in the largest unit of which there are two: 45 seconds, 12 minutes, 31 hours, 104 days."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return counted(round(seconds / length), unit)
    return counted(round(seconds), "second")
