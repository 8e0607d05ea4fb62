"""What each head does: previous word, next, adjective→noun, verb→subject, pronoun→noun, aligned, one word, or spread.

A role says at which word a head should look from which; a head's share in a role is how often its largest weight, the
word itself aside, falls there. Many heads look from everywhere at one and the same word ("the"): that is a role, too.
The roles of grammar are scored on validation sentences of the built-in corpus, whose links are known; a model of other
languages is judged by position alone, on the sentence at hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from heedful.data.grammar.corpus import LANGUAGES, Example, held_out_examples
from heedful.inspection.attention_map import AttentionMap, Kind, attention_map, layers_and_heads, the_model
from heedful.model.interface import TranslationModel
from heedful.translate.translation import Translator

SENTENCES = 120  # of the validation set: enough to tell roles apart, and seconds
CERTAIN = 1 / 3  # a head that looks there in at least this share of cases has the role
FEWEST = 20  # cases of grammar, or a share says nothing
SPREAD = 0.6  # of the largest possible entropy
POSITIONS = ("itself", "previous", "next", "start", "end")
ONE_WORD = "word"  # the same one, wherever it stands
SPECIAL = ("<s>", "</s>")  # those of "start" and "end"
GRAMMAR = {"adjective": "adjective→noun", "verb": "verb→subject", "pronoun": "pronoun→noun"}

Expected = Mapping[str, Sequence[tuple[int, frozenset[int]]]]  # role → (word that looks, where it should look)


@dataclass(frozen=True, slots=True)
class Roles:
    """How often the heads of one kind did what a role asks for, and how wide they look; all layers × heads."""

    shares_LH: Mapping[str, Tensor]
    counts: Mapping[str, int]
    entropy_LH: Tensor  # 0: one word, 1: all words alike
    favourites: Mapping[tuple[int, int], str] = field(default_factory=dict)  # the word that a head looks at most often

    def label(self, layer: int, head: int) -> str:
        """One word for a head. Position explains more than grammar does, so it goes first where both hold as well."""
        shares = {role: float(share_LH[layer, head]) for role, share_LH in self.shares_LH.items()}
        enough = {role for role, count in self.counts.items() if role in POSITIONS or count >= FEWEST}
        certain = {role: share for role, share in shares.items() if share >= CERTAIN and role in enough}
        if certain:
            return max(certain, key=lambda role: certain[role] + (0.02 if role in POSITIONS else 0.0))
        return "spread" if float(self.entropy_LH[layer, head]) >= SPREAD else "mixed"

    def record(self) -> list[list[dict[str, Any]]]:
        """What the page shows: [layer][head]."""
        layers, heads = self.entropy_LH.shape
        return [[self._head(layer, head) for head in range(heads)] for layer in range(layers)]

    def _head(self, layer: int, head: int) -> dict[str, Any]:
        shares = {role: round(float(share_LH[layer, head]), 3) for role, share_LH in self.shares_LH.items()}
        entropy = round(float(self.entropy_LH[layer, head]), 3)
        label, word = self.label(layer, head), self.favourites.get((layer, head))
        return {"label": label, "share": shares.get(label), "shares": shares, "entropy": entropy, "word": word}


def expected_places(found: AttentionMap, kind: Kind, example: Example | None) -> Expected:
    """Where a head of each role looks in this sentence."""
    places = _positions(len(found.rows(kind).words), len(found.columns(kind).words), kind)
    if example is None:
        return places
    return {**places, **(_cross_grammar(example) if kind == "cross" else _own_grammar(example, kind))}


def _positions(rows: int, columns: int, kind: Kind) -> Expected:
    """The roles of position; in the decoder column 0 is `<s>`, so that the word before stands in a row's own column."""
    if kind == "cross":
        return {"end": _pairs((row, columns - 1) for row in range(rows))}
    if kind == "decoder":
        return {"start": _pairs((r, 0) for r in range(2, rows)), "previous": _pairs((r, r) for r in range(1, rows))}
    return {
        "itself": _pairs((row, row) for row in range(rows)),
        "previous": _pairs((row, row - 1) for row in range(1, rows)),
        "next": _pairs((row, row + 1) for row in range(rows - 1)),
        "end": _pairs((row, columns - 1) for row in range(rows - 2)),
    }


def _own_grammar(example: Example, kind: Kind) -> Expected:
    """Links within one language; the decoder can look back only."""
    links = example.source_links if kind == "encoder" else example.target_links
    past = [link for link in links if kind == "encoder" or link.head < link.word]
    shift = 0 if kind == "encoder" else 1
    return {role: _pairs((x.word, x.head + shift) for x in past if x.kind == name) for name, role in GRAMMAR.items()}


def _cross_grammar(example: Example) -> Expected:
    """Aligned words; and from a pronoun being written to the noun that its source stands for."""
    seen: dict[int, set[int]] = {}
    for source, target in example.alignment:
        seen.setdefault(target, set()).add(source)
    aligned = [(row, frozenset(columns)) for row, columns in seen.items()]
    return {"aligned": aligned, GRAMMAR["pronoun"]: _written_pronouns(example, seen)}


def _written_pronouns(example: Example, seen: Mapping[int, set[int]]) -> list[tuple[int, frozenset[int]]]:
    noun_of = {link.word: link.head for link in example.source_links if link.kind == "pronoun"}
    rows = [link.word for link in example.target_links if link.kind == "pronoun"]
    return _pairs((row, noun_of[word]) for row in rows for word in seen.get(row, ()) if word in noun_of)


def _pairs(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, frozenset[int]]]:
    return [(row, frozenset([column])) for row, column in pairs]


def hits(weights_LHWW: Tensor, role: str, places: Sequence[tuple[int, frozenset[int]]], *, own: bool) -> Tensor:
    """1 for the heads whose largest weight falls in a place; layers × heads × places. `own`: itself aside."""
    if own and role != "itself":
        weights_LHWW = weights_LHWW - torch.eye(weights_LHWW.size(-1))
    best_LHP = weights_LHWW.argmax(dim=-1)[:, :, [row for row, _ in places]]
    right_PW = torch.zeros(len(places), weights_LHWW.size(-1))
    for place, (_, columns) in enumerate(places):
        right_PW[place, list(columns)] = 1.0
    return right_PW[torch.arange(len(places)), best_LHP]


def roles(maps: Iterable[tuple[AttentionMap, Example | None]], kind: Kind) -> Roles:
    """The roles of all heads of a kind over some sentences."""
    sums: dict[str, list[Tensor]] = {}
    entropies = []
    seen: dict[tuple[int, int], Counter[str]] = {}
    for found, example in maps:
        weights_LHWW = found.words(kind)
        if example is not None:
            _count_words(seen, weights_LHWW, found.columns(kind).words, own=kind == "encoder")
        for role, places in expected_places(found, kind, example).items():
            sums.setdefault(role, []).append(hits(weights_LHWW, role, places, own=kind == "encoder"))
        entropies.append(_entropy(weights_LHWW))
    found_LHP = {role: torch.cat(parts, dim=-1) for role, parts in sums.items()}
    shares = {role: each.mean(dim=-1) for role, each in found_LHP.items() if each.size(-1)}
    counts = {role: each.size(-1) for role, each in found_LHP.items()}
    entropy_LH = torch.stack(entropies).mean(dim=0)
    best = {
        place: max((word for word in words if word not in SPECIAL), key=words.__getitem__, default="")
        for place, words in seen.items()
    }
    if best:
        often = torch.tensor([words[best[place]] / words.total() for place, words in seen.items()])
        shares[ONE_WORD] = often.view_as(entropy_LH)
        counts[ONE_WORD] = min(words.total() for words in seen.values())
    return Roles(shares, counts, entropy_LH, best)


def _count_words(
    seen: dict[tuple[int, int], Counter[str]], weights_LHWW: Tensor, words: Sequence[str], *, own: bool
) -> None:
    """Which word each head's largest weights fall on, in lower case and without punctuation marks."""
    weights_LHWW = weights_LHWW - torch.eye(weights_LHWW.size(-1)) if own else weights_LHWW
    plain = [word.strip(".,!?").lower() for word in words]
    for layer, heads in enumerate(weights_LHWW.argmax(dim=-1).tolist()):
        for head, best_W in enumerate(heads):
            seen.setdefault((layer, head), Counter()).update(plain[column] for column in best_W)


def _entropy(weights_LHTS: Tensor) -> Tensor:
    """The mean over rows that may look at two words at least, as a share of what looking everywhere would have."""
    allowed_T = (weights_LHTS > 0).any(dim=0).any(dim=0).sum(dim=-1)
    entropy_LHT = -torch.xlogy(weights_LHTS, weights_LHTS).sum(dim=-1)
    wide_T = allowed_T > 1
    if not wide_T.any():
        return torch.zeros(weights_LHTS.shape[:2])
    return (entropy_LHT / allowed_T.clamp(min=2).log())[:, :, wide_T].mean(dim=-1).clamp(0, 1)


_known: WeakKeyDictionary[TranslationModel, dict[Kind, Roles]] = WeakKeyDictionary()


def has_grammar(translator: Translator) -> bool:
    """Are the links between the words of its languages known?"""
    pair = {translator.source_language, translator.target_language}
    return len(pair) == 2 and pair <= set(LANGUAGES)


def head_roles(translator: Translator, found: AttentionMap) -> dict[Kind, Roles]:
    """The roles of all heads: on validation sentences, once for a model; else on the sentence at hand."""
    return known_roles(translator) or {kind: roles([(found, None)], kind) for kind in found.weights_LHTS}


def known_roles(translator: Translator) -> dict[Kind, Roles]:
    """The roles on validation sentences; none where the grammar does not know the languages. The first time is slow."""
    if not has_grammar(translator):
        return {}
    model = the_model(translator)
    if model not in _known:
        _known[model] = grammar_roles(translator)
    return _known[model]


def grammar_roles(translator: Translator, num_sentences: int = SENTENCES) -> dict[Kind, Roles]:
    """The roles of all heads on validation sentences of the built-in corpus."""
    kinds = layers_and_heads(the_model(translator))
    maps = validation_maps(translator, num_sentences) if kinds else []
    return {kind: roles(maps, kind) for kind in kinds}


def validation_maps(translator: Translator, num_sentences: int) -> list[tuple[AttentionMap, Example]]:
    """Validation sentences of the built-in corpus, and the weights for each."""
    languages = (translator.source_language, translator.target_language)
    valid, _ = held_out_examples(*languages, count=num_sentences)
    return [(attention_map(translator, example.source, example.target), example) for example in valid]
