"""A vocabulary of characters, `tokenizer.kind = "char"`: learn, encode, decode."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given

from heedful.config.setting_layers import resolve
from heedful.data.long_text import Cutter
from heedful.data.tokenizer import BulkEncoder, Tokenizer
from heedful.data.words import words_of
from heedful.errors import ConfigError, DataError
from tests.data.test_tokenizer import LINES, SPECIAL, TEXT, WORDS, as_given_back

CHARACTERS = Tokenizer.learn_characters(LINES, 37_000, seed=1)


def ordinary(tokenizer: Tokenizer) -> set[str]:
    return set(tokenizer.pieces(filter(tokenizer.is_ordinary, range(tokenizer.vocab_size))))


@given(TEXT | WORDS)
@example("\x00\t\x0b\x0c\x1c\x85\xa0\u2028\u3000\ufeff")
@example("👩‍👩‍👧 🇩🇪 שלום עליכם مرحبا 𠮷野家 龘 ﬁ ㎏ \U0010ffff \ufdd0")
@example(SPECIAL)
@example("w" * 70_000)
def test_no_character_of_a_text_is_lost(text: str) -> None:
    ids = CHARACTERS.encode(text)
    assert CHARACTERS.decode(ids) == as_given_back(text)
    assert not {Tokenizer.eos_id, Tokenizer.unk_id} & set(ids)


@pytest.mark.parametrize("line", LINES)
def test_each_character_of_the_text_is_one_token_and_a_space_stands_before_the_first(line: str) -> None:
    assert CHARACTERS.pieces(CHARACTERS.encode(line)) == [*f"▁{line}".replace(" ", "▁")]


def test_the_vocabulary_is_bytes_the_texts_characters_and_at_most_seven_others() -> None:
    characters = {*"".join(LINES).replace(" ", "▁")}
    assert CHARACTERS.vocab_size % 8 == 0
    assert characters < ordinary(CHARACTERS)
    assert len(ordinary(CHARACTERS) - characters) == (-len(characters) - 258) % 8 > 0


def test_where_the_limit_leaves_no_room_the_rarest_characters_are_spelled_in_bytes() -> None:
    tokenizer = Tokenizer.learn_characters(["aaaa bbb cc", "aaaabbbccdd", "e f g ü"], 264, seed=1)
    assert ordinary(tokenizer) == {*"▁abcde"}
    assert tokenizer.pieces(tokenizer.encode("aü")) == ["▁", "a", "<0xC3>", "<0xBC>"]
    assert tokenizer.decode(tokenizer.encode("a fügt")) == "a fügt"


def test_a_limit_is_a_multiple_of_eight_with_room_for_the_bytes() -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size = 403 is not a multiple of 8"):
        Tokenizer.learn_characters(LINES, 403, seed=1)
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size = 256 is too small: .* need at least 264$"):
        Tokenizer.learn_characters(LINES, 256, seed=1)
    with pytest.raises(DataError, match="blank"):
        Tokenizer.learn_characters([" "], 264, seed=1)


def test_a_file_says_of_which_kind_it_is(tmp_path: Path) -> None:
    CHARACTERS.save(tmp_path / "tokenizer.model")
    loaded = Tokenizer.load(tmp_path / "tokenizer.model")
    assert loaded == CHARACTERS == Tokenizer.learn_characters(reversed(LINES), 400, seed=2)
    assert loaded.kind == "char"
    assert Tokenizer.learn(LINES, 400, seed=1).kind == "bpe"


def test_encoding_in_bulk_gives_the_same_ids() -> None:
    ids_T, lengths_N = BulkEncoder(CHARACTERS).encode([*LINES, "", "ein öder Tag"])
    separate = CHARACTERS.encode_batch([*LINES, "", "ein öder Tag"])
    assert ids_T.tolist() == list(chain.from_iterable(separate))
    np.testing.assert_array_equal(lengths_N, list(map(len, separate)))


def test_words_are_found_and_long_text_is_cut_between_them() -> None:
    assert words_of(CHARACTERS, CHARACTERS.encode(LINES[0]), "en") == LINES[0].split()
    parts = Cutter(CHARACTERS, 30).parts(LINES[0], CHARACTERS.encode(LINES[0]))
    assert " ".join(CHARACTERS.decode(part.ids) for part in parts) == LINES[0]
    assert max(len(part.ids) for part in parts) <= 30


def test_there_are_no_merges_to_leave_out() -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.dropout = 0\.1 leaves out merges, and tokenizer\.kind = char"):
        resolve({"tokenizer": {"kind": "char", "dropout": 0.1}})
    with pytest.raises(ConfigError, match=r"tokenizer\.kind = 'word'"):
        resolve({"tokenizer": {"kind": "word"}})
