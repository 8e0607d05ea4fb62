"""Every recipe that we ship is valid, and the paper's are the paper's."""

from pathlib import Path

import pytest

from heedful.config import Config, preset, read_toml, resolve

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


def test_the_recipes_of_the_paper_are_the_papers() -> None:
    base, big, french = (load(path) for path in RECIPES if path.stem.startswith("wmt14"))
    assert (base.model.dropout, base.train.steps, base.tokenizer.vocab_size) == (0.1, 100_000, 37_000)
    assert (big.model.dropout, big.train.steps, big.train.average_last) == (0.3, 300_000, 20)
    assert (french.model.dropout, french.tokenizer.vocab_size, french.model.d_model) == (0.1, 32_000, 1024)
