"""A family of models that is not ours goes through everything that users do, by its interface alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import numpy as np
import pytest
import torch
from torch import Tensor

import heedful
from heedful.cli.commands.bulk import bulk
from heedful.config import setting_names
from heedful.config.setting_layers import preset, resolve
from heedful.config.settings import FamilyConfig
from heedful.data.parts.folder import PartFolder
from heedful.data.parts.work import PATIENCE, work_through
from heedful.errors import ConfigError, HeedfulError
from heedful.model import registry
from heedful.model.checkpoint import weights_digest
from heedful.model.interface import TranslationModel
from heedful.model.packed import pack_source, pack_target, shift_right
from heedful.model.registry import load_family, model_to_fill, new_model, register
from heedful.translate.alignment import Aligner
from heedful.translate.bulk import BulkTranslation, open_with_families
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.torch_engine import TorchEngine
from tests import ROOT
from tests.toy_family import Bag, BagConfig

TEXT = ROOT / "tests" / "fixtures" / "c282dc1" / "text"
FAMILY = ("--family", "tests.toy_family:Bag")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
LINES = "The cat sat on the mat.\nThe king was rich.\n"
LONG = 300  # seconds, in which a busy machine, too, has trained a few steps


@pytest.fixture(autouse=True)
def only_our_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting_names, "FAMILIES", dict(setting_names.FAMILIES))
    monkeypatch.setattr(registry, "_CLASSES", dict(registry._CLASSES))


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "heedful", *map(str, arguments)]


def heedful_says(*arguments: object, stdin: str = "") -> str:
    done = subprocess.run(command(*arguments), env=ENVIRONMENT, input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def training(run: Path) -> list[str]:
    sizes = ("model.family=bag", "model.d_model=32", "tokenizer.vocab_size=400")
    steps = ("train.steps=60", "train.warmup_steps=10", "train.batch_tokens=1024", "train.checkpoint_steps=10")
    given = [word for setting in (*sizes, *steps) for word in ("--set", setting)]
    files = ("-s", TEXT / "train.en", "-t", TEXT / "train.de", "-o", run)
    return command("train", *files, "--preset", "tiny", "--device", "cpu", *given, *FAMILY)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("family") / "run"
    subprocess.run(training(folder), env=ENVIRONMENT, check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_a_run_that_is_killed_and_resumed_comes_to_the_same_weights(run: Path, tmp_path: Path) -> None:
    killed, began = tmp_path / "run", time.monotonic()
    with subprocess.Popen(training(killed), env=ENVIRONMENT, stderr=subprocess.DEVNULL) as process:
        while not list(killed.glob("checkpoints/step-*")) and time.monotonic() - began < LONG:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    subprocess.run(training(killed), env=ENVIRONMENT, check=True, capture_output=True)
    digests = {weights_digest(folder / "model" / "model.safetensors") for folder in (run, killed)}
    assert len(digests) == 1


@pytest.mark.slow
def test_it_translates_with_a_beam_and_is_scored_and_has_a_card(run: Path, tmp_path: Path) -> None:
    out = heedful_says("translate", "-m", run, "-b", 4, *FAMILY, stdin=LINES)
    assert out.count("\n") == 2
    source, target = tmp_path / "few.en", tmp_path / "few.de"
    for path, whole in ((source, TEXT / "train.en"), (target, TEXT / "train.de")):
        path.write_text("\n".join(whole.read_text(encoding="utf-8").splitlines()[:20]) + "\n", encoding="utf-8")
    assert "BLEU" in heedful_says("evaluate", "-m", run, "-s", source, "-r", target, *FAMILY)
    assert len(heedful_says("score", "-m", run, "-s", source, "-t", target, *FAMILY).splitlines()) == 20
    assert "bag" in heedful_says("card", run)
    assert re.search(r"parameters +", heedful_says("info", run, *FAMILY))


@pytest.mark.slow
def test_it_is_served(run: Path) -> None:
    words = command("serve", "-m", run, "--port", 0, "--device", "cpu", *FAMILY)
    with subprocess.Popen(words, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = next(line for line in process.stderr if "http://" in line).split()[-1]
            body = json.dumps({"q": LINES.splitlines()[0], "source": "en", "target": "de"}).encode()
            asked = HttpRequest(f"{address.rstrip('/')}/translate", body, {"Content-Type": "application/json"})
            with urlopen(asked, timeout=LONG) as answer:
                assert "translatedText" in json.loads(answer.read())
        finally:
            process.kill()


@pytest.mark.slow
def test_from_python_the_class_is_an_argument(run: Path) -> None:
    with pytest.raises(ConfigError, match=r"config.toml, line \d+: model.family = 'bag' is unknown"):
        heedful.Translator.load(run, device="cpu")
    translator = heedful.Translator.load(run, device="cpu", family=Bag)
    assert translator.engine.computing(translator.options).engine == "torch float32"
    assert len(translator.translate(LINES.splitlines())) == 2


@pytest.mark.slow
def test_it_is_translated_in_parts_by_processes_that_load_its_code(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text(LINES)
    plan = ["plan", tmp_path / "in", "-m", run, "-o", tmp_path / "out", "--engine", "torch", *FAMILY]
    bulk.main([str(word) for word in plan], standalone_mode=False)
    monkeypatch.delitem(registry._CLASSES, "bag")
    monkeypatch.delitem(setting_names.FAMILIES, "bag")
    with pytest.raises(ConfigError, match=r"model.family = 'bag' is unknown"):
        bulk.main(["run", str(tmp_path / "out")], standalone_mode=False)
    folder = PartFolder.open(tmp_path / "out")
    opening = partial(open_with_families, BulkTranslation.of(folder.plan).opening, FAMILY[1:], str(ROOT))
    work_through(folder, [0], opening, patience=PATIENCE, done=lambda number: None)
    assert folder.unfinished() == []


@pytest.mark.slow
def test_what_it_cannot_do_is_refused_by_name(run: Path, tmp_path: Path) -> None:
    register(Bag)
    with pytest.raises(HeedfulError, match=r"words cannot be aligned by model.family = 'bag'"):
        Aligner.load(run, device="cpu")
    for words, refusal in (
        (("export", "-m", run, "-o", tmp_path / "x", "--to", "ctranslate2"), "model.family = bag cannot be exported"),
        (("export", "-m", run, "-o", tmp_path / "x", "--to", "huggingface"), "model.family = bag cannot be exported"),
        (("attend", "-m", run, "The cat sat.", "-o", tmp_path / "x.svg"), "model.family = 'bag' cannot be looked into"),
    ):
        done = subprocess.run(command(*words, *FAMILY), env=ENVIRONMENT, capture_output=True, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert refusal in done.stderr
    with pytest.raises(ConfigError, match=r"depth_scaled_init = true is not implemented by model.family = 'bag'"):
        bag().scale_by_depth()


@pytest.mark.slow
def test_a_models_folder_never_causes_an_import(run: Path, tmp_path: Path) -> None:
    told = (run / "model" / "config.toml").read_text(encoding="utf-8")
    for value in ("tests.toy_family:Bag", "os"):
        config = told.replace('family = "bag"', f'family = "{value}"')
        folder = tmp_path / value.replace(":", ".")
        folder.mkdir()
        for file in (run / "model").iterdir():
            if file.is_file():
                (folder / file.name).write_bytes(file.read_bytes())
        (folder / "config.toml").write_text(config, encoding="utf-8")
        with pytest.raises(ConfigError, match=f"model.family = '{value}' is unknown; choose one of transformer"):
            heedful.Translator.load(folder, device="cpu")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Bag", "is not of the form module:Class"),
        ("nowhere:Bag", "no module nowhere is found"),
        ("tests.toy_family:Sack", "tests.toy_family has no Sack"),
        ("pathlib:Path", "Path does not derive from heedful.TranslationModel"),
    ],
)
def test_a_family_that_cannot_be_loaded_is_told_in_one_line(name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_family(name)


def test_a_family_that_lacks_what_every_model_needs_is_refused() -> None:
    class Half(TranslationModel):
        family = "half"

        def logits(self, hidden_TD: Tensor) -> Tensor:
            return hidden_TD

    with pytest.raises(ConfigError, match="Half is no whole family of models: it lacks settings, decode, encode"):
        register(Half)  # type: ignore[type-abstract]


def test_a_fault_in_a_familys_module_is_not_taken_for_a_class_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty_family.py").write_text("import math\nmath.no_such_thing\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(AttributeError, match="no_such_thing"):
        load_family("faulty_family:Model")


def test_what_a_family_holds_beside_its_weights_is_there_when_it_is_loaded() -> None:
    class Kept(Bag):
        family = "kept"
        threes_3: Tensor

        def __init__(self, config: FamilyConfig, vocab_size: int) -> None:
            super().__init__(config, vocab_size)
            self.register_buffer("threes_3", torch.full((3,), 3.0), persistent=False)
            self.table_4 = torch.arange(4)

    register(Kept)
    model = model_to_fill(BagConfig(family="kept", d_model=8), 20)
    assert isinstance(model, Kept)
    assert model.threes_3.tolist() == [3.0, 3.0, 3.0]
    assert model.table_4.tolist() == [0, 1, 2, 3]


def test_a_setting_that_a_family_lacks_is_refused_and_a_presets_is_left_out() -> None:
    register(Bag)
    given = {"model": {"family": "bag"}}
    assert isinstance(resolve(preset("tiny", given), given).model, BagConfig)
    with pytest.raises(ConfigError, match=r"model.family = 'bag' has no setting model.num_heads"):
        resolve({"model": {"family": "bag", "num_heads": 4}})
    with pytest.raises(ConfigError, match=r"model.family = 'transformer' has no setting model.slope"):
        resolve({"model": {"slope": 0.5}})


def bag() -> TranslationModel:
    register(Bag)
    torch.manual_seed(1)
    return new_model(BagConfig(d_model=16), 50).eval()


@torch.no_grad()
def forced(model: TranslationModel, source: list[int], target: list[int]) -> Tensor:
    """The logits of each next token, from one pass over the whole target."""
    source_T, target_T = (np.array([*ids, 0], dtype=np.int64) for ids in (source, target))
    lengths, target_lengths = np.array([len(source_T)]), np.array([len(target_T)])
    target_in = pack_target(shift_right(target_T), target_lengths, lengths)
    return model.logits(model.decode(target_in, model.encode(pack_source(source_T, lengths))))


def test_replaying_the_prefix_gives_the_logits_of_one_pass_whatever_else_is_in_the_slots() -> None:
    model, sources, target = bag(), [[5, 6, 7], [8, 9]], [11, 12, 13]
    decoder = model.new_decoder()
    state = decoder.empty(3, 2)
    source_T = np.array([*sources[0], 0, *sources[1], 0], dtype=np.int64)
    with torch.no_grad():
        memory = model.encode(pack_source(source_T, np.array([4, 3])))
    state.admit(memory, [2, 0], longest=4)  # slot 1 stays empty
    expected = forced(model, sources[0], target)
    for place, before in enumerate([0, *target]):
        logits_RV = decoder.step(torch.full((6,), before), state)
        torch.testing.assert_close(logits_RV[4:], expected[place].expand(2, -1))
        state.select(torch.tensor([[0, 0], [1, 0], [1, 1]]))
    state.keep([2])
    assert decoder.step(torch.full((2,), 3), state).shape == (2, 50)


def test_its_search_gives_the_scores_of_its_forced_pass() -> None:
    engine = TorchEngine(bag())
    (found,) = engine.translate([Request([5, 6, 7])], SearchOptions(beam_size=4, n_best=4))
    forced_scores = list(engine.score([([5, 6, 7], hypothesis.ids) for hypothesis in found]))
    for hypothesis, scores in zip(found, forced_scores, strict=True):
        assert hypothesis.log_prob == pytest.approx(sum(scores), abs=1e-4)
