"""The JSON of a trace: what the page and the API give is what the model computed."""

from __future__ import annotations

import base64
import json
import math
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from heedful.data.run_metrics import Tail, append_metrics, cut_metrics, run_metrics
from heedful.errors import CheckpointError, DataError
from heedful.inspection import head_roles
from heedful.inspection.attention_map import KINDS, AttentionMap, Kind, attention_map, map_of_ids
from heedful.inspection.trace import folder_card, look, model_facts, positions, prepare, trace
from heedful.translate.engine import SearchOptions
from heedful.translate.translation import Translator
from tests.small_translator import TEXT, save_translator, small_translator


@pytest.fixture(scope="module")
def translator() -> Translator:
    return small_translator()


@pytest.fixture(scope="module")
def found(translator: Translator) -> dict[str, Any]:
    return trace(translator, TEXT[0])


def numbers(tensor: dict[str, Any]) -> npt.NDArray[Any]:
    """What the page decodes."""
    dtype = np.dtype({"u8": "u1", "f16": "<f2"}[tensor["dtype"]])
    return np.frombuffer(base64.b64decode(tensor["data"]), dtype=dtype).reshape(tensor["shape"])


def test_a_trace_is_json_without_nan(found: dict[str, Any], translator: Translator) -> None:
    for each in (found, trace(translator, TEXT[0], target=TEXT[1])):
        assert json.loads(json.dumps(each, allow_nan=False)).keys() == each.keys()


def test_its_best_hypothesis_is_the_translators(found: dict[str, Any], translator: Translator) -> None:
    (translation,) = translator.translate([TEXT[0]])
    assert found["hypotheses"][0]["text"] == translation.text
    assert found["hypotheses"][0]["score"] == pytest.approx(translation.hypotheses[0].score, abs=1e-3)
    assert found["hypotheses"][0]["log_prob"] == pytest.approx(translation.hypotheses[0].log_prob, abs=1e-2)


def test_attention_comes_as_bytes_of_every_layer_and_head(found: dict[str, Any], translator: Translator) -> None:
    weights = attention_map(translator, TEXT[0], TEXT[1])
    given = trace(translator, TEXT[0], target=TEXT[1])
    for kind in ("cross", "encoder", "decoder"):
        sent = numbers(given["attention"][kind]) / 255
        np.testing.assert_allclose(sent, weights.weights_LHTS[kind].numpy(), atol=1 / 255)
        assert found["attention"][kind]["layers"] == [0, 1]


def test_the_bytes_of_a_row_sum_to_255_also_in_a_long_sentence(translator: Translator) -> None:
    long = " ".join([TEXT[0]] * 8)
    weights = attention_map(translator, long, TEXT[1])
    given = trace(translator, long, target=TEXT[1])["attention"]
    for kind in ("cross", "encoder", "decoder"):
        sent = numbers(given[kind])
        assert (sent.sum(axis=-1, dtype=np.int64) == 255).all()
        here = weights.weights_LHTS[kind][given[kind]["layers"]].numpy()
        np.testing.assert_allclose(sent / 255, here, rtol=0, atol=1.001 / 255)
        assert not sent[here == 0].any(), "what may not be looked at is not"


def test_each_token_has_its_choices_likeliest_first(found: dict[str, Any]) -> None:
    best = found["hypotheses"][0]
    assert len(best["tokens"]) == len(best["pieces"]) == len(best["word_of_piece"])
    for token in best["tokens"]:
        shares = [choice["p"] for choice in token["top"]]
        assert shares == sorted(shares, reverse=True)
        assert token["p"] == pytest.approx(math.exp(token["logp"]), abs=1e-4)


def test_the_winner_is_a_path_of_the_beam_tree(found: dict[str, Any]) -> None:
    steps = found["beam"]["steps"]
    ended = [(s, node) for s, nodes in enumerate(steps) for node in nodes if node["done"]]
    last, node = max(ended, key=lambda item: item[1]["score"])
    ids, place = [], node["parent"]
    for nodes in reversed(steps[:last]):
        here = next(node for node in nodes if not node["done"] and node["place"] == place)
        ids.append(here["token"])
        place = here["parent"]
    assert ids[::-1] == [token["id"] for token in found["hypotheses"][0]["tokens"]][:-1]
    assert node["score"] == found["hypotheses"][0]["score"]


def test_a_prefix_is_kept(translator: Translator) -> None:
    again = trace(translator, TEXT[0], prefix="Das Tier")
    assert all(hypothesis["text"].startswith("Das Tier") for hypothesis in again["hypotheses"])


def test_a_given_target_lists_the_training_examples_it_gives(translator: Translator) -> None:
    (given,) = trace(translator, TEXT[0], target=TEXT[1])["hypotheses"]
    assert [example["next"] for example in given["examples"]] == [*TEXT[1].split(" "), "</s>"]
    assert given["examples"][2]["prefix"] == "Das Tier"
    total = sum(math.log(example["p"]) for example in given["examples"] if example["p"])
    assert total == pytest.approx(given["log_prob"], abs=0.1)


def test_vectors_and_layers_of_a_long_sentence_are_sent_when_asked_for(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = " ".join([TEXT[0]] * 13)
    few = trace(translator, long, options=SearchOptions(beam_size=1))
    assert few["attention"]["encoder"]["layers"] == [1]
    asked = trace(translator, long, options=SearchOptions(beam_size=1), layers=[0])
    assert asked["attention"]["encoder"]["layers"] == [0]
    assert asked["vectors"]["kinds"]["cross"]["layers"] == [0]
    with monkeypatch.context() as small:
        small.setattr("heedful.inspection.trace.VECTOR_BYTES", 10)
        assert trace(translator, TEXT[0])["vectors"] is None
    with pytest.raises(DataError, match="no layer"):
        trace(translator, TEXT[0], layers=[2])


def test_an_encoder_may_have_more_layers_than_the_decoder() -> None:
    deep = small_translator(num_encoder_layers=4)
    asked = trace(deep, TEXT[0], options=SearchOptions(beam_size=1), layers=[3])
    assert [asked["attention"][kind]["layers"] for kind in KINDS] == [[], [3], []]
    assert [asked["vectors"]["kinds"][kind]["q"]["shape"][0] for kind in KINDS] == [0, 1, 0]
    long = trace(deep, "the road because it was too tired and " * 6, options=SearchOptions(beam_size=1))
    assert [long["attention"][kind]["layers"][-1] for kind in KINDS] == [1, 3, 1], "of each kind the last one"


def test_alternatives_bring_their_attention_unless_it_is_too_much(
    translator: Translator, found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    best, *others = found["hypotheses"]
    assert best["attention"] is None, "it is at the top"
    assert [numbers(each["attention"]["cross"]).shape[2] for each in others] == [len(e["pieces"]) for e in others]
    first = sum(numbers(others[0]["attention"][kind]).size for kind in ("cross", "decoder"))
    for room, has in ((first - 1, [False] * 3), (first, [False, True, False])):
        monkeypatch.setattr("heedful.inspection.trace.ALTERNATIVE_BYTES", room)
        assert [each["attention"] is not None for each in trace(translator, TEXT[0])["hypotheses"]] == has


def test_however_wide_the_beam_few_maps_are_in_memory(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    made, most = list[weakref.ref[torch.Tensor]](), 0

    def counted(*arguments: Any) -> AttentionMap:
        nonlocal most
        found = map_of_ids(*arguments)
        made.append(weakref.ref(found.reading.log_probs_TV))
        most = max(most, sum(each() is not None for each in made))
        return found

    monkeypatch.setattr("heedful.inspection.trace.map_of_ids", counted)
    assert len(trace(translator, TEXT[0], options=SearchOptions(beam_size=8))["hypotheses"]) == len(made) == 8
    assert most <= 3, "the best, and one more while the one before it is let go"


def test_the_vectors_give_the_weights_back(found: dict[str, Any]) -> None:
    kinds = found["vectors"]["kinds"]["encoder"]
    query, key = (numbers(kinds[name])[1].astype(float)[:, 8:] for name in ("q", "k"))
    scores = query @ key.T / math.sqrt(8)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(weights, numbers(found["attention"]["encoder"])[1, 1] / 255, atol=5e-3)


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_a_blank_text_is_refused(translator: Translator, text: str) -> None:
    with pytest.raises(DataError, match="blank"):
        trace(translator, text)


def test_a_text_that_would_be_split_is_refused(translator: Translator) -> None:
    with pytest.raises(DataError, match="more than 200 pieces"):
        trace(translator, " ".join([TEXT[0]] * 40))


def test_a_given_target_may_be_as_long_as_a_translation_may_become(translator: Translator) -> None:
    (longest,) = trace(translator, TEXT[0], target="☃" * 68)["hypotheses"]  # three bytes, and pieces, each
    assert len(longest["pieces"]) == translator.config.data.max_length + translator.config.decode.max_extra + 1
    for refuse in (trace, look):
        with pytest.raises(DataError, match=r"has 208 pieces, more than data\.max_length = 200"):
            refuse(translator, TEXT[0], target="☃" * 69)


def test_the_card_tells_the_sizes(translator: Translator) -> None:
    card = model_facts(translator)
    assert (card["encoder_layers"], card["num_heads"], card["d_k"]) == (2, 2, 8)


def test_positions_are_the_papers_sinusoids() -> None:
    table = numbers(positions(20, 16)["table"]).astype(float)
    assert table.shape == (20, 16)
    assert table[3, 0] == pytest.approx(math.sin(3), abs=1e-3)
    assert table[3, 5] == pytest.approx(math.cos(3 / 10000 ** (4 / 16)), abs=1e-3)


def test_metrics_are_read_by_kind_and_hold_no_nan(tmp_path: Path) -> None:
    lines = [
        '{"kind": "step", "step": 1, "loss": NaN}',
        '{"kind": "validation", "step": 1, "bleu": 3.0}',
        '{"kind": "st',
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    assert run_metrics(tmp_path) == {
        "step": [{"kind": "step", "step": 1, "loss": None}],
        "validation": [{"kind": "validation", "step": 1, "bleu": 3.0}],
    }
    (tmp_path / "metrics.jsonl").write_text("\n".join(reversed(lines)))
    with pytest.raises(CheckpointError, match=r"metrics.jsonl:1: is not JSON"):
        run_metrics(tmp_path)
    with pytest.raises(CheckpointError, match="name a run folder"):
        run_metrics(tmp_path / "nowhere")


def test_a_tail_tells_what_is_new_and_starts_anew_after_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "step", "step": 1}\n{"kind": "step", "st')
    tail = Tail(path)
    assert [record["step"] for record in tail.more()["step"]] == [1]
    with path.open("a") as file:
        file.write('ep": 2}\n{"kind": "step", "step": 3}\n')
    assert [record["step"] for record in tail.more()["step"]] == [2, 3]
    assert tail.more() == {"step": [], "validation": []}
    cut_metrics(tmp_path, 1)
    append_metrics(tmp_path, {"kind": "step", "step": 2, "loss": 0.123456789012345678901234567890})
    append_metrics(tmp_path, {"kind": "step", "step": 3})
    assert [record["step"] for record in tail.more()["step"]] == [1, 2, 3]
    assert tail.is_anew
    assert tail.more() == {"step": [], "validation": []}
    assert not tail.is_anew


def test_a_tail_notices_a_file_that_was_cut_in_place_and_has_grown_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"kind": "step", "step": {step}}}\n' for step in (1, 2, 3)))
    tail, number = Tail(path), path.stat().st_ino
    tail.more()
    path.write_text("".join(f'{{"kind": "step", "step": {step}, "loss": 1}}\n' for step in (1, 2, 7, 8)))
    assert path.stat().st_ino == number
    assert [record["step"] for record in tail.more()["step"]] == [1, 2, 7, 8]
    assert tail.is_anew
    path.write_text("")
    assert tail.more() == tail.more() == {"step": [], "validation": []}
    path.write_text('{"kind": "step", "step": 1}\n')
    assert [record["step"] for record in tail.more()["step"]] == [1]


def test_a_tail_notices_a_file_that_is_swapped_while_it_is_opened(tmp_path: Path) -> None:
    path, other = tmp_path / "metrics.jsonl", tmp_path / "other"
    path.write_text('{"kind": "step", "step": 1}\n')
    other.write_text('{"kind": "step", "step": 3}\n' * 2)

    class Swapped(type(path)):  # type: ignore[misc]
        def open(self, *arguments: Any) -> Any:
            other.replace(path) if other.exists() and tail.position else None
            return super().open(*arguments)

    tail = Tail(Swapped(path))
    tail.more()
    assert [record["step"] for record in tail.more()["step"]] == [3, 3]
    assert tail.is_anew


def test_the_numbers_of_another_hypothesis_can_be_asked_for(translator: Translator, found: dict[str, Any]) -> None:
    other = trace(translator, TEXT[0], hypothesis=1, layers=[0, 1])
    rows = len(other["hypotheses"][1]["pieces"])
    assert other["attention"]["cross"]["shape"][2] == rows
    assert other["vectors"]["kinds"]["decoder"]["q"]["shape"][1] == rows
    assert other["attention"]["cross"] == found["hypotheses"][1]["attention"]["cross"]
    assert other["hypotheses"][1]["attention"] is None
    with pytest.raises(DataError, match="hypothesis = 9: there are 3"):
        trace(translator, TEXT[0], hypothesis=9)


def test_a_file_carries_the_vectors_of_all_hypotheses(translator: Translator) -> None:
    every = trace(translator, TEXT[0], other_vector_bytes=10**7)["hypotheses"]
    assert [each["vectors"] is None for each in every] == [True, False, False]


def test_what_is_prepared_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    translator, calls = small_translator("en", "de"), list[Translator]()
    found = dict.fromkeys(KINDS, head_roles.Roles({}, {}, torch.zeros(2, 2)))

    def count(translator: Translator) -> dict[Kind, head_roles.Roles]:
        calls.append(translator)
        return found

    monkeypatch.setattr(head_roles, "grammar_roles", count)
    prepare(translator)
    prepare(translator)
    prepare(small_translator("xx", "yy"))
    assert calls == [translator]


def test_a_folders_card_comes_without_the_counts_of_sentences(translator: Translator, tmp_path: Path) -> None:
    folder = save_translator(translator, tmp_path / "model")
    assert folder_card(folder) is None
    assert folder_card(None) is None
    card = {"name": "x", "source_language": "xx", "target_language": "yy", "weights_sha256": "a" * 64}
    (folder / "card.json").write_text(json.dumps({**card, "parameters": 1, "vocab_size": 2, "config": {"a": {}}}))
    found = folder_card(folder)
    assert found is not None
    assert (found["name"], found["training"], found["evaluations"]) == ("x", None, ())
    assert "config" not in found
