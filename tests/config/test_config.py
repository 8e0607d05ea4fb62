"""Configuration: layers, checks, TOML in and out."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.config.setting_layers import (
    PRESETS,
    Layer,
    differences,
    preset,
    read_toml,
    resolve,
    setting,
    to_layer,
    to_toml,
)
from heedful.errors import ConfigError
from tests.narrowed import model_config


def test_the_default_is_the_papers_base_model() -> None:
    config = resolve()
    model = model_config(config)
    assert (model.d_model, model.d_ff, model.num_layers) == (512, 2048, 6)
    assert (model.num_heads, model.head_d_k, model.head_d_v) == (8, 64, 64)
    assert (model.dropout, config.train.label_smoothing) == (0.1, 0.1)
    assert (config.train.steps, config.train.warmup_steps, config.train.batch_tokens) == (100_000, 4000, 25_000)
    assert (config.tokenizer.vocab_size, config.train.average_last) == (37_000, 5)
    assert (config.decode.beam_size, config.decode.alpha, config.decode.max_extra) == (4, 0.6, 50)
    assert config.train.learning_rate_factor == 1.0
    assert resolve(preset("base")) == config


def test_big_is_the_papers_big_model() -> None:
    config = resolve(preset("big"))
    model = model_config(config)
    assert (model.d_model, model.d_ff, model.num_layers) == (1024, 4096, 6)
    assert (model.num_heads, model.head_d_k) == (16, 64)
    assert (model.dropout, config.train.steps, config.train.average_last) == (0.3, 300_000, 20)


def test_later_layers_win_and_leave_the_rest() -> None:
    config = resolve(preset("tiny"), {"model": {"d_ff": 8}}, {"train": {"seed": 3}}, setting("model.d_ff=16"))
    assert model_config(config).d_ff == 16
    assert config.train.seed == 3
    assert config.model.d_model == PRESETS["tiny"]["model"]["d_model"]


@pytest.mark.parametrize("name", PRESETS)
def test_no_preset_turns_a_switch_that_the_paper_does_not_have(name: str) -> None:
    config = resolve(preset(name))
    assert (config.train.ema_decay, config.train.r_drop, config.tokenizer.dropout) == (0.0, 0.0, 0.0)
    assert (config.data.max_length_ratio, config.data.drop_copies) == (0.0, False)
    assert (config.train.depth_scaled_init, config.train.cooldown_steps, config.train.weight_decay) == (False, 0, 0.0)


def test_draws_that_would_never_be_used_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.dropout = 0\.1 needs tokenizer\.encodings of at least 2"):
        resolve({"tokenizer": {"dropout": 0.1, "encodings": 1}})


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_comes_back_from_its_toml(name: str) -> None:
    config = resolve(preset(name))
    assert resolve(tomllib.loads(to_toml(config))) == config


@given(st.text(), st.text(), st.integers(1, 10**6), st.floats(0, 0.99), st.booleans())
def test_any_value_comes_back_from_toml(path: str, language: str, steps: int, dropout: float, copies: bool) -> None:
    layer: Layer = {
        "data": {"source": [path, path], "source_language": language, "drop_copies": copies},
        "train": {"steps": steps},
        "model": {"dropout": dropout},
    }
    config = resolve(layer)
    assert resolve(tomllib.loads(to_toml(config))) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model.d_modl=3", "there is no setting model.d_modl; did you mean model.d_model?"),
        ("modl.d_model=3", "there is no section 'modl'; did you mean model?"),
        ("model.d_model=many", "model.d_model = 'many': expected int, got str"),
        ("train.precision=fp8", "train.precision = 'fp8' is unknown; choose one of auto, fp32, bf16, fp64"),
        ("data.source=train.en", "data.source = 'train.en': expected a list such as [\"train.en\"], got str"),
        ("model.dropout=1.5", "model.dropout = 1.5: expected float < 1.0"),
        ("model.num_heads=7", "model.d_model = 512 does not divide into model.num_heads = 7 equal heads"),
        ("train.precision=fp8", "train.precision = 'fp8'"),
        ("data.max_length=30000", "data.max_length = 30000 does not fit a micro-batch of 25000 tokens"),
        ("train.learning_rate_factor=inf", "train.learning_rate_factor = inf"),
        ("train.learning_rate_factor=nan", "train.learning_rate_factor = nan"),
        ("train.micro_batches=30000", "train.micro_batches = 30000"),
        ("train.ema_decay=1", "train.ema_decay = 1: expected float < 1.0"),
        ("train.r_drop=-1", "train.r_drop = -1: expected float >= 0.0"),
        ("data.max_length_ratio=0.5", "data.max_length_ratio = 0.5 would leave out every pair"),
        ("tokenizer.dropout=1", "tokenizer.dropout = 1: expected float < 1.0"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value_and_a_remedy(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(setting(text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["model", "model=3", "=3", ".x=3", "model.=3"])
def test_a_setting_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"section\.field=value"):
        setting(text)


def test_a_value_is_read_as_toml_and_else_as_text() -> None:
    assert setting("a.b=3") == {"a": {"b": 3}}
    assert setting("a.b=[1, 2]") == {"a": {"b": [1, 2]}}
    assert setting("a.b=x=y") == {"a": {"b": "x=y"}}
    assert setting('a.b="3"') == {"a": {"b": "3"}}


def test_d_k_and_d_v_free_the_width_from_the_heads() -> None:
    model = model_config(resolve(setting("model.num_heads=7"), setting("model.d_k=16"), setting("model.d_v=24")))
    assert (model.head_d_k, model.head_d_v) == (16, 24)


def test_encoder_and_decoder_may_differ_in_depth() -> None:
    model = model_config(resolve(setting("model.num_encoder_layers=12")))
    assert (model.encoder_layers, model.decoder_layers) == (12, 6)


def test_a_recipe_may_name_its_preset(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text('\ufeffpreset = "big"\n[train]\nseed = 7\n', encoding="utf-8")
    assert read_toml(path) == ("big", {"train": {"seed": 7}})


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[model\n", "is not TOML .*line 1"), (b"a =", "is not TOML"), (b"\xff", "not UTF-8"), (b"preset = 3", "preset")],
)
def test_a_broken_recipe_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        read_toml(path)
    assert str(path) in str(caught.value)


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: no such file"):
        read_toml(tmp_path / "none.toml")


def test_differences_name_what_changed() -> None:
    before, after = resolve(), resolve(setting("model.d_k=32"), setting("train.steps=5"))
    assert differences(before, after) == {"model.d_k": (None, 32), "train.steps": (100_000, 5)}
    assert differences(after, resolve(to_layer(after))) == {}
