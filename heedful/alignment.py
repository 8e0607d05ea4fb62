"""Word alignments from cross-attention, in Pharaoh format: `0-0 1-2` says that target word 2 comes from source word 1.

A target word is aligned with the source word that most of the attention goes to in the step that *produces* the word's
first piece; what goes to punctuation marks and to the eos does not count. A source word that is then left over goes
with the target word that looks at it most in any of its pieces: an ending may be what became of a word. Words are what
stands between spaces, counted from 0. A word that looks nowhere in particular is aligned with nothing, and so are words
that the other language has nothing for, like "the" beside Korean.

Which heads are asked, how much is enough, and which words stay alone is chosen on validation sentences of the built-in
corpus, whose alignments the grammar knows, by the alignment error, and kept beside the model. For other languages it is
the mean over a layer, and every target word is aligned.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Self, TypeAlias

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

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


NEVER = 2.0  # more than any weight (and, unlike infinity, a number in JSON)


@dataclass(frozen=True, slots=True)
class Choice:
    """What is looked at: the mean weight of these heads, and how large it must be for a link."""

    heads: Heads
    least: float  # from a target word
    least_left: float  # to a source word that is left over; NEVER: such words stay alone
    source_alone: tuple[str, ...] = ()  # words that have no counterpart, in small letters
    target_alone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a pair, and the weights of J target words over I source words; L layers, H heads."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    first_LHJI: Tensor  # where the first piece of a word looks
    any_LHJI: Tensor  # where that piece looks which looks there most

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """Both."""
        return self.first_LHJI, self.any_LHJI


LEAST = (0.0, 0.2, 0.3, 0.4, 0.5)
LEAST_LEFT = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, NEVER)
WHILE_CHOOSING = 0.1  # of LEAST_LEFT, as long as heads are chosen
SENTENCES = 400  # on which heads are judged
CANDIDATES = 8  # heads that may help the best one
OFTEN, SELDOM = 5, 0.05  # a word stays alone that occurs so often, and has a counterpart in so few cases
SHALLOW = 3  # decoders of so many layers align in their last one, deeper ones in the last but one
EOS_ID = 0
KEPT = "alignment-3"  # the number goes up when what is chosen changes


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
        kept = cache_file(path, KEPT)
        languages = loaded.source_language, loaded.target_language
        choice = _read(kept, loaded.model.config) or choice_for(loaded.model, loaded.tokenizer, languages)
        _write(kept, choice)
        return cls(loaded.model, loaded.tokenizer, choice)

    def align(self, source_ids: Sequence[int], target_ids: Sequence[int]) -> Alignment:
        """The alignment of one pair; ids without eos."""
        weights_LHTS = cross_attention(self.model, source_ids, target_ids)
        words = word_weights(weights_LHTS, self.tokenizer.pieces(source_ids), self.tokenizer.pieces(target_ids))
        return links(words, self.choice)

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


def _spelled(pieces: Sequence[str]) -> tuple[str, ...]:
    """The words in small letters, without punctuation marks."""
    return tuple("".join(pieces[place] for place in group).lstrip("▁").casefold() for group in _spoken(pieces))


def word_weights(weights_LHTS: Tensor, source: Sequence[str], target: Sequence[str]) -> Words:
    """Weights of pieces → weights of words: the sum over the pieces looked at."""
    columns = [weights_LHTS[..., group].sum(dim=-1) for group in _spoken(source)]
    weights_LHTI = torch.stack(columns, dim=-1) if columns else weights_LHTS[..., :0]
    groups = _spoken(target)
    first_LHJI = weights_LHTI[:, :, [group[0] for group in groups]]
    largest = [weights_LHTI[:, :, group].amax(dim=2) for group in groups]
    any_LHJI = torch.stack(largest, dim=2) if largest else first_LHJI
    return Words(_spelled(source), _spelled(target), first_LHJI, any_LHJI)


def links(words: Words, choice: Choice) -> Alignment:
    """Each target word with the source word of the largest mean weight, and each source word left over likewise."""
    if not words.first_LHJI.numel():
        return ()
    first_JI, any_JI = (_mean(without(words, weights, choice), choice.heads) for weights in words.weights)
    return tuple(sorted((i, j) for j, i in linked(first_JI, any_JI, choice).nonzero().tolist()))


def without(words: Words, weights_LHJI: Tensor, choice: Choice) -> Tensor:
    """The weights, below 0 for words that stay alone."""
    row_J = torch.tensor([word in choice.target_alone for word in words.target])
    column_I = torch.tensor([word in choice.source_alone for word in words.source])
    return weights_LHJI.masked_fill(row_J[:, None] | column_I, -1.0)


def _mean(weights_LHJI: Tensor, heads: Heads) -> Tensor:
    layers, numbers = zip(*heads, strict=True)
    return weights_LHJI[..., list(layers), list(numbers), :, :].mean(dim=-3)


def linked(first_JI: Tensor, any_JI: Tensor, choice: Choice) -> Tensor:
    """True where there is a link; of one pair, or of many at once."""
    found_JI = _is_largest(first_JI, choice.least, dim=-1)
    left_JI = ~found_JI.any(dim=-2, keepdim=True)
    return found_JI | (left_JI & _is_largest(any_JI, choice.least_left, dim=-2))


def _is_largest(weights_JI: Tensor, least: float, *, dim: int) -> Tensor:
    """True at the largest weight in each row or column, if that is large enough."""
    largest, place = weights_JI.max(dim=dim, keepdim=True)
    return torch.zeros_like(weights_JI, dtype=torch.bool).scatter_(dim, place, largest >= least)


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
        return Choice(default_heads(model.config), 0.0, NEVER)
    corpus = built_in_corpus(*languages, train_pairs=0, held_out_pairs=SENTENCES)
    return choose(model, tokenizer, corpus.valid)


def choose(model: Transformer, tokenizer: Tokenizer, examples: Sequence[Example]) -> Choice:
    """The head with the least alignment error; then the one that helps it most, as long as one helps."""
    words, gold = [_words(model, tokenizer, e) for e in examples], [e.alignment for e in examples]
    alone = _alone([each.source for each in words], gold, 0), _alone([each.target for each in words], gold, 1)
    judge = Judge(words, gold, Choice((), 0.0, WHILE_CHOOSING, *alone))
    places = [(layer, head) for layer in range(len(model.decoder)) for head in range(model.config.num_heads)]
    single = judge.ranked([(place,) for place in places])
    candidates = list(dict.fromkeys(choice.heads[0] for _, choice in single))[:CANDIDATES]
    error, chosen = single[0]
    while rest := [place for place in candidates if place not in chosen.heads]:
        (less, better), *_ = judge.ranked([(*chosen.heads, place) for place in rest])
        if less >= error:
            break
        error, chosen = less, better
    return judge.ranked([chosen.heads], LEAST_LEFT)[0][1]


class Judge:
    """Knows the alignment error of any choice, of all examples at once; `blank` has the words that stay alone."""

    def __init__(self, words: Sequence[Words], gold: Sequence[Alignment], blank: Choice) -> None:
        self.blank = blank
        pairs = [[without(each, weights, blank) for weights in each.weights] for each in words]
        self.first_NLHJI, self.any_NLHJI = (_padded(each) for each in zip(*pairs, strict=True))
        self.gold_NJI = torch.zeros(len(words), *self.first_NLHJI.shape[-2:], dtype=torch.bool)
        for number, alignment in enumerate(gold):
            for i, j in alignment:
                self.gold_NJI[number, j, i] = True

    def ranked(self, heads: Sequence[Heads], left: Sequence[float] = (WHILE_CHOOSING,)) -> list[tuple[float, Choice]]:
        """These heads with every least weight, and the errors; the best first."""
        errors = []
        for each in heads:
            first_NJI, any_NJI = (_mean(weights, each) for weights in (self.first_NLHJI, self.any_NLHJI))
            for least, least_left in product(LEAST, left):
                choice = replace(self.blank, heads=each, least=least, least_left=least_left)
                errors.append((self._error(linked(first_NJI, any_NJI, choice)), choice))
        return sorted(errors, key=lambda pair: pair[0])

    def _error(self, found_NJI: Tensor) -> float:
        """As `alignment_error_rate`."""
        right, total = (found_NJI & self.gold_NJI).sum(), found_NJI.sum() + self.gold_NJI.sum()
        return 1 - 2 * int(right) / int(total)


def _padded(weights: Sequence[Tensor]) -> Tensor:
    """Weights of many sentences in one tensor, below 0 where a sentence has no word."""
    num_target, num_source = (max(each.size(dim) for each in weights) for dim in (-2, -1))
    return torch.stack(
        [F.pad(each, (0, num_source - each.size(-1), 0, num_target - each.size(-2)), value=-1.0) for each in weights]
    )


def _alone(sentences: Sequence[Sequence[str]], gold: Sequence[Alignment], side: int) -> tuple[str, ...]:
    """The words that have (almost) never a counterpart."""
    occurs, linked = Counter[str](), Counter[str]()
    for words, alignment in zip(sentences, gold, strict=True):
        occurs.update(words)
        linked.update(words[place] for place in {link[side] for link in alignment})
    return tuple(sorted(word for word, n in occurs.items() if n >= OFTEN and linked[word] <= SELDOM * n))


def _words(model: Transformer, tokenizer: Tokenizer, example: Example) -> Words:
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
