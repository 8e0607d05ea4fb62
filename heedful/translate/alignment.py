"""Word alignments from attention, in Pharaoh format: `0-0 1-2` says that target word 2 comes from source word 1.

Words are those of `data/words.py`, counted from 0; what goes to punctuation marks and to the eos does not count. A
step of the decoder looks at the source in many ways: directly, by each head of cross-attention; through another source
word that has read this one, by each head of the encoder's self-attention; through a target word that has looked there,
by each head of the decoder's. And a target word has two kinds of steps: those that *produce* its pieces, and those that
*read* them, as a word that is foreseen is written without looking (Chen et al., "Accurate Word Alignment Induction from
Neural Machine Translation", 2020).

How much each way counts is learned by logistic regression on validation sentences of the built-in corpus, whose
alignments the grammar knows. Each target word goes with the source word that is likeliest there, and each source word
with such a target word, where a link is likelier than none. Words that the other language has nothing for, like "the"
beside Korean, stay alone. All this is kept beside the model. For other languages, and for a model that does not know
these sentences, it is the mean over a layer of cross-attention in the step that produces a word's first piece, and
every target word is aligned.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeAlias

import msgspec
import torch
from torch import Tensor
from torch.nn import functional as F

from heedful.data.atomic import write_file
from heedful.data.grammar.corpus import LANGUAGES, Example, held_out_examples
from heedful.data.languages import has_spaces
from heedful.data.tokenizer import SPACE, Tokenizer
from heedful.data.words import apart, num_words, pieces_of_words
from heedful.errors import ConfigError, DataError
from heedful.model.checkpoint import load_model
from heedful.model.device import choose_device
from heedful.model.interface import RecordedAttention, TranslationModel
from heedful.translate.export.cache import cache_file
from heedful.translate.forced_pass import forced_batch
from heedful.translate.translation import Translation, one_line

Alignment: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of source word and target word, in the order of the source."""

Coefficients: TypeAlias = tuple[tuple[float, ...], ...]
"""How much a way to look counts in each view: views × ways."""


NEVER = 1e9  # more than any sum (and, unlike infinity, a number in JSON)


@dataclass(frozen=True, slots=True)
class Choice:
    """How much each way counts, and how large the sum over all of them must be for a link."""

    counts: Coefficients
    least: float  # from a target word
    least_source: float  # from a source word; NEVER: those that no target word goes with stay alone
    source_alone: tuple[str, ...] = ()  # words that have no counterpart, in small letters
    target_alone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a pair, and V views of J target words over I source words, for each of P ways to look."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    views_VPJI: Tensor


NUM_VIEWS = 12  # see `word_weights`
SENTENCES, JUDGED = 400, 100  # the choice is made on so many, and compared with the mean on the first of them
OFTEN, SELDOM = 5, 0.15  # a word stays alone that occurs so often, and has a counterpart in so few cases
DECAY = 3e-5  # of the regression: a large sum of squares must pay
ITERATIONS = 50
FLOOR = 1e-3  # below it a largest weight is none
SHALLOW = 3  # decoders of so many layers align in their last one, deeper ones in the last but one
KEPT = "alignment-5"  # the number goes up when what is chosen changes


def pharaoh(alignment: Alignment) -> str:
    """As text: `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in alignment)


def alignment_error_rate(found: Iterable[Alignment], gold: Iterable[Alignment]) -> float:
    """1 − 2 |A ∩ G| / (|A| + |G|), over all sentences together; all links of G are sure."""
    pairs = [(set(one), set(other)) for one, other in zip(found, gold, strict=True)]
    total = sum(len(one) + len(other) for one, other in pairs)
    return 1 - 2 * sum(len(one & other) for one, other in pairs) / total if total else 0.0


class Aligner:
    """Aligns the words of given pairs, by a model and what its attention counts."""

    def __init__(
        self, model: TranslationModel, tokenizer: Tokenizer, choice: Choice, languages: tuple[str, str] = ("", "")
    ) -> None:
        self.model, self.tokenizer, self.choice, self.languages = model, tokenizer, choice, languages

    @classmethod
    def load(cls, model: str | Path, *, device: str = "auto") -> Self:
        """With the choice that was made for this model before, or is made now."""
        path = Path(model)
        loaded = load_model(path, device=choose_device(device))
        kept = cache_file(path, KEPT)
        choice = _read(kept, loaded.model)
        if choice is None:
            choice = choice_for(loaded.model, loaded.tokenizer, loaded.languages)
            _write(kept, choice)
        return cls(loaded.model, loaded.tokenizer, choice, loaded.languages)

    def align(self, source: str | Sequence[int], target: str | Sequence[int]) -> Alignment:
        """The alignment of one pair, as texts or as ids without eos."""
        source_ids, target_ids = self._ids(source), self._ids(target)
        weights_PTS = ways_to_look(self.model, source_ids, target_ids)
        words = word_weights(weights_PTS, *self._pieces(source_ids, target_ids))
        return links(words, self._with_marks_alone(words))

    def align_translation(self, translation: Translation, rank: int = 0) -> Alignment:
        """The alignment of a translated line with its n-th best translation; the parts of a split line in a row."""
        found: list[tuple[int, int]] = []
        source_words = target_words = 0
        if not translation.hypotheses:  # of a blank line
            return ()
        if not 0 <= rank < len(translation.hypotheses):
            raise DataError(f"no hypothesis {rank}: there are {len(translation.hypotheses)}, counted from 0")
        for source_ids, part in zip(translation.source_ids, translation.hypotheses[rank].parts, strict=True):
            aligned = self.align(source_ids, part.ids)
            found += [(source_words + i, target_words + j) for i, j in aligned]
            source, target = self._pieces(source_ids, part.ids)
            source_words += num_words(source)
            target_words += num_words(target)
        return tuple(found)

    def _with_marks_alone(self, words: Words) -> Choice:
        """The choice; in a language without spaces punctuation marks, which are words there, stay alone."""
        sides = zip(self.languages, (words.source, words.target), strict=True)
        source, target = (() if has_spaces(code) else tuple(filter(_is_mark, side)) for code, side in sides)
        return replace(
            self.choice,
            source_alone=(*self.choice.source_alone, *source),
            target_alone=(*self.choice.target_alone, *target),
        )

    def _ids(self, side: str | Sequence[int]) -> Sequence[int]:
        return self.tokenizer.encode(one_line(side)) if isinstance(side, str) else side

    def _pieces(self, source_ids: Sequence[int], target_ids: Sequence[int]) -> tuple[list[str], list[str]]:
        source, target = self.languages
        return apart(self.tokenizer.pieces(source_ids), source), apart(self.tokenizer.pieces(target_ids), target)


# ----------------------------------------------------------------------------------------------------- pieces → words


def _is_mark(piece: str) -> bool:
    text = piece.removeprefix(SPACE)
    return bool(text) and all(unicodedata.category(character).startswith("P") for character in text)


def _spoken(pieces: Sequence[str]) -> list[list[int]]:
    """The pieces of each word, without its punctuation marks, unless it is nothing else."""
    groups = pieces_of_words(pieces)
    return [[place for place in group if not _is_mark(pieces[place])] or group for group in groups]


def _spelled(pieces: Sequence[str]) -> tuple[str, ...]:
    """The words in small letters, without punctuation marks."""
    return tuple("".join(pieces[place] for place in group).lstrip(SPACE).casefold() for group in _spoken(pieces))


def word_weights(weights_PTS: Tensor, source: Sequence[str], target: Sequence[str]) -> Words:
    """Weights of pieces → views of words.

    A source word has the sum over its pieces. A target word has the weights of the step that produces its first piece;
    the largest of those that produce any of them; those of the step that reads its last piece; the largest of those
    that read any. Each as it is, as a share of the target word's largest, and as a share of the source word's largest.
    """
    columns = [weights_PTS[..., group].sum(dim=-1) for group in _spoken(source)]
    weights_PTI = torch.stack(columns, dim=-1) if columns else weights_PTS[..., :0]
    groups = _spoken(target)
    steps = [(group[:1], group, [group[-1] + 1], [place + 1 for place in group]) for group in groups]
    rows = [torch.stack([weights_PTI[:, step].amax(dim=1) for step in each]) for each in steps if columns]
    weights_VPJI = torch.stack(rows, dim=-2) if rows else weights_PTI[None, :, :0]
    return Words(_spelled(source), _spelled(target), _with_shares(weights_VPJI))


def _with_shares(weights_VPJI: Tensor) -> Tensor:
    if not weights_VPJI.numel():
        return weights_VPJI
    shares = [weights_VPJI / (weights_VPJI.amax(dim=dim, keepdim=True) + FLOOR) for dim in (-1, -2)]
    return torch.cat([weights_VPJI, *shares])


def links(words: Words, choice: Choice) -> Alignment:
    """The pairs of words that all ways together find."""
    if not words.views_VPJI.numel():
        return ()
    sums_JI = torch.einsum("vp,vpji->ji", torch.tensor(choice.counts), words.views_VPJI)
    sums_JI = sums_JI.masked_fill(~may_link(words, choice), -math.inf)
    found_JI = _is_largest(sums_JI, choice.least, dim=-1) | _is_largest(sums_JI, choice.least_source, dim=-2)
    return tuple(sorted((i, j) for j, i in found_JI.nonzero().tolist()))


def may_link(words: Words, choice: Choice) -> Tensor:
    """False for words that stay alone."""
    row_J = torch.tensor([word not in choice.target_alone for word in words.target])
    column_I = torch.tensor([word not in choice.source_alone for word in words.source])
    return row_J[:, None] & column_I


def _is_largest(sums_JI: Tensor, least: float, *, dim: int) -> Tensor:
    """True at the largest sum in each row or column, if that is large enough."""
    largest, place = sums_JI.max(dim=dim, keepdim=True)
    return torch.zeros_like(sums_JI, dtype=torch.bool).scatter_(dim, place, largest >= least)


@torch.no_grad()
def ways_to_look(model: TranslationModel, source_ids: Sequence[int], target_ids: Sequence[int]) -> Tensor:
    """The weights of the steps that produce the target: ways × target × source, eos included.

    Each head of cross-attention; their mean, then each head of the encoder; each head of the decoder, then their mean.
    A model without self-attention has the first ones only.
    """
    attention = _recorded(model, source_ids, target_ids)
    cross_PTS = _heads(attention, "cross")
    mean_TS = cross_PTS.mean(dim=0)
    ways = [cross_PTS]
    if attention.get("encoder"):
        ways.append(mean_TS @ _heads(attention, "encoder"))
    if attention.get("decoder"):
        ways.append(_heads(attention, "decoder") @ mean_TS)
    return torch.cat(ways)


def _recorded(model: TranslationModel, source_ids: Sequence[int], target_ids: Sequence[int]) -> RecordedAttention:
    """The attention in one forced pass."""
    source, target_in = forced_batch([source_ids], [target_ids], model.device)
    with model.recorded_attention() as attention:
        model.decode(target_in, model.encode(source))
    if not attention.get("cross"):
        raise ConfigError(f"words cannot be aligned by model.family = {model.family!r}: its decoder has no attention")
    return attention


def _heads(attention: RecordedAttention, kind: str) -> Tensor:
    """The weights of all heads of one kind of attention, layer by layer."""
    return torch.cat([layer.weights[0] for layer in attention[kind]]).float().cpu()


def heads_of_layers(model: TranslationModel) -> dict[str, list[int]]:
    """How many heads each layer has, by kind of attention: one token shows it."""
    return {kind: [len(layer.weights[0]) for layer in layers] for kind, layers in _recorded(model, [], []).items()}


# ----------------------------------------------------------------------------------------------- how much a way counts


def default_choice(model: TranslationModel) -> Choice:
    """The mean of the last layer but one, or of the last one of a shallow decoder, in the first view."""
    heads = heads_of_layers(model)
    cross = heads["cross"]
    layer = len(cross) - (1 if len(cross) <= SHALLOW else 2)
    first, counts_VP = sum(cross[:layer]), torch.zeros(NUM_VIEWS, sum(map(sum, heads.values())))
    counts_VP[0, first : first + cross[layer]] = 1 / cross[layer]
    return Choice(_counts(counts_VP), 0.0, NEVER)


def choice_for(model: TranslationModel, tokenizer: Tokenizer, languages: tuple[str, str]) -> Choice:
    """Made on the built-in corpus if it has these languages."""
    if languages[0] == languages[1] or not set(languages) <= set(LANGUAGES):
        return default_choice(model)
    valid, _ = held_out_examples(*languages, count=SENTENCES)
    return choose(model, tokenizer, valid)


def choose(model: TranslationModel, tokenizer: Tokenizer, examples: Sequence[Example]) -> Choice:
    """What finds the links of these examples: words that stay alone, and what is learned, if that beats the mean."""
    source_alone, target_alone = _alone(tokenizer, examples)
    mean = replace(default_choice(model), source_alone=source_alone, target_alone=target_alone)
    cells = [_cells(_words(model, tokenizer, example), example, mean) for example in examples]
    counts_F, bias = regression(*(torch.cat(each) for each in zip(*cells, strict=True)))
    learned = replace(mean, counts=_counts(counts_F.view(NUM_VIEWS, -1)), least=-bias, least_source=-bias)
    judged = [(_words(model, tokenizer, example), example.alignment) for example in examples[:JUDGED]]
    return min(learned, mean, key=lambda choice: _error(choice, judged))


def _words(model: TranslationModel, tokenizer: Tokenizer, example: Example) -> Words:
    source_ids, target_ids = tokenizer.encode_batch([example.source, example.target])
    weights_PTS = ways_to_look(model, source_ids, target_ids)
    return word_weights(weights_PTS, tokenizer.pieces(source_ids), tokenizer.pieces(target_ids))


def _cells(words: Words, example: Example, choice: Choice) -> tuple[Tensor, Tensor]:
    """Each pair of words that may be linked: its views, and whether it is."""
    may_JI = may_link(words, choice)
    linked_JI = torch.zeros_like(may_JI)
    for i, j in example.alignment:
        linked_JI[j, i] = True
    return words.views_VPJI.flatten(0, 1)[:, may_JI].T.contiguous(), linked_JI[may_JI]


def _error(choice: Choice, judged: Sequence[tuple[Words, Alignment]]) -> float:
    return alignment_error_rate([links(words, choice) for words, _ in judged], [gold for _, gold in judged])


def _alone(tokenizer: Tokenizer, examples: Sequence[Example]) -> list[tuple[str, ...]]:
    """The words of each side that have (almost) never a counterpart."""
    alone = []
    for side, texts in enumerate(([e.source for e in examples], [e.target for e in examples])):
        occurs, linked = Counter[str](), Counter[str]()
        for ids, example in zip(tokenizer.encode_batch(texts), examples, strict=True):
            words = _spelled(tokenizer.pieces(ids))
            occurs.update(words)
            linked.update(words[place] for place in {link[side] for link in example.alignment})
        alone.append(tuple(sorted(word for word, n in occurs.items() if n >= OFTEN and linked[word] <= SELDOM * n)))
    return alone


def regression(views_CF: Tensor, linked_C: Tensor) -> tuple[Tensor, float]:
    """Logistic regression: the counts and the bias under which the sums are the likeliest log odds of links."""
    counts_F, bias = torch.zeros(views_CF.size(1), requires_grad=True), torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([counts_F, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        fit = F.binary_cross_entropy_with_logits(views_CF @ counts_F + bias, linked_C.float())
        value = fit + DECAY * counts_F.square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    return counts_F.detach(), bias.item()


def _counts(counts_VP: Tensor) -> Coefficients:
    return tuple(tuple(view) for view in counts_VP.tolist())


def _read(path: Path, model: TranslationModel) -> Choice | None:
    """The choice that was kept, if it can be this model's."""
    try:
        choice = msgspec.json.decode(path.read_bytes(), type=Choice)
    except (OSError, msgspec.MsgspecError):
        return None
    num_ways = sum(map(sum, heads_of_layers(model).values()))
    return choice if [len(view) for view in choice.counts] == [num_ways] * NUM_VIEWS else None


def _write(path: Path, choice: Choice) -> None:
    """Keep it; a folder that cannot be written to does not matter."""
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        write_file(path, msgspec.json.encode(choice) + b"\n")
