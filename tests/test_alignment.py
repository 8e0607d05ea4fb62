"""Word alignments: the format, the error rate, which step and which head they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from heedful import alignment
from heedful.alignment import (
    NEVER,
    Aligner,
    Choice,
    Judge,
    Words,
    alignment_error_rate,
    choice_for,
    choose,
    cross_attention,
    default_heads,
    links,
    pharaoh,
    word_of_piece,
    word_weights,
)
from heedful.checkpoint import load_model
from heedful.config import ModelConfig
from heedful.grammar import built_in_corpus
from heedful.translation import Translator
from tests.small_models import TEXT, small_model

CPU = torch.device("cpu")
EVERY_TARGET_WORD = Choice(((0, 0),), least=0.0, least_left=NEVER)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("alignment") / "model", data={"max_length": 20, "source_language": "xx"})


def test_pharaoh_writes_pairs() -> None:
    assert pharaoh(((0, 0), (1, 2))) == "0-0 1-2"
    assert pharaoh(()) == ""


def test_the_error_rate_counts_what_both_have() -> None:
    gold = [((0, 0), (1, 1)), ((0, 0),)]
    assert alignment_error_rate(gold, gold) == 0
    assert alignment_error_rate([((0, 1),), ((1, 0),)], gold) == 1
    assert alignment_error_rate([((0, 0), (0, 1)), ((0, 0),)], gold) == pytest.approx(1 - 2 * 2 / 6)
    assert alignment_error_rate([()], [()]) == 0


def test_words_begin_where_a_piece_begins_with_a_space() -> None:
    assert word_of_piece(["▁the", "▁c", "at", ".", "▁", "<0xF0>"]) == [0, 1, 1, 1, 2, 2]
    assert word_of_piece(["a", "b", "▁c"]) == [0, 0, 1]
    assert word_of_piece([]) == []


def test_a_word_is_aligned_by_its_first_piece_and_marks_do_not_count() -> None:
    source, target = ["▁the", "▁c", "at", "."], ["▁die", "▁Katz", "e", "."]
    weights_LHTS = torch.zeros(1, 1, 5, 5)
    weights_LHTS[0, 0, 0] = torch.tensor([0.2, 0.0, 0.0, 0.8, 0.0])  # die: mostly the full stop
    weights_LHTS[0, 0, 1] = torch.tensor([0.4, 0.3, 0.3, 0.0, 0.0])  # Katz: both pieces of cat together
    weights_LHTS[0, 0, 2] = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])  # e: does not count
    weights_LHTS[0, 0, 3] = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])  # the mark neither
    assert links(word_weights(weights_LHTS, source, target), EVERY_TARGET_WORD) == ((0, 0), (1, 1))


def test_a_mark_that_stands_alone_is_a_word() -> None:
    weights_LHTS = torch.eye(3)[None, None]
    assert links(word_weights(weights_LHTS, ["▁-", "▁a"], ["▁-", "▁a"]), EVERY_TARGET_WORD) == ((0, 0), (1, 1))


def words(first_JI: list[list[float]], any_JI: list[list[float]] | None = None) -> Words:
    """Of one head; the source words are called a, b, …, the target words A, B, …"""
    first_LHJI, any_LHJI = (torch.tensor(each)[None, None] for each in (first_JI, any_JI or first_JI))
    return Words(tuple("abcd"[: first_LHJI.size(-1)]), tuple("ABCD"[: first_LHJI.size(-2)]), first_LHJI, any_LHJI)


def test_a_word_that_looks_nowhere_in_particular_is_aligned_with_nothing() -> None:
    pair = words([[0.1, 0.7, 0.1], [0.3, 0.3, 0.3]])
    assert links(pair, Choice(((0, 0),), least=0.4, least_left=NEVER)) == ((1, 0),)


def test_a_source_word_that_is_left_over_goes_with_the_word_that_looks_at_it_most() -> None:
    pair = words([[0.6, 0.3, 0.0], [0.1, 0.05, 0.8]])  # two source words became the first
    assert links(pair, Choice(((0, 0),), least=0.4, least_left=0.2)) == ((0, 0), (1, 0), (2, 1))
    assert links(pair, Choice(((0, 0),), least=0.4, least_left=0.4)) == ((0, 0), (2, 1))
    assert links(pair, Choice(((0, 0),), least=0.7, least_left=0.05)) == ((0, 0), (1, 0), (2, 1))


def test_a_source_word_that_is_left_over_can_stay_alone_whatever_looks_at_it() -> None:
    pair = words([[1.0, 0.0]], [[1.0, 1.0 + 1e-6]])  # rounding
    assert links(pair, Choice(((0, 0),), least=0.0, least_left=1.0)) == ((0, 0), (1, 0))
    assert links(pair, EVERY_TARGET_WORD) == ((0, 0),)


def test_an_ending_may_be_what_became_of_a_source_word() -> None:
    weights_LHTS = torch.zeros(1, 1, 3, 4)
    weights_LHTS[0, 0, 0] = torch.tensor([0.0, 0.9, 0.1, 0.0])  # the stem looks at the adjective
    weights_LHTS[0, 0, 1] = torch.tensor([0.8, 0.1, 0.1, 0.0])  # the ending at the conjunction
    pair = word_weights(weights_LHTS, ["▁because", "▁rich", "."], ["▁부유", "해서"])
    assert links(pair, EVERY_TARGET_WORD) == ((1, 0),)
    assert links(pair, replace(EVERY_TARGET_WORD, least_left=0.5)) == ((0, 0), (1, 0))


def test_words_without_a_counterpart_stay_alone() -> None:
    pair = words([[0.1, 0.9], [0.6, 0.4]])
    everything = Choice(((0, 0),), least=0.0, least_left=0.0)
    assert links(pair, everything) == ((0, 1), (1, 0))
    assert links(pair, replace(everything, source_alone=("b",))) == ((0, 0), (0, 1))
    assert links(pair, replace(everything, target_alone=("A",))) == ((0, 1), (1, 1))
    assert links(pair, replace(everything, source_alone=("a", "b"))) == ()


def test_all_sentences_judged_at_once_have_the_error_rate_of_each_judged_alone() -> None:
    torch.manual_seed(1)
    pairs, gold = [], []
    for num_target, num_source in ((3, 4), (4, 2), (1, 1), (2, 4)):
        weights_JI = torch.rand(num_target, num_source)
        pairs.append(words(weights_JI.tolist(), (weights_JI + 0.1).tolist()))
        gold.append(tuple((i, j) for i in range(num_source) for j in range(num_target) if torch.rand(()) < 0.3))
    judge = Judge(pairs, gold, Choice((), 0.0, 0.0, source_alone=("c",), target_alone=("B",)))
    for error, choice in judge.ranked([((0, 0),)], (0.1, 0.6, NEVER)):
        assert error == pytest.approx(alignment_error_rate([links(pair, choice) for pair in pairs], gold))


def test_weights_are_those_of_the_step_that_produces_the_piece(model: Path) -> None:
    loaded = load_model(model, device=CPU)
    one = cross_attention(loaded.model, [5, 6, 7], [10, 11, 12])
    other = cross_attention(loaded.model, [5, 6, 7], [10, 11, 13])
    assert one.shape == (2, 2, 4, 4)
    assert torch.equal(one[:, :, :3], other[:, :, :3]), "the last piece was not known when it was chosen"
    assert not torch.equal(one[:, :, 3], other[:, :, 3])
    assert one.sum(dim=-1) == pytest.approx(torch.ones(2, 2, 4))


def test_the_head_that_knows_the_alignment_is_chosen(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    loaded, corpus = load_model(model, device=CPU), built_in_corpus("en", "de", train_pairs=0, held_out_pairs=20)
    answers = iter(corpus.valid)

    def planted(_: object, source_ids: Sequence[int], target_ids: Sequence[int]) -> Tensor:
        example = next(answers)
        source, target = (word_of_piece(loaded.tokenizer.pieces(ids)) for ids in (source_ids, target_ids))
        weights_LHTS = torch.rand(2, 2, len(target) + 1, len(source) + 1) / 10
        for i, j in example.alignment:
            weights_LHTS[1, 0, target.index(j), source.index(i)] = 1.0
        return weights_LHTS

    monkeypatch.setattr(alignment, "cross_attention", planted)
    choice = choose(loaded.model, loaded.tokenizer, corpus.valid)
    assert choice.heads[0] == (1, 0)
    assert not choice.source_alone, "English and German have a word for each other's"


def test_without_the_grammar_a_whole_layer_is_asked(model: Path) -> None:
    loaded = load_model(model, device=CPU)
    assert choice_for(loaded.model, loaded.tokenizer, ("xx", "de")) == Choice(((1, 0), (1, 1)), 0.0, NEVER)
    assert default_heads(ModelConfig(num_layers=6, num_heads=2)) == ((4, 0), (4, 1))


def test_the_choice_is_kept_beside_the_model(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = Aligner.load(model, device="cpu").choice
    (kept,) = (model / ".cache").glob("alignment-*")
    monkeypatch.setattr(alignment, "choice_for", None)
    assert Aligner.load(model, device="cpu").choice == choice
    for damaged in ('{"heads": [[7, 0]]}', "nonsense", '{"heads": []}'):
        kept.write_text(damaged)
        with pytest.raises(TypeError):
            Aligner.load(model, device="cpu")


def test_the_parts_of_a_split_line_are_counted_on(model: Path) -> None:
    translator, aligner = Translator.load(model, device="cpu", engine="torch"), Aligner.load(model, device="cpu")
    line = " ".join(TEXT)
    (translation,) = translator.translate([line])
    assert translation.num_parts > 1
    found = aligner.align_translation(translation)
    assert max(i for i, _ in found) < len(line.split())
    assert {j for _, j in found} == set(range(len(translation.text.split(" "))))
