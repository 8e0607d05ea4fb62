"""Packed rows and the layout that attention uses."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedful.model.layout import LIKE_LENGTH, SMALL_GROUP_CELLS, make_groups
from heedful.model.packed import pack_source, pack_target, positions_of, shift_right

lengths = st.lists(st.integers(1, 90), min_size=1, max_size=40).map(np.array)


@given(lengths)
def test_positions_count_from_zero_in_each_sentence(lengths_N: np.ndarray) -> None:
    expected = [position for length in lengths_N for position in range(length)]
    assert positions_of(lengths_N).tolist() == expected


def test_the_target_moves_one_place_to_the_right() -> None:
    assert shift_right(np.array([5, 6, 0, 7, 0])).tolist() == [0, 5, 6, 0, 7]


@given(lengths)
def test_every_row_has_one_slot_and_padded_slots_name_rows_of_their_own_sentence(lengths_N: np.ndarray) -> None:
    groups = make_groups(lengths_N, lengths_N, causal=False)
    rows, cells = groups.queries.row_of_cell_P, groups.queries.cell_of_row_T
    assert torch.equal(rows[cells], torch.arange(int(lengths_N.sum())))
    assert len(rows) == sum(group.num_sentences * group.num_queries for group in groups.groups)
    sentence_of_row = np.repeat(np.arange(len(lengths_N)), lengths_N)
    sizes = [(group.num_sentences, group.num_queries) for group in groups.groups]
    for part, (num_sentences, num_queries) in zip(rows.split([n * q for n, q in sizes]), sizes, strict=True):
        sentences = sentence_of_row[part.view(num_sentences, num_queries).numpy()]
        assert (sentences == sentences[:, :1]).all()


@given(lengths, st.integers(0, 2**32))
def test_the_key_mask_shows_just_the_real_tokens(lengths_N: np.ndarray, seed: int) -> None:
    key_lengths_N = np.random.default_rng(seed).integers(1, 90, len(lengths_N))
    groups = make_groups(lengths_N, key_lengths_N, causal=False)
    shown = 0
    for group in groups.groups:
        mask = group.key_mask_N11M
        shown += group.num_sentences * group.num_keys if mask is None else int(mask.sum())
    assert shown == key_lengths_N.sum()


def test_one_long_line_does_not_pad_the_short_ones() -> None:
    lengths_N = np.array([600] + [10] * 100)
    groups = make_groups(lengths_N, lengths_N, causal=True)
    assert len(groups.queries.row_of_cell_P) == lengths_N.sum()


@given(lengths)
def test_padding_stays_within_its_bound(lengths_N: np.ndarray) -> None:
    """Beyond small groups, a slot is at most 1 / LIKE_LENGTH times as wide as its sentence."""
    groups = make_groups(lengths_N, lengths_N, causal=False)
    small = len(groups.groups) * (SMALL_GROUP_CELLS + int(lengths_N.max()))
    assert len(groups.queries.row_of_cell_P) <= lengths_N.sum() / LIKE_LENGTH + small


def test_a_target_knows_its_source() -> None:
    target = pack_target(np.arange(5), np.array([2, 3]), np.array([4, 1]))
    assert target.cross_layout is not None
    assert target.cross_layout.key_offsets_N.tolist() == [0, 4, 5]
    assert target.self_layout.causal
    assert not target.cross_layout.causal
    assert target.longest == 3


def test_moving_to_a_device_keeps_everything() -> None:
    source = pack_source(np.arange(5), np.array([2, 3]))
    moved = source.to(torch.device("cpu"))
    assert torch.equal(moved.tokens_T, source.tokens_T)
    assert torch.equal(moved.self_layout.query_offsets_N, source.self_layout.query_offsets_N)
    assert pack_source(np.arange(5), np.array([2, 3])).cross_layout is None
