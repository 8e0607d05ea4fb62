"""The layers of Table 1 compute what they say they do."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from heedful.lab.table1.layers import (
    ConvolutionLayer,
    Layer,
    LstmLayer,
    RecurrentLayer,
    RestrictedAttentionLayer,
    SelfAttentionLayer,
    SeparableConvolutionLayer,
    WrittenOutAttentionLayer,
    restricted_attention,
)
from heedful.model.attention import attention

D_MODEL, NUM_HEADS = 8, 2
CAUSAL: dict[str, Callable[[], Layer]] = {
    "recurrent": lambda: RecurrentLayer(D_MODEL),
    "lstm": lambda: LstmLayer(D_MODEL),
    "convolution": lambda: ConvolutionLayer(D_MODEL, 3),
    "dilated": lambda: ConvolutionLayer(D_MODEL, 3, dilation=4),
    "separable": lambda: SeparableConvolutionLayer(D_MODEL, 3),
}


def sentences(num_sentences: int = 2, length: int = 12) -> Tensor:
    return torch.randn(num_sentences, length, D_MODEL)


def same_weights(layer: Layer, other: Layer) -> Layer:
    layer.load_state_dict(other.state_dict())
    return layer


@pytest.mark.parametrize("radius", [1, 3, 40])
def test_restricted_attention_is_equation_1_in_a_window(radius: int) -> None:
    query, key, value = torch.randn(3, 2, NUM_HEADS, 12, 4)
    place = torch.arange(12)
    mask = (place[:, None] - place).abs() <= radius
    for n in range(2):
        expected, _ = attention(query[n], key[n], value[n], mask)
        torch.testing.assert_close(restricted_attention(query, key, value, radius)[n], expected)


def test_a_window_over_the_whole_sentence_is_self_attention() -> None:
    whole = SelfAttentionLayer(D_MODEL, NUM_HEADS)
    restricted = same_weights(RestrictedAttentionLayer(D_MODEL, NUM_HEADS, radius=11), whole)
    x = sentences()
    torch.testing.assert_close(restricted(x), whole(x))


def test_written_out_attention_is_self_attention() -> None:
    layer = SelfAttentionLayer(D_MODEL, NUM_HEADS)
    written_out = same_weights(WrittenOutAttentionLayer(D_MODEL, NUM_HEADS), layer)
    x = sentences()
    torch.testing.assert_close(written_out(x), layer(x))


@pytest.mark.parametrize("name", CAUSAL)
def test_what_comes_later_changes_nothing_before_it(name: str) -> None:
    layer, x = CAUSAL[name](), sentences()
    changed = x.clone()
    changed[:, 7:] = 0.0
    before, after = layer(x), layer(changed)
    assert before.shape == x.shape
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


def test_a_separable_convolution_is_a_convolution_whose_kernel_is_a_product() -> None:
    separable, whole = SeparableConvolutionLayer(D_MODEL, 3), ConvolutionLayer(D_MODEL, 3)
    kernel = separable.pointwise.weight[:, :, None] * separable.convolution.weight.squeeze(1)[None]
    whole.convolution.weight.data = kernel.detach()
    x = sentences()
    torch.testing.assert_close(separable(x), whole(x))


def test_the_last_position_is_reached_by_as_many_transitions_as_lie_between() -> None:
    layer, x = RecurrentLayer(D_MODEL), sentences()
    torch.testing.assert_close(layer.transitions(x, 11), layer(x))
    assert not torch.allclose(layer.transitions(x, 10)[:, -1], layer(x)[:, -1])


def test_a_recurrent_layer_is_its_equation() -> None:
    layer, x = RecurrentLayer(D_MODEL), sentences()
    W_DD, U_DD = layer.rnn.parameters()
    state = torch.zeros(2, D_MODEL)
    for place in range(12):
        state = torch.tanh(x[:, place] @ W_DD.T + state @ U_DD.T)
        torch.testing.assert_close(layer(x)[:, place], state)
