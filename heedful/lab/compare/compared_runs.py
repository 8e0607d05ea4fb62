"""Recipes and variants trained side by side with the same seeds on the same text, and scored.

A run lies in a folder of its own, NAME-SEED, as `heedful train` would leave it. Finished runs are used again, and so
are the scores on their cards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.config.setting_layers import Layer
from heedful.data.run_folder import CONFIG, MODEL, TOKENIZER
from heedful.data.run_metrics import run_metrics
from heedful.data.text_files import read_pairs
from heedful.data.tokenizer import Tokenizer
from heedful.errors import DataError
from heedful.lab.compare.variants import Variant, text_files
from heedful.lab.experiment import Say, Stop
from heedful.lab.flops import training_flops
from heedful.lab.row_result import Point
from heedful.lab.rows import OnRecord
from heedful.lab.text import PRONOUNS, TRAIN
from heedful.model.checkpoint import find_model, load_config, weights_digest
from heedful.score.card import Card, identify, load_card, text_file
from heedful.score.model_evaluation import contrast_cases, evaluate_models, keep_on_card
from heedful.train.run.plan import TrainingRequest, decide
from heedful.train.run.start import carry_out


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """What the user asks for."""

    variants: Sequence[Variant]
    data: Path
    seeds: Sequence[int]
    output: Path
    device: str
    valid: str  # the name of the validation set
    tests: Sequence[str]  # those of the sets to be scored on


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A finished run: its card, its validations, and the operations that it took."""

    variant: str
    seed: int
    card: Card
    curve: tuple[Point, ...]
    flops: float
    vocabulary: str  # the fingerprint of its pieces


def compared_runs(request: CompareRequest, *, say: Say, on_record: OnRecord, stop: Stop) -> list[ComparedRun]:
    """Train and score what is missing; fewer runs than were asked for if it was stopped."""
    wanted = trainings(request)
    _refuse_early(wanted, request)
    finished: list[ComparedRun] = []
    for n, training in enumerate(wanted):
        if stop():
            break
        say(f"run {n + 1} of {len(wanted)}: {training.name}")
        if carry_out(decide(training.request), say=say, on_record=on_record, stop=stop).model is None:
            break
        for name in request.tests:
            _score(training, name, request, say)
        finished.append(_finished(training))
    return sorted(finished, key=_order(request))


def _order(request: CompareRequest) -> Callable[[ComparedRun], int]:
    """By variant, in the order in which they were given."""
    names = [variant.name for variant in request.variants]
    return lambda run: names.index(run.variant)


@dataclass(frozen=True, slots=True)
class Training:
    """A variant with a seed, and what `heedful train` would be asked for."""

    variant: Variant
    seed: int
    request: TrainingRequest

    @property
    def name(self) -> str:
        """That of its folder."""
        return self.request.run.name


def trainings(request: CompareRequest) -> list[Training]:
    """The first seed of every variant, then the second."""
    return [_training(variant, seed, request) for seed in request.seeds for variant in request.variants]


def _training(variant: Variant, seed: int, request: CompareRequest) -> Training:
    layers: tuple[Layer, ...] = (_files(variant, request), variant.changes, {"train": {"seed": seed}})
    run = request.output / f"{variant.name}-{seed}"
    return Training(
        variant,
        seed,
        TrainingRequest(run, layers=layers, device=request.device, recipe=variant.recipe, name=variant.name),
    )


def _files(variant: Variant, request: CompareRequest) -> Layer:
    """The settings that name text and languages."""
    source, target = text_files(variant, request.data, TRAIN)
    valid_source, valid_target = text_files(variant, request.data, request.valid)
    files = {"source": source, "target": target, "valid_source": valid_source, "valid_target": valid_target}
    return {"data": {field: [str(path)] for field, path in files.items()}}


def _refuse_early(wanted: Sequence[Training], request: CompareRequest) -> None:
    """What is wrong with the last run or test set is said before the first is trained."""
    for training in wanted:
        decide(training.request)
    for variant in request.variants:
        for name in request.tests:
            source, target = text_files(variant, request.data, name)
            if not any(pair.source.strip() for pair in list(read_pairs([source], [target]))):
                raise DataError(f"{source}: holds no text to translate")
        if pronouns := _pronouns(variant, request):
            contrast_cases(pronouns)


def _pronouns(variant: Variant, request: CompareRequest) -> Path | None:
    """The built-in corpus has pairs of right and wrong pronouns for German."""
    path = request.data / PRONOUNS
    return path if path.exists() and variant.languages(request.data)[1] == "de" else None


# -------------------------------------------------------------------------------------------------------------- scores


def _score(training: Training, name: str, request: CompareRequest, say: Say) -> None:
    """Translate a test set and keep the scores on the card, unless they are there."""
    run, (source, target) = training.request.run, text_files(training.variant, request.data, name)
    if _is_scored(run, source, target):
        return
    say(f"{training.name}: translating {source.name}")
    contrast = _pronouns(training.variant, request)
    evaluated = evaluate_models([run], source, [target], contrast=contrast, device=request.device)
    keep_on_card(run, evaluated)


def _is_scored(run: Path, source: Path, target: Path) -> bool:
    """Whether the card of these weights has scores on this text with the search of the settings."""
    card, decode = load_card(run), load_config(find_model(run).config).decode
    _, digest = identify(text_file(source), [text_file(target)])
    wanted = digest, decode.beam_size, decode.alpha
    found = {(each.sha256, each.beam_size, each.alpha) for each in card.evaluations}
    return wanted in found and card.weights_sha256 == weights_digest(find_model(run).weights)


def _finished(training: Training) -> ComparedRun:
    run, card = training.request.run, load_card(training.request.run / MODEL)
    return ComparedRun(
        training.variant.name,
        training.seed,
        card,
        tuple(_curve(run)),
        training_flops(run, load_config(run / CONFIG), card.training.target_tokens if card.training else 0),
        Tokenizer.load(run / TOKENIZER).fingerprint,
    )


def _curve(run: Path) -> Iterator[Point]:
    for record in run_metrics(run)["validation"]:
        yield Point(record["step"], record["perplexity"], record["bleu"])
