"""Mistakes that ruin a training and that no error shows: looked for in a run's settings and in the tokens it saw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from heedful.config.settings import Config, DataConfig, ModelConfig
from heedful.data.languages import base_language, has_spaces
from heedful.data.shards import Shards, Side
from heedful.data.text_files import languages_of
from heedful.data.tokenizer import SPACE, Tokenizer
from heedful.errors import counted
from heedful.model.checkpoint import checkpoint_steps
from heedful.model.device import lack_of_kernels
from heedful.model.parameter_count import count, shapes_of_new

PIECES_PER_WORD = 3.0  # so many or more: the vocabulary was learned from other text, or is too small
BYTE_SHARE = 0.01  # of all tokens
UNUSED_SHARE = 0.05  # of the vocabulary, bytes aside
FILLERS = 7  # pieces at most that a vocabulary of characters is filled up with
CPU_SPEED = 3e10  # operations in a second that a thread does; a server's core of today in float32
HOURS, DAYS = 2 * 3600, 48 * 3600
DEEPEST = 8  # layers of a stack in the paper (table 3, C)
CHUNK = 65_536  # sentences at a time

TokenCounts: TypeAlias = npt.NDArray[np.int64]


def cautions(
    run: Path | None, config: Config, tokenizer: Tokenizer, train: Shards | None, valid: Shards | None
) -> list[str]:
    """One line for each mistake that was found; what is not there is not looked at.

    Without its run a model knows the names of its text alone: two files may have the same one.
    """
    found = [*_same_files(config)] if run else []
    found += [*_schedule(config, checkpoint_steps(run) if run else []), *_patience(config)]
    if train is not None:
        counts_V = token_counts(train, tokenizer.vocab_size)
        languages = (config.data.source_language, config.data.target_language)
        if tokenizer.kind == "bpe" and all(map(has_spaces, languages)):
            found += _pieces(counts_V, tokenizer)
        found += [*_bytes(counts_V, tokenizer), *_unused(counts_V, tokenizer)]
        found += _overlap(train, valid) if valid is not None else ()
    return found


def cautions_at_start(config: Config, device: str) -> list[str]:
    """What can be known before a run has begun."""
    checks: list[Callable[[Config], Iterable[str]]] = [_same_files, _same_validation, _languages, _schedule, _patience]
    checks += {"cpu": [_long_on_cpu], "cuda": [_plain_on_gpu]}.get(device, [])
    return [caution for check in checks for caution in check(config)]


def cautions_of_new_weights(config: Config) -> Iterator[str]:
    """What matters to a run that does not go on from a model."""
    if not isinstance(config.model, ModelConfig):
        return
    stacks = {"an encoder": config.model.encoder_layers, "a decoder": config.model.decoder_layers}
    deep = [f"{name} of {layers} layers" for name, layers in stacks.items() if layers > DEEPEST]
    if deep and not config.train.depth_scaled_init:
        yield (
            f"{' and '.join(deep)}: deeper than any of the paper's, the model may never learn to read the source; "
            f"--set train.depth_scaled_init=true helps"
        )


def _same_files(config: Config) -> list[str]:
    both = {Path(name).resolve() for name in config.data.source} & {Path(name).resolve() for name in config.data.target}
    return [f"{path} is both source and target: the model learns to copy" for path in sorted(both)]


def _same_validation(config: Config) -> list[str]:
    """By name alone; `_overlap` looks at the pairs, when there are any to look at."""
    both = {Path(n).resolve() for n in config.data.source} & {Path(n).resolve() for n in config.data.valid_source}
    return [f"{path} is both training and validation text: validation scores are too good" for path in sorted(both)]


def _languages(config: Config) -> Iterator[str]:
    """They come from the names of the files (train.en) unless they are set, as many a recipe does."""
    data = config.data
    if data.source_language and data.target_language:
        yield from _other_languages(data)
    elif data.source:
        names = " and ".join((*data.source[:1], *data.target[:1]))
        yield (
            f"the names of {names} do not say the languages, which heedful serve needs: "
            f"--set data.source_language=en --set data.target_language=de, or name the files so (train.en, train.de)"
        )


def _other_languages(data: DataConfig) -> Iterator[str]:
    """A recipe of one pair of languages that is given the files of another one."""
    said, told = languages_of(data.source, data.target), (data.source_language, data.target_language)
    if data.source and not _are_the_same(said, told):
        settings = zip(("data.source_language", "data.target_language"), said, told, strict=True)
        remedy = " ".join(f"--set {setting}={name or code}" for setting, name, code in settings)
        names = " and ".join(name or "nothing" for name in said)
        yield (
            f"the names of the files say {names}, the settings {told[0]} and {told[1]}, and the model will be called "
            f"so; if the names are right: {remedy}"
        )


def cautions_of_test(data: DataConfig, source: Path, reference: Path) -> Iterator[str]:
    """Test files that are not of the model's languages, by their names: most often the two are swapped."""
    said, told = languages_of([str(source)], [str(reference)]), (data.source_language, data.target_language)
    if not _are_the_same(said, told):
        names = " to ".join(name or "nothing" for name in said)
        yield f"the names of {source} and {reference} say {names}, the model translates {told[0]} to {told[1]}"


def _are_the_same(said: tuple[str, str], told: tuple[str, str]) -> bool:
    """As far as both say anything; English of any country is English."""
    both = zip(said, told, strict=True)
    return all(not name or not code or base_language(name) == base_language(code) for name, code in both)


def _long_on_cpu(config: Config) -> Iterator[str]:
    """Forward and backward take about 6 operations for each parameter and token."""
    train, parameters = config.train, count(shapes_of_new(config.model, config.tokenizer.vocab_size))
    operations = 6 * parameters * train.steps * train.batch_tokens
    seconds = operations / (CPU_SPEED * torch.get_num_threads())
    if seconds >= HOURS:
        yield (
            f"{train.steps:,} steps of {train.batch_tokens:,} tokens with {parameters / 1e6:.0f} million parameters "
            f"take {'days' if seconds >= DAYS else 'hours'} on a CPU; --preset tiny is meant for one; --dry-run says "
            f"how long"
        )


def _plain_on_gpu(config: Config) -> Iterator[str]:
    """Only on the machine with the GPU: a plan may be for another one. The kernels support only bf16."""
    if not torch.cuda.is_available() or config.train.precision not in ("auto", "bf16"):
        return
    if lack := lack_of_kernels(torch.device("cuda"), config.model):
        yield f"our kernels want {lack}; training goes on without them, and takes several times as long"


def _schedule(config: Config, steps: Sequence[int] = ()) -> Iterator[str]:
    train, last = config.train, max(steps, default=config.train.steps)
    if train.steps <= train.warmup_steps:
        yield (
            f"train.steps = {train.steps:,} never leaves the warm-up (train.warmup_steps = {train.warmup_steps:,}): "
            f"the learning rate never reaches its peak; train longer or lower train.warmup_steps"
        )
    elif train.cooldown_steps > (most := train.steps - train.warmup_steps + 1):
        yield (
            f"train.cooldown_steps = {train.cooldown_steps:,} takes the learning rate down before the warm-up is over: "
            f"it never reaches its peak; train longer or lower it, to {most:,} at most"
        )
    elif last <= train.warmup_steps:
        done = counted(last, "step")
        yield f"the run has done {done} of its warm-up (train.warmup_steps = {train.warmup_steps:,}); go on"


def _patience(config: Config) -> Iterator[str]:
    train = config.train
    if train.patience and not config.data.valid_source:
        yield (
            f"train.patience = {train.patience} ends nothing without validation text; give it with "
            f"--valid-source and --valid-target"
        )
    elif train.patience and train.cooldown_steps:
        yield (
            f"train.patience = {train.patience} may end the run before its last train.cooldown_steps = "
            f"{train.cooldown_steps:,} steps; set one of them to 0"
        )


def token_counts(shards: Shards, vocab_size: int) -> TokenCounts:
    """How often each token occurs, on both sides."""
    counts_V = np.zeros(vocab_size, dtype=np.int64)
    for side in (shards.source, shards.target):
        for ids_T, _ in _chunks(side, len(shards)):
            counts_V += np.bincount(ids_T, minlength=vocab_size)
    return counts_V


def _chunks(side: Side, num_sentences: int) -> Iterator[tuple[TokenCounts, TokenCounts]]:
    for first in range(0, num_sentences, CHUNK):
        ids_T, lengths_N = side.gather(np.arange(first, min(first + CHUNK, num_sentences)))
        yield ids_T.astype(np.int64), lengths_N.astype(np.int64)


def _pieces(counts_V: TokenCounts, tokenizer: Tokenizer) -> Iterator[str]:
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    begins_V = np.array([piece.startswith(SPACE) for piece in pieces])
    per_word = (counts_V.sum() - counts_V[tokenizer.eos_id]) / max(1, counts_V[begins_V].sum())
    if per_word >= PIECES_PER_WORD:
        yield (
            f"the vocabulary does not fit the text: {per_word:.1f} pieces a word; learn one from this text (no "
            f"tokenizer.model) or raise tokenizer.vocab_size"
        )


def _bytes(counts_V: TokenCounts, tokenizer: Tokenizer) -> Iterator[str]:
    share = counts_V[_are_bytes(tokenizer)].sum() / max(1, counts_V.sum())
    if share >= BYTE_SHARE:
        yield (
            f"the vocabulary does not fit the text: {share:.1%} of the tokens are single bytes of characters that it "
            f"lacks; learn one from this text (no tokenizer.model)"
        )


def _are_bytes(tokenizer: Tokenizer) -> npt.NDArray[np.bool_]:
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return np.array([len(piece) == 6 and piece.startswith("<0x") for piece in pieces])


def _unused(counts_V: TokenCounts, tokenizer: Tokenizer) -> Iterator[str]:
    """A piece that is part of a longer one which occurs is a step on the way to it, and no mistake."""
    ordinary_V = ~_are_bytes(tokenizer)
    ordinary_V[[tokenizer.eos_id, tokenizer.unk_id]] = False
    used = "\n".join(tokenizer.pieces(np.flatnonzero(counts_V)))
    unused = tokenizer.pieces(np.flatnonzero(ordinary_V & (counts_V == 0)))
    never = [piece for piece in unused if piece not in used]
    if len(never) > FILLERS and len(never) >= UNUSED_SHARE * ordinary_V.sum():
        yield (
            f"{len(never):,} of {ordinary_V.sum():,} tokens never occur in the training text (such as "
            f"{' '.join(never[:5])}): their embeddings are noise; learn the vocabulary from this text"
        )


def _overlap(train: Shards, valid: Shards) -> Iterator[str]:
    known = np.unique(np.concatenate(list(_digests(train))))
    digests_N = np.concatenate(list(_digests(valid)))
    seen = int(np.isin(digests_N, known).sum())
    if seen:
        yield (
            f"{seen:,} of {len(valid):,} validation pairs are in the training text too ({seen / len(valid):.1%}): "
            f"validation scores are too good; take them out of one"
        )


def _digests(shards: Shards) -> Iterator[npt.NDArray[np.uint64]]:
    """A number for each pair; equal pairs have equal numbers, and others hardly ever."""
    sides = zip(_chunks(shards.source, len(shards)), _chunks(shards.target, len(shards)), strict=True)
    for (source_T, source_lengths_N), (target_T, target_lengths_N) in sides:
        yield _digest(source_T, source_lengths_N, 1) ^ _digest(target_T, target_lengths_N, 2)


def _digest(ids_T: TokenCounts, lengths_N: TokenCounts, seed: int) -> npt.NDArray[np.uint64]:
    """Σ of (id + 1) · a random number for the position, modulo 2⁶⁴; an odd one, so that no id is lost."""
    longest = int(lengths_N.max())
    factors_L = 2 * np.random.default_rng(seed).integers(1, 2**63, size=longest, dtype=np.uint64) + 1
    starts_N = np.cumsum(lengths_N) - lengths_N
    positions_T = np.arange(len(ids_T)) - np.repeat(starts_N, lengths_N)
    return np.add.reduceat((ids_T + 1).astype(np.uint64) * factors_L[positions_T], starts_N)
