"""The kernels of beam search follow the rule of `translate/search.py`, over tables in the place of a model.

On a machine without a GPU they run through Triton's interpreter, in a process of their own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from heedful.translate.search import BeamRule, Hypothesis, new_beams
from tests.interpreted import DEVICE, assert_holds_in_the_interpreter, on_kernels, without_kernels
from tests.table_models import EOS, Prefix, Sure, Table, Tables, plain_beam_search, step, steps_to_the_end

if TYPE_CHECKING:
    from heedful.fast.cuda.slots import Slots

pytest.importorskip("triton")

DTYPE = torch.float64 if DEVICE.type == "cpu" else torch.float32
CAPACITY = 8


@pytest.mark.slow
@without_kernels
def test_the_kernels_hold_in_the_interpreter() -> None:
    assert_holds_in_the_interpreter(__file__)


def numbers(values: Sequence[object], dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=DEVICE)


def searched(tables: list[Table], max_lengths: list[int], rule: BeamRule, prefixes: Sequence[Prefix]) -> Slots:
    """A slot for each table; what every hypothesis has come by is read from what the kernels write down."""
    from heedful.fast.cuda.beam_kernels import advance, best_tokens
    from heedful.fast.cuda.slots import empty_slots, enter

    slots = empty_slots(len(tables), rule, CAPACITY, numbers([], DTYPE))
    for row_L, prefix in zip(slots.prefix_NL, prefixes, strict=True):
        row_L[: len(prefix)] = numbers(prefix)
    enter(slots, numbers(range(len(tables))), numbers(max_lengths), rule)
    rows: list[list[Prefix]] = [[()] * rule.width for _ in tables]
    for position in range(max(max_lengths) + 1):
        log_probs = [table.log_probs(prefix) for table, row in zip(tables, rows, strict=True) for prefix in row]
        advance(best_tokens(numbers(log_probs, DTYPE) + 3.0, slots, rule), slots, rule, tables[0].vocab_size)
        wrote = zip(rows, slots.past_parents_NLW[:, position], slots.past_tokens_NLW[:, position], strict=True)
        rows = [
            [(*row[parent], token) for parent, token in zip(parents_W.tolist(), tokens_W.tolist(), strict=True)]
            for row, parents_W, tokens_W in wrote
        ]
    return slots


def hypotheses(slots: Slots, rule: BeamRule) -> list[list[Hypothesis]]:
    from heedful.fast.cuda.captured_search import Round
    from heedful.fast.cuda.slots import Found, empty_found, trace_back

    trace_back(slots, found := empty_found(slots, rule, with_tokens=True, device=DEVICE), rule)
    told = Round(0, Found(found.ids_NBL.cpu(), found.scores_NBL.cpu()), None)
    assert told.done().all()
    return told.hypotheses(np.arange(slots.num_slots))


def num_steps(table: Table, max_length: int, rule: BeamRule) -> int:
    """How many the plain search takes."""
    return len(list(steps_to_the_end(step, Tables([table], rule.width), new_beams(rule, [max_length]), rule)))


def assert_follow_the_rule(
    tables: list[Table], max_lengths: list[int], rule: BeamRule, prefixes: Sequence[Prefix] | None = None
) -> None:
    prefixes = prefixes or [()] * len(tables)
    found = hypotheses(searched(tables, max_lengths, rule, prefixes), rule)
    for table, limit, prefix, of_slot in zip(tables, max_lengths, prefixes, found, strict=True):
        expected = plain_beam_search(table, limit, rule.width, rule.alpha, rule.n_best, prefix)
        assert [each.ids for each in of_slot] == [ids for _, ids in expected]
        for one, (score, ids) in zip(of_slot, expected, strict=True):
            assert one.score == pytest.approx(score, rel=1e-5, abs=1e-5)
            assert one.token_log_probs == pytest.approx(table.forced(ids), rel=1e-4, abs=1e-5)


@on_kernels
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize(("beam_size", "n_best"), [(1, 1), (2, 1), (3, 2), (6, 6)])
def test_each_slot_does_what_the_rule_says_and_never_ends_too_early(beam_size: int, n_best: int, alpha: float) -> None:
    draw = random.Random(f"{beam_size} {alpha}")
    tables = [Table(draw.randrange(10**6), sharpness=draw.choice([1.0, 2.0, 8.0])) for _ in range(4)]
    assert_follow_the_rule(tables, [draw.randrange(7) for _ in tables], BeamRule(beam_size, alpha, n_best, EOS))


@on_kernels
def test_the_bound_reaches_as_far_as_the_length_limit_and_its_eos() -> None:
    """Tables whose best hypothesis is the longest, and better by little; see the tests of the plain search."""
    assert_follow_the_rule([Table(146), Table(314, sharpness=8.0)], [2, 4], BeamRule(2, 0.6, 1, EOS))


@on_kernels
def test_a_sure_model_is_not_cut_off_by_bad_endings() -> None:
    assert_follow_the_rule([Sure(6), Sure(3)], [7, 7], BeamRule(4, 0.6, 1, EOS))


@on_kernels
def test_a_slot_is_done_when_the_plain_search_is() -> None:
    tables, rule = [Table(seed, sharpness=4.0) for seed in range(12)], BeamRule(3, 0.6, 1, EOS)
    steps = searched(tables, [6] * len(tables), rule, [()] * len(tables)).position_N.tolist()
    assert steps == [num_steps(table, 6, rule) for table in tables]
    assert len(set(steps)) > 3, "some end early"


@on_kernels
def test_a_slot_keeps_to_its_own_prefix() -> None:
    prefixes: list[Prefix] = [(), (3,), (1, 1, 2), (2, 3, 1, 1)]
    assert_follow_the_rule([Table(seed) for seed in range(4)], [5, 4, 3, 6], BeamRule(3, 0.6, 3, EOS), prefixes)


@on_kernels
def test_the_best_tokens_are_found_in_whichever_block_of_the_words_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.fast.cuda import beam_kernels

    monkeypatch.setattr(beam_kernels, "BLOCK_COLUMNS", 4)
    tables = [Table(seed, vocab_size=11) for seed in range(4)]
    assert_follow_the_rule(tables, [4, 3, 2, 1], BeamRule(3, 0.6, 2, EOS))


@on_kernels
def test_ancestors_are_those_of_the_parents_over_a_long_output() -> None:
    from heedful.fast.cuda.beam_kernels import Best, advance
    from heedful.fast.cuda.slots import empty_slots, enter

    rule, steps, vocab_size = BeamRule(3, 0.6, 1, EOS), 70, 5
    slots = empty_slots(1, rule, steps + 2, numbers([], DTYPE))
    enter(slots, numbers([0]), numbers([steps + 1]), rule)
    never_R = numbers([-1e9] * 3, DTYPE)  # no hypothesis ends
    ancestors: list[Prefix] = [()] * rule.width
    for position in range(steps):
        values_RW = -torch.rand(3, 3, dtype=torch.float64).to(DEVICE, DTYPE)
        tokens_RW = torch.stack([1 + torch.randperm(vocab_size - 1)[:3] for _ in range(3)]).int().to(DEVICE)
        advance(Best(values_RW, tokens_RW, never_R, never_R), slots, rule, vocab_size)
        parents = slots.past_parents_NLW[0, position].tolist()
        ancestors = [(*ancestors[parent], parent) for parent in parents]
    found = slots.ancestors_2NWL[steps % 2, 0, :, :steps].tolist()
    assert found == [list(each) for each in ancestors]
    assert set(ancestors[0]) == {0, 1, 2}, "it came by every place"
