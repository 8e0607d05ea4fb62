"""Exports: what is written, what is refused, and that nothing is lost. (Parity with Marian: test_reference.py.)"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from heedful.data.atomic import explained, new_folder
from heedful.errors import CheckpointError, ConfigError, DeviceError
from heedful.model.checkpoint import LoadedModel, load_model
from heedful.translate.export.ctranslate2 import make_spec, write_ctranslate2
from heedful.translate.export.marian import write_huggingface
from tests.narrowed import as_transformer
from tests.small_models import small_model

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(small_model(tmp_path_factory.mktemp("export") / "model"), device=CPU)


def test_the_huggingface_folder_holds_what_marian_asks_for(model: LoadedModel, tmp_path: Path) -> None:
    write_huggingface(model, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "source.spm",
        "target.spm",
        "vocab.json",
        "tokenizer_config.json",
    }
    size = model.tokenizer.vocab_size
    vocabulary = json.loads((tmp_path / "out/vocab.json").read_text(encoding="utf-8"))
    assert [vocabulary[piece] for piece in ("</s>", "<unk>", "<pad>")] == [0, 1, size]
    assert sorted(vocabulary.values()) == list(range(size + 1))
    assert load_file(tmp_path / "out/model.safetensors")["model.shared.weight"].shape == (size + 1, 16)
    generation = json.loads((tmp_path / "out/generation_config.json").read_text())
    assert generation["bad_words_ids"] == [[size]]


def test_an_export_does_not_change_the_model(model: LoadedModel, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    before = {name: tensor.clone() for name, tensor in model.model.state_dict().items()}
    write_ctranslate2(model, tmp_path / "int8", quantize="int8")
    write_huggingface(model, tmp_path / "marian")
    for name, tensor in model.model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_int8_is_smaller(model: LoadedModel, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    for quantize in ("float32", "int8"):
        write_ctranslate2(model, tmp_path / quantize, quantize=quantize)
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("float32", "int8")]
    assert sizes[1] < 0.8 * sizes[0]  # the table of positions stays as it is
    assert (tmp_path / "int8/source.spm").read_bytes() == model.tokenizer.model


def test_a_folder_that_holds_something_is_not_touched(model: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(CheckpointError, match="not an empty folder"):
        write_huggingface(model, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_an_empty_folder_is_filled(model: LoadedModel, tmp_path: Path) -> None:
    write_huggingface(model, tmp_path)
    assert (tmp_path / "config.json").exists()


def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with explained(tmp_path / "out", CheckpointError), new_folder(tmp_path / "out") as folder:
            (folder / "half").write_text("")
            raise OSError(28, "No space left on device")

    with pytest.raises(CheckpointError, match="No space left"):
        fail()
    assert not list(tmp_path.iterdir())


def test_an_export_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, flushed = tmp_path / "out", []

    def fsync(descriptor: int) -> None:
        assert not out.exists()
        flushed.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)
    with new_folder(out) as folder:
        (folder / "model.bin").write_text("weights")
    assert flushed == [path.stat().st_ino for path in (out / "model.bin", out)]


def test_heads_of_another_width_are_refused(tmp_path: Path) -> None:
    wide = load_model(small_model(tmp_path / "wide", d_k=12), device=CPU)
    with pytest.raises(ConfigError, match=r"model\.d_k = 12 cannot be exported: CTranslate2"):
        write_ctranslate2(wide, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"model\.d_k = 12 cannot be exported: Marian"):
        write_huggingface(wide, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unknown_quantization_is_refused(model: LoadedModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="int4"):
        write_ctranslate2(model, tmp_path / "out", quantize="int4")


def test_without_the_package_its_install_line_is_told(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(DeviceError, match=r"-m pip install ctranslate2$"):
        make_spec(as_transformer(model.model), model.tokenizer)
