"""Pieces → words, counted from 0. Words are separated by spaces; in a language without spaces every piece is a word.

It knows pieces and the code of a language; no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import itemgetter

from heedful.data.languages import has_spaces
from heedful.data.tokenizer import SPACE, Tokenizer

UNKNOWN = "<unk>"


def word_of_piece(pieces: Sequence[str]) -> list[int]:
    """The number of the word that each piece belongs to; a piece that begins with a space begins a word."""
    words, word = [], -1
    for piece in pieces:
        word += piece.startswith(SPACE) or word < 0
        words.append(word)
    return words


def pieces_of_words(pieces: Sequence[str]) -> list[list[int]]:
    """The places of each word's pieces."""
    groups: list[list[int]] = [[] for _ in range(num_words(pieces))]
    for place, word in enumerate(word_of_piece(pieces)):
        groups[word].append(place)
    return groups


def num_words(pieces: Sequence[str]) -> int:
    """The number of words in these pieces."""
    return max(word_of_piece(pieces), default=-1) + 1


def apart(pieces: Sequence[str], language: str) -> list[str]:
    """The pieces of a text; in a language without spaces each gets a space before it.

    A byte that continues a character, or a piece after a bare space, stays with the piece before it.
    """
    if has_spaces(language):
        return list(pieces)
    return [_set_off(piece, before) for before, piece in pairwise(["", *pieces])]


def words_of(tokenizer: Tokenizer, ids: Sequence[int], language: str) -> list[str]:
    """The words of these ids."""
    owners = word_of_piece(apart(tokenizer.pieces(ids), language))
    groups = groupby(zip(owners, ids, strict=True), key=itemgetter(0))
    return [tokenizer.decode([token for _, token in group]) for _, group in groups]


def could_begin(pieces: Sequence[str], language: str) -> list[bool]:
    """Whether a word could begin with each of these pieces."""
    if has_spaces(language):
        return [piece.startswith(SPACE) for piece in pieces]
    return [not _goes_on(piece) and piece != UNKNOWN for piece in pieces]


def _set_off(piece: str, before: str) -> str:
    belongs = piece.startswith(SPACE) or before == SPACE or _goes_on(piece)
    return piece if belongs else SPACE + piece


def _goes_on(piece: str) -> bool:
    """Whether it is `<0x80>` to `<0xBF>`, a byte inside a character."""
    return len(piece) == 6 and piece.startswith(("<0x8", "<0x9", "<0xA", "<0xB")) and piece.endswith(">")
