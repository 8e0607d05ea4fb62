"""The CTranslate2 engine: what it finds is what the torch engine finds, and what it cannot do it says."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest
import torch

from heedful.data import atomic
from heedful.data.atomic import flush_folder, held
from heedful.errors import CheckpointError, ConfigError, DataError, DeviceError
from heedful.fast import translating
from heedful.fast.translating import fast_engine
from heedful.model.checkpoint import load_model
from heedful.model.interface import TranslationModel
from heedful.translate import engine as engines
from heedful.translate.ctranslate2_engine import CTranslate2Engine
from heedful.translate.engine import Request, Sampling, SearchOptions
from heedful.translate.export import cache
from heedful.translate.export.cache import cached_ctranslate2
from heedful.translate.export.ctranslate2 import num_positions
from heedful.translate.open_engine import AutoEngine, open_engine, search_engine
from heedful.translate.torch_engine import TorchEngine
from heedful.translate.translation import Translator
from tests.small_models import TEXT, small_model

pytest.importorskip("ctranslate2")
CPU = torch.device("cpu")
GREEDY = SearchOptions(beam_size=1, max_extra=6)
BEAM = SearchOptions(beam_size=3, n_best=3)


class Pair(NamedTuple):
    """The same model in both engines."""

    ours: TorchEngine
    theirs: CTranslate2Engine
    requests: list[Request]


def both(folder: Path, seed: int, **model: Any) -> Pair:
    loaded = load_model(small_model(folder / f"model-{seed}", seed=seed, **model), device=CPU)
    size, draw = loaded.tokenizer.vocab_size, random.Random(seed)
    export = cached_ctranslate2(folder / f"model-{seed}", quantize="float32")
    positions = num_positions(loaded.config.model)
    theirs = CTranslate2Engine(export, loaded.tokenizer.pieces(range(size)), position_limit=positions)
    lengths = [draw.choice([1, 2, 5, 9, 14]) for _ in range(30)]
    requests = [Request([draw.randrange(1, size) for _ in range(length)]) for length in lengths]
    return Pair(search_engine(loaded.model), theirs, requests)


@pytest.fixture(scope="module", params=[1, 7, 8])  # whose best are no near ties
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return both(tmp_path_factory.mktemp("pair"), request.param)


def with_prefixes(requests: list[Request]) -> list[Request]:
    return [replace(request, prefix_ids=tuple(request.source_ids[: n % 4])) for n, request in enumerate(requests)]


def assert_same(pair: Pair, requests: list[Request], options: SearchOptions) -> None:
    ours, theirs = (list(engine.translate(requests, options)) for engine in (pair.ours, pair.theirs))
    assert [[h.ids for h in each] for each in theirs] == [[h.ids for h in each] for each in ours]
    for one, other in zip(chain(*theirs), chain(*ours), strict=True):
        assert one.score == pytest.approx(other.score, rel=1e-4, abs=1e-4)
        assert one.log_prob == pytest.approx(other.log_prob, rel=1e-4, abs=1e-4)
        if options.token_scores:
            assert one.token_log_probs == pytest.approx(other.token_log_probs, rel=1e-4, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("max_extra", [0, 6, 50])
def test_greedy_tokens_are_those_of_the_torch_engine(pair: Pair, max_extra: int) -> None:
    assert_same(pair, pair.requests, msgspec.structs.replace(GREEDY, max_extra=max_extra))
    assert_same(pair, with_prefixes(pair.requests), msgspec.structs.replace(GREEDY, max_extra=max_extra))


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("token_scores", [True, False])
def test_the_best_of_a_beam_is_that_of_the_torch_engine(pair: Pair, alpha: float, token_scores: bool) -> None:
    options = SearchOptions(beam_size=3, alpha=alpha, token_scores=token_scores)
    assert_same(pair, pair.requests, options)
    assert_same(pair, with_prefixes(pair.requests), options)


def test_some_outputs_end_by_themselves(tmp_path: Path) -> None:
    """Or the tests above would show nothing but what happens at the limit."""
    ours, _, requests = both(tmp_path, 1)
    found = [best for best, *_ in ours.translate(requests, msgspec.structs.replace(GREEDY, max_extra=50))]
    limits = [len(request.source_ids) + 50 for request in requests]
    ended = [len(one.ids) < limit for one, limit in zip(found, limits, strict=True)]
    assert sum(ended) >= 10
    assert len({token for one in found for token in one.ids}) > 10


@pytest.mark.slow
def test_n_best_are_ranked_by_the_papers_score(pair: Pair) -> None:
    ours, theirs = (list(engine.translate(pair.requests, BEAM)) for engine in (pair.ours, pair.theirs))
    for each, other in zip(theirs, ours, strict=True):
        assert [one.score for one in each] == sorted((one.score for one in each), reverse=True)
        assert len({one.ids for one in each}) == len(each) == len(other)
        for one in each:
            assert one.score == pytest.approx(one.log_prob / ((5 + len(one.ids) + 1) / 6) ** 0.6)


def test_learned_positions_are_exported_too(tmp_path: Path) -> None:
    assert_same(both(tmp_path, 1, positions="learned", max_positions=300), both(tmp_path, 2).requests, GREEDY)


def test_encoder_and_decoder_may_differ_in_depth(tmp_path: Path) -> None:
    deep = both(tmp_path, 3, num_encoder_layers=3, num_decoder_layers=1)
    assert_same(deep, deep.requests, GREEDY)


def test_forced_scores_are_those_of_the_torch_engine(pair: Pair) -> None:
    targets = [request.source_ids[::-1] for request in pair.requests]
    pairs = [(r.source_ids, target) for r, target in zip(pair.requests, targets, strict=True)] + [([], [5]), ([5], [])]
    for one, other in zip(pair.theirs.score(pairs), pair.ours.score(pairs), strict=True):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-4)


def test_results_do_not_depend_on_the_batch(pair: Pair) -> None:
    together = list(pair.theirs.translate(pair.requests, SearchOptions(beam_size=3)))
    for request, expected in zip(pair.requests, together, strict=True):
        (alone,) = pair.theirs.translate([request], SearchOptions(beam_size=3))
        assert [one.ids for one in alone] == [one.ids for one in expected]


def test_a_prefix_changes_how_no_other_sentence_is_searched(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    patience: dict[tuple[str, ...], float] = {}
    real = pair.theirs.translator

    def watched(sources: list[list[str]], **options: Any) -> Any:
        patience.update((tuple(source), options["patience"]) for source in sources)
        return real.translate_batch(sources, **options)

    monkeypatch.setattr(
        pair.theirs, "translator", SimpleNamespace(translate_batch=watched, score_batch=real.score_batch)
    )
    options = SearchOptions(beam_size=3)
    (expected, _) = pair.theirs.translate([Request([5, 6]), Request([7, 8])], options)
    first, second = alone = dict(patience)
    (found, _) = pair.theirs.translate([Request([5, 6]), Request([7, 8], [9])], options)
    assert found == expected
    assert patience[first] == alone[first] > patience[second]


def test_requests_stream_through(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "LAST_WINDOW", 32)
    read = 0

    def endless() -> Iterator[Request]:
        nonlocal read
        while True:
            read += 1
            yield pair.requests[read % len(pair.requests)]

    stream = pair.theirs.translate(endless(), GREEDY)
    for _ in range(100):
        next(stream)
    assert read <= 100 + 2 * 32


def test_what_it_cannot_do_names_the_engine_that_can(pair: Pair) -> None:
    with pytest.raises(ConfigError, match="--engine torch"):
        next(pair.theirs.translate(pair.requests, SearchOptions(sampling=Sampling())))
    with pytest.raises(DataError, match=r"1024 positions.*--engine torch"):
        next(pair.theirs.translate([Request([5] * 1024)], GREEDY))
    with pytest.raises(DataError, match="--engine torch"):
        next(pair.theirs.score([([5], [5] * 1024)]))


def test_what_is_longer_than_learned_positions_is_promised_to_no_engine(tmp_path: Path) -> None:
    ours, theirs, _ = both(tmp_path, 1, positions="learned", max_positions=300)
    with pytest.raises(DataError, match="where they are sinusoids the torch engine takes any length"):
        next(theirs.score([([5] * 300, [5])]))
    with pytest.raises(DataError, match="300 learned positions"):
        next(ours.score([([5] * 300, [5])]))


def test_a_prefix_longer_than_the_limit_is_an_error(pair: Pair) -> None:
    with pytest.raises(DataError, match="a prefix of 9 tokens is longer"):
        next(pair.theirs.translate([Request([5], [5] * 9)], GREEDY))


# ------------------------------------------------------------------------------------------------- choosing, and cache


def test_auto_takes_it_on_a_cpu_and_our_own_engine_for_the_rest(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model", data={"max_length": 40})
    engine = open_engine([model], "auto", CPU).engine
    assert isinstance(engine, AutoEngine)
    exact = search_engine(load_model(model, device=CPU).model)
    requests = [Request([5, 6, 7])]
    for options in (SearchOptions(sampling=Sampling(seed=3)), SearchOptions(alpha=1.5)):
        assert list(engine.translate(requests, options)) == list(exact.translate(requests, options))
        assert engine.computing(options) == exact.computing(options) != engine.computing(SearchOptions(alpha=1.0))
    assert list(engine.score([([5], [6])])) == list(exact.score([([5], [6])]))


def test_auto_takes_our_own_engine_where_an_export_does_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(tmp_path / "model")
    wide, long = small_model(tmp_path / "wide", d_k=12), small_model(tmp_path / "long", data={"max_length": 1000})
    eager = small_model(tmp_path / "eager", data={"max_length": 40})
    settings = eager / "config.toml"
    settings.write_text(settings.read_text().replace("alpha = 0.6", "alpha = 1.5"))
    for models, why in (([model, model], ""), ([wide], "d_k"), ([long], "max_length"), ([eager], "decode.alpha = 1.5")):
        engine = open_engine(models, "auto", CPU).engine
        assert isinstance(engine, TorchEngine)
        assert why in engine.computing(GREEDY).reason
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert isinstance(open_engine([model], "auto", CPU).engine, TorchEngine)


def test_who_asks_for_fp32_gets_our_own_engine_and_never_int8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = small_model(tmp_path / "model", data={"max_length": 40}), []

    def watched(*models: TranslationModel, precision: str, **options: Any) -> TorchEngine:
        asked.append(precision)
        return fast_engine(*models, precision=precision, **options)

    monkeypatch.setattr(translating, "fast_engine", watched)
    engine = Translator.load(model, device="cpu", precision="fp32").engine
    assert isinstance(engine, TorchEngine)
    assert asked == ["fp32"]
    assert engine.computing(GREEDY).engine == "torch float32"
    with pytest.raises(ConfigError, match="the ctranslate2 engine searches in int8; for precision fp32 take --engine"):
        Translator.load(model, device="cpu", engine="ctranslate2", precision="fp32")
    with pytest.raises(ConfigError, match="precision 'fp8' is unknown; choose one of auto, bf16, fp32"):
        Translator.load(model, device="cpu", precision="fp8")


def test_the_export_is_made_once_and_anew_for_new_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(tmp_path / "model", seed=1)
    first = cached_ctranslate2(model)
    assert first.parent == model / ".cache"
    with monkeypatch.context() as patch:
        patch.setattr(cache, "load_model", None)
        assert cached_ctranslate2(model) == first
    small_model(tmp_path / "other", seed=2)
    (tmp_path / "other" / "model.safetensors").replace(model / "model.safetensors")
    second = cached_ctranslate2(model)
    assert second != first
    assert {path.name for path in (model / ".cache").iterdir()} == {second.name, ".lock"}


def test_a_folder_that_cannot_be_written_to_does_not_matter(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model")
    (model / ".cache").touch()
    export = cached_ctranslate2(model)
    assert (export / "model.bin").exists()
    assert (model / ".cache").is_file()


def test_a_full_disk_under_the_model_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(tmp_path / "model")

    def fill(folder: Path) -> None:
        if folder.is_relative_to(model):
            raise OSError(28, "No space left on device")
        flush_folder(folder)

    monkeypatch.setattr(atomic, "flush_folder", fill)
    made = cached_ctranslate2(model)
    assert (made / "model.bin").exists()
    assert [path.name for path in (model / ".cache").iterdir()] == [".lock"]


def test_what_a_killed_export_left_goes_with_the_next_one(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model")
    (model / ".cache" / ".ctranslate2-int8-0123456789abcdef.x1y2z3.writing").mkdir(parents=True)
    export = cached_ctranslate2(model)
    assert {path.name for path in (model / ".cache").iterdir()} == {export.name, ".lock"}


def test_what_a_living_process_is_writing_stays_and_is_not_waited_for(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model")
    unfinished = model / ".cache" / ".ctranslate2-int8-0123456789abcdef.x1y2z3.writing"
    unfinished.mkdir(parents=True)
    with held(model / ".cache" / ".lock", CheckpointError("in use")):
        export = cached_ctranslate2(model)
    assert (export / "model.bin").exists()
    assert export.parent != model / ".cache"
    assert unfinished.exists()


def test_int8_translates_nearly_the_same(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model", seed=8)
    fast, exact = (Translator.load(model, device="cpu", engine=name) for name in ("ctranslate2", "torch"))
    pairs = list(zip(TEXT, TEXT[::-1], strict=True))
    for one, other in zip(fast.score(pairs), exact.score(pairs), strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, rel=0.03)


def test_an_ensemble_names_the_torch_engine(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model")
    with pytest.raises(ConfigError, match="takes one model; the torch engine takes several"):
        Translator.load(model, model, device="cpu", engine="ctranslate2")


def test_without_the_package_its_install_line_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(DeviceError, match=r"-m pip install ctranslate2$"):
        Translator.load(small_model(tmp_path / "model"), device="cpu", engine="ctranslate2")


@pytest.mark.parametrize("damage", ["cut", "zeros", "renamed"])
def test_a_damaged_export_is_named(tmp_path: Path, damage: str) -> None:
    model = small_model(tmp_path / "model")
    weights = cached_ctranslate2(model) / "model.bin"
    whole = weights.read_bytes()
    damaged = {"cut": whole[:1], "zeros": bytes(len(whole)), "renamed": whole.replace(b"Transformer", b"TransformEr")}
    weights.write_bytes(damaged[damage])
    with pytest.raises(CheckpointError, match="remove it"):
        Translator.load(model, device="cpu", engine="ctranslate2")


def test_torch_keeps_its_threads_and_every_worker_gets_as_many_batches(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        engine = both(tmp_path, 1).theirs
        assert torch.get_num_threads() == engine.threads == 2
        assert engine.workers == 3, "one more batch goes on while Python reads and writes"
    finally:
        torch.set_num_threads(threads)
    sizes = {number: engine._batch_size(number, beam_size=4) for number in (0, 1, 16, 32, 48, 96, 4096)}
    assert sizes == {0: 1, 1: 1, 16: 8, 32: 16, 48: 12, 96: 16, 4096: 16}
    assert engine._batch_size(4096) == 64, "greedy search has one hypothesis a sentence"
