"""Checkpoints: save, load, resume, average (§6.1). Nothing is lost when a machine dies.

A checkpoint is a folder, `checkpoints/step-00001000/`: `model.safetensors` (the weights to translate with),
`state.safetensors` (the optimizer's moments; and where the weights to translate with are a moving average, those that
learn) and `state.json` (the step, counters, and what the bits depend on). Folders are written whole or not at all. A
checkpoint without its state is kept for averaging only. A model folder (`model/`) stands alone: weights, configuration,
tokenizer. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec.structs import asdict
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from heedful.config.recipe import read_recipe
from heedful.config.setting_layers import layer_to_toml, named_files, resolve
from heedful.config.settings import Config, TrainConfig
from heedful.data.atomic import explained, remove_folder, replaced_folder
from heedful.data.run_folder import CHECKPOINTS, CONFIG, MODEL, TOKENIZER
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError
from heedful.model.interface import TranslationModel
from heedful.model.registry import model_to_fill

WEIGHTS, MOMENTS, STATE = "model.safetensors", "state.safetensors", "state.json"
FORMAT = {"format": "heedful"}  # alone: several remarks would be written in any order


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to translate: the weights and all that belongs to them."""

    model: TranslationModel
    tokenizer: Tokenizer
    config: Config
    weights: Path

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of the languages it translates from and into."""
        return self.config.data.source_language, self.config.data.target_language


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a whole checkpoint holds: weights, moments, and the state that is written as JSON."""

    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    state: dict[str, Any]

    def on_host(self) -> Snapshot:
        """The same in the host's memory."""
        weights, moments = ({n: t.cpu() for n, t in part.items()} for part in (self.weights, self.moments))
        return Snapshot(weights, moments, self.state)


# ------------------------------------------------------------------------------------------------------------ writing


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] = FORMAT) -> None:
    """Write a safetensors file with the mode of any new file; safetensors would let only its owner read it."""
    path.touch()
    mode = stat.S_IMODE(path.stat().st_mode)
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path, metadata=metadata)
    except SafetensorError as error:
        raise OSError(str(error)) from None
    path.chmod(mode)


def step_folder(run: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return run / CHECKPOINTS / f"step-{step:08d}"


def save_checkpoint(run: Path, step: int, snapshot: Snapshot) -> Path:
    """Write a whole checkpoint."""
    folder = step_folder(run, step)
    state = json.dumps(snapshot.state, indent=1) + "\n"
    with explained(folder, CheckpointError), replaced_folder(folder) as temporary:
        write_tensors(temporary / WEIGHTS, snapshot.weights)
        write_tensors(temporary / MOMENTS, snapshot.moments)
        (temporary / STATE).write_text(state, encoding="utf-8")
    return folder


def save_model(folder: Path, weights: Mapping[str, Tensor], config: Config, tokenizer: Path) -> None:
    """Write a model folder, which stands alone."""
    with explained(folder, CheckpointError), replaced_folder(folder) as temporary:
        write_model(temporary, weights, config, tokenizer)


def write_model(folder: Path, weights: Mapping[str, Tensor], config: Config, tokenizer: Path) -> None:
    """The files of a model, into a folder that is there. It stands alone: of the text it has the names."""
    write_tensors(folder / WEIGHTS, weights)
    (folder / CONFIG).write_text(layer_to_toml(named_files(config)), encoding="utf-8")
    shutil.copyfile(tokenizer, folder / TOKENIZER)


def prune_checkpoints(run: Path, train: TrainConfig) -> None:
    """Keep the last whole checkpoints to resume from, and of the regular ones the last ones to average."""
    steps = checkpoint_steps(run)
    whole = [step for step in steps if is_whole(step_folder(run, step))][-train.keep_checkpoints :]
    averaged = [step for step in steps if step > 0 and step % train.checkpoint_steps == 0][-train.average_last :]
    for step in steps:
        folder = step_folder(run, step)
        if step in whole:
            continue
        if step not in averaged:
            remove_folder(folder)
        else:
            # The state goes first: without it the folder is no longer taken for a whole checkpoint.
            (folder / STATE).unlink(missing_ok=True)
            (folder / MOMENTS).unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------------------ reading


def checkpoint_steps(run: Path) -> list[int]:
    """The steps of which this run has weights, in order."""
    folders = (run / CHECKPOINTS).glob("step-*")
    return sorted(int(f.name.removeprefix("step-")) for f in folders if f.name[5:].isdigit() and (f / WEIGHTS).exists())


def is_whole(folder: Path) -> bool:
    """Can a run be resumed from this checkpoint?"""
    return all((folder / name).exists() for name in (WEIGHTS, MOMENTS, STATE))


def last_whole(run: Path) -> Path | None:
    """The newest checkpoint that a run can be resumed from."""
    folders = [step_folder(run, step) for step in checkpoint_steps(run)]
    return next((folder for folder in reversed(folders) if is_whole(folder)), None)


def resume_step(run: Path) -> int:
    """The step of the checkpoint that a run goes on from; 0 if there is none."""
    last = last_whole(run)
    return int(last.name.removeprefix("step-")) if last else 0


def load_snapshot(folder: Path) -> Snapshot:
    """Read a whole checkpoint."""
    state = load_state(folder)
    return Snapshot(load_tensors(folder / WEIGHTS), load_tensors(folder / MOMENTS), state)


def load_state(folder: Path) -> dict[str, Any]:
    """Read the state of a whole checkpoint."""
    try:
        return dict(json.loads((folder / STATE).read_text(encoding="utf-8")))
    except PermissionError:
        raise  # it may be whole, and must not be removed for that
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{folder / STATE}: cannot be read ({error}); remove this checkpoint") from None


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of one of our safetensors files."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (the file is no mapping)


def load_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the same tensors, whose numbers are not read."""
    with _opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """One of our safetensors files; another one is refused."""
    try:
        with path.open("rb"), safe_open(path, framework="pt") as file:
            if (file.metadata() or {}).get("format") != FORMAT["format"]:
                raise CheckpointError(f"{path}: not written by heedful")
            yield file
    except PermissionError:
        raise  # safetensors would say that there is no such file
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: truncated, or no safetensors file ({error})") from None


def weights_digest(path: Path) -> str:
    """SHA-256 of a safetensors file's tensors: names, shapes, numbers, whatever else it holds."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = msgspec.json.decode(file.read(min(length, path.stat().st_size)), type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise CheckpointError(f"{path}: truncated, or no safetensors file ({error})") from None
        header.pop("__metadata__", None)
        digest = hashlib.sha256(msgspec.json.encode(header, order="sorted"))
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def load_weights(model: TranslationModel, weights: Mapping[str, Tensor], origin: Path) -> None:
    """Copy weights into the model, in the model's own type; names and shapes must be the model's."""
    refuse_other_shapes(weights, {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}, origin)
    model.load_state_dict(dict(weights))


def refuse_other_shapes(tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]], origin: Path) -> None:
    """Raise for the first missing, extra or misshapen tensor."""
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    different = sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))
    if different:
        name = different[0]
        raise CheckpointError(
            f"{origin}: does not fit the configuration: {name} is {found.get(name, 'missing')}, "
            f"expected {expected.get(name, 'nothing')} ({len(different)} tensors differ)"
        )


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """§6.1: the mean of the weights of several checkpoints, summed in float64."""
    assert paths, "an average needs at least one checkpoint"
    first = load_tensors(paths[0])
    sums = {name: tensor.double() for name, tensor in first.items()}
    for path in paths[1:]:
        weights = load_tensors(path)
        if {n: t.shape for n, t in weights.items()} != {n: t.shape for n, t in first.items()}:
            raise CheckpointError(f"{path}: has other tensors than {paths[0]}; only checkpoints of one model average")
        for name, tensor in weights.items():
            sums[name] += tensor
    return {name: (total / len(paths)).to(first[name].dtype) for name, total in sums.items()}


def weights_to_average(run: Path, end: int, *, last: int, every: int) -> list[Path]:
    """Of a run that has ended at a step: that checkpoint, and those before it at multiples of `every`."""
    regular = [step for step in checkpoint_steps(run) if 0 < step < end and step % every == 0]
    return [step_folder(run, step) / WEIGHTS for step in [*regular, end][-last:]]


# -------------------------------------------------------------------------------------------------- what a MODEL may be


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The three files that make a model."""

    weights: Path
    config: Path
    tokenizer: Path


def find_model(path: Path) -> ModelFiles:
    """A run folder, a `model/` folder or a checkpoint inside its run → the files to load.

    Of a run that has not finished, the newest checkpoint is taken.
    """
    if not path.is_dir():
        problem = "is a file" if path.exists() else "no such folder"
        raise CheckpointError(f"{path}: {problem}; a model is a run folder, its model/ folder or a checkpoint")
    if (path / WEIGHTS).exists():
        is_checkpoint = path.parent.name == CHECKPOINTS and not (path / CONFIG).exists()
        return _model_files(path / WEIGHTS, path.parent.parent if is_checkpoint else path)
    if (path / MODEL / WEIGHTS).exists():
        return _model_files(path / MODEL / WEIGHTS, path / MODEL)
    steps = checkpoint_steps(path)
    if not steps:
        runs = [config.parent for config in sorted(path.glob(f"*/{CONFIG}")) if config.parent.name != MODEL]
        inside = f"; {runs[0]} is a run" if runs else ""
        raise CheckpointError(
            f"{path}: holds no model: neither {WEIGHTS}, nor {MODEL}/{WEIGHTS}, nor a checkpoint{inside}"
        )
    if (path / MODEL).is_dir():
        raise CheckpointError(
            f"{path / MODEL / WEIGHTS}: missing; heedful train -o {path} averages its checkpoints anew"
        )
    return _model_files(step_folder(path, steps[-1]) / WEIGHTS, path)


def steps_so_far(path: Path) -> tuple[int, int] | None:
    """Of a run that has no model yet: the step of its newest checkpoint, and how many there shall be."""
    files = find_model(path)
    if files.weights.parent.parent != path / CHECKPOINTS:
        return None
    return checkpoint_steps(path)[-1], load_config(files.config).train.steps


def _model_files(weights: Path, home: Path) -> ModelFiles:
    files = ModelFiles(weights, home / CONFIG, home / TOKENIZER)
    for file in (files.config, files.tokenizer):
        if not file.is_file():
            raise CheckpointError(f"{file}: missing; a model needs {WEIGHTS}, {CONFIG} and {TOKENIZER}")
    return files


def load_config(path: Path) -> Config:
    """The configuration in a config.toml that we wrote, and others may have changed."""
    _, layer = read_recipe(path)
    return resolve(layer)


def check_same_model(models: Sequence[ModelFiles]) -> None:
    """An error where weights do not belong together: numbers of other words, languages or sizes have no mean."""
    first, *others = models
    expected = _what_weights_mean(first)
    for files in others:
        for name, value in _what_weights_mean(files).items():
            if value != expected[name]:
                raise CheckpointError(
                    f"{files.weights}: its {name} is {value!r}, where {first.weights} has {expected[name]!r}; "
                    f"only checkpoints of one model average"
                )


def _what_weights_mean(files: ModelFiles) -> dict[str, object]:
    """Vocabulary, languages and sizes; dropout is a matter of training."""
    config = load_config(files.config)
    languages = {f"data.{side}_language": getattr(config.data, f"{side}_language") for side in ("source", "target")}
    sizes = {f"model.{name}": value for name, value in asdict(config.model).items() if name != "dropout"}
    return {**languages, **sizes, "vocabulary": Tokenizer.load(files.tokenizer).fingerprint[:8]}


def load_model(path: Path, *, device: torch.device, dtype: torch.dtype = torch.float32) -> LoadedModel:
    """A MODEL ready to use: evaluation mode, on `device`."""
    files = find_model(path)
    config, tokenizer = load_config(files.config), Tokenizer.load(files.tokenizer)
    model = model_to_fill(config.model, tokenizer.vocab_size).to(dtype)
    load_weights(model, load_tensors(files.weights), files.weights)
    return LoadedModel(model.to(device).eval(), tokenizer, config, files.weights)
