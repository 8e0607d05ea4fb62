"""Which word looked at which: weights are distributions, words are sums of pieces, and heads get their names."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks.attention import pronoun_place, pronoun_report
from heedful.data.grammar.corpus import Example, pronoun_cases
from heedful.data.grammar.links import Link
from heedful.errors import ConfigError, DataError
from heedful.inspection.attention_map import KINDS, AttentionMap, Kind, attention_map, the_model, tokens_of
from heedful.inspection.head_roles import (
    CERTAIN,
    Roles,
    grammar_roles,
    head_roles,
    hits,
    roles,
)
from heedful.inspection.vectors import states, worked_kinds
from heedful.model.attention import MultiHeadAttention
from heedful.translate.torch_engine import TorchEngine
from heedful.translate.translation import Translator
from tests.small_translator import TEXT, family_translator, small_translator

SOURCE, TARGET = TEXT[0], TEXT[1]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return small_translator()


@pytest.fixture(scope="module")
def found(translator: Translator) -> AttentionMap:
    return attention_map(translator, SOURCE, TARGET)


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_of_every_layer_and_head_is_a_distribution(found: AttentionMap, kind: Kind) -> None:
    weights_LHTS = found.weights_LHTS[kind]
    assert weights_LHTS.shape == (2, 2, len(found.rows(kind).pieces), len(found.columns(kind).pieces))
    torch.testing.assert_close(weights_LHTS.sum(dim=-1), torch.ones(weights_LHTS.shape[:-1]))


@pytest.mark.parametrize("kind", KINDS)
def test_words_keep_the_whole_weight(found: AttentionMap, kind: Kind) -> None:
    words_LHWW = found.words(kind)
    assert words_LHWW.shape[2:] == (len(found.rows(kind).words), len(found.columns(kind).words))
    torch.testing.assert_close(words_LHWW.sum(dim=-1), torch.ones(words_LHWW.shape[:-1]))


def test_the_decoder_does_not_look_ahead(found: AttentionMap) -> None:
    assert not found.weights_LHTS["decoder"].triu(diagonal=1).any()


def test_words_are_what_stands_between_spaces(translator: Translator) -> None:
    for text in TEXT:
        ids = translator.tokenizer.encode(text)
        tokens = tokens_of(translator.tokenizer, [*ids, translator.tokenizer.eos_id], "de")
        assert list(tokens.words) == [*text.split(" "), "</s>"]
        second = [piece for piece, word in zip(tokens.pieces, tokens.word_of_piece, strict=True) if word == 1]
        assert "".join(second).replace("▁", "") == text.split(" ")[1]


def test_what_the_decoder_reads_is_what_it_writes_one_place_later(found: AttentionMap) -> None:
    assert found.target_in.pieces == ("<s>", *found.target.pieces[:-1])
    assert found.target_in.words == ("<s>", *found.target.words[:-1])


def test_looking_leaves_no_trace_in_the_engine(translator: Translator) -> None:
    assert the_model(translator) is not translator.engine.models[0]
    ours, theirs = the_model(translator).parameters(), translator.engine.models[0].parameters()
    assert all(a is b for a, b in zip(ours, theirs, strict=True))


def test_an_ensemble_and_a_blank_sentence_are_refused(translator: Translator) -> None:
    (model,) = translator.engine.models
    both = Translator(TorchEngine(model, model), translator.tokenizer, translator.config)
    with pytest.raises(ConfigError, match="name one model"):
        attention_map(both, SOURCE, TARGET)
    with pytest.raises(DataError, match="blank"):
        attention_map(translator, " ", TARGET)


# ------------------------------------------------------------------------------------------------------------ vectors


@pytest.mark.parametrize("d_k", [8, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_the_recorded_vectors_lead_to_the_models_own_numbers(kind: Kind, d_k: int) -> None:
    translator, row = small_translator(d_k=d_k), 3
    found = attention_map(translator, SOURCE, TARGET)
    recorder, outputs, products = found.reading.recorders[kind][1], [], []
    for head in range(2):
        products_S = recorder.keys[0][:, head] @ recorder.queries[0][row, head]
        products.append(products_S.clone())
        if kind == "decoder":
            products_S[row + 1 :] = -math.inf
        weights_S = (products_S / math.sqrt(d_k)).softmax(dim=0)
        torch.testing.assert_close(weights_S, found.weights_LHTS[kind][1, head, row])
        outputs.append(weights_S @ recorder.values[0][:, head])
    place = {"cross": "decoder.1.cross", "encoder": "encoder.1.self", "decoder": "decoder.1.self"}[kind]
    attention = the_model(translator).get_submodule(f"{place}_attention")
    assert isinstance(attention, MultiHeadAttention)
    residual = found.reading.residuals[f"{place}_attention_norm"]
    torch.testing.assert_close(attention.W_O(torch.cat(outputs)), residual.sublayer_TD[row])
    assert bool((products[0] < 0).any()), "negative products are shown too"


@pytest.mark.parametrize(
    "switch",
    [{"compatibility": "additive"}, {"compatibility": "unscaled"}, {"positions": "rotary"}, {"residuals": False}],
)
def test_a_model_with_another_equation_is_looked_into_and_its_calculation_is_not_shown(switch: dict[str, Any]) -> None:
    found = attention_map(family_translator({"d_ff": 24, "num_layers": 2, "num_heads": 2, **switch}), SOURCE, TARGET)
    for weights_LHTS in found.weights_LHTS.values():
        torch.testing.assert_close(weights_LHTS.sum(dim=-1), torch.ones(weights_LHTS.shape[:-1]))
    assert set(worked_kinds(found)) <= ({"cross"} if "positions" in switch else set())


def test_vectors_move_from_layer_to_layer(found: AttentionMap) -> None:
    states_LTD = states(found, "encoder")
    assert states_LTD.shape == (3, len(found.source.pieces), 16)
    assert bool((states_LTD[1:] != states_LTD[:-1]).any(dim=-1).all())


# --------------------------------------------------------------------------------------------------------------- heads


def test_a_head_is_named_by_where_its_largest_weight_falls() -> None:
    previous = torch.eye(6).roll(1, dims=0)[None, None]
    places = [(row, frozenset([row - 1])) for row in range(1, 6)]
    assert hits(previous, "previous", places, own=True).mean() == 1
    shares = {"previous": torch.ones(1, 1), "pronoun→noun": torch.ones(1, 1)}
    counts = {"previous": 50, "pronoun→noun": 50}
    assert Roles(shares, counts, torch.zeros(1, 1)).label(0, 0) == "previous"
    rare = Roles({"pronoun→noun": torch.ones(1, 1)}, {"pronoun→noun": 1}, torch.ones(1, 1))
    assert rare.label(0, 0) == "spread", "one case says nothing"


def test_a_head_that_looks_at_one_word_from_everywhere_is_named_after_it(found: AttentionMap) -> None:
    example = Example(SOURCE, TARGET, (), (), ())
    words = found.source.words
    at_the = torch.zeros_like(found.weights_LHTS["cross"])
    at_the[..., found.source.word_of_piece.index(words.index("the"))] = 1.0
    one = roles([(replace(found, weights_LHTS={"cross": at_the}), example)] * 3, "cross")
    assert (one.label(0, 0), one.favourites[0, 0], float(one.shares_LH["word"][0, 0])) == ("word", "the", 1.0)
    at_end = torch.zeros_like(at_the)
    at_end[..., -1] = 1.0
    assert roles([(replace(found, weights_LHTS={"cross": at_end}), example)] * 3, "cross").label(0, 0) == "end"
    assert "word" not in roles([(found, None)], "cross").shares_LH, "one sentence says nothing"


def test_itself_is_set_aside() -> None:
    weights = torch.tensor([[[[0.6, 0.1, 0.3], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]]]])
    assert hits(weights, "previous", [(1, frozenset([2]))], own=True).mean() == 1
    assert hits(weights, "previous", [(1, frozenset([2]))], own=False).mean() == 0


def test_grammar_roles_are_scored_on_the_links(translator: Translator, found: AttentionMap) -> None:
    example = Example(SOURCE, TARGET, ((1, 1), (7, 7)), (Link("pronoun", 7, 1),), (Link("pronoun", 7, 1),))
    for kind in KINDS:
        assert roles([(found, example)], kind).counts["pronoun→noun"] == 1
    assert "pronoun→noun" not in head_roles(translator, found)["encoder"].shares_LH, "unknown languages: by position"
    known = grammar_roles(small_translator("en", "de"), num_sentences=4)
    assert {"adjective→noun", "verb→subject"} <= set(known["encoder"].shares_LH)
    assert 0 < CERTAIN < 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cross", "decoder"])
def test_the_pronoun_report_measures_a_head_that_was_chosen_before(kind: Kind) -> None:
    report = pronoun_report(small_translator("en", "de"), kind, num_sentences=40)
    assert report.hits_P.shape == (400,)
    assert set(report.hits_P.tolist()) <= {0.0, 1.0}
    assert 0 <= report.validation <= 1
    assert report.share == pytest.approx(float(report.hits_P.mean()))


def test_a_pronouns_place_is_the_noun_that_it_stands_for() -> None:
    for case in pronoun_cases("en", "de")[::40]:
        row, (noun,) = pronoun_place("encoder", case)
        written, (aligned,) = pronoun_place("cross", case)
        assert case.source.split(" ")[row] == "it"
        assert aligned == noun
        again, (shifted,) = pronoun_place("decoder", case)
        right, wrong = case.right.split(" "), case.wrong.split(" ")
        assert (again, right[written]) == (written, right[again])
        assert right[written] != wrong[written]
        assert right[shifted - 1][0].isupper(), "a noun, already written"
        assert shifted <= written
