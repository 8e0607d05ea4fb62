"""The paper's claims about the model, each as a test that could fail. The sections are those of the paper.

What is learned in training (heads that specialise, what smoothing does) is measured elsewhere; here everything follows
from the architecture alone, so weights are random.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from heedful.config.setting_layers import preset, resolve, setting
from heedful.config.settings import Config, ModelConfig
from heedful.errors import DataError
from heedful.model.attention import attention, plain_attention, recorded
from heedful.model.embedding import LearnedPositions, SinusoidalPositions, sinusoids
from heedful.model.feed_forward import FeedForward
from heedful.model.layers import DecoderLayer, EncoderLayer
from heedful.model.layout import Groups, Lengths, grouped_attention, make_groups
from heedful.model.packed import Packed, pack_source, pack_target, shift_right
from heedful.model.parameter_count import count, shapes_of_new
from heedful.model.transformer import Transformer
from tests.narrowed import model_config

SMALL = ModelConfig(d_model=16, d_ff=24, num_layers=2, num_heads=4, dropout=0.1)
VOCAB_SIZE = 23


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """The same numbers each time; and one thread, since tensors this small only make threads wait for each other."""
    torch.manual_seed(3)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def transformer(config: ModelConfig = SMALL) -> Transformer:
    """A random model in float64 that does not drop anything."""
    return Transformer(config, VOCAB_SIZE).double().eval()


def same(one: Tensor | None, two: Tensor | None) -> None:
    """Equal but for the last digits of float64."""
    assert one is not None
    assert_close(one, two, rtol=1e-10, atol=1e-10)


def lengths(*numbers: int) -> Lengths:
    return np.array(numbers, dtype=np.int64)


def gradient_of(tensor: Tensor) -> Tensor:
    assert tensor.grad is not None
    return tensor.grad


def source_of(*sentences: list[int]) -> Packed:
    return pack_source(np.concatenate(sentences), lengths(*map(len, sentences)))


def target_of(source_lengths: Lengths, *sentences: list[int]) -> Packed:
    """The decoder's input: the sentences shifted right."""
    return pack_target(shift_right(np.concatenate(sentences)), lengths(*map(len, sentences)), source_lengths)


def random_sentence(length: int) -> list[int]:
    return torch.randint(0, VOCAB_SIZE, (length,)).tolist()


# §3.1 Encoder and decoder stacks


def test_without_positions_the_encoder_is_permutation_equivariant() -> None:
    """§3.5: without recurrence and convolution, only the positions tell the model of order."""
    words, order = random_sentence(9), torch.randperm(9)
    shuffled = [words[i] for i in order]

    def largest_change(model: Transformer) -> float:
        before_TD, after_TD = (model.encode(source_of(sentence)).hidden_SD for sentence in (words, shuffled))
        return (after_TD - before_TD[order]).abs().max().item()

    assert largest_change(transformer(msgspec.structs.replace(SMALL, positions="none"))) < 1e-10
    assert largest_change(transformer()) > 0.1


def test_later_targets_do_not_change_earlier_logits() -> None:
    """§3.1: the prediction for position i depends only on the known outputs at positions less than i."""
    model, source, sentence = transformer(), source_of(random_sentence(6)), random_sentence(8)
    before = model(source, target_of(lengths(6), sentence))
    for i in range(8):
        changed = sentence[:i] + [(word + 1) % VOCAB_SIZE for word in sentence[i:]]
        after = model(source, target_of(lengths(6), changed))
        same(after[: i + 1], before[: i + 1])
        assert i == 7 or (after[i + 1 :] - before[i + 1 :]).abs().amin(dim=0).max() > 1e-3


def test_the_decoders_input_is_the_output_shifted_right() -> None:
    """§3.1, figure 1: before the first word there is nothing, so the first input is the position alone."""
    embedding = transformer().embedding
    target = target_of(lengths(2, 2), [5, 7, 9], [4, 6])
    rows_TD = embedding.target(target.tokens_T, target.positions_T, target.longest)
    position_LD = sinusoids(3, SMALL.d_model)
    same(rows_TD[[0, 3]], position_LD[[0, 0]])
    words_TD = embedding.weight_VD[[5, 7, 4]] * math.sqrt(SMALL.d_model)
    same(rows_TD[[1, 2, 4]], words_TD + position_LD[[1, 2, 1]])


def test_every_layer_ends_in_a_norm_and_nothing_else_does() -> None:
    """§3.1: LayerNorm(x + Sublayer(x)), so with γ = 1 and β = 0 each row has mean 0 and variance 1 (post-norm)."""
    model, outputs = transformer(), []
    for layer in (*model.encoder, *model.decoder):
        layer.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    source = source_of(random_sentence(6), random_sentence(3))
    target = target_of(lengths(6, 3), random_sentence(5), random_sentence(4))
    hidden_TD = model.decode(target, model.encode(source))
    for output_TD in outputs:
        same(output_TD.mean(dim=-1), torch.zeros(9).double())
        assert_close(output_TD.var(dim=-1, correction=0), torch.ones(9).double(), rtol=0, atol=1e-4)
    assert hidden_TD is outputs[-1]
    num_norms = sum(isinstance(module, nn.LayerNorm) for module in model.modules())
    assert num_norms == 2 * SMALL.num_layers + 3 * SMALL.num_layers


# §3.2 Attention


@pytest.mark.parametrize("d_k", [16, 64, 512])
def test_the_variance_of_a_dot_product_is_d_k(d_k: int) -> None:
    """§3.2.1, footnote 4: for independent components of mean 0 and variance 1."""
    query_TK, key_TK = torch.randn(2, 20_000, d_k)
    products_T = (query_TK * key_TK).sum(dim=-1)
    assert products_T.mean().abs() < 4 * math.sqrt(d_k / 20_000)
    assert products_T.var().item() == pytest.approx(d_k, rel=0.05)


@pytest.mark.parametrize("d_k", [4, 64, 512])
def test_scaling_brings_the_scores_back_to_variance_one(d_k: int) -> None:
    """§3.2.1: what goes into the softmax does not grow with d_k. Scores are read off the weights that come out."""
    query_HLK, key_HMK, value_HMK = torch.randn(3, 1, 200, d_k).double()
    _, weights_HLM = attention(query_HLK, key_HMK, value_HMK, torch.ones(200, 200, dtype=torch.bool))
    assert weights_HLM.log().var(dim=-1).mean().item() == pytest.approx(1, rel=0.1)


def test_without_scaling_the_softmax_has_next_to_no_gradient() -> None:
    """§3.2.1: large products push the softmax into regions of extremely small gradients."""

    def gradient(scale: float) -> float:
        scores_LM = (torch.randn(200, 512) @ torch.randn(512, 20) * scale).double()
        weights_LM = scores_LM.softmax(dim=-1)
        return (weights_LM * (1 - weights_LM)).mean().item()  # ∂ weight_i / ∂ score_i

    assert gradient(1.0) < 0.25 * gradient(512**-0.5)


Mask = Callable[[Tensor, Tensor], Tensor]


def minus_infinity_before(scores_LM: Tensor, mask_LM: Tensor) -> Tensor:
    return scores_LM.masked_fill(~mask_LM, -math.inf).softmax(dim=-1)


def zero_before(scores_LM: Tensor, mask_LM: Tensor) -> Tensor:
    return scores_LM.masked_fill(~mask_LM, 0.0).softmax(dim=-1)


def zero_after(scores_LM: Tensor, mask_LM: Tensor) -> Tensor:
    return scores_LM.softmax(dim=-1).masked_fill(~mask_LM, 0.0)


@pytest.mark.parametrize(("masked", "leaks"), [(minus_infinity_before, False), (zero_before, True), (zero_after, True)])
def test_only_minus_infinity_before_the_softmax_hides_a_word(masked: Mask, leaks: bool) -> None:
    """§3.2.3: illegal connections get −∞ in the input of the softmax. Zero there, or after it, lets them through."""
    query_LK, key_MK, value_MK = torch.randn(3, 5, 8).double()
    mask_LM = torch.ones(5, 5, dtype=torch.bool).tril()
    other_key_MK, other_value_MK = key_MK.clone(), value_MK.clone()
    other_key_MK[-1], other_value_MK[-1] = torch.randn(2, 8).double() * 3

    def output(key_MK: Tensor, value_MK: Tensor) -> Tensor:
        return masked(query_LK @ key_MK.mT / math.sqrt(8), mask_LM) @ value_MK

    difference = (output(key_MK, value_MK) - output(other_key_MK, other_value_MK))[:-1].abs().max().item()
    assert (difference > 1e-3) == leaks
    ours = attention(query_LK[None], key_MK[None], value_MK[None], mask_LM)[0][0]
    assert leaks or torch.allclose(output(key_MK, value_MK), ours, rtol=0, atol=1e-12)


def test_multi_head_attention_is_its_heads_side_by_side() -> None:
    """§3.2.2: MultiHead(Q, K, V) = Concat(head_1, …, head_h) W_O, each head with its own W_Q, W_K, W_V."""
    module = DecoderLayer(ModelConfig(d_model=16, num_heads=4, d_k=3, d_v=5)).cross_attention.double()
    x_LD, memory_MD = torch.randn(4, 16).double(), torch.randn(6, 16).double()
    heads = []
    for i in range(4):
        W_Q, W_K = (W.weight[3 * i : 3 * i + 3].mT for W in (module.W_Q, module.W_K))
        W_V = module.W_V.weight[5 * i : 5 * i + 5].mT
        heads.append(((x_LD @ W_Q) @ (memory_MD @ W_K).mT / math.sqrt(3)).softmax(dim=-1) @ (memory_MD @ W_V))
    output_LD = module(x_LD, memory_MD, make_groups(lengths(4), lengths(6), causal=False))
    same(output_LD, torch.cat(heads, dim=-1) @ module.W_O.weight.mT)


def test_one_layer_joins_every_pair_of_positions() -> None:
    """§4, Table 1: the longest path in self-attention is O(1), and its map has n² entries."""
    layer = EncoderLayer(SMALL).double().eval()
    layout = make_groups(lengths(30), lengths(30), causal=False)
    with recorded([layer.self_attention]) as (recorder,):
        x_TD = torch.randn(30, SMALL.d_model).double().requires_grad_()
        (layer(x_TD, layout)[29] * torch.randn(SMALL.d_model).double()).sum().backward()
    assert (gradient_of(x_TD).abs().amax(dim=-1) > 0).all()
    assert recorder.weights[0].shape == (SMALL.num_heads, 30, 30)


LENGTHS = {
    "short ones": (3, 1, 4, 1, 5, 9, 2),
    "one": (7,),
    "words alone": (1, 1, 1),
    "a very long one among short ones": (5, 4, 600, 3, 1, 6, *range(1, 40)),
    "many of like length": tuple(range(20, 45)),
}


def plain_output(query_THK: Tensor, key_SHK: Tensor, value_SHK: Tensor, layout: Groups) -> Tensor:
    return plain_attention(query_THK, key_SHK, value_SHK, layout)[0]


@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
@pytest.mark.parametrize("name", LENGTHS)
def test_the_ways_to_compute_attention_agree(name: str, kind: str) -> None:
    """Equation 1, plain and in groups, forward and backward, with two rows behind the last sentence."""
    query_lengths = lengths(*LENGTHS[name])
    key_lengths = lengths(*reversed(LENGTHS[name])) if kind == "cross" else query_lengths
    layout = make_groups(query_lengths, key_lengths, causal=kind == "causal")
    rows_T, rows_S = (int(numbers.sum()) + 2 for numbers in (query_lengths, key_lengths))
    inputs = [torch.randn(rows, 2, width).double() for rows, width in ((rows_T, 4), (rows_S, 4), (rows_S, 3))]
    wish_THK = torch.randn(rows_T, 2, 3).double()
    results = []
    for function in (plain_output, grouped_attention):
        query, key, value = (tensor.clone().requires_grad_() for tensor in inputs)
        output_THK = function(query, key, value, layout)
        (output_THK * wish_THK).sum().backward()
        results.append([output_THK, *(gradient_of(tensor) for tensor in (query, key, value))])
    for plain, grouped in zip(*results, strict=True):
        same(plain, grouped)
        assert (grouped[-2:] == 0).all(), "rows behind the last sentence are zeros, and get none of the gradient"


def test_a_very_long_sentence_is_not_padded_together_with_short_ones() -> None:
    """Or the cases above would not test the grouping."""
    numbers = lengths(*LENGTHS["a very long one among short ones"])
    assert len(make_groups(numbers, numbers, causal=False).groups) > 1


def test_packed_equals_one_sentence_at_a_time() -> None:
    """§3.1: a sentence's output depends on that sentence alone, whatever it is packed with."""
    model = transformer()
    sources = [random_sentence(n) for n in (5, 1, 40, 3)]
    targets = [random_sentence(n) for n in (2, 7, 1, 30)]
    together = model(source_of(*sources), target_of(lengths(*map(len, sources)), *targets)).split([2, 7, 1, 30])
    for source, target, logits_TV in zip(sources, targets, together, strict=True):
        alone = model(source_of(source), target_of(lengths(len(source)), target))
        same(logits_TV, alone)


def test_every_target_position_sees_the_whole_source() -> None:
    """§3.2.3: in encoder-decoder attention every position of the decoder attends over all positions of the input."""
    model, source, target = transformer(), random_sentence(5), target_of(lengths(5), random_sentence(4))
    before = model(source_of(source), target)
    for i in range(5):
        changed = [*source[:i], (source[i] + 1) % VOCAB_SIZE, *source[i + 1 :]]
        after = model(source_of(changed), target)
        assert ((after - before).abs().amax(dim=-1) > 1e-4).all()


# §3.3 Position-wise feed-forward networks


def test_the_feed_forward_network_is_two_convolutions_of_kernel_size_one() -> None:
    """§3.3: "Another way of describing this is as two convolutions with kernel size 1"."""
    network, x_TD = FeedForward(16, 24).double(), torch.randn(9, 16).double()
    hidden_FT = F.conv1d(x_TD.mT, network.W_1.weight[:, :, None], network.W_1.bias)
    output_DT = F.conv1d(hidden_FT.clamp(min=0), network.W_2.weight[:, :, None], network.W_2.bias)
    same(network(x_TD), output_DT.mT)


# §3.4 Embeddings and softmax


def test_one_matrix_serves_both_embeddings_and_the_projection() -> None:
    """§3.4: the same weight matrix, multiplied by √d_model in the embeddings."""
    model = transformer()
    of_vocabulary = [name for name, p in model.named_parameters() if VOCAB_SIZE in p.shape]
    assert of_vocabulary == ["embedding.weight_VD"]
    E = model.embedding.weight_VD
    word_T, place_T = torch.tensor([7, 7]), torch.tensor([0, 1])
    scaled_TD = math.sqrt(SMALL.d_model) * E[word_T]
    position_LD = sinusoids(2, SMALL.d_model)
    same(model.embedding.source(word_T, place_T, 2), scaled_TD + position_LD)
    same(model.embedding.target(word_T, place_T, 2)[1], (scaled_TD + position_LD)[1])
    hidden_TD = torch.randn(3, SMALL.d_model).double()
    same(model.logits(hidden_TD), hidden_TD @ E.mT)


def test_embeddings_and_positions_are_of_like_size_at_the_start() -> None:
    """§3.4: with deviation d_model^-½ the factor √d_model brings the embeddings to variance 1; positions have ½."""
    model = Transformer(ModelConfig(d_model=256, num_layers=1, num_heads=4), 500)
    assert model.embedding.scaled(torch.arange(500)).var().item() == pytest.approx(1, rel=0.05)
    assert sinusoids(200, 256).square().mean().item() == pytest.approx(0.5)


def test_linears_begin_xavier_uniform_and_biases_at_zero() -> None:
    """Our choice, listed in docs/paper.md: the paper names none."""
    model = Transformer(ModelConfig(d_model=256, d_ff=512, num_layers=1, num_heads=4), 100)
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert len(linears) == 4 + 2 + 2 * 4 + 2
    for linear in linears:
        bound, weight = math.sqrt(6 / (linear.in_features + linear.out_features)), linear.weight.detach()
        assert 0.99 * bound < weight.abs().max().item() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
        assert linear.bias is None or not linear.bias.any()


# §3.5 Positional encoding


def test_positions_are_the_formula_by_hand() -> None:
    """§3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(the same)."""
    assert_close(sinusoids(1, 4)[0], torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64))
    row = [0.8414709848078965, 0.5403023058681398, 0.009999833334166664, 0.9999500004166653]
    same(sinusoids(2, 4)[1], torch.tensor(row, dtype=torch.float64))


@pytest.mark.parametrize("d_model", [4, 64, 512])
@pytest.mark.parametrize("position", [0, 1, 17, 255, 4_999, 20_000])
def test_positions_are_the_formula_at_any_length(d_model: int, position: int) -> None:
    """§3.5, against the formula written out once more; nothing was trained for any of these lengths."""
    by_hand = [
        (math.cos if column % 2 else math.sin)(position / 10000 ** ((column - column % 2) / d_model))
        for column in range(d_model)
    ]
    module = SinusoidalPositions(d_model)
    like = torch.empty(0).double()
    module(torch.tensor([3]), 4, like)  # a short sentence first: the table must grow
    same(module(torch.tensor([position]), position + 1, like)[0], torch.tensor(by_hand, dtype=torch.float64))


def test_sinusoids_take_sentences_of_any_length_and_a_learned_table_does_not() -> None:
    """§3.5: the sinusoids may allow the model to go beyond the lengths seen in training."""
    config = ModelConfig(d_model=8, d_ff=8, num_layers=1, num_heads=1, max_positions=100)
    long = source_of(random_sentence(5_001))
    assert transformer(config).encode(long).hidden_SD.isfinite().all()
    learned = ModelConfig(d_model=8, d_ff=8, num_layers=1, num_heads=1, max_positions=100, positions="learned")
    with pytest.raises(DataError, match=r"5001 tokens .* 100 learned positions"):
        transformer(learned).encode(long)


@pytest.mark.parametrize("offset", [1, 7, 100])
def test_a_position_further_on_is_a_linear_function_of_this_one(offset: int) -> None:
    """§3.5: for any fixed k, PE(pos + k) = M_k PE(pos), with one rotation for each pair of columns."""
    d_model, table_LD = 32, sinusoids(400, 32)
    angles = [offset / 10000 ** (2 * i / d_model) for i in range(d_model // 2)]
    # sin(a + b) = sin a cos b + cos a sin b; cos(a + b) = cos a cos b − sin a sin b
    rotations = [[[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]] for a in angles]
    M_k = torch.block_diag(*(torch.tensor(rotation, dtype=torch.float64) for rotation in rotations))
    same(table_LD[:-offset] @ M_k.mT, table_LD[offset:])


def test_neighbours_are_more_alike_than_far_positions() -> None:
    """§3.5, on the whole: with d_model 512 the likeness falls as far as an offset of 43 and first rises again at 44."""
    table_LD = sinusoids(1_100, 512)
    likeness_L = table_LD @ table_LD[50] / 256
    same(likeness_L[50:100], likeness_L[:51].flip(0)[:50])  # the distance alone counts
    falls = likeness_L[50:].diff() < 0
    assert falls[:43].all()
    assert not falls[43]
    near, middle, far = likeness_L[51:61].mean(), likeness_L[61:150].mean(), likeness_L[150:].mean()
    assert near > middle > far


def test_wavelengths_run_from_two_pi_to_ten_thousand_times_that() -> None:
    """§3.5: a geometric progression from 2π to 10000 · 2π (whose last term would be column d_model)."""
    sine_D, cosine_D = sinusoids(2, 512)[1].view(-1, 2).unbind(dim=-1)
    wavelength_D = 2 * math.pi / torch.atan2(sine_D, cosine_D)
    assert wavelength_D[0].item() == pytest.approx(2 * math.pi)
    ratio_D = wavelength_D[1:] / wavelength_D[:-1]
    assert_close(ratio_D, torch.full_like(ratio_D, 10000 ** (2 / 512)), rtol=1e-8, atol=0)
    assert (wavelength_D[-1] * ratio_D[0]).item() == pytest.approx(10000 * 2 * math.pi)


# §5.4 Regularisation


def test_dropout_stands_where_the_paper_has_it_and_nowhere_else() -> None:
    """§5.4: on the output of each sub-layer, before it is added and normalised, and on the sums of the embeddings."""
    model = Transformer(ModelConfig(d_model=16, d_ff=24, num_heads=4, dropout=0.3), VOCAB_SIZE).double().train()
    places = {name: module for name, module in model.named_modules() if isinstance(module, nn.Dropout)}
    of_embeddings = {"embedding.dropout", "embedding.target_dropout"}
    assert of_embeddings < places.keys()
    assert all(name.endswith("_norm.dropout") for name in places.keys() - of_embeddings)
    assert len(places) == 2 + 6 * 2 + 6 * 3
    assert {dropout.p for dropout in places.values()} == {0.3}
    source, target = source_of(random_sentence(9)), target_of(lengths(9), random_sentence(7))
    assert (model(source, target) != model(source, target)).any()
    uses: list[nn.Module] = []
    for dropout in places.values():
        dropout.p = 0.0
        dropout.register_forward_hook(lambda module, inputs, output: uses.append(module))
    same(model(source, target), model.eval()(source, target))  # so there is no other dropout
    assert Counter(uses) == dict.fromkeys(places.values(), 2), "in each pass once at each place"


def test_dropout_is_applied_to_the_sums_of_embeddings_and_positions() -> None:
    """§5.4, "in both the encoder and decoder stacks": with all of it dropped, no position is left either."""
    embedding = transformer().train().embedding
    embedding.dropout.p = embedding.target_dropout.p = 1.0
    word_T, place_T = torch.tensor([7, 7]), torch.tensor([0, 1])
    assert not embedding.source(word_T, place_T, 2).any()
    assert not embedding.target(word_T, place_T, 2).any()


def test_a_dropped_sub_layer_leaves_the_residual_alone() -> None:
    """§5.4 and §3.1: LayerNorm(x + Dropout(Sublayer(x))): with all of it dropped, what remains is the norm of x."""
    x_TD = torch.randn(5, SMALL.d_model).double()
    layout = make_groups(lengths(5), lengths(5), causal=False)
    encoder, decoder = EncoderLayer(SMALL).double().train(), DecoderLayer(SMALL).double().train()
    for module in (*encoder.modules(), *decoder.modules()):
        if isinstance(module, nn.Dropout):
            module.p = 1.0
    normed_TD = F.layer_norm(x_TD, (SMALL.d_model,))
    assert_close(encoder(x_TD, layout), normed_TD, rtol=0, atol=1e-4)
    assert_close(decoder(x_TD, torch.randn(5, SMALL.d_model).double(), layout, layout), normed_TD, rtol=0, atol=1e-4)


# Table 3

BASE = ""
ROWS = [
    ("base", BASE, 65),
    ("A", "model.num_heads=1 model.d_k=512 model.d_v=512", None),
    ("A", "model.num_heads=4 model.d_k=128 model.d_v=128", None),
    ("A", "model.num_heads=16 model.d_k=32 model.d_v=32", None),
    ("A", "model.num_heads=32 model.d_k=16 model.d_v=16", None),
    ("B", "model.d_k=16", 58),
    ("B", "model.d_k=32", 60),
    ("C", "model.num_layers=2", 36),
    ("C", "model.num_layers=4", 50),
    ("C", "model.num_layers=8", 80),
    ("C", "model.d_model=256 model.d_k=32 model.d_v=32", 28),
    ("C", "model.d_model=1024 model.d_k=128 model.d_v=128", 168),
    ("C", "model.d_ff=1024", 53),
    ("C", "model.d_ff=4096", 90),
    ("D", "model.dropout=0.0", None),
    ("D", "model.dropout=0.2", None),
    ("D", "train.label_smoothing=0.0", None),
    ("D", "train.label_smoothing=0.2", None),
    ("E", "model.positions=learned", None),
    ("big", BASE, 213),
]


def configuration(row: str, settings: str) -> Config:
    """A row of Table 3, as a user would write it: a preset and `--set section.field=value`."""
    return resolve(preset("big" if row == "big" else "base"), *map(setting, settings.split()))


def by_hand(model: ModelConfig, vocab_size: int) -> int:
    """The number of parameters, from the paper's equations alone."""
    d, f, h = model.d_model, model.d_ff, model.num_heads
    d_k, d_v = model.d_k or d // h, model.d_v or d // h
    multi_head = h * (d * d_k + d * d_k + d * d_v) + h * d_v * d  # W_Q, W_K, W_V of each head, and W_O; no biases
    ffn = d * f + f + f * d + d
    norm = 2 * d
    encoder_layer = multi_head + norm + ffn + norm
    decoder_layer = multi_head + norm + multi_head + norm + ffn + norm
    positions = model.max_positions * d if model.positions == "learned" else 0
    return vocab_size * d + positions + model.num_layers * (encoder_layer + decoder_layer)


@pytest.mark.parametrize(("row", "settings", "printed"), ROWS, ids=[f"{row} {text}".strip() for row, text, _ in ROWS])
def test_every_row_of_table_3_is_configuration_and_has_the_parameters_of_the_formula(
    row: str, settings: str, printed: int | None
) -> None:
    """Table 3, with 37,000 words. The printed numbers are rounded, and up to 7 % above the formula for small models."""
    config = configuration(row, settings)
    parameters = count(shapes_of_new(config.model, 37_000))
    assert parameters == by_hand(model_config(config), 37_000)
    assert printed is None or -0.07 <= parameters / (printed * 1e6) - 1 <= 0.01


@pytest.mark.parametrize(("row", "printed", "computed"), [("base", 65, 63.0), ("big", 213, 214.2)])
def test_base_and_big_lie_within_four_percent_of_the_paper(row: str, printed: float, computed: float) -> None:
    """Table 3, first and last row."""
    millions = by_hand(model_config(configuration(row, BASE)), 37_000) / 1e6
    assert millions == pytest.approx(computed, abs=0.1)
    assert millions == pytest.approx(printed, rel=0.04)


def test_the_presets_are_the_papers() -> None:
    """§5 and §6.1, Table 3."""
    base, big = configuration("base", BASE), configuration("big", BASE)
    for config, d_model, d_ff, heads, dropout, steps, averaged in (
        (base, 512, 2048, 8, 0.1, 100_000, 5),
        (big, 1024, 4096, 16, 0.3, 300_000, 20),
    ):
        model, train = model_config(config), config.train
        assert (model.encoder_layers, model.decoder_layers, model.positions) == (6, 6, "sinusoidal")
        assert (model.d_model, model.d_ff, model.num_heads, model.dropout) == (d_model, d_ff, heads, dropout)
        assert (model.head_d_k, model.head_d_v) == (64, 64)
        assert (train.steps, train.average_last) == (steps, averaged)
        assert (train.batch_tokens, train.warmup_steps, train.label_smoothing) == (25_000, 4000, 0.1)
        assert (config.decode.beam_size, config.decode.alpha, config.decode.max_extra) == (4, 0.6, 50)


def test_learned_positions_replace_the_sinusoids_and_nothing_else() -> None:
    """§3.5 and Table 3, row E."""
    config = configuration("E", "model.positions=learned").model
    with torch.device("meta"):
        sinusoidal, learned = Transformer(ModelConfig(), 100), Transformer(config, 100)
    extra = dict(learned.named_parameters()).keys() ^ dict(sinusoidal.named_parameters()).keys()
    assert extra == {"embedding.positions.weight_LD"}
    assert isinstance(learned.embedding.positions, LearnedPositions)


def test_learned_positions_begin_as_small_as_the_embeddings() -> None:
    """Both with deviation d_model^-½, which is our choice: the paper names none."""
    config = ModelConfig(d_model=256, num_layers=1, num_heads=4, positions="learned", max_positions=500)
    weights = dict(Transformer(config, 500).embedding.named_parameters())
    assert weights.keys() == {"weight_VD", "positions.weight_LD"}
    for weight in weights.values():
        assert weight.std().item() == pytest.approx(256**-0.5, rel=0.02)
