"""Words: what stands between spaces; pieces, where a language writes none."""

from heedful.data.tokenizer import Tokenizer
from heedful.data.words import apart, could_begin, num_words, word_of_piece, words_of


def test_words_begin_where_a_piece_begins_with_a_space() -> None:
    assert word_of_piece(["▁the", "▁c", "at", ".", "▁", "<0xF0>"]) == [0, 1, 1, 1, 2, 2]
    assert word_of_piece(["a", "b", "▁c"]) == [0, 0, 1]
    assert word_of_piece([]) == []
    assert num_words(["▁the", "▁c", "at"]) == 2


def test_pieces_of_a_language_with_spaces_stay_as_they_are() -> None:
    pieces = ["▁북", "경", "▁北", "京"]
    for language in ("ko", "de-AT", ""):
        assert apart(pieces, language) == pieces


def test_every_piece_is_a_word_where_a_language_writes_no_spaces() -> None:
    pieces = ["▁今天", "老师", "喜欢", "▁Python", "。"]
    for language in ("zh", "zho_Hans", "ja", "th"):
        assert word_of_piece(apart(pieces, language)) == [0, 1, 2, 3, 4]
    assert apart([], "zh") == []


def test_the_bytes_of_a_character_and_what_follows_a_bare_space_stay_together() -> None:
    pieces = ["▁", "今天", "<0xE9>", "<0xBE>", "<0x98>", "<0xE9>", "<0xBF>", "<0x8D>", "书", "<unk>"]
    assert word_of_piece(apart(pieces, "zh")) == [0, 0, 1, 1, 1, 2, 2, 2, 3, 4]


def test_words_are_spelled_as_they_are_counted() -> None:
    tokenizer = Tokenizer.learn_at_most(["今天老师喜欢书", "the teacher loves books"], 400, seed=1)
    assert words_of(tokenizer, tokenizer.encode("the teacher loves"), "en") == ["the", "teacher", "loves"]
    ids = tokenizer.encode("老师喜欢今天")
    assert words_of(tokenizer, ids, "en") == ["老师喜欢今天"]
    words = words_of(tokenizer, ids, "zh")
    assert len(words) == num_words(apart(tokenizer.pieces(ids), "zh")) > 1
    assert "".join(words) == "老师喜欢今天"


def test_what_could_begin_a_word_is_said_of_each_piece_by_itself() -> None:
    pieces = ["▁", "今天", "▁the", "<0xE9>", "<0xBE>", "<unk>"]
    assert could_begin(pieces, "en") == [True, False, True, False, False, False]
    assert could_begin(pieces, "zh") == [True, True, True, True, False, False]
