"""BPE-dropout (Provilkov et al., 2020, arXiv 1910.13267; not in the paper): the same words in other pieces.

Pairs of neighbouring pieces are merged as ever, the most important merge first; but each time every possible merge is
left out with the probability `dropout`, and when none remains the word is done (their algorithm 1).

SentencePiece can draw too, but what it draws differs from process to process. Here a draw follows from the seed, the
word and the draw's number alone. A word has at most `DRAWS` draws, so that frequent words are not merged anew each
time. It knows words and pieces; no files, no pairs.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from itertools import count, pairwise

import numpy as np
import numpy.typing as npt

from heedful.tokenizer import SPACE, Tokenizer, Words, normalise

DRAWS = 32
NEVER = 2**31  # the rank of what is no piece
LONGEST_WORD = 64  # characters; the time grows with the square of them, and longer words are encoded plainly


class DrawingEncoder:
    """Encodes many texts into one array, each word by one of its draws."""

    def __init__(self, tokenizer: Tokenizer, *, dropout: float, seed: int) -> None:
        self._tokenizer, self._merges = tokenizer, Merges(tokenizer)
        self._dropout, self._seed = dropout, seed
        self._words = Words(self._draw_all)

    def encode(
        self, texts: Sequence[str], bits: np.random.PCG64
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The ids of all texts in one row, without eos, and the number of ids of each text.

        Random bits say which draw of a word is taken.
        """
        words_by_text = [normalise(text).split(" ") for text in texts]
        raw_W = bits.random_raw(sum(map(len, words_by_text)))
        numbers = iter((raw_W % np.uint64(DRAWS)).tolist())
        return self._words.join([[f"{next(numbers)} {word}" for word in words] for words in words_by_text])

    def _draw_all(self, numbers_and_words: list[str]) -> list[list[int]]:
        return [self._draw(text) for text in numbers_and_words]

    def _draw(self, number_and_word: str) -> list[int]:
        _, _, word = number_and_word.partition(" ")
        if len(word) > LONGEST_WORD:
            return self._tokenizer.encode(word)
        return self._merges.merge(word, chances(f"{self._seed} {number_and_word}", dropout=self._dropout))


def chances(name: str, *, dropout: float) -> Iterator[bool]:
    """Whether a merge is possible, again and again: numbers of 16 bits that follow from the name."""
    threshold = round(dropout * 2**16)
    for block in count():
        digest = hashlib.shake_128(f"{block} {name}".encode()).digest(64)
        yield from (number >= threshold for number in struct.unpack("<32H", digest))


class Merges:
    """What byte-pair encoding does to a word, by the vocabulary of a tokenizer: early pieces are important ones."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        self._ids = {piece: number for number, piece in enumerate(pieces) if tokenizer.is_ordinary(number)}
        self._byte_ids = [pieces.index(f"<0x{byte:02X}>") for byte in range(256)]

    def merge(self, word: str, chances: Iterator[bool]) -> list[int]:
        """The ids of the word's pieces; when a merge is thought of, the next chance says whether it is possible."""
        pieces = [SPACE, *word] if word else []
        ranks = [self._ids.get(left + right, NEVER) for left, right in pairwise(pieces)]
        while (place := _best_merge(ranks, chances)) is not None:
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
            del ranks[place]
            for left in range(max(0, place - 1), min(place + 1, len(ranks))):
                ranks[left] = self._ids.get(pieces[left] + pieces[left + 1], NEVER)
        return [number for piece in pieces for number in self._ids_of(piece)]

    def _ids_of(self, piece: str) -> list[int]:
        """A character that the vocabulary lacks is spelled in bytes."""
        number = self._ids.get(piece)
        return [self._byte_ids[byte] for byte in piece.encode()] if number is None else [number]


def _best_merge(ranks: list[int], chances: Iterator[bool]) -> int | None:
    """The place of the most important merge that is possible; others need not be thought of."""
    first = min(ranks, default=NEVER)
    if first == NEVER:
        return None
    if next(chances):
        return ranks.index(first)
    _, *others = sorted((rank, place) for place, rank in enumerate(ranks) if rank != NEVER)
    return next((place for _, place in others if next(chances)), None)
