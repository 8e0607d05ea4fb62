"""A new run with fewer steps than its preset or recipe has a shorter warm-up and cooldown, and says so."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import heedful
from heedful.cli.main import commands
from heedful.config import recipe as recipe_files
from heedful.config.learning_rate import cooldown, learning_rate
from heedful.config.recipe import OURS
from heedful.config.setting_layers import Layer, setting
from heedful.config.settings import Config
from heedful.train.run.plan import TrainingRequest, decide
from heedful.train.run.start import carry_out

RECIPE = OURS / "multi30k-en-de-cpu.toml"  # 8,000 steps, a warm-up of 1,000, a cooldown of 2,500
SMALL: Layer = {
    "model": {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2},
    "train": {"batch_tokens": 128, "checkpoint_steps": 100, "validate_steps": 100},
    "data": {"max_length": 60},
    "tokenizer": {"vocab_size": 288},
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    for language in ("en", "de"):
        (folder / f"train.{language}").write_text("".join(f"{n} cats sat on {language}\n" for n in range(200)))
    return folder


def files(text: Path) -> Layer:
    return {"data": {"source": [str(text / "train.en")], "target": [str(text / "train.de")]}}


def planned(text: Path, run: Path, *given: str, preset: str | None = "tiny", recipe: Path | None = None) -> Config:
    named = None if recipe else preset
    return decide(TrainingRequest(run, named, (files(text), *map(setting, given)), recipe=recipe)).config


def schedule(config: Config) -> tuple[int, int, int]:
    return config.train.steps, config.train.warmup_steps, config.train.cooldown_steps


def test_fewer_steps_of_a_preset_scale_its_warm_up(text: Path, tmp_path: Path) -> None:
    assert schedule(planned(text, tmp_path / "run")) == (750, 300, 0)
    assert schedule(planned(text, tmp_path / "run", "train.steps=150")) == (150, 60, 0)
    assert schedule(planned(text, tmp_path / "run", "train.steps=1")) == (1, 1, 0)
    assert schedule(planned(text, tmp_path / "run", "train.steps=150", preset="base")) == (150, 6, 0)


@pytest.mark.parametrize("steps", [750, 751, 10_000])
def test_as_many_steps_or_more_scale_nothing(steps: int, text: Path, tmp_path: Path) -> None:
    assert schedule(planned(text, tmp_path / "run", f"train.steps={steps}")) == (steps, 300, 0)


def test_fewer_steps_of_a_recipe_scale_its_warm_up_and_its_cooldown(text: Path, tmp_path: Path) -> None:
    assert schedule(planned(text, tmp_path / "run", recipe=RECIPE)) == (8000, 1000, 2500)
    assert schedule(planned(text, tmp_path / "run", "train.steps=800", recipe=RECIPE)) == (800, 100, 250)


def test_a_preset_whose_steps_a_recipe_lowers_is_as_the_recipe_has_it(text: Path, tmp_path: Path) -> None:
    assert schedule(planned(text, tmp_path / "run", recipe=OURS / "ko-en.toml")) == (14_000, 4000, 5000)
    assert schedule(planned(text, tmp_path / "run", "train.steps=1400", recipe=OURS / "ko-en.toml")) == (1400, 400, 500)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["train.warmup_steps=300"], (800, 300, 250)),
        (["train.warmup_steps=1000"], (800, 1000, 250)),
        (["train.cooldown_steps=0"], (800, 100, 0)),
        (["train.cooldown_steps=400", "train.warmup_steps=7"], (800, 7, 400)),
    ],
)
def test_what_the_user_gave_is_never_scaled(
    given: list[str], expected: tuple[int, int, int], text: Path, tmp_path: Path
) -> None:
    assert schedule(planned(text, tmp_path / "run", "train.steps=800", *given, recipe=RECIPE)) == expected


def test_the_settings_of_a_file_of_the_users_own_are_the_users(text: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(RECIPE.read_text(encoding="utf-8"), encoding="utf-8")
    assert schedule(planned(text, tmp_path / "run", "train.steps=800", recipe=own)) == (800, 1000, 2500)
    own.write_text('preset = "tiny"\n[train]\nsteps = 500\n', encoding="utf-8")
    assert schedule(planned(text, tmp_path / "run", recipe=own)) == (500, 300, 0), "nobody gave fewer than the file"
    assert schedule(planned(text, tmp_path / "run", "train.steps=50", recipe=own)) == (50, 30, 0)


def test_the_rate_goes_the_same_way_in_fewer_steps(text: Path, tmp_path: Path) -> None:
    """A shorter warm-up alone would have a higher peak, and a short run would learn nothing at it."""
    whole, short = (planned(text, tmp_path / "run", *given, recipe=RECIPE) for given in ((), ("train.steps=800",)))
    for step in (10, 50, 100, 500, 700):
        of_short, of_whole = rate(short, step), rate(whole, 10 * step)
        assert of_short == pytest.approx(of_whole, rel=1e-3 if step < 550 else 0.01), step


def rate(config: Config, step: int) -> float:
    train, d_model = config.train, config.model.d_model
    factor, cooling = train.learning_rate_factor, {"steps": train.steps, "cooldown_steps": train.cooldown_steps}
    of_warm_up = learning_rate(step, d_model=d_model, warmup_steps=train.warmup_steps, factor=factor)
    return of_warm_up * cooldown(step, **cooling)


@pytest.mark.parametrize(
    ("given", "factor"), [([], 0.3162), (["train.learning_rate_factor=2"], 2.0), (["train.warmup_steps=100"], 1.0)]
)
def test_the_factor_follows_a_warm_up_that_is_scaled_unless_the_user_gave_it(
    given: list[str], factor: float, text: Path, tmp_path: Path
) -> None:
    config = planned(text, tmp_path / "run", "train.steps=800", *given, recipe=RECIPE)
    assert config.train.learning_rate_factor == factor


def test_a_value_that_steps_cannot_have_is_refused_by_name(text: Path, tmp_path: Path) -> None:
    with pytest.raises(heedful.HeedfulError, match=r"train\.steps = 'few': expected int"):
        planned(text, tmp_path / "run", "train.steps=few")


def command(text: Path, run: Path, *more: str) -> Any:
    settings = [f"{s}.{f}={v}" for s, fields in SMALL.items() for f, v in fields.items()]
    sets = [part for each in settings for part in ("--set", each)]
    where = ["-s", str(text / "train.en"), "-t", str(text / "train.de"), "-o", str(run), "--device", "cpu"]
    return CliRunner().invoke(commands, ["train", *where, *sets, "--preset", "tiny", *more], catch_exceptions=False)


def stored(run: Path) -> dict[str, Any]:
    train: dict[str, Any] = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))["train"]
    return train


@pytest.mark.parametrize("flag", [["--steps", "5"], ["--set", "train.steps=5"]])
def test_the_run_says_what_was_scaled_and_keeps_it(flag: list[str], text: Path, tmp_path: Path) -> None:
    done = command(text, tmp_path / "run", *flag)
    assert done.exit_code == 0
    line = "train.warmup_steps = 2: 300 scaled as train.steps is (5 of 750); --set train.warmup_steps=300 keeps it"
    assert done.stderr.count(line) == 1
    assert "train.learning_rate_factor = 0.08165: 1.0 scaled with the warm-up" in done.stderr
    assert (stored(tmp_path / "run")["warmup_steps"], stored(tmp_path / "run")["learning_rate_factor"]) == (2, 0.08165)


@pytest.mark.parametrize("more", [["--steps", "5"], ["--steps", "8"], []])
def test_a_run_that_exists_keeps_its_warm_up(more: list[str], text: Path, tmp_path: Path) -> None:
    """Also by the very same command, whose preset names another one; whatever the number of steps."""
    run = tmp_path / "run"
    assert command(text, run, "--steps", "5").exit_code == 0
    (run / "config.toml").write_text((run / "config.toml").read_text().replace("warmup_steps = 2", "warmup_steps = 3"))
    done = command(text, run, *(more or ["--steps", "6"]))
    assert done.exit_code == 0, done.stderr
    assert "scaled" not in done.stderr
    assert stored(run)["warmup_steps"] == 3


def test_a_run_that_exists_keeps_the_cooldown_that_was_scaled(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, recipe = tmp_path / "run", tmp_path / "ours.toml"
    monkeypatch.setattr(recipe_files, "OURS", tmp_path)
    recipe.write_text("[train]\nsteps = 8\ncooldown_steps = 4\n", encoding="utf-8")
    for steps in (4, 4, 6):
        layers = (SMALL, files(text), {"train": {"steps": steps}})
        plan = decide(TrainingRequest(run, "tiny", layers, device="cpu", recipe=recipe))
        assert plan.config.train.cooldown_steps == 2
        carry_out(plan, say=lambda _: None, on_record=lambda *_: None)
        assert stored(run)["cooldown_steps"] == 2


def test_settings_in_python_count_alike(text: Path, tmp_path: Path) -> None:
    settings = {f"{s}.{f}": v for s, fields in SMALL.items() for f, v in fields.items()} | {"train.steps": 5}
    said: list[str] = []
    where = (text / "train.en", text / "train.de", tmp_path / "run")
    heedful.train(*where, preset="tiny", device="cpu", settings=settings, say=said.append)
    assert stored(tmp_path / "run")["warmup_steps"] == 2
    assert [line for line in said if line.startswith("train.warmup_steps = 2: 300 scaled")]


def test_a_dry_run_shows_what_would_be_scaled(text: Path, tmp_path: Path) -> None:
    done = command(text, tmp_path / "run", "--steps", "75", "--dry-run")
    assert "warmup_steps = 30" in done.stdout
    assert "train.warmup_steps = 30: 300 scaled" in done.stderr
