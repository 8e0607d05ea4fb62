"""Every recipe that we ship is valid, and the paper's are the paper's."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from heedful.cli import commands
from heedful.config import Config, preset, read_toml, resolve
from recipes import run

RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))


def load(path: Path) -> Config:
    name, layer = read_toml(path)
    assert name is not None, "a recipe names its preset"
    return resolve(preset(name), layer)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_valid_and_says_how_it_is_run(path: Path) -> None:
    load(path)
    comment = path.read_text(encoding="utf-8").split("preset")[0]
    assert f"heedful train recipes/{path.name}" in comment


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_can_be_run_from_a_folder_of_data(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `recipes/run.py` would train, dry, and what it would score."""
    source, target = run.languages(path.stem)
    assert load(path).data.source_language in ("", source)
    for name in ("train", run.validation(path.stem), *run.tests(path.stem)):
        for language in (source, target):
            (tmp_path / f"{name}.{language}").write_text("a\n", encoding="utf-8")
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(run, "heedful", lambda *arguments: asked.append(arguments))
    run.run(path.stem, tmp_path, tmp_path / "runs", seed=3, device="cpu")
    assert [arguments[0] for arguments in asked] == ["train", *["evaluate"] * len(run.tests(path.stem))]
    done = CliRunner().invoke(commands, [*asked[0], "--dry-run"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "seed = 3" in done.output


def test_a_folder_without_the_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"train\.en: not there, nor as \.xz or \.gz"):
        run.run("built-in-en-de", tmp_path, tmp_path / "runs", seed=1, device="cpu")


def test_the_recipes_of_the_paper_are_the_papers() -> None:
    base, big, french = (load(path) for path in RECIPES if path.stem.startswith("wmt14"))
    assert (base.model.dropout, base.train.steps, base.tokenizer.vocab_size) == (0.1, 100_000, 37_000)
    assert (big.model.dropout, big.train.steps, big.train.average_last) == (0.3, 300_000, 20)
    assert (french.model.dropout, french.tokenizer.vocab_size, french.model.d_model) == (0.1, 32_000, 1024)
