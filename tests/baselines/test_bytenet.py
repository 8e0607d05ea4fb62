"""ByteNet: its convolutions, how far it sees, and where its encoder's output ends."""

from __future__ import annotations

import random
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import heedful
from heedful.baselines.bytenet import Activation, ByteNet, blocks
from heedful.baselines.packed_convolution import DilatedConvolution, Places, centred, masked
from heedful.config.baseline_settings import ByteNetConfig
from heedful.config.setting_layers import resolve
from heedful.errors import ConfigError
from heedful.model.layout import offsets_of
from heedful.model.packed import pack_source
from tests.baselines.test_families import forced

LENGTHS = [5, 1, 12, 3]
FIELDS = [(3, 1, 1), (3, 3, 1), (3, 2, 3), (5, 2, 2)]  # kernel, dilations, sets


@pytest.mark.parametrize("dilation", [1, 2, 4])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("is_masked", [False, True], ids=["centred", "masked"])
def test_over_packed_sentences_it_is_torchs_dilated_convolution_of_each(
    is_masked: bool, kernel: int, dilation: int
) -> None:
    ours = DilatedConvolution(6, (masked if is_masked else centred)(kernel, dilation)).double()
    x_TC = torch.randn(sum(LENGTHS), 6, dtype=torch.float64, requires_grad=True)
    reach = dilation * (kernel - 1)
    left, right = (reach, 0) if is_masked else (reach // 2, reach // 2)
    weight_CCK = ours.product.weight.unflatten(1, (kernel, 6)).transpose(1, 2)
    theirs = [
        F.conv1d(F.pad(part_LC.T, (left, right)), weight_CCK, ours.product.bias, dilation=dilation).T
        for part_LC in x_TC.split(LENGTHS)
    ]
    y_TC = ours(x_TC, Places.of(offsets_of(np.array(LENGTHS)), sum(LENGTHS)))
    torch.testing.assert_close(y_TC, torch.cat(theirs))
    weights, factor_TC = [x_TC, ours.product.weight, ours.product.bias], torch.randn_like(y_TC)
    found, expected = (torch.autograd.grad(each_TC, weights, factor_TC) for each_TC in (y_TC, torch.cat(theirs)))
    for gradient, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, wanted)


def test_a_number_that_is_none_stays_in_its_sentence() -> None:
    places, x_TC = Places.of(offsets_of(np.array(LENGTHS)), sum(LENGTHS)), torch.zeros(sum(LENGTHS), 2)
    x_TC[5] = torch.nan  # the second sentence's only row
    others = torch.arange(len(x_TC)) != 5
    assert not places.windows(x_TC, [-2, -1, 0, 1, 2])[others].isnan().any()
    shorter = torch.tensor([0, 4, 5, 6, 7])
    assert not places.look_up(x_TC.index_select(0, torch.tensor([0, 0, 0, 5, 0, 0, 0])), shorter)[4].isnan().any()


def depends(stack: nn.ModuleList, length: int) -> Tensor:
    """For one sentence: whether the output at a place (row) can depend on the input at another one (column)."""
    places = Places.of(torch.tensor([0, length]), length)

    def total_L(x_LD: Tensor) -> Tensor:
        return reduce(lambda x_LD, block: block(x_LD, places), stack, x_LD).sum(dim=1)

    jacobian_LLD = torch.autograd.functional.jacobian(total_L, torch.ones(length, 4, dtype=torch.float64))
    depends_LL: Tensor = jacobian_LLD.sum(dim=2) != 0
    return depends_LL


def linear_and_positive(stack: nn.ModuleList) -> nn.ModuleList:
    """So that no entry of the Jacobian is zero by chance."""
    for activation in [module for module in stack.modules() if isinstance(module, Activation)]:
        activation[0], activation[1] = nn.Identity(), nn.Identity()
    for parameter in stack.parameters():
        parameter.data.abs_()
    return stack.double().eval()


def far(kernel: int, dilations: int, sets: int) -> int:
    """How many places the decoder's convolutions look back; the encoder's look half as far to either side."""
    return (kernel - 1) * ((1 << dilations) - 1) * sets


@pytest.mark.parametrize(("kernel", "dilations", "sets"), FIELDS)
def test_the_encoder_sees_half_the_receptive_field_to_either_side(kernel: int, dilations: int, sets: int) -> None:
    config = ByteNetConfig(d_model=4, kernel=kernel, dilations=dilations, sets=sets)
    reach, length = far(kernel, dilations, sets) // 2, 40
    distance_LL = torch.arange(length)[:, None] - torch.arange(length)
    found_LL = depends(linear_and_positive(blocks(config, centred)), length)
    assert torch.equal(found_LL, distance_LL.abs() <= reach)


@pytest.mark.parametrize(("kernel", "dilations", "sets"), FIELDS)
def test_the_decoder_sees_the_receptive_field_behind_it_and_nothing_ahead(
    kernel: int, dilations: int, sets: int
) -> None:
    config = ByteNetConfig(d_model=4, kernel=kernel, dilations=dilations, sets=sets)
    distance_LL = torch.arange(60)[:, None] - torch.arange(60)
    found_LL = depends(linear_and_positive(blocks(config, masked)), 60)
    assert torch.equal(found_LL, (distance_LL >= 0) & (distance_LL <= far(kernel, dilations, sets)))


def new(**settings: Any) -> ByteNet:
    config = resolve({"model": {"family": "bytenet", "d_model": 8, **settings}}).model
    return ByteNet(config, 50).double().eval()


@pytest.mark.parametrize(("settings", "expected"), [({}, [9, 14, 20, 33]), ({"length_ratio": 2.0}, [10, 18, 28, 50])])
def test_the_encoders_output_has_the_unfolded_length(settings: dict[str, Any], expected: list[int]) -> None:
    lengths = [1, 5, 10, 21]
    memory = new(**settings).encode(pack_source(np.arange(sum(lengths)) % 50, np.array(lengths)))
    assert memory.offsets_N.diff().tolist() == expected
    assert len(memory.hidden_SD) == sum(expected)


def first_change(model: ByteNet, place: int, source: list[int], target: list[int]) -> int:
    """The first place of the target whose logits change with one word of the source."""
    (before_TV,) = forced(model, [source], [target])
    (after_TV,) = forced(model, [[*source[:place], 40, *source[place + 1 :]]], [target])
    return int((before_TV != after_TV).any(dim=1).int().argmax()) if not torch.equal(before_TV, after_TV) else -1


def test_a_word_of_the_source_is_first_seen_as_far_ahead_of_it_as_the_encoder_looks() -> None:
    model, source = new(dilations=2, sets=2), list(range(5, 30))
    reach = far(3, 2, 2) // 2
    for place in (0, 5, 9, 24):
        assert first_change(model, place, source, list(range(10, 35))) == max(0, place - reach)


def test_beyond_the_unfolded_length_the_decoder_reads_zeros_and_goes_on() -> None:
    model, source = new(dilations=2, sets=1, length_extra=0), [5, 6, 7, 8]  # 5 words with eos, unfolded to 6 places
    target = list(range(10, 30))
    (before_TV,) = forced(model, [source], [target])
    (after_TV,) = forced(model, [[35, 36, 37, 38]], [target])
    differs_T = (before_TV != after_TV).any(dim=1)
    assert differs_T.tolist() == [place <= 5 + far(3, 2, 1) for place in range(21)]


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("d_model", 15, r"model\.d_model = 15 is odd, .*; take 16"),
        ("kernel", 4, r"model\.kernel = 4 is even, .*; take 5"),
        ("length_ratio", 0.5, r"model\.length_ratio"),
        ("num_heads", 4, r"model\.num_heads"),
    ],
)
def test_what_it_cannot_be_built_with_is_refused(setting: str, value: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve({"model": {"family": "bytenet", setting: value}})


@pytest.mark.slow
def test_it_learns_to_copy_characters(tmp_path: Path) -> None:
    rng = random.Random(1)
    lines = ["".join(rng.choice("abcdefgh") for _ in range(rng.randint(4, 12))) for _ in range(1100)]
    for name in ("text.xx", "text.yy"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines[:-100]))
    settings = {
        "model.family": "bytenet",
        "model.d_model": 64,
        "model.dilations": 2,
        "model.sets": 1,
        "tokenizer.kind": "char",
        "train.steps": 120,
        "train.batch_tokens": 512,
        "train.warmup_steps": 40,
    }
    heedful.train(tmp_path / "text.xx", tmp_path / "text.yy", tmp_path / "run", preset="tiny", settings=settings)
    translator = heedful.Translator.load(tmp_path / "run", device="cpu")
    copies = [translation.text for translation in translator.translate(lines[-100:])]
    right = sum(copy == line for copy, line in zip(copies, lines[-100:], strict=True))
    assert right >= 95, f"{right} of 100 lines were copied"
