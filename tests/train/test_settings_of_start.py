"""The settings of a start: which ones a new run takes, and which ones may change between two starts."""

from functools import partial
from pathlib import Path

import pytest

from heedful.config.setting_layers import resolve, setting
from heedful.data.run_folder import write_config
from heedful.errors import ConfigError
from heedful.train.run.settings import settings_of_start

of_start = partial(settings_of_start, own_file={})


def begin(run: Path, *settings: str) -> None:
    """A run whose text is encoded."""
    write_config(run, resolve(*map(setting, settings)))
    (run / "data" / "train").mkdir(parents=True)


def test_settings_are_free_until_something_was_made_by_them(tmp_path: Path) -> None:
    write_config(tmp_path, resolve(setting("tokenizer.vocab_size=800")))
    assert of_start(tmp_path, None, []).config.tokenizer.vocab_size == 37_000
    begin(tmp_path, "tokenizer.vocab_size=800")
    assert of_start(tmp_path, None, []).config.tokenizer.vocab_size == 800


def test_a_new_run_takes_preset_and_layers(tmp_path: Path) -> None:
    settings = of_start(tmp_path, "tiny", [setting("train.steps=7")])
    assert (settings.config.train.steps, settings.config.model.d_model) == (7, 128)
    assert settings.given == {"train.steps"}
    assert settings.changed == {}


def test_without_a_preset_a_new_run_is_base_and_an_old_one_stays_what_it_is(tmp_path: Path) -> None:
    assert of_start(tmp_path, None, []).config.model.d_model == 512
    begin(tmp_path, "model.d_model=64")
    assert of_start(tmp_path, None, []).config.model.d_model == 64


def test_base_named_for_a_run_of_another_size_is_refused(tmp_path: Path) -> None:
    begin(tmp_path, "model.d_model=64")
    with pytest.raises(
        ConfigError, match=r"model\.d_model = 512 \(preset base\), but the run .* has 64; .* leave --preset out"
    ):
        of_start(tmp_path, "base", [])


@pytest.mark.parametrize("text", ["train.steps=9", "train.cooldown_steps=4", "train.patience=2", "decode.alpha=1.0"])
def test_steps_patience_and_checkpoints_may_change_and_are_named(tmp_path: Path, text: str) -> None:
    begin(tmp_path)
    settings = of_start(tmp_path, None, [setting(text)])
    assert list(settings.changed) == [text.split("=")[0]]


def test_text_is_the_same_however_its_place_is_spelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    begin(tmp_path, 'data.source=["a.en"]')
    for name in ("a.en", "./a.en", str(tmp_path / "a.en")):
        settings = of_start(tmp_path, None, [{"data": {"source": [name]}}])
        assert settings.changed == {}
        assert settings.config.data.source == (str(tmp_path / "a.en"),)


def test_a_language_may_be_named_once(tmp_path: Path) -> None:
    begin(tmp_path)
    settings = of_start(tmp_path, None, [setting("data.source_language=en")])
    assert settings.changed == {"data.source_language": ("", "en")}
    write_config(tmp_path, settings.config)
    with pytest.raises(ConfigError, match=r"data\.source_language = 'fr', but the run"):
        of_start(tmp_path, None, [setting("data.source_language=fr")])


@pytest.mark.parametrize(
    "text", ["model.d_ff=64", "tokenizer.vocab_size=800", "train.batch_tokens=999", "train.seed=5", "data.max_length=9"]
)
def test_what_shapes_model_or_data_may_not_change(tmp_path: Path, text: str) -> None:
    begin(tmp_path)
    name = text.split("=")[0]
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")) as caught:
        of_start(tmp_path, None, [setting(text)])
    assert "\n" not in str(caught.value)
