"""Word alignments from cross-attention, in Pharaoh format: `0-0 1-2` says that target word 2 comes from source word 1.

A target word is aligned with the source word that most of the attention goes to in the step that *produces* the word's
first piece; what goes to punctuation marks and to the eos does not count. A source word that is then left over goes
with the target word that looks at it most: two words may well have become one. Words are what stands between spaces,
counted from 0. A word that looks nowhere in particular is aligned with nothing. Which heads are asked, and how much is
enough, is chosen by the alignment error on validation sentences of the built-in corpus, whose alignments the grammar
knows, and kept beside the model; for other languages it is the mean over a layer, and every target word is aligned.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeAlias

import msgspec
import numpy as np
import torch
from torch import Tensor

from heedful.checkpoint import load_model
from heedful.config import ModelConfig
from heedful.device import choose_device
from heedful.export.cache import cache_file
from heedful.grammar import LANGUAGES, Example, built_in_corpus
from heedful.model.attention import recorded_attention
from heedful.model.layers import DecoderLayer
from heedful.model.transformer import Transformer
from heedful.packed import pack_source, pack_target, shift_right
from heedful.tokenizer import Tokenizer
from heedful.translation import Translation

Alignment: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of source word and target word, in the order of the source."""

Heads: TypeAlias = tuple[tuple[int, int], ...]
"""Layer and number of the heads whose mean is looked at; both count from 0."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is looked at: the mean weight of these heads, and how large it must be for a link."""

    heads: Heads
    least: float  # from a target word
    least_left: float  # to a source word that is left over; 1: such words stay alone


LEAST = (0.0, 0.2, 0.3, 0.4, 0.5)
LEAST_LEFT = (0.05, 0.1, 0.15, 0.2, 0.3, 1.0)
WHILE_CHOOSING = 0.1  # of LEAST_LEFT, as long as heads are chosen
SENTENCES = 200  # on which heads are judged
SHALLOW = 3  # decoders of so many layers align in their last one, deeper ones in the last but one
EOS_ID = 0


def pharaoh(alignment: Alignment) -> str:
    """As text: `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in alignment)


def alignment_error_rate(found: Iterable[Alignment], gold: Iterable[Alignment]) -> float:
    """1 − 2 |A ∩ G| / (|A| + |G|), over all sentences together; all links of G are sure."""
    pairs = [(set(one), set(other)) for one, other in zip(found, gold, strict=True)]
    total = sum(len(one) + len(other) for one, other in pairs)
    return 1 - 2 * sum(len(one & other) for one, other in pairs) / total if total else 0.0


class Aligner:
    """Aligns the words of given pairs, by a model and some of its heads."""

    def __init__(self, model: Transformer, tokenizer: Tokenizer, choice: Choice) -> None:
        self.model, self.tokenizer, self.choice = model, tokenizer, choice

    @classmethod
    def load(cls, model: str | Path, *, device: str = "auto") -> Self:
        """With the heads that were chosen for this model before, or are chosen now."""
        path = Path(model)
        loaded = load_model(path, device=choose_device(device))
        kept = cache_file(path, "alignment")
        languages = loaded.source_language, loaded.target_language
        choice = _read(kept, loaded.model.config) or choice_for(loaded.model, loaded.tokenizer, languages)
        _write(kept, choice)
        return cls(loaded.model, loaded.tokenizer, choice)

    def align(self, source_ids: Sequence[int], target_ids: Sequence[int]) -> Alignment:
        """The alignment of one pair; ids without eos."""
        weights_LHTS = cross_attention(self.model, source_ids, target_ids)
        words_LHJI = word_weights(weights_LHTS, self.tokenizer.pieces(source_ids), self.tokenizer.pieces(target_ids))
        return links(words_LHJI, self.choice)

    def align_translation(self, translation: Translation, rank: int = 0) -> Alignment:
        """The alignment of a translated line with its n-th best translation; the parts of a split line in a row."""
        found: list[tuple[int, int]] = []
        source_words = target_words = 0
        for source_ids, part in zip(translation.source_ids, translation.hypotheses[rank].parts, strict=True):
            aligned = self.align(source_ids, part.ids)
            found += [(source_words + i, target_words + j) for i, j in aligned]
            source_words += num_words(self.tokenizer.pieces(source_ids))
            target_words += num_words(self.tokenizer.pieces(part.ids))
        return tuple(found)


# ----------------------------------------------------------------------------------------------------- pieces → words


def word_of_piece(pieces: Sequence[str]) -> list[int]:
    """For each piece the number of the word that it is part of; a word begins where a piece begins with a space."""
    words, word = [], -1
    for piece in pieces:
        word += piece.startswith("▁") or word < 0
        words.append(word)
    return words


def num_words(pieces: Sequence[str]) -> int:
    """How many words they spell."""
    return max(word_of_piece(pieces), default=-1) + 1


def _is_mark(piece: str) -> bool:
    text = piece.removeprefix("▁")
    return bool(text) and all(unicodedata.category(character).startswith("P") for character in text)


def _spoken(pieces: Sequence[str]) -> list[list[int]]:
    """The pieces of each word, without its punctuation marks, unless it is nothing else."""
    groups: list[list[int]] = [[] for _ in range(num_words(pieces))]
    for place, word in enumerate(word_of_piece(pieces)):
        groups[word].append(place)
    return [[place for place in group if not _is_mark(pieces[place])] or group for group in groups]


def word_weights(weights_LHTS: Tensor, source: Sequence[str], target: Sequence[str]) -> Tensor:
    """Weights of pieces → weights of J target words over I source words; L layers, H heads."""
    firsts = [group[0] for group in _spoken(target)]
    rows_LHJS = weights_LHTS[:, :, firsts]
    columns = [rows_LHJS[..., group].sum(dim=-1) for group in _spoken(source)]
    return torch.stack(columns, dim=-1) if columns else rows_LHJS[..., :0]


def links(words_LHJI: Tensor, choice: Choice) -> Alignment:
    """Each target word with the source word of the largest mean weight, and each source word left over likewise."""
    if not words_LHJI.numel():
        return ()
    layers, heads = zip(*choice.heads, strict=True)
    mean_JI = words_LHJI[list(layers), list(heads)].mean(dim=0)
    found = {(i, j) for j, i in _largest(mean_JI, choice.least)}
    taken = {i for i, _ in found}
    return tuple(sorted(found | {(i, j) for i, j in _largest(mean_JI.mT, choice.least_left) if i not in taken}))


def _largest(weights_JI: Tensor, least: float) -> Iterator[tuple[int, int]]:
    """Each row and the column of its largest weight, if that is large enough."""
    largest_J, column_J = weights_JI.max(dim=1)
    for row, (weight, column) in enumerate(zip(largest_J.tolist(), column_J.tolist(), strict=True)):
        if weight >= least:
            yield row, column


@torch.no_grad()
def cross_attention(model: Transformer, source_ids: Sequence[int], target_ids: Sequence[int]) -> Tensor:
    """The weights of all heads in the steps that produce the target: layers × heads × target × source, eos included."""
    source, target = (np.array([*ids, EOS_ID], dtype=np.int64) for ids in (source_ids, target_ids))
    lengths, target_lengths = np.array([len(source)]), np.array([len(target)])
    with ExitStack() as stack:
        parts = [layer.cross_attention for layer in model.decoder if isinstance(layer, DecoderLayer)]
        recorders = [stack.enter_context(recorded_attention(part))[""] for part in parts]
        memory = model.encode(pack_source(source, lengths).to(model.device))
        model.decode(pack_target(shift_right(target), target_lengths, lengths).to(model.device), memory)
    return torch.stack([recorder.weights[0] for recorder in recorders]).float().cpu()


# ------------------------------------------------------------------------------------------------------ choosing heads


def default_heads(config: ModelConfig) -> Heads:
    """All heads of the last layer but one, or of the last one of a shallow decoder."""
    layer = config.decoder_layers - (1 if config.decoder_layers <= SHALLOW else 2)
    return tuple((layer, head) for head in range(config.num_heads))


def choice_for(model: Transformer, tokenizer: Tokenizer, languages: tuple[str, str]) -> Choice:
    """Made on the built-in corpus if it has these languages."""
    if languages[0] == languages[1] or not set(languages) <= set(LANGUAGES):
        return Choice(default_heads(model.config), 0.0, 1.0)
    corpus = built_in_corpus(*languages, train_pairs=0, held_out_pairs=SENTENCES)
    return choose(model, tokenizer, corpus.valid)


def choose(model: Transformer, tokenizer: Tokenizer, examples: Sequence[Example]) -> Choice:
    """The head with the least alignment error; then the one that helps it most, as long as one helps."""
    words = [_example_weights(model, tokenizer, example) for example in examples]
    gold = [example.alignment for example in examples]

    def best(choices: Sequence[Choice]) -> tuple[float, Choice]:
        errors = [alignment_error_rate([links(each, choice) for each in words], gold) for choice in choices]
        return min(zip(errors, choices, strict=True), key=lambda pair: pair[0])

    places = [(layer, head) for layer in range(len(model.decoder)) for head in range(model.config.num_heads)]
    error, chosen = best([Choice((place,), least, WHILE_CHOOSING) for place in places for least in LEAST])
    while rest := [place for place in places if place not in chosen.heads]:
        with_more = [Choice((*chosen.heads, place), least, WHILE_CHOOSING) for place in rest for least in LEAST]
        less, better = best(with_more)
        if less >= error:
            break
        error, chosen = less, better
    return best([replace(chosen, least_left=least) for least in LEAST_LEFT])[1]


def _example_weights(model: Transformer, tokenizer: Tokenizer, example: Example) -> Tensor:
    source_ids, target_ids = tokenizer.encode_batch([example.source, example.target])
    weights_LHTS = cross_attention(model, source_ids, target_ids)
    return word_weights(weights_LHTS, tokenizer.pieces(source_ids), tokenizer.pieces(target_ids))


def _read(path: Path, config: ModelConfig) -> Choice | None:
    """The choice that was kept, if it can be this model's."""
    try:
        choice = msgspec.json.decode(path.read_bytes(), type=Choice)
    except (OSError, msgspec.MsgspecError):
        return None
    fits = all(0 <= layer < config.decoder_layers and 0 <= head < config.num_heads for layer, head in choice.heads)
    return choice if choice.heads and fits else None


def _write(path: Path, choice: Choice) -> None:
    """Keep it; a folder that cannot be written to does not matter."""
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(msgspec.json.encode(choice) + b"\n")
    except OSError:
        return
