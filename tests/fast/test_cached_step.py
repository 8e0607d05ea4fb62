"""The kernels of one decoding step, against what they say written out: over several blocks, with slots that are done.

On a machine without a GPU they run through Triton's interpreter, in a process of their own.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.interpreted import DEVICE, assert_holds_in_the_interpreter, on_kernels, without_kernels

pytest.importorskip("triton")

DTYPE = torch.float64 if DEVICE.type == "cpu" else torch.float32
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-4}[DTYPE]
BEAMS, HEADS, D_K, D_V, CAPACITY = 2, 2, 3, 5, 80
LENGTHS = [0, 1, 33, 71]  # one block of keys has 32
DONE = len(LENGTHS)  # the last slot is done
HEAD = D_K + D_V


@pytest.mark.slow
@without_kernels
def test_the_kernels_hold_in_the_interpreter() -> None:
    assert_holds_in_the_interpreter(__file__)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64).to(DEVICE, DTYPE)


def integers(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


def attention(query_K: Tensor, rows_LX: Tensor) -> Tensor:
    """Equation 1 for one query, which is scaled; a row is a key and its value."""
    return (rows_LX[:, :D_K] @ query_K).softmax(dim=0) @ rows_LX[:, D_K:]


def head_of(rows_LX: Tensor, head: int) -> Tensor:
    return rows_LX[:, head * HEAD : (head + 1) * HEAD]


@on_kernels
def test_a_position_looks_at_itself_and_at_its_ancestors_and_is_kept() -> None:
    from heedful.fast.cuda.cached_step import Heads, own_attention

    slots = len(LENGTHS) + 1
    product_RX, cache_NLWX = normal(slots * BEAMS, HEADS * (D_K + HEAD)), normal(slots, CAPACITY, BEAMS, HEADS * HEAD)
    ancestors_2NWL = torch.randint(BEAMS, (2, slots, BEAMS, CAPACITY), dtype=torch.int8, device=DEVICE)
    before_NLWX, new_NWX = cache_NLWX.clone(), product_RX[:, HEADS * D_K :].unflatten(0, (slots, BEAMS))
    found_RX = own_attention(
        product_RX,
        cache_NLWX,
        ancestors_2NWL,
        integers([*LENGTHS, 7]),
        integers([0] * DONE + [1]),
        Heads(HEADS, D_K, D_V),
    )
    for slot, position in enumerate(LENGTHS):
        for beam in range(BEAMS):
            whose_L = ancestors_2NWL[position % 2, slot, beam, :position].long()
            past_LX = before_NLWX[slot, torch.arange(position, device=DEVICE), whose_L]
            rows_LX, row = torch.cat([past_LX, new_NWX[slot, beam][None]]), slot * BEAMS + beam
            for head in range(HEADS):
                query_K = product_RX[row, head * D_K : (head + 1) * D_K]
                expected_V = attention(query_K, head_of(rows_LX, head))
                same(found_RX[row, head * D_V : (head + 1) * D_V], expected_V)
        before_NLWX[slot, position] = new_NWX[slot]
    assert not found_RX[DONE * BEAMS :].any()
    assert torch.equal(cache_NLWX, before_NLWX)  # only the new positions, and none of a slot that is done


@on_kernels
def test_a_position_looks_at_the_memory_of_its_slot_as_far_as_it_goes() -> None:
    from heedful.fast.cuda.cached_step import Heads, cross_attention

    lengths, first = [1, 32, 33, 71], 4
    query_RX, memory_NSX = normal((DONE + 1) * BEAMS, HEADS * D_K), normal(DONE + 1, CAPACITY, first + HEADS * HEAD + 1)
    done_N = integers([0] * DONE + [1])
    found_RX = cross_attention(
        query_RX, memory_NSX, integers([*lengths, 7]), done_N, Heads(HEADS, D_K, D_V), first_column=first
    )
    for row in range(DONE * BEAMS):
        rows_SX = memory_NSX[row // BEAMS, : lengths[row // BEAMS], first : first + HEADS * HEAD]
        for head in range(HEADS):
            expected_V = attention(query_RX[row, head * D_K : (head + 1) * D_K], head_of(rows_SX, head))
            same(found_RX[row, head * D_V : (head + 1) * D_V], expected_V)
    assert not found_RX[DONE * BEAMS :].any()


@on_kernels
def test_a_token_is_embedded_at_its_position_and_nothing_stands_before_the_first() -> None:
    from heedful.fast.cuda.cached_step import embed

    weight_VD, positions_LD, ids_R = normal(9, 6), normal(CAPACITY, 6), integers([3, 8, 1, 1, 5, 6])
    found_RD = embed(ids_R, integers([0, 41, 2]), integers([0, 0, 1]), weight_VD, positions_LD)
    same(found_RD[:2], positions_LD[0].expand(2, -1))
    same(found_RD[2:4], (math.sqrt(6) * weight_VD[1] + positions_LD[41]).expand(2, -1))
    assert not found_RD[4:].any()


@on_kernels
def test_rows_go_to_their_places_whole_and_one_without_a_place_goes_nowhere() -> None:
    from heedful.fast.cuda.cached_step import COPIED, place_rows

    rows_TX, output_PX = normal(3, 2 * COPIED + 5), normal(4, 2 * COPIED + 5)
    expected_PX = output_PX.clone()
    expected_PX[3], expected_PX[0] = rows_TX[0], rows_TX[2]
    place_rows(rows_TX, integers([3, -1, 0]), output_PX)
    assert torch.equal(output_PX, expected_PX)
