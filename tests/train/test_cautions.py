"""Mistakes in settings and data: each is named, and text that fits is left in peace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from heedful.config.learning_rate import cooldown
from heedful.config.setting_layers import PRESETS, preset, resolve
from heedful.config.settings import Config
from heedful.data.shards import PairCounts, Shards, Side
from heedful.data.tokenizer import Tokenizer
from heedful.train.cautions import cautions, cautions_at_start, cautions_of_new_weights
from tests.small_models import TEXT


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.learn_at_most(TEXT, 400, seed=1)


def shards(tokenizer: Tokenizer, texts: Sequence[str]) -> Shards:
    encoded = [[*tokenizer.encode(text), 0] for text in texts]
    lengths = np.array([len(ids) for ids in encoded], dtype=np.int32)
    side = Side(np.concatenate(encoded).astype(np.uint16), lengths)
    return Shards(side, side, PairCounts(len(texts), len(texts), 0, 0, len(side.ids), len(side.ids)))


def config(**train: int) -> Config:
    return resolve({"data": {"source_language": "en", "target_language": "de"}, "train": train})


def test_text_that_fits_gives_no_caution(tokenizer: Tokenizer) -> None:
    assert cautions(None, config(), tokenizer, shards(tokenizer, TEXT), shards(tokenizer, ["Is that so?"])) == []


def test_a_schedule_that_never_leaves_warm_up_is_named(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (found,) = cautions(None, config(steps=100, warmup_steps=4000), tokenizer, None, None)
    assert "train.steps = 100 never leaves the warm-up (train.warmup_steps = 4,000)" in found
    step = tmp_path / "checkpoints" / "step-00000050"
    step.mkdir(parents=True)
    (step / "model.safetensors").touch()
    (found,) = cautions(tmp_path, config(steps=10_000, warmup_steps=4000), tokenizer, None, None)
    assert "50 steps of its warm-up" in found


def test_a_cooldown_that_begins_before_the_peak_is_named(tokenizer: Tokenizer) -> None:
    schedule = {"steps": 10_000, "warmup_steps": 4000}
    assert cautions(None, config(**schedule, cooldown_steps=6001), tokenizer, None, None) == []
    assert cooldown(4000, steps=10_000, cooldown_steps=6001) == 1
    (found,) = cautions(None, config(**schedule, cooldown_steps=6002), tokenizer, None, None)
    assert "train.cooldown_steps = 6,002" in found
    assert "to 6,001 at most" in found


def test_patience_that_may_end_a_run_before_it_cools_down_is_named() -> None:
    text = {"source": ["a.en"], "target": ["a.de"], "valid_source": ["b.en"], "valid_target": ["b.de"]}
    data = text | {"source_language": "en", "target_language": "de"}
    for train, num in (({"patience": 3}, 0), ({"patience": 3, "cooldown_steps": 50}, 1), ({"cooldown_steps": 50}, 0)):
        found = cautions_at_start(resolve(preset("tiny"), {"data": data, "train": train}), "cpu")
        assert [line for line in found if "train.patience = 3 may end the run" in line] == found
        assert len(found) == num


def test_files_that_do_not_say_their_languages_are_named() -> None:
    files = {"source": ["a.txt"], "target": ["b.txt"]}
    (found,) = cautions_at_start(resolve(preset("tiny"), {"data": files}), "cpu")
    assert "the names of a.txt and b.txt do not say the languages" in found
    told = files | {"source_language": "en", "target_language": "de"}
    assert cautions_at_start(resolve(preset("tiny"), {"data": told}), "cpu") == []


@pytest.mark.parametrize(
    ("source", "target", "is_said"),
    [
        (["a.fr"], ["a.it"], True),
        (["a.de"], ["a.en"], True),
        (["a.en-GB.xz"], ["a.de.gz"], False),
        (["a.en"], ["a.txt"], False),
        (["a.fr-it.tsv"], [], True),
        (["a.en-de.tsv"], [], False),
    ],
)
def test_a_recipe_that_is_given_files_of_other_languages_is_told(
    source: list[str], target: list[str], is_said: bool
) -> None:
    told = {"source_language": "en", "target_language": "de", "source": source, "target": target}
    found = cautions_at_start(resolve(preset("tiny"), {"data": told}), "cpu")
    assert len(found) == is_said
    assert all("the settings en and de" in caution and "--set data.source_language=" in caution for caution in found)


def test_patience_that_has_nothing_to_wait_for_is_named(tokenizer: Tokenizer) -> None:
    (found,) = cautions_at_start(resolve(preset("tiny"), {"train": {"patience": 5}}), "cpu")
    assert "train.patience = 5 ends nothing without validation text" in found
    assert cautions(None, resolve({"train": {"patience": 5}}), tokenizer, None, None) == [found]
    valid = {"valid_source": ["valid.en-de.tsv"]}
    assert cautions_at_start(resolve(preset("tiny"), {"train": {"patience": 5}, "data": valid}), "cpu") == []


@pytest.mark.parametrize(
    ("model", "begins"),
    [
        ({"num_layers": 8}, None),
        ({"num_encoder_layers": 12}, "an encoder of 12 layers: deeper"),
        ({"num_decoder_layers": 9}, "a decoder of 9 layers: deeper"),
        ({"num_layers": 10}, "an encoder of 10 layers and a decoder of 10 layers: deeper"),
    ],
)
def test_a_stack_deeper_than_the_papers_is_named_unless_its_weights_are_scaled(
    model: dict[str, int], begins: str | None
) -> None:
    found = list(cautions_of_new_weights(resolve({"model": model})))
    assert [text.startswith(begins or "-") for text in found] == [True] * bool(begins)
    assert not list(cautions_of_new_weights(resolve({"model": model, "train": {"depth_scaled_init": True}})))


@pytest.mark.parametrize("name", PRESETS)
def test_a_model_that_takes_days_on_a_cpu_is_named_there_alone(name: str) -> None:
    found = cautions_at_start(resolve(preset(name)), "cpu")
    assert any("days on a CPU" in text for text in found) == (name in ("base", "big"))
    assert cautions_at_start(resolve(preset(name)), "cuda") == []


def test_a_batch_holds_the_copies_of_r_drop_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they take no longer on a CPU."""
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    just_hours = {"steps": 20_000}
    for train in (just_hours, just_hours | {"r_drop": 5.0}):
        (found,) = cautions_at_start(resolve(preset("small"), {"train": train}), "cpu")
        assert "take hours on a CPU" in found


@pytest.mark.parametrize(("threads", "takes"), [(1, True), (2, True), (64, False)])
def test_a_preset_that_takes_hours_on_a_cpu_is_named_where_there_are_few_threads(
    threads: int, takes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    assert ["hours on a CPU" in text for text in cautions_at_start(resolve(preset("small")), "cpu")] == [True] * takes
    assert cautions_at_start(resolve(preset("tiny")), "cpu") == []


def test_text_that_is_its_own_translation_is_named(tokenizer: Tokenizer, tmp_path: Path) -> None:
    files = {"source": ["a.en", "b.en"], "target": ["a.de", "./b.en"]}
    same = resolve({"data": files | {"source_language": "en", "target_language": "de"}})
    (found,) = cautions_at_start(same, "cuda")
    assert "b.en is both source and target" in found
    assert cautions(tmp_path, same, tokenizer, None, None) == [found]
    assert cautions(None, same, tokenizer, None, None) == []


def test_a_vocabulary_of_another_text_is_named(tokenizer: Tokenizer) -> None:
    found = "\n".join(
        cautions(None, config(), tokenizer, shards(tokenizer, ["구름이 낀 하늘 아래", "xylophone"]), None)
    )
    assert "pieces a word" in found
    assert "single bytes" in found
    assert "never occur in the training text" in found


def test_validation_text_that_was_trained_on_is_counted(tokenizer: Tokenizer) -> None:
    train, valid = shards(tokenizer, TEXT), shards(tokenizer, [TEXT[2], "The cat ran.", TEXT[0]])
    (found,) = cautions(None, config(), tokenizer, train, valid)
    assert "2 of 3 validation pairs are in the training text too" in found


def test_the_same_words_in_another_order_are_another_pair(tokenizer: Tokenizer) -> None:
    trained, validated = "the cat the dog", "the dog the cat"
    assert sorted(tokenizer.encode(trained)) == sorted(tokenizer.encode(validated))
    train, valid = shards(tokenizer, [*TEXT, trained]), shards(tokenizer, [validated])
    assert cautions(None, config(), tokenizer, train, valid) == []
