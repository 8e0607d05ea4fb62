"""Which word looked at which: the weights of every layer and head, for one sentence and one translation of it (§3.2.3).

The translation is forced through the model once, while equation 1 is computed as written and its weights are kept.
Words are those of `data/words.py`; a word's weight is the sum over the pieces looked at, and the mean over the pieces
that look. In the decoder a row is the piece being written, and a column a piece already written: `<s>` is the zero
vector that stands before the first. A family of models has the kinds of attention that it records, or none. Nothing
here knows drawings, pages or commands.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Literal, get_args
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from heedful.data.tokenizer import SPACE, Tokenizer
from heedful.data.words import apart, num_words, word_of_piece
from heedful.errors import ConfigError, DataError
from heedful.model.interface import RecordedAttention, TranslationModel
from heedful.model.layers import AddAndNorm, NormAlone
from heedful.translate.forced_pass import forced_batch
from heedful.translate.translation import Translator, one_line

Kind = Literal["cross", "encoder", "decoder"]
KINDS: tuple[Kind, ...] = get_args(Kind)
START = "<s>"

_looked_into: WeakKeyDictionary[TranslationModel, TranslationModel] = WeakKeyDictionary()
_one_at_a_time = Lock()


@dataclass(frozen=True, slots=True)
class Tokens:
    """A sentence in pieces and in words; `word_of_piece` says which word a piece belongs to."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    words: tuple[str, ...]
    word_of_piece: tuple[int, ...]

    def prefixes(self) -> list[str]:
        """For each word what is written before it."""
        firsts = dict(zip(reversed(self.word_of_piece), reversed(self.pieces), strict=True))
        written = [f" {word}" if firsts[n].startswith(SPACE) else word for n, word in enumerate(self.words)]
        return [text.strip() for text in accumulate(["", *written[:-1]])]


@dataclass(frozen=True, slots=True)
class Residual:
    """What met at one residual connection: x, the sub-layer's output, and LayerNorm(x + output)."""

    x_TD: Tensor
    sublayer_TD: Tensor
    output_TD: Tensor


@dataclass(frozen=True, slots=True)
class Reading:
    """What one forced pass leaves: attention by kind and layer, residuals by their place in the model."""

    log_probs_TV: Tensor
    recorders: RecordedAttention
    residuals: Mapping[str, Residual]


@dataclass(frozen=True, slots=True)
class AttentionMap:
    """The weights of one sentence and one translation, and what was read to get them."""

    family: str
    source: Tokens
    target: Tokens  # what the decoder writes: the rows of cross and decoder
    target_in: Tokens  # what it has read: the columns of decoder
    weights_LHTS: Mapping[Kind, Tensor]  # of the kinds that the family has
    reading: Reading

    def rows(self, kind: Kind) -> Tokens:
        """The words that look: those of the rows."""
        return self.source if kind == "encoder" else self.target

    def columns(self, kind: Kind) -> Tokens:
        """The words that are looked at: those of the columns."""
        return self.target_in if kind == "decoder" else self.source

    def words(self, kind: Kind) -> Tensor:
        """The weights from word to word: the sum over the pieces looked at, the mean over those that look."""
        look_WT, seen_WS = _members(self.rows(kind)), _members(self.columns(kind))
        mean_WT = look_WT / look_WT.sum(dim=1, keepdim=True)
        return mean_WT @ self.weights_LHTS[kind] @ seen_WS.mT


def attention_map(translator: Translator, source: str, target: str) -> AttentionMap:
    """The weights for a given translation."""
    found = map_of_ids(translator, *translator.tokenizer.encode_batch([one_line(source), one_line(target)]))
    check_kind(found.family, found.weights_LHTS)
    return found


def map_of_ids(translator: Translator, source_ids: Sequence[int], target_ids: Sequence[int]) -> AttentionMap:
    """The weights for a given translation in ids, without eos on either side. A family without attention has none."""
    model, tokenizer = the_model(translator), translator.tokenizer
    if not source_ids:
        raise DataError("there is no text to look at: the sentence is blank")
    source = tokens_of(tokenizer, [*source_ids, tokenizer.eos_id], translator.source_language)
    target = tokens_of(tokenizer, [*target_ids, tokenizer.eos_id], translator.target_language)
    reading = read(model, source_ids, target_ids)
    return AttentionMap(model.family, source, target, shifted(target), _weights(reading.recorders), reading)


def check_kind(family: str, kinds: Collection[Kind], kind: str | None = None) -> None:
    """Refuse a family without attention, or without this kind of it."""
    if not kinds:
        raise ConfigError(f"model.family = {family!r} cannot be looked into: this model has no attention")
    if kind is not None and kind not in kinds:
        raise ConfigError(
            f"kind {kind!r} is not there: model.family = {family!r} has no such attention; choose {' or '.join(kinds)}"
        )


def the_model(translator: Translator) -> TranslationModel:
    """The one model of a translator, with the same weights, but ours alone: what others compute is not recorded."""
    models = translator.engine.models
    if not models:
        raise ConfigError("attention can be looked at with engine = torch only; load the model with it")
    if len(models) > 1:
        raise ConfigError("an ensemble has several attentions; name one model to look into")
    model = models[0]
    if model not in _looked_into:
        shared = {id(parameter): parameter for parameter in model.parameters()}
        _looked_into[model] = copy.deepcopy(model, shared)
    return _looked_into[model]


def layers_and_heads(model: TranslationModel) -> dict[Kind, tuple[int, int]]:
    """How many layers and heads each kind of attention has; one token shows it."""
    weights = _weights(read(model, [], []).recorders)
    return {kind: (each.size(0), each.size(1)) for kind, each in weights.items()}


@torch.no_grad()
def read(model: TranslationModel, source_ids: Sequence[int], target_ids: Sequence[int]) -> Reading:
    """One forced pass; the ids come without eos."""
    source, target_in = forced_batch([source_ids], [target_ids], model.device)
    with _one_at_a_time, model.recorded_attention() as recorders, recorded_residuals(model) as residuals:
        logits_TV = model(source, target_in)
    return Reading(logits_TV.float().log_softmax(dim=-1).cpu(), recorders, residuals)


@contextmanager
def recorded_residuals(module: nn.Module) -> Iterator[dict[str, Residual]]:
    """Within this context what meets at every residual connection is kept, under the name of its place."""
    found: dict[str, Residual] = {}

    def keep(name: str, _: nn.Module, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        found[name] = Residual(*inputs, output)

    parts = ((name, part) for name, part in module.named_modules() if isinstance(part, AddAndNorm))
    places = {name: part for name, part in parts if not isinstance(part, NormAlone)}
    handles = [part.register_forward_hook(partial(keep, name)) for name, part in places.items()]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _weights(recorders: RecordedAttention) -> dict[Kind, Tensor]:
    """The weights of each kind that was recorded."""
    found = {kind: [recorder.weights[0] for recorder in recorders.get(kind, ())] for kind in KINDS}
    return {kind: torch.stack(layers).float().cpu() for kind, layers in found.items() if layers}


def tokens_of(tokenizer: Tokenizer, ids: Sequence[int], language: str) -> Tokens:
    """Ids, the last of which is eos, as pieces and words; eos is a word of its own."""
    pieces = tokenizer.pieces(ids)
    spoken = apart(pieces[:-1], language)
    owners = (*word_of_piece(spoken), num_words(spoken))
    parts = [[index for index, owner in zip(ids, owners, strict=True) if owner == n] for n in range(owners[-1] + 1)]
    words = [tokenizer.decode(part).strip() or "".join(tokenizer.pieces(part)) for part in parts]
    return Tokens(tuple(ids), tuple(pieces), tuple(words), owners)


def shifted(target: Tokens) -> Tokens:
    """What the decoder reads: the target moved one place to the right, after `<s>`."""
    owners = (0, *(owner + 1 for owner in target.word_of_piece[:-1]))
    words = (START, *target.words[: owners[-1]])
    return Tokens((target.ids[-1], *target.ids[:-1]), (START, *target.pieces[:-1]), words, owners)


def _members(tokens: Tokens) -> Tensor:
    """1 where a piece belongs to a word: words × pieces."""
    owner_T = torch.tensor(tokens.word_of_piece)
    return (torch.arange(len(tokens.words))[:, None] == owner_T).float()
