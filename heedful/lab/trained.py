"""A row that has been trained, as what is measured of it sees it: the run with its model, and its text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from heedful.data.run_folder import MODEL
from heedful.errors import CheckpointError
from heedful.lab.text import PreparedText
from heedful.translate.translation import Translator


@dataclass(frozen=True, slots=True)
class Trained:
    """The run of a row, its text, its seed, and the device to measure on."""

    run: Path
    text: PreparedText
    seed: int
    device: str

    def translator(self) -> Translator:
        """Its model with its vocabulary."""
        if not (self.run / MODEL).is_dir():
            raise CheckpointError(
                f"{self.run / MODEL}: is missing, but a measurement needs this model; --redo trains it again"
            )
        return Translator.load(self.run, device=self.device, engine="torch")
