"""BPE-dropout: draws that follow from seed and word, of the same text, by the tokenizer's own merges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, pairwise, repeat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.data.bpe_dropout import DRAWS, LONGEST_WORD, DrawingEncoder, Merges, chances
from heedful.data.tokenizer import SPACE, Tokenizer, normalise

LINES = [
    "the quick brown fox jumps over the lazy dog",
    "다람쥐 헌 쳇바퀴에 타고파",
    "größer als die Straße <0x0A> </s>",
] * 9
TOKENIZER = Tokenizer.learn_at_most(LINES, 400, seed=1)
MERGES = Merges(TOKENIZER)
TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from([*LINES, "</s>", "<0x41>", "thethethe " * 9])


def merged(word: str, chances: Iterator[bool]) -> list[int]:
    """The plain twin, algorithm 1 as it stands: the most important merge that is not dropped, again and again."""
    pieces, ids = [SPACE, *word] if word else [], MERGES._ids
    while True:
        pairs = enumerate(left + right for left, right in pairwise(pieces))
        possible = sorted((ids[piece], place) for place, piece in pairs if piece in ids)
        place = next((place for _, place in possible if next(chances)), None)
        if place is None:
            return MERGES._ids_of(pieces)
        pieces[place : place + 2] = ["".join(pieces[place : place + 2])]


def draws(texts: list[str], *, dropout: float = 0.3, seed: int = 1, number: int = 0) -> list[list[int]]:
    encoder = DrawingEncoder(TOKENIZER, dropout=dropout, seed=seed)
    (ids_T, lengths_N), *_ = encoder.encode(texts, np.random.PCG64(number), times=1)
    return [part.tolist() for part in np.split(ids_T, np.cumsum(lengths_N)[:-1])]


@given(TEXT)
def test_without_dropout_the_merges_are_sentence_pieces(text: str) -> None:
    words = normalise(text).split(" ")
    assert [number for word in words for number in merged(word, repeat(True))] == TOKENIZER.encode(text)


@given(st.lists(TEXT, min_size=1), st.integers(0, 2**32 - 1))
def test_a_draw_is_of_the_same_text(texts: list[str], seed: int) -> None:
    drawn = draws(texts, dropout=0.5, seed=seed)
    assert [TOKENIZER.decode(ids) for ids in drawn] == [TOKENIZER.decode(TOKENIZER.encode(text)) for text in texts]


def test_draws_follow_from_seed_and_generator_and_not_from_what_was_encoded_before() -> None:
    encoder = DrawingEncoder(TOKENIZER, dropout=0.3, seed=1)
    list(encoder.encode(LINES[::-1], np.random.PCG64(5), times=2))
    (again, _), *_ = encoder.encode(LINES, np.random.PCG64(0), times=1)
    assert again.tolist() == [number for ids in draws(LINES) for number in ids]
    assert draws(LINES) != draws(LINES, seed=2)
    assert draws(LINES) != draws(LINES, number=1)


@given(st.lists(TEXT, min_size=1))
def test_what_is_remembered_is_what_the_algorithm_draws(texts: list[str]) -> None:
    """The plain twin: each word of each time merged by itself."""
    words = [word for text in texts for word in normalise(text).split(" ")]
    raw_KW = np.random.PCG64(7).random_raw(3 * len(words)).reshape(3, -1) % np.uint64(DRAWS)
    names = [[(word, f"1 {draw} {word}") for word, draw in zip(words, raw_W, strict=True)] for raw_W in raw_KW.tolist()]
    expected = [[merged(word, chances(name, dropout=0.3)) for word, name in line] for line in names]
    encoder = DrawingEncoder(TOKENIZER, dropout=0.3, seed=1)
    drawn = [ids_T.tolist() for ids_T, _ in encoder.encode(texts, np.random.PCG64(7), times=3)]
    assert drawn == [list(chain.from_iterable(line)) for line in expected]


@given(TEXT, st.lists(st.booleans(), max_size=60))
def test_merging_from_a_precomputed_stage_equals_merging_from_the_start(word: str, taken: list[bool]) -> None:
    stages = MERGES.stages(word)
    assert MERGES.merge_from(stages, chain(taken, repeat(True))) == merged(word, chain(taken, repeat(True)))
    assert MERGES.merge_from(stages, repeat(True)) == merged(word, repeat(True))  # the stages are unchanged


def test_draws_that_were_forgotten_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = draws(LINES, number=3)
    monkeypatch.setattr("heedful.data.bpe_dropout._REMEMBERED_WORDS", 0)
    encoder = DrawingEncoder(TOKENIZER, dropout=0.3, seed=1)
    bits = np.random.PCG64(3)
    drawn = [next(encoder.encode([line], bits, times=1))[0].tolist() for line in LINES]
    assert drawn == remembered


def test_a_merge_is_left_out_as_often_as_is_said() -> None:
    for dropout in (0.1, 0.4):
        first = [next(chances(f"1 {number} word", dropout=dropout)) for number in range(2000)]
        assert np.mean(first) == pytest.approx(1 - dropout, abs=0.05)


def test_the_first_chances_of_a_word_never_change() -> None:
    """Text that is prepared on another machine, or by a later version, must come out the same."""
    taken = "".join(str(int(chance)) for chance in islice(chances("1 0 word", dropout=0.5), 32))
    assert taken == "11000000011110011010001010100011"


def test_words_come_in_several_ways_and_very_long_ones_in_one() -> None:
    word = "quick"
    assert 3 < len({tuple(ids) for ids in draws([word] * 500)}) <= DRAWS
    long = "quick" * LONGEST_WORD
    assert {tuple(ids) for ids in draws([long] * 20)} == {tuple(TOKENIZER.encode(long))}
