"""Every recipe that we ship is valid, and the paper's are the paper's."""

import errno
import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from heedful.cli.main import commands
from heedful.config.setting_layers import named_files, preset, read_toml, resolve
from heedful.config.settings import Config
from heedful.score.card import Card, Corpus, TextFile, load_card
from recipes import run
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
    assert re.findall(r"--data (data\S+)", str(run.__doc__)) == ["data/multi30k"]


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
    run.run(path.stem, tmp_path, tmp_path / "runs", seed=3, device="cuda")
    assert [arguments[0] for arguments in asked] == ["train", *["evaluate"] * len(run.tests(path.stem))]
    done = CliRunner().invoke(commands, [*asked[0], "--dry-run"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "seed = 3" in done.output


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_result_is_that_of_a_recipe_with_its_settings(path: Path) -> None:
    """But for the seed and the files, which `recipes/run.py` is told; what a card does not name came later."""
    card = load_card(path)
    recipe = named_files(load(ROOT / "recipes" / f"{card.name}.toml"))
    assert (card.source_language, card.target_language) == run.languages(card.name)
    recipe["train"]["seed"] = card.config["train"]["seed"]
    recipe["data"] |= {name: card.config["data"][name] for name in FILES}
    assert resolve(recipe) == resolve(card.config)


@pytest.mark.parametrize("recipe", ["built-in-en-de", "built-in-ko-en", "multi30k-en-de"])
def test_what_has_a_contrastive_accuracy_in_the_results_gets_it_again(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pronouns are those of the built-in corpus, whatever else lies in a folder."""
    names = ("train", "valid", *run.tests(recipe))
    for name in (*(f"{name}.{language}" for name in names for language in run.languages(recipe)), "pronouns.tsv"):
        (tmp_path / name).write_text("a\tb\tc\n" if name == "pronouns.tsv" else "a\n", encoding="utf-8")
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(run, "heedful", lambda *arguments: asked.append(arguments))
    run.run(recipe, tmp_path, tmp_path / "runs", seed=1, device="cpu")
    for evaluation in load_card(ROOT / "results" / f"{recipe}-1.json").evaluations:
        (arguments,) = [each for each in asked if str(tmp_path / evaluation.name) in each and each[0] == "evaluate"]
        assert (str(tmp_path / "pronouns.tsv") in arguments) == (evaluation.contrast is not None)


def test_pronouns_that_are_none_are_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train.en", "train.de", "valid.en", "valid.de", "test.en", "test.de", "pronouns.tsv"):
        (tmp_path / name).write_text("a\n", encoding="utf-8")
    monkeypatch.setattr(run, "heedful", lambda *arguments: pytest.fail(f"{arguments} was run"))
    with pytest.raises(SystemExit) as left:
        run.run("built-in-en-de", tmp_path, tmp_path / "runs", seed=1, device="cpu")
    assert left.value.code == 2
    assert "pronouns.tsv:1: 1 field" in capsys.readouterr().err


def test_a_version_in_a_recipes_name_is_no_language() -> None:
    assert run.languages("multi30k-en-de-v2") == ("en", "de")


def test_a_test_set_that_is_not_there_is_missed_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train", "valid", "test_2016_flickr"):
        for language in ("en", "de"):
            (tmp_path / f"{name}.{language}").write_text("a\n", encoding="utf-8")
    monkeypatch.setattr(run, "heedful", lambda *arguments: pytest.fail(f"{arguments} was run"))
    with pytest.raises(SystemExit) as left:
        run.run("multi30k-en-de", tmp_path, tmp_path / "runs", seed=1, device="cpu")
    assert left.value.code == 2
    assert "test_2017_flickr.en: not there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("references", "problem"),
    [("a\nb\n", "has 1 line but"), ("", "has 1 line but"), (None, "holds no text to translate")],
    ids=["uneven", "empty references", "nothing to translate"],
)
def test_a_test_set_that_cannot_be_scored_is_told_before_training(
    references: str | None,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("train", "valid", "test"):
        for language in ("en", "de"):
            (tmp_path / f"{name}.{language}").write_text("a\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("\n" if references is None else references, encoding="utf-8")
    if references is None:
        (tmp_path / "test.en").write_text("\n", encoding="utf-8")
    monkeypatch.setattr(run, "heedful", lambda *arguments: pytest.fail(f"{arguments} was run"))
    with pytest.raises(SystemExit) as left:
        run.run("built-in-en-de", tmp_path, tmp_path / "runs", seed=1, device="cpu")
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert problem in said
    assert said.count("\n") == 1


SAVES_WHEN_TOLD = """
import signal, sys, time
def save(*_):
    time.sleep(0.5)
    print("saved", flush=True)
    sys.exit(130)
signal.signal(signal.SIGINT, save)
signal.signal(signal.SIGTERM, save)
print("begun", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "send", [os.killpg, os.kill], ids=["as a terminal does, to both", "as a program may, to this one"]
)
def test_ctrl_c_waits_until_the_command_has_saved_its_work(tmp_path: Path, send: Callable[[int, int], None]) -> None:
    package = tmp_path / "heedful.py"
    package.write_text(SAVES_WHEN_TOLD)
    starter = f"import os; from recipes import run; os.chdir({str(tmp_path)!r}); os.environ.pop('PYTHONPATH', None)"
    started = subprocess.Popen(
        [sys.executable, "-c", f"{starter}; run.heedful('train')"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "begun\n"
    send(started.pid, signal.SIGINT)
    out, problems = started.communicate(timeout=60)
    assert (out, problems, started.returncode) == ("saved\n", "", 130)


def test_ctrl_c_while_text_is_read_is_no_traceback(tmp_path: Path) -> None:
    for name in ("train.en", "train.de", "valid.en", "valid.de", "test.de"):
        (tmp_path / name).write_text("a\n", encoding="utf-8")
    os.mkfifo(tmp_path / "test.en")  # a large file, as it were
    # Who starts the tests in the background ignores SIGINT, and so would the command.
    starter = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{starter}; runpy.run_path('recipes/run.py', run_name='__main__')"
    command = [sys.executable, "-c", program, "built-in-en-de", "--data", str(tmp_path)]
    started = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    with (tmp_path / "test.en").open("w"):  # once it is being read
        started.send_signal(signal.SIGINT)
        _, problems = started.communicate(timeout=60)
    assert (problems, started.returncode) == ("", 130)


def test_a_recipe_is_named_or_given_as_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert (
        run.known("ko-en") == run.known("recipes/ko-en.toml") == run.known(str(ROOT / "recipes/ko-en.toml")) == "ko-en"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        run.known("recipes/ko-en.toml")  # another file of that name
    assert "recipes/ko-en.toml: no such recipe" in capsys.readouterr().err


def test_a_recipe_that_is_not_there_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["run.py", "nope"])
    with pytest.raises(SystemExit) as left:
        run.main()
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert said.startswith("nope: no such recipe; there are built-in-en-de, ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("seed", ["-1", "4294967296"])
def test_a_seed_that_is_none_is_told_before_any_is_trained(
    seed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "run", lambda *_: pytest.fail("nothing is to be trained"))
    monkeypatch.setattr("sys.argv", ["run.py", "ko-en", "--data", "any", "--seeds", "1", seed])
    with pytest.raises(SystemExit) as left:
        run.main()
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert said.startswith(f"train.seed = {seed}: expected int ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("recipe", "problem"),
    [
        ("built-in-en-de", "train.en: not there, nor as .xz or .gz"),
        ("mine-en-de", "mine-en-de: its test sets are not known"),
        ("mine", "mine: names no two languages"),
    ],
)
def test_what_cannot_be_run_is_one_line_before_anything_is_trained(
    recipe: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "heedful", lambda *_: pytest.fail("nothing is to be trained"))
    with pytest.raises(SystemExit) as left:
        run.run(recipe, tmp_path, tmp_path / "runs", seed=1, device="cpu")
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert problem in said
    assert said.count("\n") == 1


def card_of(run_folder: Path, weights: str, name: str = "any") -> Path:
    """The card of a run, as `heedful train` leaves it."""
    empty = Card(
        name=name,
        source_language="en",
        target_language="de",
        weights_sha256=weights,
        parameters=1,
        vocab_size=8,
        config={},
    )
    (run_folder / "model").mkdir(parents=True, exist_ok=True)
    (run_folder / "model" / "card.json").write_text(empty.to_json())
    return run_folder / "model" / "card.json"


def test_a_result_gives_way_to_one_of_the_same_weights_and_to_another_by_force_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    results.mkdir()
    cards = [card_of(tmp_path / f"mine-{seed}", str(seed)) for seed in (1, 2)]
    run.publish(cards, results, force=False)
    assert sorted(path.name for path in results.iterdir()) == ["mine-1.json", "mine-2.json"]
    card_of(tmp_path / "mine-1", "1", name="scored again")
    run.publish(cards, results, force=False)
    assert load_card(results / "mine-1.json").name == "scored again"
    card_of(tmp_path / "mine-1", "1", name="a third time")
    card_of(tmp_path / "mine-2", "other weights")
    with pytest.raises(SystemExit) as left:
        run.publish(cards, results, force=False)
    assert left.value.code == 2
    assert "mine-2.json: is the card of other weights; --force" in capsys.readouterr().err
    assert load_card(results / "mine-1.json").name == "scored again", "all are published, or none"
    run.publish(cards, results, force=True)
    assert load_card(results / "mine-2.json").weights_sha256 == "other weights"


def test_results_that_cannot_be_written_are_one_line_and_none_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results"
    results.mkdir()
    flushed: list[int] = []

    def full(descriptor: int) -> None:
        flushed.append(descriptor)
        if len(flushed) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    cards = [card_of(tmp_path / f"mine-{seed}", str(seed)) for seed in (1, 2)]
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SystemExit) as left:
        run.publish(cards, results, force=True)
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert said.startswith(f"{results}: cannot be written (No space left on device); ")
    assert said.count("\n") == 1
    assert list(results.iterdir()) == []


def of_text(card: Path, digests: dict[str, str]) -> Path:
    """The card, of a run on such text."""
    published = load_card(ROOT / "results" / "built-in-en-de-1.json")
    assert published.training
    source, target = (TextFile(f"train.{code}.xz", 1, digests[f"train.{code}"]) for code in ("en", "de"))
    training = msgspec.structs.replace(published.training, training=Corpus((source,), (target,), {}), validation=None)
    card.write_text(msgspec.structs.replace(load_card(card), training=training).to_json())
    return card


def test_other_text_than_the_published_cards_is_told_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, results = tmp_path / "data", tmp_path / "results"
    data.mkdir()
    results.mkdir()
    for name in ("train", "valid", "test"):
        for language in ("en", "de"):
            (data / f"{name}.{language}").write_text(f"{name} {language}\n", encoding="utf-8")
    digests = {f"train.{code}": hashlib.sha256(f"train {code}\n".encode()).hexdigest() for code in ("en", "de")}
    of_text(card_of(tmp_path / "any", "1"), digests).rename(results / "built-in-en-de-1.json")
    monkeypatch.setattr(run, "RESULTS", results)
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(run, "heedful", lambda *arguments: asked.append(arguments))
    run.run("built-in-en-de", data, tmp_path / "runs", seed=2, device="cpu")
    assert capsys.readouterr().err == ""
    (data / "train.de").write_text("something else\n", encoding="utf-8")
    run.run("built-in-en-de", data, tmp_path / "runs", seed=2, device="cpu")
    said = capsys.readouterr().err
    assert said == f"{data}: is other text than that of built-in-en-de-1.json (train.de): scores cannot be compared\n"
    assert [arguments[0] for arguments in asked] == ["train", "evaluate"] * 2, "it is trained all the same"


def test_a_card_of_other_text_is_published_by_force_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results"
    results.mkdir()
    digests = {"train.en": "1", "train.de": "2"}
    run.publish([of_text(card_of(tmp_path / "mine-1", "1"), digests)], results, force=False)
    run.publish([of_text(card_of(tmp_path / "mine-2", "2"), digests)], results, force=False)
    other = [of_text(card_of(tmp_path / "mine-3", "3"), digests | {"train.de": "3"})]
    with pytest.raises(SystemExit) as left:
        run.publish(other, results, force=False)
    assert left.value.code == 2
    assert "is of other text than" in (said := capsys.readouterr().err)
    assert "(train.de); --force publishes it" in said
    assert not (results / "mine-3.json").exists()
    run.publish(other, results, force=True)
    assert (results / "mine-3.json").exists()


@pytest.mark.parametrize("digest", ["0", "f"])
def test_a_card_that_holds_a_changed_test_set_too_is_published_by_force_alone(tmp_path: Path, digest: str) -> None:
    card = load_card(ROOT / "results" / "built-in-en-de-1.json")
    (scored,) = card.evaluations
    source = msgspec.structs.replace(scored.source, sha256=digest * 64)
    changed = msgspec.structs.replace(scored, sha256=digest * 64, source=source)
    place = card_of(tmp_path / "mine-1", "1")
    place.write_text(card.with_evaluation(changed).to_json())
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "mine-1.json").write_text(card.to_json())
    with pytest.raises(SystemExit):
        run.publish([place], tmp_path / "results", force=False)
    run.publish([place], tmp_path / "results", force=True)
    assert load_card(tmp_path / "results" / "mine-1.json") == load_card(place)


def test_the_recipes_of_the_paper_are_the_papers() -> None:
    base, big, french = (load(path) for path in RECIPES if path.stem.startswith("wmt14"))
    assert (model_config(base).dropout, base.train.steps, base.tokenizer.vocab_size) == (0.1, 100_000, 37_000)
    assert (model_config(big).dropout, big.train.steps, big.train.average_last) == (0.3, 300_000, 20)
    assert (model_config(french).dropout, french.tokenizer.vocab_size, french.model.d_model) == (0.1, 32_000, 1024)
