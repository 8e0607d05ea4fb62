"""Translating in parts: what the plan records of model and search, and the worker that translates a part.

Engine, precision and number of threads are decided when the plan is made, so that all workers compute alike. On the
same kind of CPU the bytes are then those of `heedful translate`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec
import torch

from heedful.data.parts.folder import PartOutput, line_output, new_plan
from heedful.data.parts.plan import PartsPlan, PartText, Stamp, cut, raw_text, refuse_changes, stamp
from heedful.data.parts.work import Opening, PartWorker
from heedful.data.text_files import fingerprint
from heedful.errors import CheckpointError, ConfigError, about
from heedful.model.checkpoint import find_model
from heedful.model.registry import load_family
from heedful.translate.alignment import Aligner
from heedful.translate.engine import SearchOptions
from heedful.translate.json_records import Details
from heedful.translate.output_form import formatted
from heedful.translate.translation import Translator

WINDOW = 512  # the first window of a part has this many lines: enough for full batches
TIMED_LINES, WARM_LINES = 200, 20
CACHED_PRIMITIVES = "128"  # oneDNN caches one for each shape of a matrix product, and its default is 1,024


class BulkTranslation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="translate"):
    """How all parts are translated."""

    models: tuple[str, ...]
    model_files: tuple[Stamp, ...]
    engine: str
    device: str
    precision: str
    computed_by: str
    threads: int
    form: str
    split: bool
    options: SearchOptions
    alternatives: int = 0

    @classmethod
    def of(cls, plan: PartsPlan) -> Self:
        """The work that a plan records."""
        try:
            return msgspec.convert(plan.work, cls)
        except msgspec.ValidationError as error:
            raise CheckpointError(f"the plan is for other work than translating, or damaged ({error})") from None

    def as_json(self) -> dict[str, Any]:
        """As plan.json holds it."""
        work: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return work

    @property
    def opening(self) -> Callable[[], BulkTranslator]:
        """Opens a worker, in any process."""
        return partial(BulkTranslator, self)

    def refuse_changes(self) -> None:
        """Refuse a model that has changed since the plan was made, and a run that has a newer one."""
        planned = [Path(each.path) for each in self.model_files]
        if planned != [file.absolute() for model in self.models for file in _files(Path(model))]:
            raise CheckpointError(
                f"{self.models[0]}: translated with {planned[0]} when the plan was made, and has another model now; "
                f"plan in a new folder, best with a model folder, which stays as it is"
            )
        refuse_changes(self.model_files, _sha256, CheckpointError)


class BulkTranslator:
    """A worker with the model, which it loads once."""

    def __init__(self, work: BulkTranslation, translator: Translator | None = None) -> None:
        self.work = work
        self.translator = translator or self._loaded(work)
        self.computed_by = work.computed_by
        self.details = self._details(Path(work.models[0])) if work.form == "jsonl" else None

    def _loaded(self, work: BulkTranslation) -> Translator:
        work.refuse_changes()
        use_threads(work.threads)
        models = [Path(model) for model in work.models]
        translator = Translator.load(*models, device=work.device, engine=work.engine, precision=work.precision)
        here = computed_by(translator, work.options)
        if here != work.computed_by:
            raise ConfigError(
                f"the plan is for {work.computed_by}, and this machine would compute with {here}; "
                f"leave it out, or plan in a new folder with --engine, --device and --precision that all machines have"
            )
        return translator

    def _details(self, model: Path) -> Details:
        aligner = None
        with suppress(ConfigError):  # a model that cannot be aligned; the plan said so
            aligner = Aligner.load(model, device=self.work.device)
        return Details(self.translator, aligner, self.work.alternatives, self.work.options)

    def outputs(self, part: PartText) -> Iterator[PartOutput]:
        """The output of each line."""
        (lines,) = part.texts
        found = self.translator.translate_lines(
            lines, options=self.work.options, split=self.work.split, first_line=part.first_line, first_window=WINDOW
        )
        for number, translation in enumerate(found, part.first_line):
            output = formatted(self.work.form, number, translation, self.details)
            yield line_output(output, is_cut=translation.is_cut)


def open_with_families(open_worker: Opening, families: Sequence[str], folder: str) -> PartWorker:
    """Open a worker for models that are not ours, whose modules may lie in this folder."""
    sys.path.insert(0, folder)
    for name in families:
        load_family(name)
    return open_worker()


def use_threads(threads: int) -> None:
    """Set the number of threads, and limit oneDNN's cache, before a model is loaded."""
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, CACHED_PRIMITIVES)
    torch.set_num_threads(threads)


def computed_by(translator: Translator, options: SearchOptions) -> str:
    """The engine, its precision and its device, in words."""
    computing = translator.engine.computing(options)
    return f"{computing.engine} on {computing.device}"


def resolved(
    translator: Translator,
    models: Sequence[Path],
    options: SearchOptions,
    *,
    precision: str,
    threads: int,
    form: str,
    split: bool,
    alternatives: int,
) -> BulkTranslation:
    """The work, with engine and device as this machine has resolved them."""
    computing = translator.engine.computing(options)
    return BulkTranslation(
        models=tuple(str(model.absolute()) for model in models),
        model_files=tuple(stamp(file, _sha256(file)) for model in models for file in _files(model)),
        engine="ctranslate2" if computing.engine.startswith("ctranslate2") else "torch",
        device=computing.device,
        precision=precision,
        computed_by=computed_by(translator, options),
        threads=threads,
        form=form,
        split=split,
        options=options,
        alternatives=alternatives,
    )


def plan_translation(
    root: Path, files: Sequence[Path], part_lines: int, work: BulkTranslation, say: Callable[[str], None]
) -> PartsPlan:
    """Write the folder's plan. A plan of the same command stays as it is; another one is refused."""

    def make() -> PartsPlan:
        inputs, parts = cut(root, files, part_lines, say)
        return PartsPlan(work.as_json(), part_lines, tuple(inputs), tuple(parts))

    return new_plan(root, files, part_lines, work.as_json(), make)


def _files(model: Path) -> tuple[Path, ...]:
    files = find_model(model)
    return files.weights, files.config, files.tokenizer


def _sha256(file: Path) -> str:
    return fingerprint([file])


def lines_per_second(folder: Path, plan: PartsPlan, work: BulkTranslation, translator: Translator) -> float:
    """The speed of one worker, timed on the first lines of up to ten parts across the text."""
    some = range(0, len(plan.parts), max(1, len(plan.parts) // 10))[:10]
    each = -(-TIMED_LINES // len(some))
    texts = [raw_text(folder, plan, plan.parts[number].ranges[0]).decode() for number in some]
    lines = [line for text in texts for line in text.split("\n")[:each]]
    for warm in (lines[:WARM_LINES], lines):
        begin = time.perf_counter()
        for _ in translator.translate_lines(warm, options=work.options, split=work.split, first_window=WINDOW):
            pass
    return len(lines) / (time.perf_counter() - begin)


def time_needed(num_lines: int, rate: float, threads: int) -> str:
    """The speed and the time that one worker needs, in words."""
    return f"{rate:,.1f} lines/s with {threads} thread{'s' * (threads != 1)}: {about(num_lines / rate)} × workers"
