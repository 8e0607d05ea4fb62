"""Conditional computation as an experiment: the same operations for a token, and how evenly experts are used."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from heedful.config.setting_layers import preset, resolve
from heedful.data.text_files import SentencePair
from heedful.lab.experiment import LabRequest
from heedful.lab.experiments.experts import EXPERTS, LARGEST, LEAST, balance, counted_gates, shares_of_experts
from heedful.lab.rows import PRESET
from heedful.lab.text import PLAIN, Source, prepare
from heedful.lab.trained import Trained
from heedful.model.experts import CHOSEN, Experts
from tests.lab.results import row_result
from tests.narrowed import model_config
from tests.small_models import TEXT, small_model


def test_a_token_passes_networks_that_are_together_as_wide_as_the_one_of_base() -> None:
    layers = [EXPERTS.settings_of(row, LabRequest(Path("lab"))) for row in EXPERTS.rows]
    base, *mixtures = (model_config(resolve(preset(PRESET, layer), layer)) for layer in layers)
    assert [each.num_experts for each in mixtures] == [4, 8]
    assert all(CHOSEN * each.d_ff == base.d_ff for each in mixtures)


def test_gates_are_summed_over_tokens_and_one_expert_that_takes_all_has_all() -> None:
    experts = Experts(8, 4, 4)
    part = torch.nn.Sequential(experts)
    with torch.no_grad():
        experts.W_g.weight.zero_()
        experts.W_g.weight[2] = 100.0
    with counted_gates(part) as sums:
        part(torch.ones(5, 8))
        part(torch.ones(2, 8))
    (sum_G,) = sums.values()
    assert float(sum_G.sum()) == pytest.approx(7)
    assert float(sum_G[2]) == pytest.approx(7)
    assert not experts._forward_hooks


@pytest.mark.parametrize("num_experts", [1, 4])
def test_a_model_without_experts_has_no_shares_and_the_others_lie_around_an_even_one(
    tmp_path: Path, num_experts: int
) -> None:
    pairs = [SentencePair(TEXT[0], TEXT[1]), SentencePair(TEXT[2], TEXT[3])]
    (tmp_path / "run").mkdir()
    small_model(tmp_path / "run" / "model", num_experts=num_experts)
    text = prepare(PLAIN, Source("any", pairs * 4, pairs, 8, 400), tmp_path / "texts")
    found = shares_of_experts(Trained(tmp_path / "run", text, 1, "cpu"))
    assert (num_experts == 1) == (found == {})
    if found:
        assert 0 <= found[LEAST] <= 1 <= found[LARGEST] <= 4
    table = balance({"any": [row_result(measured={"use": found})]}, tmp_path).tables
    assert len(table) == (num_experts > 1)
