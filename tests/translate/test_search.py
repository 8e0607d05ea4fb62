"""Search over tables: small made-up models in which every sequence and its probability is known."""

from __future__ import annotations

import ast
import itertools
import math
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import heedful.translate.search
from heedful.translate.sampling import SampleRule, greedy_rule
from heedful.translate.search import BeamRule, Hypothesis, length_penalty, new_beams
from tests.table_models import (
    EOS,
    Prefix,
    Sure,
    Table,
    Tables,
    beam_search,
    greedy_search,
    plain_beam_search,
    searched,
    step,
    steps_to_the_end,
)


def beam(tables: list[Table], max_lengths: list[int], beam_size: int, **options: object) -> list[list[Hypothesis]]:
    settings = {"alpha": 0.6, **options}
    return beam_search(step, Tables(tables, beam_size), max_lengths=max_lengths, beam_size=beam_size, **settings)  # type: ignore[arg-type]


@given(
    seed=st.integers(0, 10**6),
    beam_size=st.integers(1, 6),
    max_length=st.integers(0, 6),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    data=st.data(),
)
@settings(max_examples=60)
def test_beam_search_does_what_its_rule_says_and_never_ends_too_early(
    seed: int, beam_size: int, max_length: int, alpha: float, data: st.DataObject
) -> None:
    table, n_best = Table(seed), data.draw(st.integers(1, beam_size))
    (found,) = beam([table], [max_length], beam_size, alpha=alpha, n_best=n_best)
    expected = plain_beam_search(table, max_length, beam_size, alpha, n_best)
    assert [hypothesis.ids for hypothesis in found] == [ids for _, ids in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([score for score, _ in expected], abs=1e-9)


def test_the_bound_counts_the_eos_behind_the_longest_output() -> None:
    """A table whose best hypothesis is as long as may be, and better by less than the eos gives in the penalty."""
    (found,) = beam([Table(146)], [2], 2, alpha=0.6)
    assert [hypothesis.ids for hypothesis in found] == [(1, 2)]
    assert plain_beam_search(Table(146), 2, 2, 0.6, 1)[0][1] == (1, 2)


def test_the_bound_reaches_as_far_as_the_length_limit() -> None:
    """A table whose best hypothesis is better only at its end, three steps after a shorter one has finished."""
    table = Table(314, sharpness=8.0)
    (found,) = beam([table], [4], 2, alpha=0.6)
    assert [hypothesis.ids for hypothesis in found] == [(3, 2, 1, 3)]
    assert plain_beam_search(table, 4, 2, 0.6, 1)[0][1] == (3, 2, 1, 3)


def test_a_sure_model_is_not_cut_off_by_bad_endings() -> None:
    """At each step the end is the second likeliest, and so as many bad hypotheses finish as the beam is wide."""
    (found,) = beam([Sure(10)], [20], 4, alpha=0.6)
    assert [hypothesis.ids for hypothesis in found] == [(1,) * 10]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_best_of_all_sequences(seed: int, alpha: float) -> None:
    table, max_length = Table(seed, vocab_size=3), 5
    score = {ids: sum(table.forced(ids)) / length_penalty(len(ids) + 1, alpha) for ids in table.all_sequences(5)}
    best = sorted(score, key=lambda ids: -score[ids])
    (found,) = beam([table], [max_length], len(score), alpha=alpha, n_best=4)
    assert [hypothesis.ids for hypothesis in found] == best[:4]


def test_the_bound_ends_a_search_long_before_its_length_limit() -> None:
    rule = BeamRule(width=3, alpha=0.6)
    steps = list(steps_to_the_end(step, Tables([Table(3)], 3), new_beams(rule, [1000]), rule))
    assert len(steps) < 30


@given(seeds=st.lists(st.integers(0, 10**6), min_size=1, max_size=4), data=st.data())
@settings(max_examples=30)
def test_a_beam_of_one_is_greedy_search(seeds: list[int], data: st.DataObject) -> None:
    tables = [Table(seed) for seed in seeds]
    max_lengths = [data.draw(st.integers(0, 9)) for _ in seeds]
    greedy = greedy_search(step, Tables(tables, 1), max_lengths=max_lengths)
    assert beam(tables, max_lengths, 1) == greedy


def test_greedy_search_takes_the_likeliest_token_each_time() -> None:
    table = Table(5, vocab_size=6)
    ((found,),) = greedy_search(step, Tables([table], 1), max_lengths=[20])
    for position, token in enumerate((*found.ids, EOS)[:20]):
        row = table.log_probs(found.ids[:position])
        assert row[token] == max(row)


@given(seeds=st.lists(st.integers(0, 10**6), min_size=2, max_size=5), beam_size=st.integers(1, 4), data=st.data())
@settings(max_examples=30)
def test_results_do_not_depend_on_the_batch(seeds: list[int], beam_size: int, data: st.DataObject) -> None:
    tables = [Table(seed) for seed in seeds]
    max_lengths = [data.draw(st.integers(0, 9)) for _ in seeds]
    together = beam(tables, max_lengths, beam_size, n_best=beam_size)
    alone = [beam([t], [m], beam_size, n_best=beam_size)[0] for t, m in zip(tables, max_lengths, strict=True)]
    assert together == alone


@pytest.mark.parametrize("seed", range(8))
def test_scores_are_those_of_the_tokens_and_the_n_best_are_sorted_and_distinct(seed: int) -> None:
    table = Table(seed)
    (found,) = beam([table], [7], 5, n_best=5)
    assert len(found) == 5
    assert len({hypothesis.ids for hypothesis in found}) == 5
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    for hypothesis in found:
        forced = table.forced(hypothesis.ids)
        assert hypothesis.token_log_probs == pytest.approx(forced, abs=1e-9)
        assert hypothesis.log_prob == pytest.approx(sum(forced), abs=1e-9)
        penalty = ((5 + len(hypothesis.ids) + 1) / 6) ** 0.6
        assert hypothesis.score == pytest.approx(sum(forced) / penalty, abs=1e-9)


def test_each_sentence_keeps_its_own_length_limit_and_ends_there_with_a_scored_eos() -> None:
    never = [Table(seed, vocab_size=400) for seed in range(4)]  # eos is never among the best
    found = beam(never, [0, 1, 3, 6], 2)
    assert [len(hypotheses[0].ids) for hypotheses in found] == [0, 1, 3, 6]
    for table, (hypothesis,) in zip(never, found, strict=True):
        assert hypothesis.log_prob == pytest.approx(sum(table.forced(hypothesis.ids)), abs=1e-9)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_prefixes_of_different_length_are_kept_and_counted(beam_size: int) -> None:
    tables = [Table(seed) for seed in range(4)]
    prefixes: list[Prefix] = [(), (3,), (1, 1, 2), (2, 3, 1, 3, 2)]
    found = beam(tables, [8, 8, 8, 5], beam_size, prefixes=prefixes, n_best=beam_size)
    for table, prefix, limit, hypotheses in zip(tables, prefixes, [8, 8, 8, 5], found, strict=True):
        expected = plain_beam_search(table, limit, beam_size, 0.6, beam_size, prefix)
        assert [hypothesis.ids for hypothesis in hypotheses] == [ids for _, ids in expected]
        assert all(hypothesis.ids[: len(prefix)] == prefix for hypothesis in hypotheses)
        assert hypotheses[0].log_prob == pytest.approx(sum(table.forced(hypotheses[0].ids)), abs=1e-9)


def test_equal_candidates_are_taken_in_the_order_of_their_ids() -> None:
    flat = [Table(0, vocab_size=6, sharpness=0.0)]
    rule = BeamRule(width=5, alpha=0.0)
    first = next(steps_to_the_end(step, Tables(flat, 5), new_beams(rule, [4]), rule))
    assert first.tokens_NW.tolist() == [[1, 2, 3, 4, 5]]
    assert first.finished_NW.isfinite().tolist() == [[True, *[False] * 4]]  # eos is as good as any


def test_the_steps_tell_the_tree_of_all_live_hypotheses() -> None:
    state, rule = Tables([Table(1), Table(2)], 3), BeamRule(width=3, alpha=0.6)
    paths: list[list[Prefix]] = [[()] * 3] * 2
    for done in steps_to_the_end(step, state, new_beams(rule, [6, 6]), rule):
        rows = zip(paths, done.parents_NW.tolist(), done.tokens_NW.tolist(), done.log_probs_NW.tolist(), strict=True)
        paths = [[(*path[p], t) for p, t in zip(parents, tokens, strict=True)] for path, parents, tokens, _ in rows]
        for table, path, totals in zip(state.tables, paths, done.log_probs_NW.tolist(), strict=True):
            for ids, total in zip(path, totals, strict=True):
                assert total == -math.inf or total == pytest.approx(sum(table.forced(ids)[:-1]), abs=1e-9)


def test_sentences_may_come_and_go_between_steps() -> None:
    tables, rule = [Table(seed) for seed in range(3)], BeamRule(width=2, alpha=0.6, n_best=2)
    double = torch.empty(0, dtype=torch.float64)
    beams = new_beams(rule, [6, 6], prefixes=[(), (1,)], like=double)
    state = Tables(tables[:2], 2)
    beams, done = rule.advance(beams, step(torch.zeros(4, dtype=torch.int64), state))
    state.select(done.parents_NW)
    # Sentence 2 takes the place of sentence 0, and then the two change places.
    beams = beams.admit([0], new_beams(rule, [6], prefixes=[(2, 2)], like=double)).keep([1, 0])
    assert beams.position_N.tolist() == [1, 0]
    assert beams.log_probs_NW[1].tolist() == [0.0, -math.inf]
    assert beams.forced(EOS).tolist() == [heedful.translate.search.FREE, 2]


def drawn(tables: list[Table], max_lengths: list[int], rule: SampleRule, indices: list[int]) -> list[list[Prefix]]:
    beams = new_beams(rule, max_lengths, indices=indices)
    found = searched(step, Tables(tables, rule.width), beams, rule)
    return [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in found]


def test_samples_follow_from_seed_and_index_alone() -> None:
    tables, limits = [Table(seed) for seed in range(6)], [9, 5, 9, 3, 9, 9]
    rule = SampleRule(width=3, seed=7)
    together = drawn(tables, limits, rule, list(range(6)))
    backwards = drawn(tables[::-1], limits[::-1], rule, list(range(6))[::-1])
    alone = [drawn([tables[i]], [limits[i]], rule, [i])[0] for i in range(6)]
    assert together == backwards[::-1] == alone
    assert together != drawn(tables, limits, SampleRule(width=3, seed=8), list(range(6)))
    fewer = drawn(tables, limits, SampleRule(width=1, seed=7), list(range(6)))
    assert fewer == [samples[:1] for samples in together]


@pytest.mark.parametrize("rule", [SampleRule(top_k=1, seed=3), SampleRule(top_p=1e-6), SampleRule(temperature=1e-6)])
def test_sampling_from_one_candidate_is_greedy_search(rule: SampleRule) -> None:
    tables = [Table(seed) for seed in range(5)]
    greedy = greedy_search(step, Tables(tables, 1), max_lengths=[9] * 5)
    assert drawn(tables, [9] * 5, rule, list(range(5))) == [[h.ids for h in found] for found in greedy]


def frequencies(rule: SampleRule) -> list[float]:
    """How often each of 4 tokens is drawn first, in 4,000 draws from the same row."""
    beams = new_beams(rule, [1] * 20)
    logits_RV = torch.tensor(Table(4, sharpness=1.0).log_probs(())).expand(20 * 200, 4)
    count = Counter(rule.advance(beams, logits_RV)[1].tokens_NW.flatten().tolist())
    return [count[token] / 4000 for token in range(4)]


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.5, 0, 1.0), (1.0, 2, 1.0), (2.0, 3, 0.8)]
)
def test_tokens_are_drawn_as_often_as_they_are_likely(temperature: float, top_k: int, top_p: float) -> None:
    share = (torch.tensor(Table(4, sharpness=1.0).log_probs(())) / temperature).softmax(0)
    kept = share.topk(top_k or 4).indices
    share = torch.zeros(4).index_copy(0, kept, share[kept] / share[kept].sum())
    ordered = share.sort(descending=True)
    nucleus = ordered.indices[: int((ordered.values.cumsum(0) - ordered.values < top_p).sum())]
    expected = torch.zeros(4).index_copy(0, nucleus, share[nucleus] / share[nucleus].sum())
    rule = SampleRule(width=200, temperature=temperature, top_k=top_k, top_p=top_p, seed=11)
    assert frequencies(rule) == pytest.approx(expected.tolist(), abs=0.03)  # four standard deviations
    assert [f == 0 for f in frequencies(rule)] == [e == 0 for e in expected.tolist()]


def test_a_draw_does_not_depend_on_those_before_it() -> None:
    """Two tokens of even odds, 4,000 hypotheses: any two positions agree in half of them."""
    rule, steps = SampleRule(width=200, seed=11), []
    beams, logits_RV = new_beams(rule, [9] * 20), torch.tensor([-math.inf, 0.0, 0.0]).expand(20 * 200, 3)
    for _ in range(4):
        beams, done = rule.advance(beams, logits_RV)
        steps.append(done.tokens_NW)
    for one, other in itertools.combinations(steps, 2):
        assert float((one == other).double().mean()) == pytest.approx(0.5, abs=0.03)  # four standard deviations


def test_the_log_probability_of_a_sample_is_that_of_the_model_at_temperature_1() -> None:
    table, rule = Table(2), SampleRule(width=4, temperature=1.7, top_k=3)
    (found,) = searched(step, Tables([table], 4), new_beams(rule, [8]), rule)
    for hypothesis in found:
        assert hypothesis.log_prob == pytest.approx(sum(table.forced(hypothesis.ids)), abs=1e-9)


def test_log_probabilities_are_computed_in_float32_at_least() -> None:
    for rule in (BeamRule(2, 0.6), SampleRule(2), greedy_rule()):
        logits_RV = torch.randn(rule.width, 9, dtype=torch.bfloat16)
        _, done = rule.advance(new_beams(rule, [5]), logits_RV)
        assert done.log_probs_NW.dtype == torch.float32
    ended = greedy_rule().advance(new_beams(greedy_rule(), [5]), torch.tensor([[2.0, 1.0]], dtype=torch.bfloat16))[1]
    assert ended.finished_NW.item() == pytest.approx(-math.log(1 + math.exp(-1)), abs=1e-7)


def test_search_imports_torch_and_the_id_of_eos_only() -> None:
    tree = ast.parse(Path(heedful.translate.search.__file__).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {name for name in names if name.split(".")[0] not in ("torch", *sys.stdlib_module_names)}
    assert others == {"heedful.data.special_ids"}
