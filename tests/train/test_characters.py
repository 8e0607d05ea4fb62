"""A run whose tokens are characters goes through what a run of pieces does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful.config.setting_layers import Layer
from heedful.errors import ConfigError
from heedful.inspection.attention_map import attention_map
from heedful.model.checkpoint import load_config, load_model, weights_digest
from heedful.train.run.plan import TrainingRequest, decide
from heedful.translate.alignment import Aligner, default_choice
from tests import ROOT

TEXT = ROOT / "tests" / "fixtures" / "c282dc1" / "text"
LINE = "The cat sat on the mat."
SETTINGS: dict[str, Any] = {
    "tokenizer.kind": "char",
    "data.max_length": 60,
    "model.d_model": 16,
    "model.d_ff": 24,
    "model.num_layers": 1,
    "train.steps": 8,
    "train.batch_tokens": 256,
    "train.checkpoint_steps": 4,
}


class KilledError(Exception):
    """A run ends here."""


def train(run: Path, killed_at: int = 0) -> Path:
    def count(record: object) -> None:
        if isinstance(record, heedful.CheckpointRecord) and record.step == killed_at:
            raise KilledError

    files = (TEXT / "train.en", TEXT / "train.de", run)
    heedful.train(*files, preset="tiny", device="cpu", settings=SETTINGS, on_record=count)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("characters") / "run")


@pytest.mark.slow
def test_a_run_is_killed_and_goes_on_to_the_same_bits(run: Path, tmp_path: Path) -> None:
    with pytest.raises(KilledError):
        train(tmp_path / "killed", killed_at=4)
    train(tmp_path / "killed")
    digests = {weights_digest(each / "model" / "model.safetensors") for each in (run, tmp_path / "killed")}
    assert len(digests) == 1


@pytest.mark.slow
def test_its_model_translates_aligns_words_and_shows_its_attention(run: Path) -> None:
    translator = heedful.Translator.load(run, device="cpu", engine="torch")
    assert translator.tokenizer.pieces(translator.tokenizer.encode("The cat")) == [*"▁The▁cat"]
    assert len(translator.translate([LINE, "The king was rich."])) == 2
    shown = attention_map(translator, LINE, "Die Katze saß.")
    assert [*shown.source.pieces] == [*f"▁{LINE}".replace(" ", "▁"), "</s>"]
    assert shown.source.words[:3] == ("The", "cat", "sat")
    model = load_model(run, device=torch.device("cpu")).model
    links = Aligner(model, translator.tokenizer, default_choice(model)).align(LINE, "Die Katze saß.")
    assert {target for _, target in links} == {0, 1, 2}


@pytest.mark.slow
def test_a_run_that_takes_its_vocabulary_keeps_its_kind(run: Path, tmp_path: Path) -> None:
    own: Layer = {
        "data": {"source": (str(TEXT / "train.en"),), "target": (str(TEXT / "train.de"),)},
        "tokenizer": {"model": str(run / "tokenizer.model")},
    }
    request = TrainingRequest(tmp_path / "second", "tiny", (own,), None, "cpu")
    assert decide(request).config.tokenizer.kind == "char" == load_config(run / "config.toml").tokenizer.kind
    pieces: Layer = {"tokenizer": {"kind": "bpe"}}
    with pytest.raises(ConfigError, match=r"tokenizer\.kind = bpe, but that of .*tokenizer\.model is char; leave it"):
        decide(TrainingRequest(tmp_path / "second", "tiny", (own, pieces), None, "cpu"))
    dropped: Layer = {"tokenizer": {"dropout": 0.1}}
    with pytest.raises(ConfigError, match=r"tokenizer\.dropout = 0\.1 leaves out merges"):
        decide(TrainingRequest(tmp_path / "second", "tiny", (own, dropped), None, "cpu"))
