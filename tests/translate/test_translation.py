"""From text to text: with an engine that gives back what it gets, so that nothing may be lost, and with a real one."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heedful.config.setting_layers import resolve
from heedful.config.settings import Config, FamilyConfig
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError, ConfigError, DataError, DeviceError, DivergedError
from heedful.model import checkpoint
from heedful.model.transformer import Transformer
from heedful.score.evaluation import evaluate_model
from heedful.translate.engine import Computing, Engine, Request, SearchOptions
from heedful.translate.search import Hypothesis
from heedful.translate.torch_engine import TorchEngine
from heedful.translate.translation import Translator, one_line
from tests.narrowed import as_transformer
from tests.small_translator import small_translator

TEXT = [
    "The animal didn't cross the road because it was too tired.",
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "그 동물은 너무 피곤해서 길을 건너지 않았다.",
    "I love you, and you love me! Is that so?",
]
MAX_LENGTH = 24
CONFIG = resolve(
    {
        "data": {"max_length": MAX_LENGTH, "source_language": "en", "target_language": "de"},
        "model": {"d_model": 16, "d_ff": 24, "num_layers": 1, "num_heads": 2},
        "decode": {"beam_size": 3, "alpha": 0.8, "max_extra": 5},
    }
)


class Echo(Engine):
    """An engine that gives every sentence back; the n-th best lacks the last n - 1 tokens."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.options: list[SearchOptions] = []

    def computing(self, options: SearchOptions) -> Computing:
        return Computing("a fake", "cpu")

    def translate_windows(
        self, windows: Iterable[Sequence[Request]], options: SearchOptions
    ) -> Iterator[list[Hypothesis]]:
        self.options.append(options)
        for request in chain.from_iterable(windows):
            self.requests.append(request)
            ids = (*request.prefix_ids, *request.source_ids)
            ranked = [ids[: len(ids) - n] for n in range(min(options.n_best, len(ids)))]
            yield [
                Hypothesis(some, -float(len(some)) - n, -1.0 - n, (-1.0,) * (len(some) + 1))
                for n, some in enumerate(ranked)
            ]

    def score(self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Iterator[list[float]]:
        for _, target in pairs:
            yield [-0.5] * (len(target) + 1)

    def next_tokens(self, request: Request, count: int) -> list[tuple[int, float]]:
        ids = (*request.source_ids, Tokenizer.eos_id)
        return [(ids[len(request.prefix_ids)], 1.0)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.learn_at_most(TEXT, 400, seed=1)


@pytest.fixture(scope="module")
def echo(tokenizer: Tokenizer) -> Translator:
    return Translator(Echo(), tokenizer, CONFIG)


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> Translator:
    torch.manual_seed(1)
    model = Transformer(CONFIG.model, tokenizer.vocab_size).double().eval()
    return Translator(TorchEngine(model), tokenizer, CONFIG)


def in_language(config: Config, target: str) -> Config:
    return msgspec.structs.replace(config, data=msgspec.structs.replace(config.data, target_language=target))


def without_spaces(text: str) -> str:
    return "".join(text.replace("\u2581", " ").split())


# Lines as they come: words of all scripts, what looks special, and all that Unicode has.
CHARACTERS = st.characters(exclude_categories=["Cs"])
LINES = st.one_of(
    st.text(CHARACTERS, max_size=40),
    st.lists(
        st.sampled_from(["cat", "🦊👩‍👩‍👧", "שלום", "مرحبا", "\0", "다.", "Nr.", "。", "!", "\t", "</s>", "café"]),
        max_size=60,
    ).map(" ".join),
)


@given(lines=st.lists(LINES, max_size=6))
@example(lines=["", " ", "\t\u3000", "\ufeff", "\0", "a\r\n", "\r\n", "x\u2028y\x85z\x0cw"])
@settings(max_examples=60)
def test_every_line_comes_back_on_one_line_in_order_and_nothing_is_lost(echo: Translator, lines: list[str]) -> None:
    found = echo.translate(lines)
    assert [each.source for each in found] == [line.rstrip("\r\n") for line in lines]
    for line, each in zip(lines, found, strict=True):
        assert len(each.text.splitlines()) <= 1
        expected = echo.tokenizer.decode(echo.tokenizer.encode(one_line(line)))
        assert without_spaces(each.text) == without_spaces(expected)
        assert bool(each.hypotheses) == (each.num_parts > 0) == bool(line.replace("\u2581", " ").strip())


@given(lines=st.lists(LINES, max_size=4))
@settings(max_examples=40)
def test_many_lines_are_encoded_as_each_alone(echo: Translator, lines: list[str]) -> None:
    alone = [echo.translate([line])[0].source_ids for line in lines]
    assert [each.source_ids for each in echo.translate(lines * 16)] == alone * 16


def test_a_blank_line_asks_no_model(tokenizer: Tokenizer) -> None:
    engine = Echo()
    found = Translator(engine, tokenizer, CONFIG).translate(["", "  \t", "cat", "\u2581", ""])
    assert [each.text for each in found] == ["", "", "cat", "", ""]
    assert [each.num_parts for each in found] == [0, 0, 1, 0, 0]
    assert len(engine.requests) == 1


def test_a_line_is_translated_sentence_by_sentence(echo: Translator) -> None:
    lines = ["I love you! I love me.", "I love you!", "  I love Dr. Weiß.  I love me. "]
    found = echo.translate(lines)
    assert [each.num_parts for each in found] == [2, 1, 2]
    assert [each.text for each in found] == [" ".join(line.split()) for line in lines]
    assert [each.source for each in found] == lines
    assert not any(each.is_cut for each in found)


def test_the_source_language_says_where_sentences_end(tokenizer: Tokenizer) -> None:
    line = "I love vitamin C. Is that so?"
    config = msgspec.structs.replace(CONFIG, data=msgspec.structs.replace(CONFIG.data, source_language="de"))
    found = [Translator(Echo(), tokenizer, each).translate([line])[0].num_parts for each in (CONFIG, config)]
    assert found == [2, 1]


def test_without_splitting_only_what_is_too_long_is_cut(echo: Translator) -> None:
    short, long = "I love you! I love me.", " ".join(["I love you!"] * 20)
    two, many = echo.translate([short, long], split=False)
    assert (two.num_parts, two.is_cut) == (1, False)
    assert (many.num_parts, many.is_cut) == (20, True)
    assert (two.text, many.text) == (short, long)
    assert not echo.translate([long])[0].is_cut, "no sentence of it is too long"


def test_an_evaluation_takes_each_line_as_one_segment(tokenizer: Tokenizer) -> None:
    engine, lines = Echo(), ["I love you! I love me.", "I love you! Is that so? Why?"]
    evaluate_model(Translator(engine, tokenizer, CONFIG), lines, [lines], language="en")
    assert [tokenizer.decode(request.source_ids) for request in engine.requests] == lines


@pytest.mark.parametrize("unit", ["the road ", "überquerte, ", "동물은 ", "שלום ", "🦊 ", "x", "🦊", "道路"])
def test_a_line_of_5000_pieces_is_split_into_parts_that_fit(tokenizer: Tokenizer, unit: str) -> None:
    engine = Echo()
    line = (unit * (10 * 5000 // len(tokenizer.encode(unit * 10)) + 1)).strip()
    (found,) = Translator(engine, tokenizer, CONFIG).translate([line])
    assert sum(len(request.source_ids) for request in engine.requests) >= 4800
    assert max(len(request.source_ids) for request in engine.requests) <= MAX_LENGTH
    assert found.num_parts == len(engine.requests)
    assert without_spaces(found.text) == without_spaces(line)
    if " " in unit:
        assert found.text == line


def test_parts_of_a_split_word_are_joined_without_a_space_and_east_asian_text_by_the_target(
    tokenizer: Tokenizer,
) -> None:
    word, chinese = "x" * 100, "道路。動物" * 20
    assert Translator(Echo(), tokenizer, CONFIG).translate([word])[0].text == word
    assert "。 動" in Translator(Echo(), tokenizer, CONFIG).translate([chinese])[0].text
    for code in ("zh", "zh_Hans", "zh-Hant-TW"):
        assert Translator(Echo(), tokenizer, in_language(CONFIG, code)).translate([chinese])[0].text == chinese


def test_n_best_texts_come_with_scores_and_pieces(echo: Translator) -> None:
    (found,) = echo.translate(["the road"], options=SearchOptions(beam_size=4, n_best=3))
    assert [hypothesis.score for hypothesis in found.hypotheses] == [-1.0, -2.0, -3.0]
    for hypothesis in found.hypotheses:
        assert len(hypothesis.pieces) == len(hypothesis.token_log_probs) == len(hypothesis.ids)
        assert hypothesis.pieces[-1] == "</s>"
        assert hypothesis.text == echo.tokenizer.decode(hypothesis.ids)


def test_a_split_line_has_n_best_too_and_sums_its_scores(echo: Translator) -> None:
    line = "I love you. " * 12 + "I"  # the last part has one token, and so one hypothesis
    (found,) = echo.translate([line], options=SearchOptions(beam_size=4, n_best=4))
    assert found.num_parts == 13
    assert [hypothesis.score for hypothesis in found.hypotheses] == [-13.0, -14.0, -14.0, -14.0]
    assert len({hypothesis.text for hypothesis in found.hypotheses}) == 4
    best = found.hypotheses[0]
    assert best.score == -13.0
    assert best.pieces.count("</s>") == 13
    assert len(best.token_log_probs) == len(best.pieces)
    assert best.log_prob == pytest.approx(sum(part.log_prob for part in best.parts))


def test_records_are_json(translator: Translator) -> None:
    records = [each.record() for each in translator.translate(["cat", "", "the road " * 30])]
    assert json.loads(json.dumps(records)) == records
    assert [record["parts"] for record in records][:2] == [1, 0]
    assert records[0]["hypotheses"][0]["text"] == records[0]["translation"]
    (scored,) = translator.score([("cat", "Tier")])
    assert json.loads(json.dumps(scored.record()))["log_prob"] == scored.log_prob


def test_the_text_of_a_prefix_begins_the_translation(translator: Translator) -> None:
    lines, prefixes = ["the road", "", "the animal", "I love you! " * 12], ["Die Str", "x", "", "Ich"]
    found = translator.translate(lines, prefixes=prefixes, split=False)
    assert found[0].text.startswith("Die Str")
    assert found[3].num_parts > 1
    assert found[3].text.startswith("Ich")
    assert found[2].text == translator.translate(["the animal"])[0].text


def test_a_prefix_begins_the_first_sentence_and_one_of_two_sentences_the_line(echo: Translator) -> None:
    line = "I love you! I love me."
    one, two = echo.translate([line] * 2, prefixes=["Is", "Is that so? I"])
    assert (one.num_parts, one.text) == (2, f"Is {line}")
    assert (two.num_parts, two.text) == (1, f"Is that so? I {line}")


def test_prefixes_and_lines_that_do_not_match_are_counted(translator: Translator) -> None:
    with pytest.raises(DataError, match="there is 1 line and more prefixes than that"):
        translator.translate(["one"], prefixes=["a", "b", "c"])
    with pytest.raises(DataError, match="there are 2 prefixes and more lines than that"):
        translator.translate(["one", "two", "three"], prefixes=["a", "b"])


def test_a_text_in_the_place_of_several_is_refused(translator: Translator) -> None:
    for lines, prefixes in (("the road", None), (["the road"], "D")):
        with pytest.raises(TypeError, match="put the text in brackets"):
            translator.translate_lines(lines, prefixes=prefixes)


@pytest.mark.parametrize(("lines", "prefixes"), [(["a", None], None), (["a", 7], None), (["a", "b"], ["x", None])])
def test_what_is_no_text_is_named(translator: Translator, lines: list[str], prefixes: list[str] | None) -> None:
    with pytest.raises(TypeError, match=r"(None|7) is no string"):
        list(translator.translate_lines(lines, prefixes=prefixes))


def test_a_process_that_was_forked_does_not_wait_for_threads_that_are_gone(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator, "_process", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    for use in (lambda: translator.translate(["a"]), lambda: list(translator.score([("a", "b")]))):
        with pytest.raises(DeviceError, match="loaded before the process was forked; load one in each process"):
            use()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert len(translator.translate(["a"])) == 1, "one without threads lives on"


def test_a_prefix_beyond_the_limit_is_an_error_of_one_line(translator: Translator) -> None:
    with pytest.raises(DataError, match="line 2: a prefix of") as error:
        translator.translate(["cat", "cat"], prefixes=["the", "the road " * 20])
    assert "\n" not in str(error.value)


def test_translations_do_not_depend_on_the_other_lines(translator: Translator) -> None:
    lines = [*TEXT, "cat", "", "🦊", "שלום", "the road " * 30]
    together = translator.translate(lines)
    for line, each in zip(lines, together, strict=True):
        (alone,) = translator.translate([line])
        assert alone.text == each.text
        assert [h.score for h in alone.hypotheses] == pytest.approx([h.score for h in each.hypotheses], abs=1e-9)


def test_the_options_are_those_of_the_model_unless_told(tokenizer: Tokenizer) -> None:
    engine, other = Echo(), SearchOptions(beam_size=1)
    translator = Translator(engine, tokenizer, CONFIG)
    translator.translate(["cat"])
    translator.translate(["cat"], options=other)
    assert engine.options == [SearchOptions(beam_size=3, alpha=0.8, max_extra=5), other]


def test_the_score_of_a_translation_is_that_of_its_text_when_given(translator: Translator) -> None:
    # A random model also writes ids that no text has, so the text is one that the tokenizer gives back.
    found = translator.translate(["the animal", "cat", "I love you!"])
    given_back = [one for one in found if translator.tokenizer.encode(one.text) == one.hypotheses[0].ids[:-1]]
    assert given_back
    for one in given_back:
        (scored,) = translator.score([(one.source, one.text)])
        assert scored.token_log_probs == pytest.approx(one.hypotheses[0].token_log_probs, abs=1e-9)
        assert scored.pieces == tuple(one.hypotheses[0].pieces)


def test_an_error_survives_the_way_from_another_process() -> None:
    for error in (DivergedError(), DataError("a.en: no such file")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))


def test_scores_come_in_order_and_for_every_pair(translator: Translator) -> None:
    pairs = [("cat", "Tier"), ("", ""), ("the road", "die Straße " * 20), ("cat", "")]
    together = list(translator.score(pairs))
    assert [(each.source, each.target) for each in together] == pairs
    assert [len(each.pieces) for each in together][1] == 1
    for pair, each in zip(pairs, together, strict=True):
        assert next(translator.score([pair])).log_prob == pytest.approx(each.log_prob, abs=1e-9)
        assert each.log_prob < 0


@pytest.mark.parametrize("pairs", ["ab", ("cat", "Tier"), [("cat", "Tier", "")], [("cat", None)], [7], {"ab": "cd"}])
def test_what_is_no_pair_of_texts_is_not_scored(translator: Translator, pairs: Any) -> None:
    with pytest.raises(TypeError, match=r"score takes pairs of texts, \[\(source, target\)\]; pair 1 is "):
        list(translator.score(pairs))


def test_a_model_that_diverged_neither_translates_nor_scores() -> None:
    translator = small_translator()
    with torch.no_grad():
        as_transformer(translator.engine.models[0]).embedding.weight_VD.fill_(torch.nan)
    with pytest.raises(DivergedError, match="its training diverged"):
        translator.translate(["cat"])
    with pytest.raises(DivergedError, match="its training diverged"):
        list(translator.score([("cat", "Tier")]))


def test_lines_stream_through(echo: Translator) -> None:
    def endless() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield f"line {number}"

    stream = echo.translate_lines(endless())
    assert [next(stream).text for _ in range(3)] == ["line 1", "line 2", "line 3"]


def test_a_bare_string_is_not_a_list_of_texts(echo: Translator) -> None:
    with pytest.raises(TypeError, match="in line 2, None is no string"):
        echo.translate(["the cat", None])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="several texts"):
        echo.translate("cat")


def test_options_are_search_options_and_models_stand_each_by_itself(echo: Translator) -> None:
    with pytest.raises(TypeError, match=r"SearchOptions\(beam_size=8\)"):
        echo.translate(["cat"], options={"beam_size": 2})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"load\(one, another\)"):
        Translator.load(["one", "another"])  # type: ignore[arg-type]


def test_a_lone_surrogate_is_an_error_that_names_it(echo: Translator) -> None:
    with pytest.raises(DataError, match=r"U\+D800"):
        echo.translate(["cat \ud800"])


def saved(folder: Path, seed: int, tokenizer: Tokenizer, model: FamilyConfig = CONFIG.model) -> Path:
    torch.manual_seed(seed)
    weights = Transformer(model, tokenizer.vocab_size).state_dict()
    tokenizer.save(folder.with_suffix(".spm"))
    checkpoint.save_model(folder, weights, CONFIG, folder.with_suffix(".spm"))
    return folder


def test_a_saved_model_translates_and_several_translate_together(tmp_path: Path, tokenizer: Tokenizer) -> None:
    paths = [saved(tmp_path / name, seed, tokenizer) for seed, name in enumerate(("one", "two"))]
    one = Translator.load(paths[0], device="cpu")
    assert (one.source_language, one.target_language) == ("en", "de")
    both = Translator.load(str(paths[0]), str(paths[1]), device="cpu", engine="torch")
    once, twice = one.translate(["the cat"])[0], both.translate(["the cat"])[0]
    assert once.hypotheses[0].score != twice.hypotheses[0].score


def test_what_cannot_be_loaded_is_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    one = saved(tmp_path / "one", 1, tokenizer)
    other = saved(tmp_path / "other", 1, Tokenizer.learn_at_most(TEXT[:2], 360, seed=1))
    with pytest.raises(ConfigError, match="another vocabulary"):
        Translator.load(one, other, device="cpu")
    with pytest.raises(ConfigError, match="marian"):
        Translator.load(one, device="cpu", engine="marian")
    with pytest.raises(ConfigError, match="no model"):
        Translator.load()
    with pytest.raises(DeviceError, match="tpu"):
        Translator.load(one, device="tpu")
    with pytest.raises(CheckpointError):
        Translator.load(tmp_path / "nowhere", device="cpu")
