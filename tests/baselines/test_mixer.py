"""The Mixer: its paper's equations written out, which positions meet, what its limit is for, and that it learns."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from heedful.baselines.mixer import Mixer
from heedful.config.baseline_settings import USUAL_LENGTH, MixerConfig
from heedful.errors import DataError
from heedful.model.layers import LAYER_NORM_EPS
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.torch_engine import TorchEngine
from tests.baselines.test_families import SOURCES, forced, packed

VOCAB = 50
SIZES: dict[str, Any] = {"d_model": 8, "d_ff": 12, "num_heads": 2, "token_width": 6, "max_positions": 9, "dropout": 0.0}


def new(num_layers: int = 2, **settings: Any) -> Mixer:
    """A small model with no weight at zero."""
    model = Mixer(MixerConfig(**{**SIZES, "num_layers": num_layers, **settings}), VOCAB).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def memory_of(model: Mixer, sources: list[list[int]]) -> Tensor:
    """The encoder's output of all sentences, each with its eos."""
    return model.encode(packed(sources, sources)[0]).hidden_SD


# ----------------------------------------------------------------------------------------------------------- equations


class Equations:
    """Equation 1 of the paper for one sentence, number by number; X has all positions, those after its end zero.

    U_(*,i) = X_(*,i) + W₂ σ(W₁ LayerNorm(X)_(*,i)), then Y_(j,*) = U_(j,*) + W₄ σ(W₃ LayerNorm(U)_(j,*)).
    """

    def __init__(self, model: Mixer) -> None:
        self.weights, self.config = dict(model.named_parameters()), model.config

    def memory(self, source: list[int]) -> Tensor:
        rows = [self.weights["embedding.weight_VD"][word] * math.sqrt(self.config.d_model) for word in source]
        for number in range(self.config.encoder_layers):
            rows = self.channels_mixed(f"encoder.{number}", self.positions_mixed(f"encoder.{number}", rows))
        return torch.stack([self.layer_norm("encoder_norm", row) for row in rows])

    def positions_mixed(self, name: str, rows: Sequence[Tensor]) -> list[Tensor]:
        normed = [self.layer_norm(f"{name}.token_norm", row) for row in rows]
        nothing = [torch.zeros_like(rows[0])] * (self.config.max_positions - len(rows))
        columns = torch.stack([*normed, *nothing]).unbind(dim=1)
        mixed = [self.network(f"{name}.token_mixing.W_1", f"{name}.token_mixing.W_2", column) for column in columns]
        return [row + mixed_row for row, mixed_row in zip(rows, torch.stack(mixed, dim=1), strict=False)]

    def channels_mixed(self, name: str, rows: Sequence[Tensor]) -> list[Tensor]:
        first, second = (f"{name}.channel_mixing.{number}" for number in (0, 2))
        return [row + self.network(first, second, self.layer_norm(f"{name}.channel_norm", row)) for row in rows]

    def network(self, first: str, second: str, x: Tensor) -> Tensor:
        hidden = self.affine(first, x)
        return self.affine(second, hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2)

    def affine(self, name: str, x: Tensor) -> Tensor:
        rows = zip(self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], strict=True)
        return torch.stack([(row * x).sum() + bias for row, bias in rows])

    def layer_norm(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean()
        scaled = centred / (centred.square().mean() + LAYER_NORM_EPS).sqrt()
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def test_its_encoder_computes_the_equations_of_its_paper_and_their_gradients() -> None:
    model = new()
    memory_SD, written = memory_of(model, SOURCES), Equations(model)
    expected_SD = torch.cat([written.memory([*source, 0]) for source in SOURCES])
    torch.testing.assert_close(memory_SD, expected_SD)
    of_encoder = [p for name, p in model.named_parameters() if name.startswith(("embedding", "encoder"))]
    weighing_SD = torch.randn_like(memory_SD)
    grads = [torch.autograd.grad((y_SD * weighing_SD).sum(), of_encoder) for y_SD in (memory_SD, expected_SD)]
    torch.testing.assert_close(*grads)


# ----------------------------------------------------------------------------------------------------------- positions


def depends(model: Mixer, length: int) -> Tensor:
    """Whether the memory at a place (row) depends on the word at another one (column)."""
    words = list(range(1, length))
    before_SD = memory_of(model, [words])
    changed = [memory_of(model, [[*words[:j], 40, *words[j + 1 :]]]) != before_SD for j in range(length - 1)]
    return torch.stack([each_SD.any(dim=1) for each_SD in changed], dim=1)


def test_after_one_layer_every_place_has_seen_every_other() -> None:
    assert depends(new(num_layers=1), 9).all()


def test_without_token_mixing_a_place_sees_itself_alone() -> None:
    model = new()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".token_mixing.W_2" in name:
                parameter.zero_()
    assert torch.equal(depends(model, 7), torch.eye(7, dtype=torch.bool)[:, :6])


def test_the_order_of_the_words_matters() -> None:
    """Without positions added to the embeddings: a Transformer's memory would be the same rows in another order."""
    one_SD, other_SD = memory_of(new(), [[5, 6, 7]]), memory_of(new(), [[7, 6, 5]])
    assert not torch.allclose(one_SD, other_SD[[2, 1, 0, 3]], atol=1e-3)


def test_its_limit_is_that_of_the_source_alone() -> None:
    model = new()
    (logits_TV,) = forced(model, [[5] * 8], [[6] * 30])
    assert len(logits_TV) == 31
    with pytest.raises(DataError, match=r"10 tokens is longer than the 9 positions .*\(model.max_positions\)"):
        forced(model, [[5] * 9], [[6]])


def test_a_translation_may_be_longer_than_the_longest_source() -> None:
    request, options = Request([5] * 8), SearchOptions(beam_size=1, max_extra=20)
    assert TorchEngine(new()).max_length(request, options) == 28
    assert TorchEngine(new(positions="learned")).max_length(request, options) == 8  # the decoder has 9 positions, too


def test_a_sentence_of_usual_length_begins_with_its_variance_in_the_hidden_layer() -> None:
    torch.manual_seed(1)
    model = Mixer(MixerConfig(d_model=64, num_layers=1, num_heads=2), VOCAB)
    first = model.state_dict()["encoder.0.token_mixing.W_1.weight"]
    hidden_DF = torch.randn(64, USUAL_LENGTH) @ first[:, :USUAL_LENGTH].T
    assert hidden_DF.std() == pytest.approx(1, rel=0.05)


# ------------------------------------------------------------------------------------------------------------ learning


@pytest.mark.slow
def test_it_learns_to_turn_lines_around() -> None:
    torch.manual_seed(1)
    model = Mixer(MixerConfig(**SIZES | {"d_model": 32, "d_ff": 64, "num_layers": 2, "token_width": 32}), 14).train()
    optimizer, choose = torch.optim.Adam(model.parameters(), lr=3e-3), random.Random(2)
    for _ in range(400):
        sources = lines(32, choose)
        target_T = torch.tensor([i for ids in sources for i in (*ids[::-1], 0)])
        loss = F.cross_entropy(model(*packed(sources, [ids[::-1] for ids in sources])), target_T)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    unseen = lines(100, random.Random(3))
    found = TorchEngine(model.eval()).translate([Request(ids) for ids in unseen], SearchOptions(beam_size=1))
    right = sum(list(each[0].ids) == ids[::-1] for each, ids in zip(found, unseen, strict=True))
    assert right >= 90, f"{right} of 100 lines were turned around"


def lines(number: int, choose: random.Random) -> list[list[int]]:
    return [[choose.randint(1, 12) for _ in range(choose.randint(2, 6))] for _ in range(number)]
