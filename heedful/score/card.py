"""The reproduction card of a model: what it was made from, by which code, on which machine, and how good it is.

`card.json` and `card.md` lie in the model folder. `heedful train` writes them, `heedful evaluate` adds the scores of a
test set; the translations lie beside them in `evaluations/`. The card holds no text of any corpus: of a file it has
the name (without its folder), counts and a digest, of a sentence what BLEU and chrF count in it. This module knows
files and figures; no model, no torch.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from heedful.config.settings import DEFAULT_FAMILY
from heedful.data.atomic import explained, write_file, write_files
from heedful.data.run_folder import CONFIG, MODEL
from heedful.data.text_files import text_digest, uncompressed
from heedful.errors import CheckpointError, DataError
from heedful.score.provenance import Machine
from heedful.score.report import Report
from heedful.score.run_history import STARTS, Base, Circumstances, TrainingPart

CARD, MARKDOWN, EVALUATIONS = "card.json", "card.md", "evaluations"
FORMAT = 1


class TextFile(Struct, frozen=True):
    """A text file: its name, and the number of lines and SHA-256 of its uncompressed text (None: the file was gone)."""

    name: str
    lines: int | None = None
    sha256: str | None = None


class Corpus(Struct, frozen=True):
    """Aligned files, and how many of their pairs were kept or left out."""

    source: tuple[TextFile, ...]
    target: tuple[TextFile, ...]
    counts: dict[str, int]


class Training(Circumstances, frozen=True, kw_only=True):
    """How the weights were trained. Code, machine and precision are the last start's; `shares` has all starts."""

    shares: tuple[TrainingPart, ...] = ()
    base: Base | None = None  # the model that it was fine-tuned from; its own training is not counted here
    seed: int
    steps: int
    target_tokens: int
    seconds: float  # validation included, interruptions not
    tokens_per_second: float  # target tokens / seconds
    gpu_hours: float | None  # None: no GPU, or not known
    averaged_steps: tuple[int, ...]
    training: Corpus
    validation: Corpus | None


class Evaluation(Struct, frozen=True, kw_only=True):
    """The scores on one test set. `sha256` is a digest of the digests of source and references."""

    name: str
    sha256: str
    source: TextFile
    references: tuple[TextFile, ...]
    contrast: TextFile | None = None
    date: str
    version: str
    commit: str
    machine: Machine
    engine: str
    beam_size: int
    alpha: float
    seconds: float  # translating alone
    report: Report
    sentence_counts: dict[str, str] = {}

    @property
    def key(self) -> tuple[str, str, int, float, str, str]:
        """What identifies a score: the test set by name and content, the search, and the language."""
        return self.name, self.sha256, self.beam_size, self.alpha, self.engine, self.report.language

    @property
    def search(self) -> str:
        """How it was translated."""
        return f"beam {self.beam_size}, α {self.alpha}, {self.engine}"

    @property
    def conditions(self) -> tuple[str, str, str]:
        """What must be equal to compare scores or average them over seeds: test set, kind of BLEU and search."""
        return self.sha256, self.report.bleu.signature, self.search

    @property
    def file_name(self) -> str:
        """The name of the translations' file in `evaluations/`."""
        search = f"beam{self.beam_size}-alpha{self.alpha}-{self.engine.replace(' ', '-')}"
        return f"{self.name}.{self.sha256[:8]}.{search}.txt"


class Card(Struct, frozen=True, kw_only=True):
    """The whole card. `config` is the resolved configuration; of a setting that is a file it has only the name."""

    format: int = FORMAT
    name: str
    source_language: str
    target_language: str
    weights_sha256: str
    parameters: int
    vocab_size: int
    config: dict[str, dict[str, Any]]
    training: Training | None = None  # None: not known, as for an average that was made by hand
    evaluations: tuple[Evaluation, ...] = ()

    @property
    def family(self) -> str:
        """The family of the model."""
        return str(self.config.get("model", {}).get("family", DEFAULT_FAMILY))

    def to_json(self) -> str:
        """JSON, which `load_card` reads back. Fields newer than the format are omitted at their default."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"

    def with_evaluation(self, evaluation: Evaluation) -> Card:
        """The card with these scores, which replace older ones with the same key.

        A contrastive accuracy that is not measured again is kept, as the weights are the same.
        """
        others = [each for each in self.evaluations if each.key != evaluation.key]
        older = next((each for each in self.evaluations if each.key == evaluation.key), None)
        if older and evaluation.contrast is None:
            accuracy = older.report.contrastive_accuracy
            report = msgspec.structs.replace(evaluation.report, contrastive_accuracy=accuracy)
            evaluation = msgspec.structs.replace(evaluation, contrast=older.contrast, report=report)
        return msgspec.structs.replace(self, evaluations=tuple(sorted([*others, evaluation], key=lambda e: e.key)))


def load_card(path: str | Path) -> Card:
    """Read the card of a run folder or a model folder, or a card's file."""
    file = _card_file(Path(path))
    try:
        card = msgspec.json.decode(file.read_bytes(), type=Card)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"{file}: cannot be read as a card ({getattr(error, 'strerror', None) or error})"
        ) from None
    if card.format != FORMAT:
        raise CheckpointError(f"{file}: a card of format {card.format}, and this version reads {FORMAT}")
    return card


def _card_file(path: Path) -> Path:
    if not path.exists():
        raise CheckpointError(f"{path}: no such file or folder; a card is a file, or lies in a run or model folder")
    if path.is_file():
        return path
    places = [path / CARD, path / MODEL / CARD]
    found = next((place for place in places if place.is_file()), None)
    if found is None and not any((place.parent / CONFIG).is_file() for place in places):
        raise CheckpointError(f"{path}: holds no {CARD}, and is no run or model folder")
    if found is None and (path / STARTS).is_file() and not (path / MODEL).exists():
        raise CheckpointError(f"{path} is not finished, and its card is written with its model, at the end")
    if found is None:
        raise CheckpointError(f"{path}: holds no {CARD}; heedful evaluate -m {path} … writes one")
    return found


def text_file(path: Path) -> TextFile:
    """What the card says of a file."""
    lines, digest = text_digest(path)
    return TextFile(path.name, lines, digest)


def identify(source: TextFile, references: Sequence[TextFile]) -> tuple[str, str]:
    """The name and digest of a test set."""
    digests = " ".join(str(file.sha256) for file in (source, *references))
    return uncompressed(Path(references[0].name)).name, hashlib.sha256(digests.encode()).hexdigest()


# ------------------------------------------------------------------------------------------------------ in the folder


def write_card(folder: Path, card: Card, markdown: str) -> None:
    """Write card.json and card.md, both or neither: they say the same."""
    with explained(folder / CARD, DataError):
        write_files({folder / CARD: card.to_json().encode(), folder / MARKDOWN: markdown.encode()})


def write_translations(folder: Path, evaluation: Evaluation, lines: Sequence[str]) -> None:
    """Write the translations that were scored, one a line."""
    path = folder / EVALUATIONS / evaluation.file_name
    with explained(path.parent, DataError):
        path.parent.mkdir(exist_ok=True)
    with explained(path, DataError):
        write_file(path, "".join(f"{line}\n" for line in lines).encode())


def copy_translations(folder: Path, to: Path) -> None:
    """Copy all translations that lie beside a card to the folder that will replace this one."""
    if (folder / EVALUATIONS).is_dir():
        with explained(to / EVALUATIONS, DataError):
            shutil.copytree(folder / EVALUATIONS, to / EVALUATIONS)
