"""Exporters and fast twins compute what they list, and refuse the rest: here a third kind of positions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from heedful.cli.main import commands
from heedful.config.setting_layers import resolve
from heedful.config.settings import Config, ModelConfig, TrainConfig
from heedful.config.supported_settings import KERNELS, NUMBERS, SupportedSettings, one_of
from heedful.errors import ConfigError
from heedful.fast.cpu.loss_by_rows import ObjectiveByRows
from heedful.fast.cpu.prepacked import PREPACKED, PackedProduct, prepacked_decoder
from heedful.fast.cuda.static_decoder import StaticDecoder
from heedful.fast.cuda.tiles import StaticShape
from heedful.fast.training import fast_gradients
from heedful.inspection.doctor import examine
from heedful.model import checkpoint
from heedful.model.checkpoint import LoadedModel, load_model
from heedful.model.decoding import CACHED, CachedDecoder, Product
from heedful.model.device import has_kernels
from heedful.model.interface import ReplayDecoder, TranslationModel
from heedful.model.transformer import Transformer
from heedful.train.batching import Batch, make_batch
from heedful.train.cautions import cautions_at_start
from heedful.train.gradients import Gradients, Objective, PlainGradients
from heedful.train.processes import World
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.export.cache import cached_ctranslate2
from heedful.translate.export.ctranslate2 import CTRANSLATE2, write_ctranslate2
from heedful.translate.export.marian import MARIAN, write_huggingface
from heedful.translate.open_engine import open_engine
from heedful.translate.torch_engine import TorchEngine
from tests.memory_shards import shards
from tests.narrowed import as_transformer
from tests.small_models import small_model
from tests.switches import SWITCHES

CPU = torch.device("cpu")
GREEDY = SearchOptions(beam_size=1, max_extra=6)
LISTS = {
    "ctranslate2": CTRANSLATE2,
    "marian": MARIAN,
    "kernels": KERNELS,
    "prepacked": PREPACKED,
    "cached": CACHED,
}
OF_POSITIONS = [name for name in LISTS if name != "cached"]  # whose positions the model's own embedding adds
ZIGZAG: Any = "zigzag"


class ZigzagPositions(nn.Module):
    """A third kind: the number of the position, odd ones negative, in each dimension."""

    def forward(self, positions_T: Tensor, _longest: int, like: Tensor) -> Tensor:
        return (positions_T * (1 - 2 * (positions_T % 2)))[:, None].to(like) * 0.1


def make_all_zigzag(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the settings of every model folder name a third kind of positions, and every model has it."""
    make = Transformer.__init__

    def as_zigzag(layer: Mapping[str, Any]) -> Config:
        config = resolve(layer)
        return msgspec.structs.replace(config, model=msgspec.structs.replace(config.model, positions=ZIGZAG))

    def with_zigzag(model: Transformer, config: ModelConfig, vocab_size: int) -> None:
        make(model, config, vocab_size)
        model.embedding.positions = ZigzagPositions()

    monkeypatch.setattr(checkpoint, "resolve", as_zigzag)
    monkeypatch.setattr(Transformer, "__init__", with_zigzag)


@pytest.fixture
def zigzag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder with a third kind of positions."""
    folder = small_model(tmp_path / "model", data={"max_length": 40})
    make_all_zigzag(monkeypatch)
    return folder


@pytest.fixture
def loaded(zigzag: Path) -> LoadedModel:
    return load_model(zigzag, device=CPU)


# ----------------------------------------------------------------------------------------------------------- the lists


@pytest.mark.parametrize("name", LISTS)
def test_what_the_paper_describes_is_on_every_list(name: str) -> None:
    for model in (ModelConfig(), ModelConfig(d_model=64, d_ff=32, num_layers=1, num_decoder_layers=3, num_heads=4)):
        assert LISTS[name].unsupported(model) is None


@pytest.mark.parametrize("name", OF_POSITIONS)
def test_an_unknown_value_is_refused_in_a_line_that_names_it_and_what_works(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^model\.positions = zigzag cannot be .*: \w+ takes? sinusoidal") as error:
        LISTS[name].refuse(ModelConfig(positions=ZIGZAG))
    assert "\n" not in str(error.value)


class NewerConfig(ModelConfig, frozen=True, kw_only=True):
    """As of a version that has another setting."""

    norm: str = "post"


@pytest.mark.parametrize("name", LISTS)
def test_a_setting_that_a_list_does_not_name_has_its_default_or_is_refused(name: str) -> None:
    assert LISTS[name].unsupported(NewerConfig()) is None
    with pytest.raises(ConfigError, match=r"^model\.norm = pre cannot be .*: \w+ takes? post(; use the torch|$)"):
        LISTS[name].refuse(NewerConfig(norm="pre"))


class KindredConfig(ModelConfig, frozen=True, kw_only=True):
    """Of another family, with the same settings."""

    family: str = "kindred"


@pytest.mark.parametrize("name", LISTS)
def test_another_family_is_refused_even_with_the_same_settings(name: str) -> None:
    assert LISTS[name].reason(KindredConfig()).startswith("model.family = kindred cannot be ")


def test_a_list_that_names_a_value_takes_it() -> None:
    both = SupportedSettings("cannot be drawn: it takes", {**NUMBERS, "norm": one_of("post", "pre")})
    assert both.unsupported(NewerConfig(norm="pre")) is None
    assert both.reason(NewerConfig(norm="no")) == "model.norm = no cannot be drawn: it takes post or pre"


@pytest.mark.parametrize("name", ["ctranslate2", "marian", "kernels"])
@pytest.mark.parametrize("switch", SWITCHES.values(), ids=list(SWITCHES))
def test_exports_and_kernels_refuse_the_switches_of_experiments_by_name(switch: dict[str, Any], name: str) -> None:
    refused = LISTS[name].unsupported(ModelConfig(**switch))
    assert refused is not None
    assert refused.setting.removeprefix("model.") in switch


def test_dropout_of_attention_keeps_kernels_from_training_and_nothing_from_being_exported() -> None:
    model = ModelConfig(attention_dropout=0.1)
    assert KERNELS.reason(model).startswith("model.attention_dropout = 0.1 cannot be computed by our kernels")
    assert {name for name, settings in LISTS.items() if settings.unsupported(model) is None} == LISTS.keys() - {
        "kernels"
    }


def test_heads_too_wide_for_the_kernels_are_named() -> None:
    assert KERNELS.unsupported(ModelConfig(d_k=128, d_v=128)) is None
    assert KERNELS.reason(ModelConfig(d_v=129)).endswith(
        "model.d_v = 129 cannot be computed by our kernels: they take at most 128"
    )


# ------------------------------------------------------------------------------------------------------- the exporters


def test_exporters_refuse_a_third_kind_of_positions(loaded: LoadedModel, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    with pytest.raises(ConfigError, match=r"zigzag .* CTranslate2 takes sinusoidal or learned; use the torch engine"):
        write_ctranslate2(loaded, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"zigzag .* Marian takes sinusoidal$"):
        write_huggingface(loaded, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_export_made_before_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    model = small_model(tmp_path / "model", data={"max_length": 40})
    assert cached_ctranslate2(model).is_relative_to(model)
    make_all_zigzag(monkeypatch)
    with pytest.raises(ConfigError, match=r"model\.positions = zigzag cannot be exported"):
        cached_ctranslate2(model)


def test_the_command_is_one_line(zigzag: Path, tmp_path: Path) -> None:
    for form in ("ctranslate2", "huggingface"):
        done = CliRunner().invoke(commands, ["export", "-m", str(zigzag), "--to", form, "-o", str(tmp_path / "out")])
        assert isinstance(done.exception, ConfigError)
        assert "model.positions = zigzag cannot be exported" in str(done.exception)


@pytest.mark.slow
def test_the_doctor_does_not_judge_what_is_refused(zigzag: Path) -> None:
    pytest.importorskip("ctranslate2")
    diagnosis = examine(zigzag)
    found = {finding.name: finding for finding in diagnosis.findings}
    assert diagnosis.is_sound
    assert found["cached decoding"].largest is not None
    for name in ("ctranslate2 float32", "ctranslate2 int8"):
        assert found[name].line().endswith("CTranslate2 takes sinusoidal or learned; use the torch engine")


# ---------------------------------------------------------------------------------------------------- the fast engines


def test_auto_falls_back_to_the_torch_engine_and_says_why(zigzag: Path) -> None:
    pytest.importorskip("ctranslate2")
    engine = open_engine([zigzag], "auto", CPU).engine
    assert isinstance(engine, TorchEngine)
    computing = engine.computing(GREEDY)
    assert computing.engine == "torch float32"
    assert computing.reason == "model.positions = zigzag cannot be exported: CTranslate2 takes sinusoidal or learned"
    with pytest.raises(ConfigError, match="zigzag cannot be exported"):
        open_engine([zigzag], "ctranslate2", CPU)
    assert open_engine([zigzag], "torch", CPU).engine.computing(GREEDY).reason == ""


def test_a_translation_says_which_engine_took_its_place(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ctranslate2")
    for name, width in (("narrow", 8), ("wide", 12)):
        folder = small_model(tmp_path / name, data={"max_length": 40}, d_k=width)
        done = CliRunner().invoke(commands, ["translate", "-m", str(folder), "--device", "cpu"], input="the cat\n")
        assert done.exit_code == 0
        assert done.stdout.count("\n") == 1
        said = done.stderr + capfd.readouterr().err
        assert ("torch float32 translates: model.d_k = 12 cannot be exported" in said) == (name == "wide")


def test_the_torch_engine_decodes_a_third_kind_as_training_computes_it(loaded: LoadedModel) -> None:
    engine = TorchEngine(loaded.model)
    requests = [Request([5, 6, 7]), Request([9, 10, 11, 12, 13])]
    for request, (best, *_) in zip(requests, engine.translate(requests, GREEDY), strict=True):
        (scores,) = engine.score([(request.source_ids, best.ids)])
        torch.testing.assert_close(list(best.token_log_probs), scores, rtol=0, atol=1e-5)


def test_matrices_are_not_prepacked_for_an_unknown_kind(loaded: LoadedModel) -> None:
    if not torch.backends.mkldnn.is_available():
        pytest.skip("torch is built without oneDNN")
    assert {type(product) for product in products_of(loaded.model)} == {Product}
    loaded.model.config = ModelConfig(d_model=16, d_ff=24, num_layers=2, num_heads=2)
    assert {type(product) for product in products_of(loaded.model)} == {PackedProduct}


def products_of(model: TranslationModel) -> list[Product]:
    """All that a step of decoding on a CPU multiplies with."""
    decoder = prepacked_decoder(model)
    assert isinstance(decoder, CachedDecoder)
    in_layers = (product for layer in decoder.layers for product in layer.products)
    return [*in_layers, decoder.logits]


def test_what_a_cache_does_not_know_is_decoded_without_one(loaded: LoadedModel) -> None:
    assert isinstance(loaded.model.new_decoder(), CachedDecoder)
    loaded.model.config = NewerConfig(d_model=16, d_ff=24, num_layers=2, num_heads=2, norm="pre")
    assert CACHED.reason(loaded.model.config).startswith("model.norm = pre cannot be decoded with a cache: that takes")
    assert isinstance(loaded.model.new_decoder(), ReplayDecoder)
    assert isinstance(prepacked_decoder(loaded.model), ReplayDecoder)


def test_cuda_refuses_a_third_kind_and_takes_the_plain_road(
    loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    from heedful.fast.cuda.training_step import CudaStep

    with pytest.raises(ConfigError, match=r"zigzag cannot be computed by our kernels: they take sinusoidal or learned"):
        StaticDecoder(as_transformer(loaded.model), torch.float32)
    with pytest.raises(ConfigError, match=r"zigzag cannot be computed by our kernels: they take sinusoidal or learned"):
        CudaStep(as_transformer(loaded.model), StaticShape(rows=128, sentences=8, longest=80), TrainConfig())
    (tmp_path / "Python.h").touch()
    monkeypatch.setenv("CC", "gcc")
    monkeypatch.setenv("CPATH", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    gpu = torch.device("cuda", 0)
    assert has_kernels(gpu, ModelConfig())
    assert not has_kernels(gpu, loaded.model.config)
    config = msgspec.structs.replace(
        loaded.config, train=msgspec.structs.replace(loaded.config.train, precision="bf16")
    )
    (said,) = (line for line in cautions_at_start(config, "cuda") if "our kernels" in line)
    assert said.startswith(
        "our kernels want sinusoidal or learned for model.positions, and it is zigzag; training goes"
    )


def test_the_loss_by_rows_knows_no_positions_and_is_the_plain_one_for_a_third_kind(zigzag: Path) -> None:
    loaded = load_model(zigzag, device=CPU)
    batch = make_batch(shards([([5, 6], [7, 8, 9]), ([10], [11])]), np.arange(2))

    def trained(gradients: Gradients[Batch]) -> list[Tensor]:
        sums_2 = gradients.add(batch, seed=1, factor=1.0, is_first=True, is_last=True)
        return [sums_2, *(gradient.clone() for gradient in gradients.tensors())]

    fast = fast_gradients(loaded.model, loaded.config, precision="fp32", world=World())
    assert isinstance(fast, PlainGradients)
    assert isinstance(fast.objective, ObjectiveByRows)
    plain = PlainGradients(Objective(loaded.model, loaded.config.train), world=World(), autocast=False)
    for found, right in zip(trained(fast), trained(plain), strict=True):
        torch.testing.assert_close(found, right)
