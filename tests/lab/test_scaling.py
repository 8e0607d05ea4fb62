"""§3.2.1 as an experiment: what is measured of the softmax, and which rows there are."""

from __future__ import annotations

import pytest
import torch

from heedful.lab.experiments.scaling import SCALING, gradient


def test_the_softmaxs_gradient_is_the_trace_of_its_jacobian() -> None:
    scores_S = torch.randn(6, dtype=torch.float64)
    jacobian_SS = torch.autograd.functional.jacobian(lambda scores_S: scores_S.softmax(dim=-1), scores_S)
    assert gradient(scores_S.softmax(dim=-1)[None, None]) == pytest.approx(float(torch.trace(jacobian_SS)))


def test_it_falls_as_the_dot_products_grow_from_even_weights_to_one_position() -> None:
    scores_HTS = torch.randn(2, 3, 8, dtype=torch.float64)
    found = [gradient((size * scores_HTS).softmax(dim=-1)) for size in (0.0, 1.0, 4.0, 1000.0)]
    assert found[0] == pytest.approx(1 - 1 / 8)
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(0.0, abs=1e-6)


def test_every_kind_has_every_width_and_only_d_k_differs_within_a_kind() -> None:
    assert len(SCALING.rows) == 12
    for row in SCALING.rows:
        kind, d_k = row.name.split("-")
        assert row.settings == {"model": {"compatibility": kind, "d_k": int(d_k)}}
