"""One command from a data folder to a card: train a recipe, with one seed or several, and score it on its test sets.

    python recipes/run.py multi30k-en-de --data data/multi30k [--seeds 1 2 3] [-o runs]

The folder holds train.en, train.de, valid.en, … and the test sets named in TESTS of this file, plain or as .gz or .xz.
The card of seed n is then in runs/RECIPE-n/model/card.json. Of the built-in corpus the pronouns are scored too. A run
that was interrupted goes on. With --publish the cards are copied to results/ when all are there; one of other weights
that lies there already gives way with --force alone. Text that is not that of the card in results/ is told before
training, and its cards are published with --force alone.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from heedful.config.setting_layers import resolve
from heedful.data.atomic import write_files
from heedful.data.text_files import read_pairs, text_digest, uncompressed
from heedful.errors import HeedfulError
from heedful.score.card import Card, load_card
from heedful.train.run.interruption import TERM_AT_ONCE, Interruption, wait_for

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
TESTS = {  # of the recipes whose names begin so: the first that fits
    "multi30k-en-de-quick": ("valid",),  # its bar is one of validation
    "multi30k": ("test_2016_flickr", "test_2017_flickr"),
    "europarl": ("test", "newstest2014"),
    "ko-en": ("test",),
    "en-ko": ("test",),
    "wmt14": ("newstest2014",),
    "built-in": ("test",),
}

PASS_ON = TERM_AT_ONCE | {signal.SIGINT: 2.0}  # by then a terminal's Ctrl-C has reached the command itself

VALIDATION = {"wmt14": "newstest2013"}  # elsewhere: valid


def refuse(why: str) -> NoReturn:
    """One line, and the exit code of what the user can mend."""
    print(why, file=sys.stderr)
    sys.exit(2)


def known(recipe: str) -> str:
    """The name of a recipe that is here; its path will do too."""
    path = Path(recipe).resolve()
    recipe = path.stem if path.parent == HERE.resolve() and path.suffix == ".toml" else recipe
    names = sorted(path.stem for path in HERE.glob("*.toml"))
    if recipe not in names:
        refuse(f"{recipe}: no such recipe; there are {', '.join(names)}")
    return recipe


def check_seeds(seeds: Sequence[int]) -> None:
    """What is wrong with the last one is said before the first is trained."""
    try:
        for seed in seeds:
            resolve({"train": {"seed": seed}})
    except HeedfulError as error:
        refuse(str(error))


def languages(recipe: str) -> tuple[str, str]:
    """multi30k-en-de → en, de; ko-en → ko, en; built-in-en-de → en, de."""
    codes = [part for part in recipe.split("-") if len(part) == 2 and part.isalpha()][-2:]
    if len(codes) < 2:
        refuse(f"{recipe}: names no two languages; a recipe is called such as mine-en-de")
    return codes[0], codes[1]


def tests(recipe: str) -> tuple[str, ...]:
    """The names of the test sets."""
    for prefix, names in TESTS.items():
        if recipe.startswith(prefix):
            return names
    refuse(f"{recipe}: its test sets are not known; name them in TESTS of {Path(__file__).name}")


def validation(recipe: str) -> str:
    """The name of the validation set."""
    return next((name for prefix, name in VALIDATION.items() if recipe.startswith(prefix)), "valid")


def contrast(recipe: str, data: Path) -> tuple[str, ...]:
    """The pronouns that `heedful corpus` writes for pairs into German, to be scored as `heedful demo` does."""
    pronouns = data / "pronouns.tsv"
    if not (recipe.startswith("built-in") and languages(recipe)[1] == "de" and pronouns.exists()):
        return ()
    from heedful.score.model_evaluation import contrast_cases  # it brings torch

    try:
        contrast_cases(pronouns)  # what is wrong with them is said before training
    except HeedfulError as error:
        refuse(str(error))
    return ("--contrast", str(pronouns))


def find(folder: Path, name: str) -> str:
    """The file of that name, plain or packed."""
    for suffix in ("", ".xz", ".gz"):
        if (path := folder / f"{name}{suffix}").exists():
            return str(path)
    refuse(f"{folder / name}: not there, nor as .xz or .gz; --data names the folder that holds it")


def find_test(folder: Path, name: str, recipe: str) -> tuple[str, str]:
    """The files of a test set, read once: what is wrong with it is said before training, not after."""
    source, target = (find(folder, f"{name}.{language}") for language in languages(recipe))
    try:
        pairs = list(read_pairs([Path(source)], [Path(target)]))
    except HeedfulError as error:
        refuse(str(error))
    if not any(pair.source.strip() for pair in pairs):
        refuse(f"{source}: holds no text to translate")
    return source, target


def warn_of_other_text(recipe: str, files: Sequence[Path]) -> None:
    """One line where files do not hold what the published card was made from: their names alone would not tell."""
    published = RESULTS / f"{recipe}-1.json"
    if not published.exists():
        return
    try:
        digests = {uncompressed(path).name: {text_digest(path)[1]} for path in files}
    except HeedfulError as error:
        refuse(str(error))
    if other := differing(digests, card_digests(read(published))):
        how = f"is other text than that of {published.name} ({', '.join(other)}): scores cannot be compared"
        print(f"{files[0].parent}: {how}", file=sys.stderr)


def card_digests(card: Card) -> dict[str, set[str]]:
    """The text that a card speaks of: the SHA-256 of every file, by the name it has when it is not packed.

    A test set that was changed and scored again is there twice.
    """
    corpora = [card.training.training, card.training.validation] if card.training else []
    files = [file for corpus in corpora if corpus for file in (*corpus.source, *corpus.target)]
    files += [file for each in card.evaluations for file in (each.source, *each.references)]
    found: dict[str, set[str]] = {}
    for file in files:
        found.setdefault(uncompressed(Path(file.name)).name, set()).update([file.sha256] if file.sha256 else [])
    return found


def differing(digests: Mapping[str, set[str]], published: Mapping[str, set[str]]) -> list[str]:
    """The names of files that hold something else than those of the same name did."""
    return [name for name, found in digests.items() if published.get(name) and found - published[name]]


def heedful(*arguments: str) -> None:
    """A heedful command; its failure ends this one, and so does a signal, once the command has saved its work."""
    with Interruption() as interruption:
        code = wait_for(subprocess.Popen([sys.executable, "-m", "heedful", *arguments]), interruption, PASS_ON)
    if interruption.signal or code:
        sys.exit(interruption.exit_code if interruption.signal else code)


def run(recipe: str, data: Path, output: Path, seed: int, device: str) -> Path:
    """Train and score with one seed; the card. No training begins before all files are there, and the tests whole."""
    (source, target), valid, test_sets = languages(recipe), validation(recipe), tests(recipe)
    files = {"-s": f"train.{source}", "-t": f"train.{target}"}
    files |= {"--valid-source": f"{valid}.{source}", "--valid-target": f"{valid}.{target}"}
    named = [part for flag, name in files.items() for part in (flag, find(data, name))]
    pairs, pronouns = [find_test(data, name, recipe) for name in test_sets], contrast(recipe, data)
    warn_of_other_text(recipe, [Path(file) for file in (*named[1::2], *(file for pair in pairs for file in pair))])
    folder = output / f"{recipe}-{seed}"
    how = ("--set", f"train.seed={seed}", "--device", device)
    heedful("train", str(HERE / f"{recipe}.toml"), *named, "-o", str(folder), *how)
    for lines, references in pairs:
        heedful("evaluate", "-m", str(folder), "-s", lines, "-r", references, *pronouns, "--device", device)
    return folder / "model" / "card.json"


def publish(cards: Sequence[Path], results: Path, *, force: bool) -> None:
    """Copy the cards of runs/RECIPE-SEED/model to results/RECIPE-SEED.json: all of them, or none."""
    places = {card: results / f"{card.parents[1].name}.json" for card in cards}
    for card, place in places.items():
        if place.exists() and not force and not is_of_same_weights(card, place):
            refuse(f"{place}: is the card of other weights; --force replaces it by {card}")
        first = results / f"{place.stem.rpartition('-')[0]}-1.json"
        if first.exists() and not force and (other := differing(card_digests(read(card)), card_digests(read(first)))):
            refuse(f"{card}: is of other text than {first} ({', '.join(other)}); --force publishes it all the same")
    try:
        write_files({place: card.read_bytes() for card, place in places.items()})
    except OSError as error:
        refuse(f"{results}: cannot be written ({error.strerror}); the same command publishes them later")
    print("`make tables` puts them into the tables of README.md and docs/results.md")


def is_of_same_weights(card: Path, published: Path) -> bool:
    """Do two cards speak of the same model?"""
    return read(card).weights_sha256 == read(published).weights_sha256


def read(card: Path) -> Card:
    """A card that is there and whole."""
    try:
        return load_card(card)
    except HeedfulError as error:
        refuse(str(error))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "recipe", type=known, metavar="RECIPE", help="such as multi30k-en-de, or its file: recipes/multi30k-en-de.toml"
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of train, valid and test files")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="one run for each")
    parser.add_argument("-o", "--output", type=Path, default=Path("runs"), help="folder of the runs")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--publish", action="store_true", help="copy the cards to results/")
    parser.add_argument(
        "--force", action="store_true", help="publish also over a card of other weights, and beside one of other text"
    )
    arguments = parser.parse_args()
    recipe, data, output = arguments.recipe, arguments.data, arguments.output
    check_seeds(arguments.seeds)
    cards = [run(recipe, data, output, seed, arguments.device) for seed in arguments.seeds]
    if arguments.publish:
        publish(cards, RESULTS, force=arguments.force)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # while text is read; a command ends by itself
        sys.exit(130)
