"""What holds for every family of models that we ship, whatever it computes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from starlette.testclient import TestClient
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

import heedful
from heedful.baselines.slot_state import Beginning, SlotState
from heedful.config.baseline_settings import BASELINES
from heedful.config.setting_layers import PRESETS, preset, resolve
from heedful.errors import ConfigError
from heedful.model.checkpoint import weights_digest
from heedful.model.interface import Memory, TranslationModel
from heedful.model.packed import Packed, pack_source, pack_target, shift_right
from heedful.model.registry import empty_model, new_model, register
from heedful.serve.app import create_app
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.torch_engine import TorchEngine
from heedful.translate.translation import Translator
from tests import ROOT
from tests.cli.running import Run

TEXT = ROOT / "tests" / "fixtures" / "c282dc1" / "text"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"num_layers": 2, "num_heads": 2, "d_ff": 24},
    "mixer": {"num_layers": 2, "num_heads": 2, "d_ff": 24, "token_width": 12, "max_positions": 40},
    "bytenet": {"sets": 2, "dilations": 2},
    "bytenet beyond its unfolded length": {"sets": 1, "dilations": 3, "length_ratio": 1.0, "length_extra": 0},
    "convs2s": {"num_layers": 3, "max_positions": 40},
    "convs2s of other widths": {
        "embedding_width": 12,
        "num_encoder_layers": 2,
        "num_decoder_layers": 3,
        "encoder_kernel": 5,
        "decoder_kernel": 2,
        "tied_embeddings": True,
    },
    "convs2s without windows": {"num_layers": 2, "encoder_kernel": 1, "decoder_kernel": 1},
    "recurrent as Sutskever": {"cell": "lstm", "attention": "none", "num_layers": 2},
    "recurrent as Bahdanau": {},
    "recurrent as Luong, dot": {"cell": "lstm", "attention": "dot", "num_layers": 2, "reverse_source": True},
    "recurrent as Luong, input feeding": {
        "cell": "lstm",
        "attention": "general",
        "num_layers": 2,
        "reverse_source": True,
        "input_feeding": True,
    },
    "recurrent factorised": {"cell": "lstm", "factor_rank": 6, "num_layers": 2},
    "recurrent reset after": {"reset": "after", "readout": "tanh"},
}
"""By name: the settings of small models; the part of a name before the first space is the family."""
VOCAB = 50
SOURCES = [[5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15, 16]]
TARGETS = [[21, 22, 23], [24, 25, 26, 27, 28], [29]]


def small(name: str, dtype: torch.dtype = torch.float64) -> TranslationModel:
    settings = {"family": name.split()[0], "d_model": 16, **SMALL[name]}
    model = new_model(resolve({"model": settings, "data": {"max_length": 30}}).model, VOCAB)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # so that nothing is zero or one by its beginning
    return model.to(dtype).eval()


def packed(sources: list[list[int]], targets: list[list[int]]) -> tuple[Packed, Packed]:
    """Both sides with an eos at the end of each sentence."""
    source_T, target_T = (np.array([i for ids in side for i in (*ids, 0)]) for side in (sources, targets))
    source_lengths, lengths = (np.array([len(ids) + 1 for ids in side]) for side in (sources, targets))
    return pack_source(source_T, source_lengths), pack_target(shift_right(target_T), lengths, source_lengths)


@torch.no_grad()
def forced(model: TranslationModel, sources: list[list[int]], targets: list[list[int]]) -> list[Tensor]:
    """The logits of each next token, sentence by sentence."""
    logits_TV: Tensor = model(*packed(sources, targets))
    return list(logits_TV.split([len(ids) + 1 for ids in targets]))


def test_every_family_is_tested_here() -> None:
    assert {name.split()[0] for name in SMALL} == {"transformer", *BASELINES}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("family", ["transformer", *BASELINES])
def test_every_preset_fits_every_family(family: str, name: str) -> None:
    given = {"model": {"family": family}}
    config = resolve(preset(name, given), given)
    assert empty_model(config.model, VOCAB).position_limit > config.data.max_length


@pytest.mark.parametrize("name", SMALL)
def test_a_sentence_has_the_logits_in_a_batch_that_it_has_alone(name: str) -> None:
    model = small(name)
    together = forced(model, SOURCES, TARGETS)
    for number, logits_TV in enumerate(together):
        (alone_TV,) = forced(model, SOURCES[number : number + 1], TARGETS[number : number + 1])
        torch.testing.assert_close(logits_TV, alone_TV)


@pytest.mark.parametrize("name", SMALL)
def test_later_targets_do_not_change_earlier_logits_and_earlier_ones_change_later_logits(name: str) -> None:
    model, target = small(name), [21, 22, 23, 24, 25]
    (before_TV,) = forced(model, SOURCES[:1], [target])
    (after_TV,) = forced(model, SOURCES[:1], [[*target[:2], 40, *target[3:]]])
    torch.testing.assert_close(after_TV[:3], before_TV[:3], atol=0, rtol=0)  # token 2 is first read at place 3
    assert not torch.allclose(after_TV[3], before_TV[3])


@pytest.mark.parametrize("name", SMALL)
def test_every_word_of_the_source_matters(name: str) -> None:
    model = small(name)
    (before_TV,) = forced(model, SOURCES[:1], TARGETS[:1])
    for place in range(len(SOURCES[0])):
        (after_TV,) = forced(model, [[*SOURCES[0][:place], 40, *SOURCES[0][place + 1 :]]], TARGETS[:1])
        assert not torch.allclose(after_TV, before_TV), place


@pytest.mark.parametrize("name", SMALL)
def test_the_logits_are_the_product_that_its_projection_says_if_it_has_one(name: str) -> None:
    model, (source, target_in) = small(name), packed(SOURCES, TARGETS)
    hidden_TD = model.decode(target_in, model.encode(source))
    if (matrix_VD := model.projection()) is not None:
        expected_TV = F.linear(hidden_TD, matrix_VD, model.projection_bias())
        torch.testing.assert_close(model.logits(hidden_TD), expected_TV)


@pytest.mark.parametrize("name", SMALL)
def test_every_weight_has_a_gradient(name: str) -> None:
    model = small(name)
    model(*packed(SOURCES, TARGETS)).logsumexp(dim=-1).sum().backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()] == []


@pytest.mark.parametrize("name", SMALL)
def test_a_token_at_a_time_the_model_says_what_it_says_as_a_whole(name: str) -> None:
    """In slots that sentences enter at different times, with hypotheses that go on from others."""
    decoder = (model := small(name)).new_decoder()
    state = decoder.empty(3, 2, source_length=7)
    hypotheses: dict[tuple[int, int], list[int]] = {}
    sentence_of = {2: 0, 0: 1}
    admit(model, state, [0, 1], [2, 0], hypotheses)
    choose = torch.Generator().manual_seed(5)
    for step in range(7):
        if step == 3:
            admit(model, state, [2], [1], hypotheses)
            sentence_of[1] = 2
        last_R = [(hypotheses[row] or [0])[-1] if (row := (r // 2, r % 2)) in hypotheses else 0 for r in range(6)]
        logits_RV = decoder.step(torch.tensor(last_R), state)
        for (slot, beam), ids in hypotheses.items():
            (expected_TV,) = forced(model, [SOURCES[sentence_of[slot]]], [ids])
            torch.testing.assert_close(logits_RV[slot * 2 + beam], expected_TV[-1])
        parents_NW = torch.randint(0, 2, (3, 2), generator=choose)
        state.select(parents_NW)
        chosen = torch.randint(1, VOCAB, (3, 2), generator=choose).tolist()
        hypotheses = {(s, b): [*hypotheses[s, int(parents_NW[s, b])], chosen[s][b]] for s, b in hypotheses}
    state.keep([1, 2])
    last_R = [hypotheses[slot, beam][-1] for slot in (1, 2) for beam in (0, 1)]
    logits_RV = decoder.step(torch.tensor(last_R), state)
    for place, (slot, beam) in enumerate([(1, 0), (1, 1), (2, 0), (2, 1)]):
        (expected_TV,) = forced(model, [SOURCES[sentence_of[slot]]], [hypotheses[slot, beam]])
        torch.testing.assert_close(logits_RV[place], expected_TV[-1])


@torch.no_grad()
def admit(
    model: TranslationModel, state: Any, sentences: list[int], slots: list[int], hypotheses: dict[Any, list[int]]
) -> None:
    sources = [SOURCES[number] for number in sentences]
    memory: Memory = model.encode(packed(sources, sources)[0])
    state.admit(memory, slots, longest=max(map(len, sources)) + 1)
    hypotheses.update({(slot, beam): [] for slot in slots for beam in range(2)})


def test_a_sentence_that_fits_enters_without_a_copy_of_the_tables() -> None:
    def begin(memory: Memory) -> Beginning:
        return Beginning({"state": torch.ones(1, 3)}, {"memory": memory.hidden_SD[None]})

    def memory_of(length: int) -> Memory:
        return Memory(torch.ones(length, 2), torch.tensor([0, length]))

    state = SlotState(begin, 2, 2, device=torch.device("cpu"))
    state.admit(memory_of(5), [0], longest=5)
    table = state.sentence["memory"]
    state.admit(memory_of(4), [1], longest=4)
    assert state.sentence["memory"] is table
    state.admit(memory_of(6), [0], longest=6)
    assert state.sentence["memory"].sum(dim=(1, 2)).tolist() == [12.0, 8.0]


@pytest.mark.parametrize("name", SMALL)
def test_search_finds_the_same_alone_and_in_company_with_the_scores_of_a_forced_pass(name: str) -> None:
    engine, requests = TorchEngine(small(name)), [Request(ids) for ids in SOURCES]
    options = SearchOptions(beam_size=3, n_best=2, max_extra=4)
    together = engine.translate(requests, options)
    for request, found in zip(requests, together, strict=True):
        (alone,) = engine.translate([request], options)
        assert [each.ids for each in alone] == [each.ids for each in found]
        scores = engine.score([(request.source_ids, each.ids) for each in found])
        for hypothesis, log_probs in zip(found, scores, strict=True):
            assert hypothesis.log_prob == pytest.approx(sum(log_probs), abs=1e-6)


@pytest.mark.parametrize("name", SMALL)
def test_a_beam_of_one_takes_the_likeliest_token_each_time(name: str) -> None:
    model, options = small(name), SearchOptions(beam_size=1, max_extra=4)
    found = TorchEngine(model).translate([Request(ids) for ids in SOURCES], options)
    for source, (hypothesis,) in zip(SOURCES, found, strict=True):
        ids: list[int] = []
        while len(ids) < len(source) + 4:
            (logits_TV,) = forced(model, [source], [ids])
            if (likeliest := int(logits_TV[-1].argmax())) == 0:
                break
            ids.append(likeliest)
        assert list(hypothesis.ids) == ids


@pytest.mark.parametrize("name", SMALL)
def test_its_parameters_are_counted_without_making_them(name: str) -> None:
    made = small(name)
    shapes = {key: tuple(value.shape) for key, value in empty_model(made.config, VOCAB).named_parameters()}
    assert shapes == {key: tuple(value.shape) for key, value in made.named_parameters()}


COUNTED = [name for name in SMALL if name.startswith(("mixer", "recurrent"))]


@pytest.mark.parametrize("name", COUNTED)
def test_autograd_keeps_about_as_many_numbers_as_its_settings_say(name: str) -> None:
    sizes = {"family": name.split()[0], **SMALL[name], "d_model": 48}
    config = resolve({"model": sizes, "data": {"max_length": 30}}).model
    model, kept = new_model(config, VOCAB).train(), dict[int, int]()
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        if (place := tensor.untyped_storage().data_ptr()) not in weights:
            kept[place] = tensor.untyped_storage().nbytes()
        return tensor

    sentences = torch.randint(1, VOCAB, (40, 24)).tolist()
    source, target_in = packed(sentences, sentences)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        model.decode(target_in, model.encode(source))
    assert config.kept_numbers is not None
    assert sum(kept.values()) / (4 * 40 * 25) == pytest.approx(config.kept_numbers, rel=0.25)


@pytest.mark.parametrize("name", SMALL)
def test_recorded_attention_is_that_of_one_pass_and_its_rows_sum_to_one(name: str) -> None:
    model = small(name)
    with torch.no_grad(), model.recorded_attention() as attention:
        model(*packed(SOURCES[:1], TARGETS[:1]))
    sizes = {"encoder": (7, 7), "decoder": (4, 4), "cross": (4, 7)}
    for kind, layers in attention.items():
        for recorder in layers:
            (weights_HTS,) = recorder.weights
            assert weights_HTS.shape[1:] == sizes[kind]
            torch.testing.assert_close(weights_HTS.sum(dim=-1), torch.ones_like(weights_HTS[..., 0]))


class KilledError(Exception):
    """A run ends here."""


def train(name: str, run: Path, killed_at: int = 0) -> None:
    def count(record: object) -> None:
        if isinstance(record, heedful.CheckpointRecord) and record.step == killed_at:
            raise KilledError

    files = (TEXT / "train.en", TEXT / "train.de", run)
    heedful.train(*files, preset="tiny", device="cpu", settings=settings_of(name), on_record=count)


def settings_of(name: str) -> dict[str, Any]:
    sizes = {"family": name.split()[0], "d_model": 16, **SMALL[name]}
    return {f"model.{field}": value for field, value in sizes.items()} | {
        "tokenizer.vocab_size": 400,
        "data.max_length": 30,
        "train.steps": 8,
        "train.batch_tokens": 256,
        "train.checkpoint_steps": 4,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_run_is_killed_and_goes_on_to_the_same_bits_and_its_model_translates(name: str, tmp_path: Path) -> None:
    train(name, tmp_path / "whole")
    with pytest.raises(KilledError):
        train(name, tmp_path / "killed", killed_at=4)
    train(name, tmp_path / "killed")
    digests = {weights_digest(tmp_path / run / "model" / "model.safetensors") for run in ("whole", "killed")}
    assert len(digests) == 1
    translator = Translator.load(tmp_path / "whole", device="cpu")
    assert len(translator.translate(["The cat sat on the mat.", "The king was rich."])) == 2


ONE_OF_EACH = ["mixer", "bytenet", "convs2s", "recurrent as Bahdanau"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_commands_average_score_describe_and_serve_it(name: str, heedful: Run, tmp_path: Path) -> None:
    run, mean = tmp_path / "run", tmp_path / "mean"
    train(name, run)
    assert heedful("average", *sorted((run / "checkpoints").iterdir()), "-o", mean).code == 0
    source, target = tmp_path / "few.en", tmp_path / "few.de"
    for few, whole in ((source, TEXT / "train.en"), (target, TEXT / "train.de")):
        few.write_text("".join(whole.read_text(encoding="utf-8").splitlines(keepends=True)[:5]), encoding="utf-8")
    assert "BLEU" in heedful("evaluate", "-m", mean, "-s", source, "-r", target, "--device", "cpu").out
    assert len(heedful("score", "-m", mean, "-s", source, "-t", target, "--device", "cpu").out.splitlines()) == 5
    assert name.split()[0] in heedful("card", run).out
    translator = Translator.load(mean, device="cpu")
    with TestClient(create_app([translator])) as client:
        asked = {"q": "The king was rich.", "source": "en", "target": "de"}
        answer = client.post("/translate", json=asked).json()
    assert answer["translatedText"] == translator.translate(["The king was rich."])[0].text


@pytest.mark.slow
def test_two_processes_train_what_one_trains(tmp_path: Path) -> None:
    more = {"train.steps": 4, "train.micro_batches": 2, "train.precision": "fp64"}
    settings, (source, target) = settings_of("convs2s") | more, (TEXT / "train.en", TEXT / "train.de")
    heedful.train(source, target, tmp_path / "one", preset="tiny", device="cpu", settings=settings)
    sets = [word for field, value in settings.items() for word in ("--set", f"{field}={value}")]
    files = ["-s", source, "-t", target, "-o", tmp_path / "two", "--preset", "tiny", "--device", "cpu", *sets]
    command = [sys.executable, "-m", "heedful", "train", *map(str, files), "--nproc", "2"]
    subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
    one, two = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("one", "two"))
    torch.testing.assert_close(two, one)


def test_a_name_of_ours_cannot_be_given_to_another_class() -> None:
    class Other(TranslationModel):
        family, settings = "mixer", BASELINES["mixer"]

        def encode(self, source: Packed) -> Memory:
            raise NotImplementedError

        def decode(self, target_in: Packed, memory: Memory) -> Tensor:
            raise NotImplementedError

        def logits(self, hidden_TD: Tensor) -> Tensor:
            raise NotImplementedError

    with pytest.raises(ConfigError, match=r"model.family = 'mixer' is Mixer already; give .*Other another name"):
        register(Other)
