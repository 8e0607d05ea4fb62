"""What is counted of a layer is what Table 1 predicts, constants included."""

import pytest
import torch

from heedful.lab.table1.complexity import KINDS, SELF_ATTENTION, WRITTEN_OUT, Kind, Size
from heedful.lab.table1.layer_costs import layer_cost

SIZES = [Size(16, 8, 3, 2), Size(40, 16, 5, 8), Size(24, 32, 2, 1)]
CPU = torch.device("cpu")


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_counts_are_the_closed_forms(kind: Kind, size: Size) -> None:
    measured = layer_cost(kind, size, CPU, seconds=0.0)
    assert measured.operations == kind.operations(size)
    assert measured.layer_operations == kind.operations(size) + kind.projections(size)
    assert measured.longest_chain == kind.sequential(size)
    assert measured.seconds > 0


def test_written_out_attention_holds_its_weights_in_memory() -> None:
    size = Size(256, 8)
    fused, written_out = (layer_cost(kind, size, CPU, seconds=0.0) for kind in (SELF_ATTENTION, WRITTEN_OUT))
    weights = 4 * 8 * 256 * 256
    assert written_out.peak_bytes > 2 * weights > 10 * fused.peak_bytes


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_formula_grows_as_the_closed_form_does(kind: Kind) -> None:
    """Twice the size of anything: both change by the same factor."""
    size = Size(64, 32, 4, 8)
    for larger in (Size(128, 32, 4, 8), Size(64, 64, 4, 8), Size(64, 32, 8, 8), Size(64, 32, 4, 16)):
        assert kind.order(larger) / kind.order(size) == kind.operations(larger) / kind.operations(size)
