"""Opens models as an engine. `auto` is two engines: CTranslate2 where it is faster, our own for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch

from heedful.config.settings import Config
from heedful.data.tokenizer import Tokenizer
from heedful.errors import ConfigError
from heedful.model.checkpoint import LoadedModel, find_model, load_config, load_model
from heedful.model.device import explained_out_of_memory
from heedful.model.interface import TranslationModel
from heedful.translate.ctranslate2_engine import CTranslate2Engine
from heedful.translate.engine import Computing, Engine, IdPair, Request, SearchOptions, Windows
from heedful.translate.export.cache import cached_ctranslate2
from heedful.translate.export.ctranslate2 import CTRANSLATE2, library, num_positions
from heedful.translate.search import Hypothesis
from heedful.translate.torch_engine import TorchEngine

ENGINES = ("auto", "torch", "ctranslate2")
MAX_ALPHA = 1.0  # with a larger one CTranslate2 may drop the hypothesis that is best by the paper's length penalty


class Opened(NamedTuple):
    """An engine, and what the text around it needs."""

    engine: Engine
    tokenizer: Tokenizer
    config: Config


PRECISIONS = ("auto", "bf16", "fp32")


def search_engine(
    *models: TranslationModel, batch_tokens: int = 8192, precision: str = "auto", reason: str = ""
) -> TorchEngine:
    """Our own engine, by the fastest way on the models' device. `precision` is for CUDA: auto is bf16 there."""
    from heedful.fast.translating import fast_engine  # the one name of the fast paths that translation knows

    if precision not in PRECISIONS:
        raise ConfigError(f"precision {precision!r} is unknown; choose one of {', '.join(PRECISIONS)}")
    return fast_engine(*models, batch_tokens=batch_tokens, precision=precision, reason=reason)


class AutoEngine(Engine):
    """Translates with CTranslate2; what that cannot do, and exact scores, come from the torch engine, once needed."""

    def __init__(self, model: Path, fast: CTranslate2Engine) -> None:
        self.model, self.fast, self.workers = model, fast, fast.workers

    @cached_property
    def torch(self) -> TorchEngine:
        """Our own engine with the same model."""
        return search_engine(load_model(self.model, device=torch.device("cpu")).model)

    @property
    def models(self) -> tuple[TranslationModel, ...]:
        """The model of our own engine."""
        return self.torch.models

    def translate_windows(self, windows: Windows, options: SearchOptions) -> Iterator[list[Hypothesis]]:
        """By CTranslate2; by our own engine for samples, and for a length penalty too strong for CTranslate2."""
        return self._searching(options).translate_windows(windows, options)

    def computing(self, options: SearchOptions) -> Computing:
        """As the engine says that translates."""
        return self._searching(options).computing(options)

    def _searching(self, options: SearchOptions) -> Engine:
        return self.fast if options.sampling is None and options.alpha <= MAX_ALPHA else self.torch

    def score(self, pairs: Iterable[IdPair]) -> Iterator[list[float]]:
        """In full precision."""
        return self.torch.score(pairs)

    def next_tokens(self, request: Request, count: int) -> list[tuple[int, float]]:
        """By CTranslate2."""
        return self.fast.next_tokens(request, count)


def open_engine(models: Sequence[Path], name: str, device: torch.device, *, precision: str = "auto") -> Opened:
    """The engine of that name with these models; several are an ensemble. Who names a precision gets our own."""
    if not models:
        raise ConfigError("no model is given")
    if name == "ctranslate2" and precision != "auto":
        raise ConfigError(f"the ctranslate2 engine searches in int8; for precision {precision} take --engine torch")
    reason = ""
    if name == precision == "auto" and _is_ctranslate2_here(models, device):
        config = load_config(find_model(models[0]).config)
        reason = CTRANSLATE2.reason(config.model) or _finds_otherwise(config)
        if not reason:
            return _open_ctranslate2(models, name, device)
    if name == "ctranslate2":
        return _open_ctranslate2(models, name, device)
    with explained_out_of_memory(f"the model does not fit {device}; take another --device, or let others leave it"):
        loaded = [load_model(path, device=device) for path in models]
    _check_alike(models, loaded)
    engine = search_engine(*(each.model for each in loaded), precision=precision, reason=reason)
    return Opened(engine, loaded[0].tokenizer, loaded[0].config)


def _is_ctranslate2_here(models: Sequence[Path], device: torch.device) -> bool:
    """On a CPU, if it is installed, for one model."""
    return device.type == "cpu" and len(models) == 1 and find_spec("ctranslate2") is not None


def _finds_otherwise(config: Config) -> str:
    """Why CTranslate2's search may find something else than ours; "" where it does not, however long a sentence is."""
    longest, limit = config.data.max_length + config.decode.max_extra, num_positions(config.model) - 1
    if longest > limit:
        return f"data.max_length + decode.max_extra = {longest:,}, and CTranslate2 goes up to {limit:,}"
    if config.decode.alpha > MAX_ALPHA:
        return f"decode.alpha = {config.decode.alpha:g}, and CTranslate2 searches like ours up to {MAX_ALPHA:g}"
    return ""


def _open_ctranslate2(models: Sequence[Path], name: str, device: torch.device) -> Opened:
    library()
    if len(models) > 1:
        raise ConfigError("the ctranslate2 engine takes one model; the torch engine takes several (--engine torch)")
    if device.type != "cpu":
        raise ConfigError(f"the ctranslate2 engine runs on the CPU here; for {device.type} take --engine torch")
    files = find_model(models[0])
    config, tokenizer = load_config(files.config), Tokenizer.load(files.tokenizer)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    fast = CTranslate2Engine(cached_ctranslate2(models[0]), pieces, position_limit=num_positions(config.model))
    return Opened(fast if name == "ctranslate2" else AutoEngine(models[0], fast), tokenizer, config)


def _check_alike(names: Sequence[Path], loaded: Sequence[LoadedModel]) -> None:
    for name, each in zip(names, loaded, strict=True):
        if each.tokenizer != loaded[0].tokenizer:
            raise ConfigError(f"{name}: has another vocabulary than {names[0]}; models of an ensemble share one")
