"""`heedful.train` and `heedful.evaluate_saved`: the commands `heedful train` and `heedful evaluate -m` as functions."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from heedful.config.setting_layers import Layer
from heedful.errors import ConfigError
from heedful.model.interface import TranslationModel
from heedful.model.registry import register
from heedful.score.model_evaluation import card_place, evaluate_models, keep_on_card
from heedful.score.report import Report
from heedful.train.loop import Record
from heedful.train.run.interruption import Interrupted, Interruption
from heedful.train.run.plan import TrainingRequest, decide
from heedful.train.run.start import Outcome, carry_out

Paths: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]


def train(
    source: Paths | None,
    target: Paths | None,
    output: str | PathLike[str],
    *,
    valid_source: Paths | None = None,
    valid_target: Paths | None = None,
    preset: str | None = None,
    recipe: str | PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    from_model: str | PathLike[str] | None = None,
    family: type[TranslationModel] | None = None,
    on_record: Callable[[Record], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> Outcome:
    """Train a translator from aligned text files into the run folder `output`, or go on with that run.

    A TSV has no target file, and a run that goes on knows its text: None. `settings` are named as in a recipe:
    `{"train.steps": 500, "model.dropout": 0.3}`. `on_record` is called with what happens, each time a `StepRecord`,
    `ValidationRecord`, `CheckpointRecord`, `PaceRecord` or `EndRecord`; `say` with what the command would tell its
    user, warnings among it. Nothing is printed.

    `family` is the class of a model that is not ours, which `model.family` names.

    Ctrl-C, or a notebook's ■, ends the run after its next step, with a checkpoint, as a KeyboardInterrupt (before the
    first step at once); the same call goes on from there. (In another thread than the main one, or where SIGINT has a
    handler, it does what it does there.) Torch's flags and the CPU's random numbers are then as they were, a GPU's are
    not; another thread that draws such numbers meanwhile changes the weights.
    """
    if not isinstance(settings or {}, Mapping):
        raise TypeError(f'settings are a mapping, such as {{"train.steps": 500}}, not {settings!r}')
    if family is not None:
        register(family)
    files = {"source": source, "target": target, "valid_source": valid_source, "valid_target": valid_target}
    named = {field: _names(paths) for field, paths in files.items()}
    data: Layer = {"data": {field: names for field, names in named.items() if names}}
    request = TrainingRequest(
        run=Path(output),
        preset=preset,
        layers=(data, *(_setting(key, value) for key, value in (settings or {}).items())),
        from_model=Path(from_model) if from_model else None,
        device=device,
        recipe=Path(recipe) if recipe else None,
    )
    with _interruptible() as stop:
        return carry_out(
            decide(request),
            say=say or (lambda _: None),
            on_record=lambda _, record: on_record(record) if on_record else None,
            stop=stop,
        )


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Whether to stop, which a KeyboardInterrupt then tells the caller; where that is the meaning of SIGINT."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    with Interruption([signal.SIGINT]) as interruption, suppress(Interrupted):
        yield interruption.requested
    if interruption.signal:
        raise KeyboardInterrupt("stopped; the same call goes on with the run") from None


def evaluate_saved(
    model: str | PathLike[str],
    source: str | PathLike[str],
    reference: Paths,
    *,
    language: str = "",
    contrast: str | PathLike[str] | None = None,
    beam_size: int | None = None,
    alpha: float | None = None,
    device: str = "auto",
    engine: str = "torch",
    precision: str = "auto",
) -> Report:
    """Translate a file with a saved model and score it; the model's card keeps the scores.

    `contrast` is a TSV of source, right and wrong target. A card that cannot be written is an error.
    """
    card_place(Path(model))
    evaluated = evaluate_models(
        [Path(model)],
        Path(source),
        [Path(name) for name in _names(reference)],
        language=language,
        contrast=Path(contrast) if contrast else None,
        beam_size=beam_size,
        alpha=alpha,
        device=device,
        engine=engine,
        precision=precision,
    )
    keep_on_card(Path(model), evaluated)
    return evaluated.evaluation.report


def _names(paths: Paths | None) -> list[str]:
    return [fspath(path) for path in ([paths] if isinstance(paths, str | PathLike) else () if paths is None else paths)]


def _setting(name: str, value: Any) -> Layer:
    section, dot, field = name.partition(".") if isinstance(name, str) else ("", "", "")
    if not dot:
        raise ConfigError(f"settings[{name!r}]: a setting is named section.field, such as train.steps")
    plain = value.item() if isinstance(value, np.generic) else value
    return {section: {field: list(plain) if isinstance(plain, tuple) else plain}}
