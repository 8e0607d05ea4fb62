"""Every recipe that we ship is valid, and the paper's are the paper's."""

import re
from pathlib import Path

import pytest

from heedful.config.setting_layers import named_files, preset, read_toml, resolve
from heedful.config.settings import Config
from heedful.lab.compare.compared_runs import CompareRequest, trainings
from heedful.lab.compare.variants import Variant
from heedful.score.card import load_card
from heedful.train.run.plan import decide
from tests import ROOT
from tests.narrowed import model_config

RECIPES = sorted((ROOT / "recipes").glob("*.toml"))
RESULTS = sorted((ROOT / "results").glob("*.json"))
FILES = ("source", "target", "valid_source", "valid_target", "source_language", "target_language")


def load(path: Path) -> Config:
    name, layer = read_toml(path)
    assert name is not None, "a recipe names its preset"
    return resolve(preset(name), layer)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_valid_and_says_how_it_is_run(path: Path) -> None:
    load(path)
    comment = path.read_text(encoding="utf-8").split("preset")[0]
    assert f"heedful train recipes/{path.name}" in comment


def test_the_examples_fetch_text_to_where_they_look_for_it() -> None:
    """A data set goes to data/NAME, in recipes, documents and help alike; data/ is not committed."""
    places = [ROOT / "docs" / "evaluation.md", *RECIPES]
    fetched = {place.name: re.findall(r"heedful fetch (\S+) -o (\S+)", place.read_text("utf-8")) for place in places}
    assert {len(found) for name, found in fetched.items() if re.match("evaluation|multi30k|wmt14", name)} == {1}
    assert all(folder == f"data/{name}" for found in fetched.values() for name, folder in found)
    for path in RECIPES:
        files = re.findall(r" (?:-s|-t|--valid-source|--valid-target) (\S+)/", path.read_text(encoding="utf-8"))
        assert set(files) <= {folder for _, folder in fetched[path.name]} or not fetched[path.name]
        assert all(file.startswith("data/") for file in files)


def test_the_built_in_recipes_write_their_text_to_folders_of_their_own() -> None:
    """`heedful corpus` does not write over what another pair has left."""
    folders = {}
    for path in (path for path in RECIPES if path.stem.startswith("built-in")):
        (folders[path.stem],) = re.findall(r"heedful corpus --pair \S+ -o (\S+)", path.read_text(encoding="utf-8"))
        data = load(path).data
        files = (*data.source, *data.target, *data.valid_source, *data.valid_target)
        assert {str(Path(file).parent) for file in files} == {folders[path.stem]}
    assert len(set(folders.values())) == len(folders) > 1


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_can_be_compared_on_a_folder_of_data(path: Path, tmp_path: Path) -> None:
    """What `heedful compare` would train: the settings of the recipe with the seed and the files that are there."""
    variant = Variant(path.stem, path, {})
    languages = variant.languages(tmp_path)
    assert languages == tuple(re.findall(r"\b[a-z]{2}\b", path.stem.replace("built-in", ""))[:2])
    for name in ("train", "valid"):
        for language in languages:
            (tmp_path / f"{name}.{language}").write_text("a\n", encoding="utf-8")
    request = CompareRequest([variant], tmp_path, [3], tmp_path / "runs", "cuda", "valid", ["valid"])
    (training,) = trainings(request)
    config = decide(training.request).config
    assert training.request.run == tmp_path / "runs" / f"{path.stem}-3"
    assert config.data.valid_target == (str(tmp_path / f"valid.{languages[1]}"),)
    assert (config.train.seed, config.model) == (3, load(path).model)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_result_is_that_of_a_recipe_with_its_settings(path: Path) -> None:
    """But for the seed and the files, which `heedful compare` is told; what a card does not name came later."""
    card = load_card(path)
    path = ROOT / "recipes" / f"{card.name}.toml"
    recipe = named_files(load(path))
    assert (card.source_language, card.target_language) == Variant(card.name, path, {}).languages(path.parent)
    recipe["train"]["seed"] = card.config["train"]["seed"]
    recipe["data"] |= {name: card.config["data"][name] for name in FILES}
    assert resolve(recipe) == resolve(card.config)


def test_the_recipes_of_the_paper_are_the_papers() -> None:
    base, big, french = (load(path) for path in RECIPES if path.stem.startswith("wmt14"))
    assert (model_config(base).dropout, base.train.steps, base.tokenizer.vocab_size) == (0.1, 100_000, 37_000)
    assert (model_config(big).dropout, big.train.steps, big.train.average_last) == (0.3, 300_000, 20)
    assert (model_config(french).dropout, french.tokenizer.vocab_size, french.model.d_model) == (0.1, 32_000, 1024)
