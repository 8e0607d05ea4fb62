"""BPE-dropout (Provilkov et al., 2020, arXiv 1910.13267; not in the paper): the same words in other pieces.

Neighbouring pieces are merged as usual, the most important merge first; but before each merge every possible one is
dropped with the probability `dropout`, and the word is done when none remains (their algorithm 1).

SentencePiece can draw too, but differently in each process. Here a draw depends on the seed, the word and the number of
the draw only. A word has at most `DRAWS` draws, so that frequent words are not merged again each time. This module
knows words and pieces; no files, no pairs.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from itertools import chain, count, groupby, pairwise, repeat
from typing import TypeAlias

import numpy as np

from heedful.data.tokenizer import (
    SPACE,
    Int32Array,
    Int64Array,
    Tokenizer,
    WordNumbers,
    lengths_of_texts,
    normalise,
    take_slices,
)

DRAWS = 32
NEVER = 2**31  # the rank of two pieces that do not make a piece
LONGEST_WORD = 64  # characters; the time grows with the square of them, and longer words are encoded plainly
_REMEMBERED_WORDS = 2**18  # with their draws up to 250 MB

Stage: TypeAlias = tuple[list[str], list[int]]  # the pieces of a word, and the rank of each merge of neighbours


class DrawingEncoder:
    """Encodes many texts into one array, each word by one of its draws. A draw is made when it is first asked for.

    Draw k of word w has the number w · DRAWS + k. The draws are forgotten when they become too many.
    """

    def __init__(self, tokenizer: Tokenizer, *, dropout: float, seed: int) -> None:
        self._tokenizer, self._merges = tokenizer, Merges(tokenizer)
        self._dropout, self._seed = dropout, seed
        self._forget()

    def _forget(self) -> None:
        self._numbers, self._words = WordNumbers(), list[str]()
        self._ids: Int32Array = np.empty(0, np.int32)
        self._starts: Int64Array = np.empty(0, np.int64)
        self._lengths: Int32Array = np.empty(0, np.int32)  # −1: not drawn yet

    def encode(
        self, texts: Sequence[str], bits: np.random.PCG64, *, times: int
    ) -> Iterator[tuple[Int32Array, Int64Array]]:
        """`times` encodings: the ids of all texts in one row, without eos, and the number of ids of each text.

        Random bits choose a draw of each word.
        """
        words_by_text = [normalise(text).split(" ") for text in texts]
        words_W = self._look_up(words_by_text)
        raw_KW = bits.random_raw(times * len(words_W)).reshape(times, len(words_W))
        draws_KW = words_W * DRAWS + (raw_KW % np.uint64(DRAWS)).astype(np.int64)
        self._draw(np.unique(draws_KW[self._lengths[draws_KW] < 0]))
        for draws_W in draws_KW:
            lengths_W = self._lengths[draws_W].astype(np.int64)
            yield take_slices(self._ids, self._starts[draws_W], lengths_W), lengths_of_texts(words_by_text, lengths_W)

    def _look_up(self, words_by_text: Sequence[Sequence[str]]) -> Int64Array:
        if len(self._words) > _REMEMBERED_WORDS:
            self._forget()
        words_W, new = self._numbers.look_up(words_by_text), self._numbers.take_new()
        self._words += new
        self._starts = np.append(self._starts, np.zeros(len(new) * DRAWS, np.int64))
        self._lengths = np.append(self._lengths, np.full(len(new) * DRAWS, -1, np.int32))
        return words_W

    def _draw(self, new_D: Int64Array) -> None:
        """Make the draws with these numbers, which are sorted."""
        ids = list(chain.from_iterable(self._draws(w, draws) for w, draws in groupby(new_D.tolist(), word_of)))
        lengths_D = np.fromiter(map(len, ids), np.int32, len(ids))
        self._lengths[new_D] = lengths_D
        self._starts[new_D] = len(self._ids) + np.cumsum(lengths_D) - lengths_D
        self._ids = np.append(self._ids, np.fromiter(chain.from_iterable(ids), np.int32))

    def _draws(self, number: int, draws: Iterator[int]) -> Iterator[list[int]]:
        """Some draws of one word."""
        word = self._words[number]
        if len(word) > LONGEST_WORD:
            return repeat(self._tokenizer.encode(word), len(list(draws)))
        stages = self._merges.stages(word)
        names = (f"{self._seed} {draw % DRAWS} {word}" for draw in draws)
        return (self._merges.merge_from(stages, chances(name, dropout=self._dropout)) for name in names)


def word_of(draw: int) -> int:
    """The number of the word that a draw is of."""
    return draw // DRAWS


def chances(name: str, *, dropout: float) -> Iterator[bool]:
    """An endless stream that says whether the next merge is possible: 16-bit numbers that depend on the name."""
    threshold = round(dropout * 2**16)
    for block in count():
        digest = hashlib.shake_128(f"{block} {name}".encode()).digest(64)
        yield from (number >= threshold for number in struct.unpack("<32H", digest))


class Merges:
    """Byte-pair encoding of a word with a tokenizer's vocabulary: earlier pieces are more important."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        self._ids = {piece: number for number, piece in enumerate(pieces) if tokenizer.is_ordinary(number)}
        self._byte_ids = [pieces.index(f"<0x{byte:02X}>") for byte in range(256)]

    def stages(self, word: str) -> list[Stage]:
        """The word before each merge without dropout, and after the last one."""
        pieces, ranks = self._begin(word)
        stages = [(pieces.copy(), ranks.copy())]
        while (place := _best_merge(ranks, repeat(True))) is not None:
            self._merge_at(place, pieces, ranks)
            stages.append((pieces.copy(), ranks.copy()))
        return stages

    def merge_from(self, stages: list[Stage], chances: Iterator[bool]) -> list[int]:
        """The ids of the word's pieces; each merge that is tried takes the next chance.

        The merges up to the first dropped one are not made again.
        """
        *before, last = stages
        stage = next((stage for stage in before if not next(chances)), None)
        if stage is None:
            return self._ids_of(last[0])
        pieces, ranks = stage[0].copy(), stage[1].copy()
        place = _second_merge(ranks, chances)
        while place is not None:
            self._merge_at(place, pieces, ranks)
            place = _best_merge(ranks, chances)
        return self._ids_of(pieces)

    def _begin(self, word: str) -> Stage:
        pieces = [SPACE, *word] if word else []
        return pieces, [self._ids.get(left + right, NEVER) for left, right in pairwise(pieces)]

    def _merge_at(self, place: int, pieces: list[str], ranks: list[int]) -> None:
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
        del ranks[place]
        for left in range(max(0, place - 1), min(place + 1, len(ranks))):
            ranks[left] = self._ids.get(pieces[left] + pieces[left + 1], NEVER)

    def _ids_of(self, pieces: list[str]) -> list[int]:
        """The ids of the pieces; a character that the vocabulary lacks is spelled in bytes."""
        ids: list[int] = []
        for piece in pieces:
            number = self._ids.get(piece)
            ids += [self._byte_ids[byte] for byte in piece.encode()] if number is None else [number]
        return ids


def _best_merge(ranks: list[int], chances: Iterator[bool]) -> int | None:
    """The place of the most important possible merge; less important ones take no chance."""
    first = min(ranks, default=NEVER)
    if first == NEVER:
        return None
    return ranks.index(first) if next(chances) else _second_merge(ranks, chances)


def _second_merge(ranks: list[int], chances: Iterator[bool]) -> int | None:
    """The same when the most important merge has already been dropped."""
    _, *others = sorted((rank, place) for place, rank in enumerate(ranks) if rank != NEVER)
    return next((place for _, place in others if next(chances)), None)
