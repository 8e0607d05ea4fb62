"""Word alignments: the format, the error rate, which steps and which attention they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
import torch
from torch import Tensor

from heedful.config.settings import ModelConfig
from heedful.data.grammar.corpus import held_out_examples
from heedful.data.words import word_of_piece
from heedful.errors import DataError
from heedful.inspection.attention_map import KINDS, map_of_ids, the_model
from heedful.model.checkpoint import load_model
from heedful.model.transformer import Transformer
from heedful.translate import alignment
from heedful.translate.alignment import (
    NEVER,
    NUM_VIEWS,
    Aligner,
    Choice,
    Coefficients,
    Words,
    alignment_error_rate,
    choice_for,
    choose,
    default_choice,
    links,
    pharaoh,
    regression,
    ways_to_look,
    word_weights,
)
from heedful.translate.translation import Translator
from tests.small_models import TEXT, small_model
from tests.small_translator import family_translator

CPU = torch.device("cpu")
FIRST, ANY, READ, ANY_READ = range(4)  # views, as they are
WAYS = 3 * 2 * 2  # kinds of attention, layers and heads of the small model


def view(number: int) -> Coefficients:
    """One way to look, which counts in this view alone."""
    return tuple((float(each == number),) for each in range(NUM_VIEWS))


EVERY_TARGET_WORD = Choice(view(FIRST), least=0.0, least_source=NEVER)


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


def test_a_word_is_aligned_by_its_first_piece_and_marks_do_not_count() -> None:
    source, target = ["▁the", "▁c", "at", "."], ["▁die", "▁Katz", "e", "."]
    weights_PTS = torch.zeros(1, 5, 5)
    weights_PTS[0, 0] = torch.tensor([0.2, 0.0, 0.0, 0.8, 0.0])  # die: mostly the full stop
    weights_PTS[0, 1] = torch.tensor([0.4, 0.3, 0.3, 0.0, 0.0])  # Katz: both pieces of cat together
    weights_PTS[0, 2] = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])  # e: does not count
    weights_PTS[0, 3] = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])  # the mark neither
    assert links(word_weights(weights_PTS, source, target), EVERY_TARGET_WORD) == ((0, 0), (1, 1))


def test_a_mark_that_stands_alone_is_a_word() -> None:
    weights_PTS = torch.eye(3)[None]
    assert links(word_weights(weights_PTS, ["▁-", "▁a"], ["▁-", "▁a"]), EVERY_TARGET_WORD) == ((0, 0), (1, 1))


def test_a_word_is_looked_at_in_the_steps_that_produce_it_and_in_those_that_read_it() -> None:
    source, target = ["▁a", "▁b"], ["▁B", "b", ".", "▁A"]
    weights_TS = torch.tensor([[0.1, 0.2, 0], [0.8, 0.0, 0], [0.3, 0.4, 0], [0.5, 0.6, 0], [0.9, 0.7, 0]])
    views_VJI = word_weights(weights_TS[None], source, target).views_VPJI[:, 0]
    assert len(views_VJI) == NUM_VIEWS
    expected_JI = {
        FIRST: [[0.1, 0.2], [0.5, 0.6]],
        ANY: [[0.8, 0.2], [0.5, 0.6]],
        READ: [[0.3, 0.4], [0.9, 0.7]],  # the step that writes the mark reads the word's last piece
        ANY_READ: [[0.8, 0.4], [0.9, 0.7]],
        4 + FIRST: [[0.5, 1.0], [0.5 / 0.6, 1.0]],
        8 + FIRST: [[0.2, 1 / 3], [1.0, 1.0]],
    }
    for number, weights_JI in expected_JI.items():
        assert views_VJI[number].numpy() == pytest.approx(torch.tensor(weights_JI).numpy(), abs=0.01)


def words(weights_JI: list[list[float]]) -> Words:
    """Of one way to look, in its first view; the source words are called a, b, …, the target words A, B, …"""
    views_VPJI = torch.zeros(NUM_VIEWS, 1, len(weights_JI), len(weights_JI[0]))
    views_VPJI[FIRST] = torch.tensor(weights_JI)
    return Words(tuple("abcd"[: views_VPJI.size(-1)]), tuple("ABCD"[: views_VPJI.size(-2)]), views_VPJI)


def test_a_word_that_looks_nowhere_in_particular_is_aligned_with_nothing() -> None:
    pair = words([[0.1, 0.7, 0.1], [0.3, 0.3, 0.3]])
    assert links(pair, replace(EVERY_TARGET_WORD, least=0.4)) == ((1, 0),)


def test_a_source_word_goes_with_the_word_that_looks_at_it_most() -> None:
    pair = words([[0.6, 0.3, 0.0], [0.1, 0.05, 0.8]])  # two source words became the first
    for least, least_source, found in (
        (0.4, 0.2, ((0, 0), (1, 0), (2, 1))),
        (0.4, 0.4, ((0, 0), (2, 1))),
        (0.7, 0.05, ((0, 0), (1, 0), (2, 1))),
        (0.7, NEVER, ((2, 1),)),
    ):
        assert links(pair, Choice(view(FIRST), least, least_source)) == found


def test_an_ending_may_be_what_became_of_a_source_word() -> None:
    weights_PTS = torch.zeros(1, 3, 4)
    weights_PTS[0, 0] = torch.tensor([0.0, 0.9, 0.1, 0.0])  # the stem looks at the adjective
    weights_PTS[0, 1] = torch.tensor([0.8, 0.1, 0.1, 0.0])  # the ending at the conjunction
    pair = word_weights(weights_PTS, ["▁because", "▁rich", "."], ["▁부유", "해서"])
    assert links(pair, EVERY_TARGET_WORD) == ((1, 0),)
    assert links(pair, Choice(view(ANY), 0.0, 0.5)) == ((0, 0), (1, 0))


def test_words_without_a_counterpart_stay_alone() -> None:
    pair = words([[0.1, 0.9], [0.6, 0.4]])
    everything = Choice(view(FIRST), least=0.0, least_source=0.0)
    assert links(pair, everything) == ((0, 1), (1, 0))
    assert links(pair, replace(everything, source_alone=("b",))) == ((0, 0), (0, 1))
    assert links(pair, replace(everything, target_alone=("A",))) == ((0, 1), (1, 1))
    assert links(pair, replace(everything, source_alone=("a", "b"))) == ()


def test_where_there_is_no_word_there_is_no_link() -> None:
    weights_PTS = torch.ones(1, 2, 2)
    assert links(word_weights(weights_PTS, [], ["▁a"]), EVERY_TARGET_WORD) == ()
    assert links(word_weights(weights_PTS, ["▁a"], []), EVERY_TARGET_WORD) == ()


def test_the_regression_finds_the_odds_of_a_link() -> None:
    torch.manual_seed(1)
    views_CF = torch.rand(20_000, 3)
    odds_C = views_CF @ torch.tensor([0.0, 4.0, -2.0]) - 1
    counts_F, bias = regression(views_CF, torch.rand(len(odds_C)) < odds_C.sigmoid())
    assert counts_F.tolist() == pytest.approx([0, 4, -2], abs=0.3)
    assert bias == pytest.approx(-1, abs=0.3)


def test_weights_are_those_of_the_step_that_produces_the_piece(model: Path) -> None:
    loaded = load_model(model, device=CPU)
    one = ways_to_look(loaded.model, [5, 6, 7], [10, 11, 12])
    other = ways_to_look(loaded.model, [5, 6, 7], [10, 11, 13])
    assert one.shape == (WAYS, 4, 4)
    assert torch.equal(one[:, :3], other[:, :3]), "the last piece was not known when it was chosen"
    assert not torch.equal(one[:, 3], other[:, 3])
    assert one.sum(dim=-1).numpy() == pytest.approx(1.0)


def test_a_step_looks_directly_or_through_another_word(model: Path) -> None:
    translator = Translator.load(model, device="cpu", engine="torch")
    found = map_of_ids(translator, [5, 6, 7], [10, 11])
    cross_PTS, encoder_PSS, decoder_PTT = (found.weights_LHTS[kind].flatten(0, 1) for kind in KINDS)
    mean_TS = cross_PTS.mean(dim=0)
    expected_PTS = torch.cat([cross_PTS, mean_TS @ encoder_PSS, decoder_PTT @ mean_TS])
    assert torch.allclose(ways_to_look(the_model(translator), [5, 6, 7], [10, 11]), expected_PTS, atol=1e-6)


@pytest.mark.usefixtures("families_of_others")
def test_cross_attention_alone_is_enough_to_align() -> None:
    glance = family_translator({"family": "glance"}, "en", "de")
    found = map_of_ids(glance, [5, 6, 7], [10, 11])
    ways_PTS = ways_to_look(the_model(glance), [5, 6, 7], [10, 11])
    assert torch.equal(ways_PTS, found.weights_LHTS["cross"].flatten(0, 1))
    valid, _ = held_out_examples("en", "de", count=20)
    choice = choose(the_model(glance), glance.tokenizer, valid)
    assert torch.tensor(choice.counts).shape == (12, 1), "views × the only way to look"
    aligner = Aligner(the_model(glance), glance.tokenizer, choice, ("en", "de"))
    assert {j for _, j in aligner.align(valid[0].source, valid[0].target)} == set(range(len(valid[0].target.split())))


def test_the_way_that_knows_the_alignment_counts(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    loaded, (valid, _) = load_model(model, device=CPU), held_out_examples("en", "de", count=20)
    answers = cycle(valid)

    def planted(_: object, source_ids: Sequence[int], target_ids: Sequence[int]) -> Tensor:
        example = next(answers)
        source, target = (word_of_piece(loaded.tokenizer.pieces(ids)) for ids in (source_ids, target_ids))
        weights_PTS = torch.rand(WAYS, len(target) + 1, len(source) + 1) / 10
        for i, j in example.alignment:
            weights_PTS[2, target.index(j), source.index(i)] = 1.0
        return weights_PTS

    torch.manual_seed(1)
    monkeypatch.setattr(alignment, "ways_to_look", planted)
    choice = choose(loaded.model, loaded.tokenizer, valid)
    assert torch.tensor(choice.counts).sum(dim=0).argmax() == 2
    assert not choice.source_alone, "English and German have a word for each other's"
    aligner, encode = Aligner(loaded.model, loaded.tokenizer, choice), loaded.tokenizer.encode
    found = [aligner.align(encode(example.source), encode(example.target)) for example in valid]
    assert alignment_error_rate(found, [example.alignment for example in valid]) < 0.02


def test_marks_are_words_without_spaces_and_stay_alone(model: Path) -> None:
    loaded = load_model(model, device=CPU)
    choice, encode = default_choice(loaded.model), loaded.tokenizer.encode
    sides = encode("The cat, and."), encode("Die Katze, und.")
    aligner = Aligner(loaded.model, loaded.tokenizer, choice, ("zh", "ja"))
    found = aligner.align(*sides)
    source, target = (loaded.tokenizer.pieces(ids) for ids in sides)
    assert {j for _, j in found} == {j for j, piece in enumerate(target) if piece not in (",", ".")}
    assert not {i for i, _ in found} & {i for i, piece in enumerate(source) if piece in (",", ".")}
    assert {",", "."} <= {*source} & {*target}


def test_without_the_grammar_a_whole_layer_is_asked(model: Path) -> None:
    loaded = load_model(model, device=CPU)
    choice = choice_for(loaded.model, loaded.tokenizer, ("xx", "de"))
    counts_VP = torch.tensor(choice.counts)
    assert counts_VP.nonzero().tolist() == [[FIRST, 2], [FIRST, 3]], "both heads of the last layer"
    assert counts_VP.sum() == 1
    assert (choice.least, choice.least_source) == (0.0, NEVER)
    deep = Transformer(ModelConfig(d_model=16, d_ff=24, num_layers=6, num_heads=2), loaded.tokenizer.vocab_size).eval()
    deep_VP = torch.tensor(default_choice(deep).counts)
    assert deep_VP.nonzero().tolist() == [[FIRST, 8], [FIRST, 9]], "the last layer but one"


def test_a_model_that_knows_nothing_aligns_every_target_word_all_the_same(model: Path) -> None:
    loaded, (valid, _) = load_model(model, device=CPU), held_out_examples("en", "de", count=20)
    choice = choose(loaded.model, loaded.tokenizer, valid)
    assert choice == replace(default_choice(loaded.model), source_alone=choice.source_alone)


def test_the_choice_is_kept_beside_the_model(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = Aligner.load(model, device="cpu").choice
    (kept,) = (model / ".cache").glob("alignment-*")
    monkeypatch.setattr(alignment, "choice_for", None)
    assert Aligner.load(model, device="cpu").choice == choice
    for damaged in ('{"counts": [[1.0]], "least": 0.0, "least_source": 0.0}', "nonsense", '{"counts": []}'):
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


def test_texts_are_aligned_as_their_ids_are(model: Path) -> None:
    aligner = Aligner.load(model, device="cpu")
    ids = [aligner.tokenizer.encode(text) for text in TEXT[:2]]
    assert aligner.align(*TEXT[:2]) == aligner.align(*ids) != ()


def test_a_blank_line_has_no_alignment_and_a_rank_that_is_not_there_is_named(model: Path) -> None:
    translator, aligner = Translator.load(model, device="cpu", engine="torch"), Aligner.load(model, device="cpu")
    text, blank = translator.translate([TEXT[0], " "])
    assert aligner.align_translation(blank) == ()
    with pytest.raises(DataError, match="no hypothesis 1: there are 1"):
        aligner.align_translation(text, rank=1)
