"""The switches of the Transformer: what each changes, what it leaves alone, and that all ways to compute agree."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from heedful.config.settings import ModelConfig, TrainConfig
from heedful.errors import ConfigError
from heedful.model.attention import MultiHeadAttention, Pairs
from heedful.model.attention_variants import (
    FARTHEST,
    AdditiveAttention,
    RelativePositions,
    RotaryPositions,
    VariedAttention,
)
from heedful.model.experts import BALANCE, Experts, squared_variation
from heedful.model.layers import EncoderLayer
from heedful.model.layout import Lengths, make_groups
from heedful.model.packed import Packed, pack_source, pack_target, shift_right
from heedful.model.transformer import Transformer
from heedful.train.batching import make_batch
from heedful.train.gradients import Objective, PlainGradients
from heedful.train.processes import World
from tests.memory_shards import shards
from tests.switches import SWITCHES

SMALL = ModelConfig(d_model=16, d_ff=24, num_layers=2, num_heads=4, dropout=0.0)
VOCAB_SIZE = 23
SOURCE_LENGTHS, TARGET_LENGTHS = (5, 1, 40, 3), (2, 7, 1, 30)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(3)


def new_model(**settings: Any) -> Transformer:
    """A random model in float64, all of whose parameters are random."""
    model = Transformer(msgspec.structs.replace(SMALL, **settings), VOCAB_SIZE).double().eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.4)
    return model


@pytest.fixture(params=list(SWITCHES.values()), ids=list(SWITCHES))
def model(request: pytest.FixtureRequest) -> Transformer:
    return new_model(**request.param)


def attention_in(model: Transformer, place: str) -> MultiHeadAttention:
    """The attention of this name."""
    attention = model.get_submodule(place)
    assert isinstance(attention, MultiHeadAttention)
    return attention


def summed_gradients(parameters: Iterable[Tensor]) -> Tensor:
    """The sum of the gradients of these parameters."""
    return torch.stack([parameter.grad for parameter in parameters if parameter.grad is not None]).sum(dim=0)


def same(one: Tensor, two: Tensor) -> None:
    """Equal but for the last digits of float64."""
    assert_close(one, two, rtol=1e-9, atol=1e-9)


def lengths(*numbers: int) -> Lengths:
    return np.array(numbers, dtype=np.int64)


def random_ids(length: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return torch.randint(0, VOCAB_SIZE, (length,)).numpy()


def packed(source_lengths: tuple[int, ...], target_lengths: tuple[int, ...]) -> tuple[Packed, Packed]:
    """Random sentences of these lengths."""
    source = pack_source(random_ids(sum(source_lengths)), lengths(*source_lengths))
    target_T = shift_right(random_ids(sum(target_lengths)))
    return source, pack_target(target_T, lengths(*target_lengths), lengths(*source_lengths))


def logits_and_gradients(model: Transformer, batch: tuple[Packed, Packed]) -> list[Tensor]:
    """The logits, and the gradient of every parameter for a sum over them."""
    model.zero_grad()
    logits_TV = model(*batch)
    (logits_TV * torch.linspace(-1, 1, logits_TV.numel()).double().view_as(logits_TV)).sum().backward()
    return [logits_TV.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


# ------------------------------------------------------------------------------------------------------- every switch


def test_the_recorded_attention_is_the_one_that_a_model_is_trained_with(model: Transformer) -> None:
    """Packed rows with all weights, and groups of sentences: the same logits, and the same gradients."""
    batch = packed(SOURCE_LENGTHS, TARGET_LENGTHS)
    trained = logits_and_gradients(model, batch)
    with model.recorded_attention() as recorders:
        recorded = logits_and_gradients(model, batch)
    for one, two in zip(trained, recorded, strict=True):
        same(one, two)
    assert len(trained) == 1 + len(list(model.parameters())), "every parameter has a gradient"
    for recorder in (recorder for layers in recorders.values() for recorder in layers):
        (weights_HTS,) = recorder.weights
        same(weights_HTS.sum(dim=-1), torch.ones_like(weights_HTS[..., 0]))


def test_a_sentence_does_not_depend_on_what_it_is_packed_with(model: Transformer) -> None:
    source, target = packed(SOURCE_LENGTHS, TARGET_LENGTHS)
    together = model(source, target).split(TARGET_LENGTHS)
    sources, targets = source.tokens_T.split(SOURCE_LENGTHS), target.tokens_T.split(TARGET_LENGTHS)
    for source_T, target_T, logits_TV in zip(sources, targets, together, strict=True):
        alone = pack_source(source_T.numpy(), lengths(len(source_T)))
        same(model(alone, pack_target(target_T.numpy(), lengths(len(target_T)), lengths(len(source_T)))), logits_TV)


def test_later_targets_do_not_change_earlier_logits(model: Transformer) -> None:
    source, target = packed((6,), (8,))
    before_TV = model(source, target)
    target.tokens_T[5:] = (target.tokens_T[5:] + 1) % VOCAB_SIZE
    after_TV = model(source, target)
    same(after_TV[:5], before_TV[:5])
    assert (after_TV[5:] - before_TV[5:]).abs().amax(dim=-1).min() > 1e-3


@pytest.mark.parametrize("autocast", [False, True])
def test_a_model_is_trained_in_single_and_in_mixed_precision(model: Transformer, autocast: bool) -> None:
    model = model.float().train()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.1)
    gradients = PlainGradients(Objective(model, TrainConfig()), world=World(), autocast=autocast)
    batch = make_batch(shards([([5, 6], [7, 8, 9]), ([10, 4, 3], [11])]), np.arange(2))
    sums_2 = gradients.add(batch, seed=1, factor=0.1, is_first=True, is_last=True)
    found = gradients.tensors()
    assert len(found) == len(list(model.parameters()))
    assert all(gradient.isfinite().all() for gradient in (sums_2, *found))
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters() if parameter.grad is not None)


def test_a_switch_changes_what_the_model_computes(model: Transformer) -> None:
    plain = new_model()
    plain.load_state_dict(model.state_dict(), strict=False)
    batch = packed(SOURCE_LENGTHS, TARGET_LENGTHS)
    assert (model(*batch) - plain(*batch)).abs().max() > 1e-3


# ---------------------------------------------------------------------------------- §3.2.1, the compatibility function


def random_attention(num_queries: int, num_keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of two heads, d_k 4 and d_v 3."""
    query, key, value = torch.randn(num_queries, 2, 4), torch.randn(num_keys, 2, 4), torch.randn(num_keys, 2, 3)
    return query.double(), key.double(), value.double()


HEADS = ModelConfig(d_model=8, num_heads=2, d_k=4, d_v=3)


def test_unscaled_is_scaled_with_queries_that_are_longer_by_the_root_of_d_k() -> None:
    query_THK, key_SHK, value_SHK = random_attention(7, 9)
    layout = make_groups(lengths(3, 4), lengths(5, 4), causal=False)
    unscaled = VariedAttention(msgspec.structs.replace(HEADS, compatibility="unscaled"))
    output_THK = unscaled.attend(query_THK, key_SHK, value_SHK, layout)
    same(output_THK, layout.attend(query_THK * math.sqrt(4), key_SHK, value_SHK))
    assert (output_THK - layout.attend(query_THK, key_SHK, value_SHK)).abs().max() > 1e-3


def test_additive_attention_is_a_network_with_a_single_hidden_layer() -> None:
    """v · tanh(W q + U k) for each query and key of each head, as Bahdanau et al. have it."""
    query_THK, key_SHK, value_SHK = random_attention(3, 5)
    variant = AdditiveAttention(msgspec.structs.replace(HEADS, compatibility="additive")).double()
    torch.nn.init.normal_(variant.v_HK)
    output_THK, weights_HTS = variant.with_weights(
        query_THK, key_SHK, value_SHK, make_groups(lengths(3), lengths(5), causal=False)
    )
    for h in range(2):
        for t in range(3):
            scores = [float(variant.v_HK[h].detach() @ (query_THK[t, h] + key_SHK[s, h]).tanh()) for s in range(5)]
            weights_S = torch.tensor(scores, dtype=torch.float64).softmax(dim=0)
            same(weights_HTS[h, t], weights_S)
            same(output_THK[t, h], weights_S @ value_SHK[:, h])


# ------------------------------------------------------------------------------------ §3.5, positions within attention


def relative_positions() -> RelativePositions:
    variant = RelativePositions(msgspec.structs.replace(HEADS, positions="relative")).double()
    for parameter in variant.parameters():
        torch.nn.init.normal_(parameter)
    return variant


def test_relative_positions_are_the_equations_of_shaw() -> None:
    """Equations 3 and 4 there: α = softmax(q (k + a_K) / √d_k), z = Σ α (v + a_V)."""
    num_rows = FARTHEST + 6  # some pairs are farther apart than distances are told apart
    query_THK, key_SHK, value_SHK = random_attention(num_rows, num_rows)
    variant = relative_positions()
    layout = make_groups(lengths(num_rows), lengths(num_rows), causal=False)
    output_THK = variant.attend(query_THK, key_SHK, value_SHK, layout)
    for h in range(2):
        for i in range(num_rows):
            numbers = [max(-FARTHEST, min(FARTHEST, j - i)) + FARTHEST for j in range(num_rows)]
            weights_S = ((key_SHK[:, h] + variant.key_HBK[h, numbers]) @ query_THK[i, h] / math.sqrt(4)).softmax(dim=0)
            same(output_THK[i, h], weights_S @ (value_SHK[:, h] + variant.value_HBK[h, numbers]))


def test_without_vectors_relative_positions_are_none() -> None:
    query_THK, key_SHK, value_SHK = random_attention(9, 9)
    variant, layout = relative_positions(), make_groups(lengths(5, 4), lengths(5, 4), causal=True)
    for parameter in variant.parameters():
        torch.nn.init.zeros_(parameter)
    same(variant.attend(query_THK, key_SHK, value_SHK, layout), layout.attend(query_THK, key_SHK, value_SHK))


def test_rotary_positions_turn_pairs_of_columns_as_complex_numbers() -> None:
    """Equation 12 there: the pair x_2i + x_2i+1 · √-1 times e^(√-1 · pos · θ_i)."""
    variant = RotaryPositions(ModelConfig(d_model=12, num_heads=2, d_k=6, positions="rotary")).double()
    x_HLK = torch.randn(2, 9, 6).double()
    angles_LI = torch.outer(torch.arange(9), 10000 ** (-2 * torch.arange(3).double() / 6))
    turned_HLI = torch.view_as_complex(x_HLK.unflatten(-1, (3, 2))) * torch.polar(torch.ones(9, 3).double(), angles_LI)
    same(variant.turned(x_HLK, torch.arange(9), 9), torch.view_as_real(turned_HLI).flatten(-2))


def test_in_16_bits_queries_and_keys_are_turned_in_32() -> None:
    variant = RotaryPositions(ModelConfig(d_model=12, num_heads=2, d_k=6, positions="rotary"))
    x_HLK = torch.randn(2, 900, 6).bfloat16()
    turned_HLK = variant.turned(x_HLK.float(), torch.arange(900), 900)
    assert torch.equal(variant.turned(x_HLK, torch.arange(900), 900), turned_HLK.bfloat16())


@pytest.mark.parametrize("kind", [AdditiveAttention, RelativePositions, RotaryPositions])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_finite_differences(kind: type[VariedAttention], causal: bool) -> None:
    """Of queries, keys, values and what is learned, in groups of padded sentences and with a radius."""
    variant = kind(HEADS, radius=2).double()
    for parameter in variant.parameters():
        torch.nn.init.normal_(parameter)
    layout = make_groups(lengths(4, 1, 2), lengths(4, 1, 2), causal=causal)
    inputs = [tensor.requires_grad_() for tensor in random_attention(7, 7)]

    def attend(query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor, *_: Tensor) -> Tensor:
        return variant.attend(query_THK, key_SHK, value_SHK, layout)

    assert torch.autograd.gradcheck(attend, (*inputs, *variant.parameters()), fast_mode=True)


@pytest.mark.parametrize("kind", [RelativePositions, RotaryPositions])
def test_only_the_distance_counts(kind: type[VariedAttention]) -> None:
    """All positions moved by a constant change nothing."""
    variant = kind(HEADS).double()
    for parameter in variant.parameters():
        torch.nn.init.normal_(parameter)
    query_HLK, key_HMK, value_HMK = (tensor.transpose(0, 1) for tensor in random_attention(6, 6))
    mask_LM = torch.ones(6, 6, dtype=torch.bool)

    def output(first: int, step: int) -> Tensor:
        position_L = first + step * torch.arange(6)
        return variant.attention(query_HLK, key_HMK, value_HMK, mask_LM, Pairs(position_L, position_L, longest=200))[0]

    same(output(100, 1), output(0, 1))
    assert (output(0, 2) - output(0, 1)).abs().max() > 1e-3


# ------------------------------------------------------------------------------------------- §3.2.2, shared projections


@pytest.mark.parametrize(("projections", "shared"), [("shared_qk", ["W_K"]), ("tied_qkv", ["W_K", "W_V"])])
def test_a_shared_projection_is_a_separate_one_with_the_same_numbers(projections: str, shared: list[str]) -> None:
    """So is its gradient, the sum of theirs; and it is kept, counted and drawn once."""
    one, several = new_model(projections=projections), new_model()
    weights = one.state_dict()
    assert {name.split(".")[-2] for name in several.state_dict().keys() - weights.keys()} == set(shared)
    for name in several.state_dict().keys() - weights.keys():
        weights[name] = weights[".".join([*name.split(".")[:-2], "W_Q.weight"])]
    several.load_state_dict(weights)
    batch = packed(SOURCE_LENGTHS, TARGET_LENGTHS)
    same(logits_and_gradients(one, batch)[0], logits_and_gradients(several, batch)[0])
    for place in ("encoder.0.self_attention", "decoder.1.cross_attention"):
        ours, theirs = attention_in(one, place), attention_in(several, place)
        assert all(getattr(ours, name) is ours.W_Q for name in shared)
        separate = [theirs.get_parameter(f"{name}.weight") for name in ("W_Q", *shared)]
        same(summed_gradients([ours.W_Q.weight]), summed_gradients(separate))


def test_shared_projections_stay_shared_in_a_copy() -> None:
    model = new_model(projections="tied_qkv")
    attention = attention_in(copy.deepcopy(model).float(), "encoder.0.self_attention")
    assert attention.W_V is attention.W_K is attention.W_Q is not attention_in(model, "encoder.0.self_attention").W_Q
    assert attention.W_V.weight.dtype == torch.float32


# ------------------------------------------------------------------------------------ §4, restricted self-attention


def test_a_radius_hides_what_is_farther_away_and_one_that_is_long_enough_hides_nothing() -> None:
    query_THK, key_SHK, value_SHK = random_attention(9, 9)
    for causal in (False, True):
        layout = make_groups(lengths(9), lengths(9), causal=causal)
        restricted, wide = (VariedAttention(HEADS, radius) for radius in (2, 8))
        same(wide.attend(query_THK, key_SHK, value_SHK, layout), layout.attend(query_THK, key_SHK, value_SHK))
        _, weights_HTS = restricted.with_weights(query_THK, key_SHK, value_SHK, layout)
        sees_TS = torch.ones(9, 9, dtype=torch.bool).triu(-2).tril(0 if causal else 2)
        assert torch.equal(weights_HTS > 0, sees_TS.expand(2, 9, 9))


def test_a_radius_restricts_self_attention_alone() -> None:
    model = new_model(attention_radius=1)
    with model.recorded_attention() as recorders:
        model(*packed((7,), (6,)))
    for kind, seen in {"encoder": 3, "decoder": 2, "cross": 7}.items():
        weights_HTS = recorders[kind][0].weights[0]
        assert int((weights_HTS > 0).sum(dim=-1).max()) == seen, kind


# ------------------------------------------------------------------------------------------ §6.3, dropout of attention


def test_attention_dropout_drops_weights_by_the_seed_and_in_training_alone() -> None:
    model, plain = new_model(attention_dropout=0.3), new_model()
    plain.load_state_dict(model.state_dict())
    batch = packed(SOURCE_LENGTHS, TARGET_LENGTHS)
    same(model(*batch), plain(*batch))
    model.train()
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(model(*batch))
    assert torch.equal(drawn[0], drawn[1])
    assert (drawn[0] - drawn[2]).abs().max() > 1e-3


def test_with_all_weights_dropped_attention_says_nothing() -> None:
    """In all three uses; dropped are the weights, so that what remains of an output has been scaled up."""
    model = new_model(attention_dropout=0.5).train()
    places = [module for module in model.modules() if isinstance(module, VariedAttention)]
    assert len(places) == 3 * SMALL.num_layers
    query_THK, key_SHK, value_SHK = random_attention(9, 9)
    layout = make_groups(lengths(9), lengths(9), causal=False)
    for dropped in places:
        output_THK = dropped.attend(query_THK, key_SHK, torch.ones_like(value_SHK), layout)
        weights_HTS = dropped.with_weights(query_THK, key_SHK, value_SHK, layout)[1]
        same(weights_HTS.sum(dim=-1), torch.ones(2, 9).double())
        assert 0.5 < output_THK.mean() < 1.5
        assert output_THK.std() > 0.1
        dropped.dropout.p = 1.0
        assert not dropped.attend(query_THK, key_SHK, value_SHK, layout).any()


def test_without_attention_dropout_nothing_is_drawn_for_it() -> None:
    """Nor by a variant of attention, whose weights might be dropped."""
    batch = packed(SOURCE_LENGTHS, TARGET_LENGTHS)
    for settings in ({}, {"compatibility": "additive"}, {"attention_radius": 2}):
        model = new_model(**settings).train()
        state = torch.get_rng_state()
        model(*batch)
        assert torch.equal(torch.get_rng_state(), state), settings


# --------------------------------------------------------------------------- §3.3, conditional computation by experts


def random_experts(num_experts: int = 4) -> Experts:
    experts = Experts(d_model=16, d_ff=24, num_experts=num_experts).double()
    for parameter in experts.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return experts


def test_experts_with_identical_weights_are_one_network() -> None:
    experts, x_TD = random_experts(), torch.randn(50, 16).double()
    first, *others = experts.networks
    for other in others:
        other.load_state_dict(first.state_dict())
    same(experts(x_TD), first(x_TD))
    assert (random_experts()(x_TD) - first(x_TD)).abs().max() > 1e-3


def test_a_token_goes_through_the_two_experts_that_its_gates_prefer() -> None:
    """Each token by itself, as the equations have it: G(x) = softmax of the two largest of x W_g."""
    experts, x_TD = random_experts(), torch.randn(50, 16).double()
    chosen = set()
    for x_D, output_D in zip(x_TD, experts(x_TD), strict=True):
        scores_G = experts.W_g.weight @ x_D
        one, two = scores_G.argsort(descending=True)[:2].tolist()
        share = torch.sigmoid(scores_G[one] - scores_G[two])
        same(output_D, share * experts.networks[one](x_D) + (1 - share) * experts.networks[two](x_D))
        chosen |= {one, two}
    assert chosen == {0, 1, 2, 3}


def test_in_mixed_precision_the_gates_have_the_bits_of_float32() -> None:
    experts, x_TD = random_experts().float(), torch.randn(50, 16)
    with torch.autocast("cpu", torch.bfloat16):
        mixed_TG = experts.gates(x_TD)
    assert torch.equal(mixed_TG, experts.gates(x_TD))


def test_an_expert_that_nobody_takes_has_a_gradient_of_zero() -> None:
    """And not none, which several processes would wait for."""
    experts = random_experts()
    torch.nn.init.zeros_(experts.W_g.weight)
    experts.W_g.weight.data[:2] += 1.0
    experts(torch.rand(9, 16).double()).sum().backward()
    taken = [bool(summed_gradients([expert.W_1.weight]).any()) for expert in experts.networks]
    assert taken == [True, True, False, False]


def test_the_auxiliary_loss_is_the_imbalance_of_the_gates_and_reading_clears_it() -> None:
    """Of every layer w · CV(Σ G(x))², times its tokens, as the loss is a sum over them."""
    model, batch = new_model(num_experts=4).train(), packed((7, 3), (6, 5))
    assert model.auxiliary_loss() is None
    places = [module for module in model.modules() if isinstance(module, Experts)]
    inputs: list[Tensor] = []
    for place in places:
        place.register_forward_hook(lambda module, given, output: inputs.append(given[0]))
    model(*batch)
    importances = [place.gates(x_TD).sum(dim=0) for place, x_TD in zip(places, inputs, strict=True)]
    variations = [importance_G.std(correction=0) / importance_G.mean() for importance_G in importances]
    loss = model.auxiliary_loss()
    assert loss is not None
    same(loss, BALANCE * (10 * torch.stack(variations[:2]).square() + 11 * torch.stack(variations[2:]).square()).sum())
    loss.backward()
    assert all(summed_gradients([place.W_g.weight]).any() for place in places)
    assert model.auxiliary_loss() is None
    model.eval()(*batch)
    assert model.auxiliary_loss() is None


def test_equal_gates_are_balanced() -> None:
    assert squared_variation(torch.full((4,), 2.5)) == 0
    assert squared_variation(torch.tensor([1.0, 0.0])) == 1


# --------------------------------------------------------------------------------- §3.4 and §3.1, embeddings, residuals


def test_untied_embeddings_with_the_same_numbers_are_the_tied_one() -> None:
    untied, tied = new_model(tied_embeddings=False), new_model()
    weights = untied.state_dict()
    for name in ("source_VD", "target_VD"):
        weights[f"embedding.{name}"].copy_(weights["embedding.weight_VD"])
    tied.load_state_dict({name: weight for name, weight in weights.items() if name in tied.state_dict()})
    batch = packed(SOURCE_LENGTHS, TARGET_LENGTHS)
    same(logits_and_gradients(untied, batch)[0], logits_and_gradients(tied, batch)[0])
    matrices = [untied.embedding.get_parameter(name) for name in ("weight_VD", "source_VD", "target_VD")]
    same(summed_gradients(matrices), summed_gradients([tied.embedding.weight_VD]))
    assert all(summed_gradients([matrix]).any() for matrix in matrices)


def test_unscaled_embeddings_are_scaled_ones_that_are_shorter_by_the_root_of_d_model() -> None:
    tokens_T = torch.tensor([3, 5])
    unscaled, scaled = new_model(scaled_embeddings=False).embedding, new_model().embedding
    scaled.load_state_dict(unscaled.state_dict())
    same(unscaled.scaled(tokens_T) * math.sqrt(SMALL.d_model), scaled.scaled(tokens_T))
    same(unscaled.scaled(tokens_T), unscaled.weight_VD[tokens_T])


def test_without_residuals_a_layer_forgets_its_input_where_a_sub_layer_says_nothing() -> None:
    layout = make_groups(lengths(5), lengths(5), causal=False)
    for residuals in (False, True):
        layer = EncoderLayer(msgspec.structs.replace(SMALL, residuals=residuals)).double()
        for name in ("W_2.weight", "W_2.bias"):
            torch.nn.init.zeros_(layer.feed_forward.get_parameter(name))
        one_TD, two_TD = (layer(torch.randn(5, SMALL.d_model).double(), layout) for _ in range(2))
        assert torch.equal(one_TD, two_TD) != residuals


# ------------------------------------------------------------------------------------------------------------ refusals


def test_one_matrix_for_keys_and_values_makes_them_of_one_width() -> None:
    with pytest.raises(ConfigError, match=r"^model.projections = tied_qkv .* model.d_k = 4 is not model.d_v = 3; make"):
        ModelConfig(projections="tied_qkv", d_k=4, d_v=3)


@pytest.mark.parametrize("positions", ["relative", "rotary"])
def test_positions_for_dot_products_are_refused_with_additive_attention(positions: str) -> None:
    with pytest.raises(ConfigError, match=rf"^model.positions = {positions} .* model.compatibility = additive; "):
        ModelConfig(positions=positions, compatibility="additive")  # type: ignore[arg-type]


def test_rotary_positions_need_pairs_of_columns() -> None:
    with pytest.raises(ConfigError, match=r"^model.positions = rotary .* model.d_k = 5 is odd; set an even model.d_k"):
        ModelConfig(positions="rotary", d_k=5)
