"""ConvS2S: torch's own parts and its paper's equations written out; what it sees, how it begins, that it learns."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from heedful.baselines.convs2s import ConvS2S, NormalizedLinear, windows_of
from heedful.config.baseline_settings import ConvS2SConfig
from heedful.errors import ConfigError, DataError
from heedful.translate.engine import Request, SearchOptions
from heedful.translate.torch_engine import TorchEngine
from tests.baselines.test_families import SOURCES, TARGETS, forced, packed

VOCAB = 50


def new(vocab_size: int = VOCAB, **settings: Any) -> ConvS2S:
    torch.manual_seed(1)
    config = ConvS2SConfig(**{"d_model": 8, "num_layers": 2, "dropout": 0.0, "max_positions": 64} | settings)
    return ConvS2S(config, vocab_size).double().eval()


def moved(model: ConvS2S) -> ConvS2S:
    """Away from where it began, with larger weights, so that attention is not all but uniform."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


# -------------------------------------------------------------------------------------------------------------- parity


def test_a_normalized_layer_is_torchs() -> None:
    torch.manual_seed(1)
    ours, x_TD = NormalizedLinear(6, 5).double(), torch.randn(4, 6, dtype=torch.float64)
    theirs = weight_norm(nn.Linear(6, 5, dtype=torch.float64))
    parts: dict[str, Tensor] = dict(theirs.named_parameters())
    g_X1, v_XD = (parts[f"parametrizations.weight.original{i}"] for i in (0, 1))
    with torch.no_grad():
        for own, other in ((ours.v_XD, v_XD), (ours.g_X1, g_X1), (ours.bias_X, theirs.bias)):
            own.copy_(torch.randn_like(own))
            other.copy_(own)
    for layer in (ours, theirs):
        layer(x_TD).square().sum().backward()
    torch.testing.assert_close(ours(x_TD), theirs(x_TD))
    torch.testing.assert_close([ours.v_XD.grad, ours.g_X1.grad], [v_XD.grad, g_X1.grad])


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (2, 0), (1, 0), (0, 0)])
def test_a_product_with_windows_is_torchs_convolution_of_each_sentence_alone(before: int, after: int) -> None:
    torch.manual_seed(1)
    source, _ = packed(SOURCES, TARGETS)
    x_TD = torch.randn(len(source.tokens_T), 6, dtype=torch.float64, requires_grad=True)
    weight_XDK = torch.randn(4, 6, before + 1 + after, dtype=torch.float64)
    ours_TX = F.linear(windows_of(source, range(-before, after + 1))(x_TD), weight_XDK.mT.flatten(1))
    sentences = x_TD.split([len(ids) + 1 for ids in SOURCES])
    theirs_TX = torch.cat([F.conv1d(F.pad(x.T, (before, after)), weight_XDK).T for x in sentences])
    torch.testing.assert_close(ours_TX, theirs_TX)
    grads = [torch.autograd.grad(y_TX.sin().sum(), x_TD)[0] for y_TX in (ours_TX, theirs_TX)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"embedding_width": 5, "num_decoder_layers": 3, "encoder_kernel": 5, "decoder_kernel": 2},
        {"tied_embeddings": True},
    ],
)
def test_it_computes_the_equations_of_its_paper_and_their_gradients(settings: dict[str, Any]) -> None:
    model = moved(new(**settings))
    with model.recorded_attention() as attention:
        logits_TV = model(*packed(SOURCES[:1], TARGETS[:1]))
    written = Equations(model)
    expected_TV = written.logits([*SOURCES[0], 0], TARGETS[0])
    torch.testing.assert_close(logits_TV, expected_TV)
    weights = [recorder.weights[0][0] for recorder in attention["cross"]]
    torch.testing.assert_close(weights, [torch.stack(rows) for rows in written.attention])
    weighing_TV = torch.randn_like(logits_TV)
    parameters = list(model.parameters())
    grads = [torch.autograd.grad((y_TV * weighing_TV).sum(), parameters) for y_TV in (logits_TV, expected_TV)]
    torch.testing.assert_close(*grads)


class Equations:
    """§3 of the paper for one sentence, vector by vector, in its order, with every √½ that docs/baselines.md names."""

    def __init__(self, model: ConvS2S) -> None:
        self.weights, self.config = dict(model.named_parameters()), model.config
        self.attention: list[list[Tensor]] = []  # of each layer, for each target word

    def logits(self, source: list[int], target: list[int]) -> Tensor:
        p, k = self.weights, self.config.encoder_kernel
        e = [p["words_VF"][word] + p["source_embedding.positions_LF"][j] for j, word in enumerate(source)]
        x = [self.affine("encoder.W_in", e_j) for e_j in e]
        for layer in range(self.config.encoder_layers):
            x = self.convolution(f"encoder.layers.{layer}", x, range(-(k // 2), k // 2 + 1))
        z = [self.gradient_by_attentions(self.affine("encoder.W_out", x_j)) for x_j in x]
        return torch.stack([self.output(h_i) for h_i in self.decoder(target, z, e)])

    def decoder(self, target: list[int], z: list[Tensor], e: list[Tensor]) -> list[Tensor]:
        p = self.weights
        table = p.get("target_words_VF", p["words_VF"])
        words = [torch.zeros_like(table[0]), *(table[word] for word in target)]
        g = [word + p["target_embedding.positions_LF"][i] for i, word in enumerate(words)]
        h = [self.affine("decoder.W_in", g_i) for g_i in g]
        for layer in range(self.config.decoder_layers):
            name = f"decoder.layers.{layer}"
            h = self.convolution(f"{name}.convolution", h, range(1 - self.config.decoder_kernel, 1))
            self.attention.append([])
            h = [self.attend(f"{name}.attention", h_i, g_i, z, e) for h_i, g_i in zip(h, g, strict=True)]
        return h

    def attend(self, name: str, h_i: Tensor, g_i: Tensor, z: list[Tensor], e: list[Tensor]) -> Tensor:
        d_i = (self.affine(f"{name}.W_d", h_i) + g_i) * math.sqrt(0.5)
        exponentials = [(d_i * z_j).sum().exp() for z_j in z]
        a_i = [one / torch.stack(exponentials).sum() for one in exponentials]
        self.attention[-1].append(torch.stack(a_i))
        c_i = torch.zeros_like(g_i)
        for a_ij, z_j, e_j in zip(a_i, z, e, strict=True):
            c_i = c_i + a_ij * (z_j + e_j) * math.sqrt(0.5)
        m = len(z)
        return (h_i + self.affine(f"{name}.W_c", c_i * m * math.sqrt(1 / m))) * math.sqrt(0.5)

    def output(self, h_i: Tensor) -> Tensor:
        hidden = self.affine("decoder.W_out", h_i)
        if self.config.tied_embeddings:
            return torch.stack([(row * hidden).sum() for row in self.weights["words_VF"]])
        return self.affine("W_o", hidden)

    def convolution(self, name: str, x: list[Tensor], offsets: Sequence[int]) -> list[Tensor]:
        outside = torch.zeros_like(x[0])
        outputs = []
        for i, x_i in enumerate(x):
            window = torch.cat([x[i + o] if 0 <= i + o < len(x) else outside for o in offsets])
            a, b = self.affine(f"{name}.W", window).chunk(2)
            outputs.append((a * (1 / (1 + (-b).exp())) + x_i) * math.sqrt(0.5))
        return outputs

    def affine(self, name: str, x: Tensor) -> Tensor:
        v, g, b = (self.weights[f"{name}.{part}"] for part in ("v_XD", "g_X1", "bias_X"))
        rows = zip(v, g, b, strict=True)
        return torch.stack([(g_o * v_o / v_o.square().sum().sqrt() * x).sum() + b_o for v_o, g_o, b_o in rows])

    def gradient_by_attentions(self, z_j: Tensor) -> Tensor:
        return z_j.detach() + (z_j - z_j.detach()) / self.config.decoder_layers


# ------------------------------------------------------------------------------------------------------- what it sees


@pytest.mark.parametrize(("layers", "kernel"), [(1, 3), (3, 3), (2, 5), (4, 1)])
def test_an_encoder_of_n_layers_sees_n_times_k_minus_1_words_and_one(layers: int, kernel: int) -> None:
    model, words = new(num_layers=layers, encoder_kernel=kernel), list(range(1, 31))
    z_SF = model.encode(packed([words], [[1]])[0]).hidden_SD[:, :8]
    seen = words_that_matter(z_SF[15], model.words_VF)
    reach = layers * (kernel - 1) // 2
    assert len(seen) == layers * (kernel - 1) + 1
    assert seen == words[15 - reach : 15 + reach + 1]


@pytest.mark.parametrize(("layers", "kernel"), [(1, 3), (3, 3), (2, 5), (3, 2), (4, 1)])
def test_a_decoder_of_n_layers_sees_n_times_k_minus_1_words_and_one_before_the_next(layers: int, kernel: int) -> None:
    model, words = new(num_layers=layers, decoder_kernel=kernel), list(range(1, 31))
    logits_TV = model(*packed([[31, 32]], [words]))
    assert model.target_words_VF is not None
    seen = words_that_matter(logits_TV[20], model.target_words_VF)
    assert seen == words[20 - (layers * (kernel - 1) + 1) : 20]


def words_that_matter(output_D: Tensor, words_VF: Tensor) -> list[int]:
    (grad_VF,) = torch.autograd.grad(output_D.square().sum(), words_VF)
    return grad_VF.abs().sum(dim=1).nonzero().flatten().tolist()


def test_each_layer_of_the_decoder_has_its_own_attention() -> None:
    model = moved(new(num_decoder_layers=3))
    with torch.no_grad(), model.recorded_attention() as attention:
        model(*packed(SOURCES, TARGETS))
    first_1TS, *others = [recorder.weights[0] for recorder in attention["cross"]]
    assert len(others) == 2
    assert not any(torch.allclose(first_1TS, other_1TS) for other_1TS in others)


# ------------------------------------------------------------------------------------------------------ how it begins


def test_at_the_beginning_the_norm_of_v_is_g() -> None:
    layers = [module for module in new().modules() if isinstance(module, NormalizedLinear)]
    assert len(layers) == 2 * 2 + 1 + 2 + 3 * 2  # both ends of both sides, W_o, and what the layers have
    for layer in layers:
        torch.testing.assert_close(layer.g_X1, layer.v_XD.norm(dim=1, keepdim=True))
        torch.testing.assert_close(layer.weight_XD, layer.v_XD)
        assert not layer.bias_X.any()


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_variance_stays_what_it_was_through_twelve_layers_of_each_side(dropout: float) -> None:
    """§3.5: by initial weights that take back what dropout adds, and by scaled sums and contexts."""
    model = new(vocab_size=2000, d_model=128, num_layers=12, dropout=dropout).train()
    variances: list[float] = []
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.register_forward_hook(lambda _module, _inputs, output_TD: variances.append(output_TD.var().item()))
    sentences = torch.randint(1, 2000, (30, 20)).tolist()
    model(*packed(sentences, sentences))
    of_a_word_and_its_position = 2 * 0.1**2
    assert [variance / of_a_word_and_its_position for variance in variances] == pytest.approx([1.0] * 24, abs=0.35)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_the_encoder_gets_the_gradient_of_one_attention(layers: int) -> None:
    """§3.4: that of all attentions by their number; the words in the values get all of it."""
    model, (source, target_in) = moved(new(num_decoder_layers=layers)), packed(SOURCES, TARGETS)
    model(source, target_in).square().sum().backward()
    memory = model.encode(source)
    (grad_SX,) = torch.autograd.grad(model.logits(model.decode(target_in, memory)).square().sum(), memory.hidden_SD)
    grad_key_SF, grad_value_SF = grad_SX.chunk(2, dim=1)
    e_SF = model.source_embedding(F.embedding(source.tokens_T, model.words_VF), source.positions_T)
    z_SF = model.encoder(e_SF, windows_of(source, [-1, 0, 1]))
    of_z_SF = (grad_key_SF + grad_value_SF * math.sqrt(0.5)) / layers
    expected = torch.autograd.grad(
        [z_SF, e_SF], [model.encoder.W_out.v_XD, model.words_VF], [of_z_SF, grad_value_SF * math.sqrt(0.5)]
    )
    torch.testing.assert_close((model.encoder.W_out.v_XD.grad, model.words_VF.grad), expected)


def test_in_mixed_precision_the_residual_sums_are_float32() -> None:
    model = new(num_layers=3).float()
    (expected_TV,) = forced(model, SOURCES[:1], TARGETS[:1])
    sums: list[torch.dtype] = []
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.register_forward_hook(lambda _module, _inputs, output_TD: sums.append(output_TD.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        (found_TV,) = forced(model, SOURCES[:1], TARGETS[:1])
    assert sums == [torch.float32] * 6
    torch.testing.assert_close(found_TV.float(), expected_TV, atol=0.02, rtol=0.05)


@pytest.mark.parametrize("settings", [{"num_layers": 4}, {"embedding_width": 24, "encoder_kernel": 7}])
def test_autograd_keeps_as_many_numbers_as_its_settings_say(settings: dict[str, Any]) -> None:
    model, kept = new(**{"d_model": 32, "dropout": 0.1} | settings).train(), dict[int, int]()

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    sentences = torch.randint(1, VOCAB, (60, 29)).tolist()
    batch = packed(sentences, sentences)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        model.decode(batch[1], model.encode(batch[0]))
    weights = sum(2 * 8 * weight.numel() for weight in model.parameters())  # g v / ‖v‖ is kept beside v
    assert (sum(kept.values()) - weights) / (8 * 60 * 30) == pytest.approx(model.config.kept_numbers, rel=0.1)


# ------------------------------------------------------------------------------------------------- what is refused


def test_an_encoder_with_no_middle_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.encoder_kernel = 4 is even.* take 3 or 5"):
        new(encoder_kernel=4)


@pytest.mark.parametrize(("source", "target"), [(9, 3), (3, 9)])
def test_a_sentence_with_no_positions_is_refused(source: int, target: int) -> None:
    with pytest.raises(DataError, match=r"10 tokens is longer than the 8 positions .*\(model.max_positions\)"):
        forced(new(max_positions=8), [[5] * source], [[6] * target])


# ----------------------------------------------------------------------------------------------------------- learning


@pytest.mark.slow
def test_it_learns_to_turn_lines_around() -> None:
    model, choose = new(d_model=32, dropout=0.1).float().train(), random.Random(2)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(250):
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
    return [[choose.randint(1, 12) for _ in range(choose.randint(2, 9))] for _ in range(number)]
