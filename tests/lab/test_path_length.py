"""How far a layer carries what it knows, read off the Jacobian, is what Table 1 says."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from heedful.lab.table1.complexity import bytenet_dilation, layers_of_bytenet, layers_of_dilated, layers_of_window
from heedful.lab.table1.layers import (
    ConvolutionLayer,
    Layer,
    LstmLayer,
    RecurrentLayer,
    RestrictedAttentionLayer,
    SelfAttentionLayer,
    SeparableConvolutionLayer,
)
from heedful.lab.table1.path_length import dependence, first, path_length, positive, stacked, unrolled

D_MODEL = 2


def band(length: int, before: int, after: int) -> Tensor:
    place = torch.arange(length)
    distance = place[:, None] - place
    return (distance <= before) & (-distance <= after)


PATTERNS: dict[str, tuple[Layer, Tensor]] = {
    "self-attention sees all": (SelfAttentionLayer(D_MODEL, 1), band(12, 12, 12)),
    "restricted self-attention sees r on each side": (RestrictedAttentionLayer(D_MODEL, 1, 3), band(12, 3, 3)),
    "a convolution sees the k - 1 before": (ConvolutionLayer(D_MODEL, 4), band(12, 3, 0)),
    "so does a separable one": (SeparableConvolutionLayer(D_MODEL, 4), band(12, 3, 0)),
    "an LSTM sees all before": (LstmLayer(D_MODEL), band(12, 12, 0)),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_one_layer(name: str) -> None:
    layer, expected = PATTERNS[name]
    assert torch.equal(dependence(positive(layer), 12, D_MODEL), expected)


def test_a_dilated_convolution_sees_every_fourth_position() -> None:
    seen = dependence(positive(ConvolutionLayer(D_MODEL, 3, dilation=4)), 12, D_MODEL)
    assert seen[11].nonzero().flatten().tolist() == [3, 7, 11]


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_transition_carries_a_recurrent_state_by_one_position(steps: int) -> None:
    layer = RecurrentLayer(D_MODEL, activation="relu")
    assert torch.equal(dependence(unrolled(layer)(steps), 12, D_MODEL), band(12, steps, 0))


def test_many_rows_are_derived_in_parts_without_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = positive(ConvolutionLayer(D_MODEL, 3))
    at_once = dependence(layer, 12, D_MODEL)
    monkeypatch.setattr("heedful.lab.table1.path_length.NUMBERS_AT_ONCE", 5 * 12 * D_MODEL)
    assert torch.equal(dependence(layer, 12, D_MODEL), at_once)


@pytest.mark.parametrize("length", [2, 3, 16, 20, 27, 28])
def test_path_lengths_are_their_closed_forms(length: int) -> None:
    def measured(build: Callable[[int], Layer], *, is_causal: bool = True) -> int:
        return path_length(stacked(build), length, D_MODEL, is_causal=is_causal)

    def restricted(_: int) -> RestrictedAttentionLayer:
        return RestrictedAttentionLayer(D_MODEL, 1, radius=4)

    recurrent = unrolled(RecurrentLayer(D_MODEL, activation="relu"))
    assert measured(lambda _: SelfAttentionLayer(D_MODEL, 1), is_causal=False) == 1
    assert measured(restricted, is_causal=False) == layers_of_window(length, 4)
    assert path_length(recurrent, length, D_MODEL, is_causal=True) == length - 1
    assert measured(lambda _: ConvolutionLayer(D_MODEL, 3)) == layers_of_window(length, 2)
    assert measured(lambda _: SeparableConvolutionLayer(D_MODEL, 4)) == layers_of_window(length, 3)
    assert measured(lambda number: ConvolutionLayer(D_MODEL, 3, dilation=3**number)) == layers_of_dilated(length, 3)
    assert measured(lambda number: ConvolutionLayer(D_MODEL, 2, dilation=2**number)) == layers_of_dilated(length, 2)


@pytest.mark.slow
@pytest.mark.parametrize("length", [63, 64, 70, 126])
def test_bytenet_begins_again_after_five_layers(length: int) -> None:
    stack = stacked(lambda number: ConvolutionLayer(D_MODEL, 3, dilation=bytenet_dilation(number)))
    assert path_length(stack, length, D_MODEL, is_causal=True) == layers_of_bytenet(length, 3)


def test_bytenets_path_is_five_layers_for_62_positions_where_full_dilation_needs_a_logarithm() -> None:
    assert [layers_of_bytenet(1 + 62 * sets, 3) for sets in (1, 2, 3, 66)] == [5, 10, 15, 330]
    assert layers_of_dilated(1 + 62 * 66, 3) == 8


@pytest.mark.parametrize("answer", range(1, 20))
def test_the_first_number_is_found(answer: int) -> None:
    assert first(lambda number: number >= answer) == answer
