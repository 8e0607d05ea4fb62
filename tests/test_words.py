"""Words: what stands between spaces; pieces, where a language writes none."""

from heedful.words import apart, num_words, word_of_piece


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
