"""Joint byte-pair encoding: learn, encode, decode."""

import io
import pickle
import random
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heedful.data import tokenizer as module
from heedful.data.tokenizer import BulkEncoder, Tokenizer
from heedful.errors import CheckpointError, ConfigError, DataError
from tests import ROOT

LINES = [
    "The animal didn't cross the road because it was too tired.",
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "A fluffy blue creature roamed the verdant forest.",
    "Die Katze saß auf der Matte und sah dem Hund zu.",
    "고양이가 매트 위에 앉아 있었다.",
    "I love you, and you love me: 3,000 times!",
]
SPECIAL = "</s> <unk><s> <0x0A> ▅⁇ <pad> >>de<< x</s>y"
TOKENIZER = Tokenizer.learn(LINES, 400, seed=1)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
# Text that looks like language, so that pieces of several characters are met too.
WORDS = st.lists(st.sampled_from([*" ".join(LINES).split(), " ", "  ", "\u2581", "\x00", "\u3000", "👩‍👩‍👧"])).map(
    " ".join
)


def as_given_back(text: str) -> str:
    """What decoding gives for a text: the exceptions that the module's docstring lists, and no others."""
    spaced = unicodedata.normalize("NFC", text).replace("\u2581", " ")
    return re.sub("[\r\n]", " ", re.sub(" +", " ", spaced).strip(" "))


def train(lines: list[str], **flags: Any) -> bytes:
    """SentencePiece's own training on whole lines, with our flags but for these."""
    model = io.BytesIO()
    flags = module._TRAINER_FLAGS | {"input_format": "", "vocab_size": 400} | flags
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **flags)
    return model.getvalue()


def number_in(error: pytest.ExceptionInfo[BaseException]) -> int:
    """The last number that a message names."""
    assert "\n" not in str(error.value)
    return int(re.findall(r"\d+", str(error.value))[-1])


# ---------------------------------------------------------------------------------------------------- encode and decode


@given(TEXT | WORDS)
@example("\x00\t\x0b\x0c\x1c\x85\xa0\u2028\u3000\ufeff")
@example("👩‍👩‍👧 🇩🇪 שלום עליכם مرحبا 𠮷野家 龘 ﬁ ㎏ \U0010ffff \ufdd0")
@example("  a   b  \u2581\u2581 c\r\n")
@example(SPECIAL)
@example("e\u0301 \u1112\u1161\u11ab\u1100\u1173\u11af")
@example("word " * 5_000)
@example("w" * 70_000)
def test_no_character_of_a_text_is_lost(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == as_given_back(text)
    assert not {Tokenizer.eos_id, Tokenizer.unk_id} & set(ids)


@given(st.lists(st.integers(0, TOKENIZER.vocab_size - 1)))
@example([12, 15, 12])
def test_no_ids_give_a_line_break(ids: list[int]) -> None:
    assert not set("\n\r") & set(TOKENIZER.decode(ids))


def test_line_breaks_come_back_as_spaces() -> None:
    assert TOKENIZER.decode(TOKENIZER.encode("a\nb\rc")) == "a b c"


def test_eos_is_left_out_of_the_text() -> None:
    ids = TOKENIZER.encode("the cat")
    assert TOKENIZER.decode([0, *ids, 0]) == TOKENIZER.decode(np.array(ids)) == "the cat"
    assert TOKENIZER.decode([]) == TOKENIZER.decode([0]) == ""


def test_decomposed_text_is_encoded_as_composed_text() -> None:
    decomposed = unicodedata.normalize("NFD", LINES[4])
    assert decomposed != LINES[4]
    assert TOKENIZER.encode(decomposed) == TOKENIZER.encode(LINES[4])


def test_a_batch_is_its_texts_one_by_one() -> None:
    assert TOKENIZER.encode_batch([*LINES, ""]) == [*map(TOKENIZER.encode, LINES), []]


def test_pieces_can_be_read() -> None:
    pieces = TOKENIZER.pieces([*TOKENIZER.encode("the\nroad"), 0])
    assert "".join(pieces) == "▁the<0x0A>road</s>"


@pytest.mark.parametrize("wrong", [-1, 400, 10**9])
def test_an_id_outside_the_vocabulary_is_named(wrong: int) -> None:
    with pytest.raises(DataError, match=rf"token id {wrong} is outside the vocabulary \(0 to 399\)"):
        TOKENIZER.decode([5, wrong])
    with pytest.raises(DataError, match=f"token id {wrong}"):
        TOKENIZER.pieces([wrong])


def test_a_lone_surrogate_is_no_text() -> None:
    with pytest.raises(DataError, match=r"lone surrogate \(U\+D800\)"):
        TOKENIZER.encode("a\ud800")


@given(st.lists(st.lists(TEXT | WORDS, max_size=5), max_size=5), st.sampled_from([0, 30, 2**19]))
def test_encoding_in_bulk_gives_the_same_ids(batches: list[list[str]], remembered: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_REMEMBERED_PIECES", remembered)
        encoder = BulkEncoder(TOKENIZER)
        for texts in batches:
            ids_T, lengths_N = encoder.encode(texts)
            separate = TOKENIZER.encode_batch(texts)
            assert ids_T.tolist() == [index for ids in separate for index in ids]
            assert lengths_N.tolist() == [len(ids) for ids in separate]


def test_encoding_in_bulk_forgets_words_that_become_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED_PIECES", 20)
    encoder = BulkEncoder(TOKENIZER)
    encoder.encode(LINES)
    assert len(encoder._numbers) > 20
    encoder.encode(["a b", "c"])
    assert list(encoder._numbers) == ["a", "b", "c"]


# ---------------------------------------------------------------------------------------------------------------- learn


def test_word_counts_teach_what_the_lines_would() -> None:
    reference = sentencepiece.SentencePieceProcessor(model_proto=train(LINES))
    assert TOKENIZER.pieces(range(400)) == [reference.id_to_piece(index) for index in range(400)]
    assert [TOKENIZER.encode(line) for line in LINES] == reference.encode(LINES)


def test_ids_are_where_the_model_expects_them() -> None:
    assert TOKENIZER.pieces(range(4)) == ["</s>", "<unk>", "<0x00>", "<0x01>"]
    assert (Tokenizer.eos_id, Tokenizer.unk_id, TOKENIZER.vocab_size) == (0, 1, 400)


@pytest.mark.slow
def test_learning_is_the_same_in_every_process() -> None:
    lines = [*LINES, "a" * 30 + " ..... ----- ababab"]
    code = f"from heedful.data.tokenizer import Tokenizer; print(Tokenizer.learn({lines}, 400, seed=1).fingerprint)"
    fingerprints = {
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=folder).stdout
        for folder in [ROOT] * 2
    }
    assert fingerprints == {Tokenizer.learn(reversed(lines), 400, seed=2).fingerprint + "\n"}


def test_the_sample_is_random_and_follows_from_the_seed() -> None:
    lines = [str(number) for number in range(10_000)]
    samples = [module._count_words(lines, seed=seed, limit=1_000) for seed in (1, 1, 2)]
    assert samples[0] == samples[1] != samples[2]
    for sample in samples:
        assert 250 < sample.total() <= 1_000
        assert 4_000 < np.mean([int(word) for word in sample]) < 6_000


def test_few_lines_are_taken_whole() -> None:
    assert module._count_words(iter(LINES), seed=3) == Counter(" ".join(LINES).split())


def test_a_size_that_the_text_cannot_fill_names_the_largest() -> None:
    with pytest.raises(DataError, match=r"tokenizer\.vocab_size = 8000: the text can fill at most") as error:
        Tokenizer.learn(LINES, 8_000, seed=1)
    largest = number_in(error)
    assert Tokenizer.learn(LINES, largest, seed=1).vocab_size == largest
    with pytest.raises(DataError, match=f"at most {largest}"):
        Tokenizer.learn(LINES, largest + 8, seed=1)


def test_a_preset_takes_what_the_text_can_fill() -> None:
    with pytest.raises(DataError) as error:
        Tokenizer.learn(LINES, 8_000, seed=1)
    assert Tokenizer.learn_at_most(LINES, 8_000, seed=1) == Tokenizer.learn(LINES, number_in(error), seed=1)
    assert Tokenizer.learn_at_most(LINES, 400, seed=1) == TOKENIZER


def test_a_size_that_is_too_small_names_the_smallest() -> None:
    with pytest.raises(DataError, match=r"tokenizer\.vocab_size = 8 is too small") as error:
        Tokenizer.learn(LINES, 8, seed=1)
    smallest = number_in(error)
    assert Tokenizer.learn(LINES, smallest, seed=1).vocab_size == smallest
    with pytest.raises(DataError, match=f"need at least {smallest}"):
        Tokenizer.learn_at_most(LINES, smallest - 8, seed=1)


def test_the_smallest_size_is_what_sentencepiece_needs() -> None:
    words = module._count_words(["a\tb ▅c 고 \x00 \r"], seed=1)
    smallest, lines = module._smallest_size(words), list(module._word_lines(words))
    train(lines, input_format="tsv", vocab_size=smallest)
    with pytest.raises(RuntimeError, match="smaller than required_chars"):
        train(lines, input_format="tsv", vocab_size=smallest - 1)


def test_a_size_must_be_a_multiple_of_eight() -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size = 403 is not a multiple of 8; 400 would be"):
        Tokenizer.learn(LINES, 403, seed=1)


@pytest.mark.parametrize("lines", [[], [""], ["  ", "\u2581"]])
def test_blank_text_teaches_nothing(lines: list[str]) -> None:
    with pytest.raises(DataError, match="blank"):
        Tokenizer.learn(lines, 400, seed=1)


def test_a_text_of_one_letter_is_too_small() -> None:
    for learn in (Tokenizer.learn, Tokenizer.learn_at_most):
        with pytest.raises(DataError, match="the text is too small"):
            learn(["a"], 400, seed=1)


def test_an_absurd_size_is_an_error_of_ours() -> None:
    with pytest.raises(DataError, match="SentencePiece cannot learn"):
        Tokenizer.learn(LINES, 2**40, seed=1)


@pytest.mark.parametrize(
    "line",
    [f"{SPECIAL} " * 50, "x" * 70_000, "\x00 a\x00b \x00\x00", "tab\tbed\t", "▅ ▅x", "a\nb\r", "龘" * 3_000 + " 𠮷"],
    ids=["special", "one long word", "NUL", "tab", "reserved", "line breaks", "no spaces"],
)
def test_any_text_can_be_learned_from(line: str) -> None:
    tokenizer = Tokenizer.learn([*LINES, line], 416, seed=1)
    assert tokenizer.decode(tokenizer.encode(line)) == as_given_back(line)
    assert tokenizer.decode(tokenizer.encode(SPECIAL)) == as_given_back(SPECIAL)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    Tokenizer.learn_at_most([*LINES, "\t▅\x00"], 8_000, seed=1)
    with pytest.raises(CheckpointError):
        Tokenizer(b"foreign")
    assert capfd.readouterr() == ("", "")


# -------------------------------------------------------------------------------------------------------- save and load


def test_what_is_saved_can_be_loaded(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "tokenizer.model")
    loaded = Tokenizer.load(tmp_path / "tokenizer.model")
    assert loaded == TOKENIZER == pickle.loads(pickle.dumps(TOKENIZER))
    assert loaded.fingerprint == TOKENIZER.fingerprint != Tokenizer.learn(LINES, 408, seed=1).fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.model"]
    assert hash(loaded) == hash(TOKENIZER)
    assert loaded != "tokenizer"


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "tokenizer.model"
    path.write_bytes(b"old")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: cannot be written \(No space left"):
        TOKENIZER.save(path)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize(
    "content",
    [b"", b"some text\n", bytes(1000), TOKENIZER.model[: len(TOKENIZER.model) // 2], TOKENIZER.model[:-100]],
    ids=["empty", "text", "zeros", "half", "cut"],
)
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"^{re.escape(str(path))}: not a SentencePiece model, or a damaged one$"):
        Tokenizer.load(path)


@pytest.mark.parametrize(
    "flags",
    [
        {"eos_id": 2, "unk_id": 0},
        {"bos_id": 2},
        {"pad_id": 2},
        {"byte_fallback": False, "vocab_size": 120},
        {"normalization_rule_name": "nmt_nfkc"},
        {"remove_extra_whitespaces": False},
        {"add_dummy_prefix": False},
        {"split_by_whitespace": False},
        {"vocab_size": 401},
    ],
    ids=str,
)
def test_a_model_of_other_habits_is_refused(tmp_path: Path, flags: dict[str, Any]) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(train(LINES * 3, **flags))
    with pytest.raises(
        CheckpointError, match=f"^{re.escape(str(path))}: a SentencePiece model, but not one that heedful"
    ):
        Tokenizer.load(path)


@settings(max_examples=30)
@given(st.integers(0, len(TOKENIZER.model) - 1))
def test_a_cut_model_is_refused_or_works_as_before(size: int) -> None:
    try:
        cut = Tokenizer(TOKENIZER.model[:size])
    except CheckpointError:
        return
    assert cut.encode_batch(LINES) == TOKENIZER.encode_batch(LINES)


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: no such tokenizer file"):
        Tokenizer.load(tmp_path / "tokenizer.model")
    with pytest.raises(CheckpointError, match="cannot be read: Is a directory"):
        Tokenizer.load(tmp_path)


@given(st.lists(st.integers(1, TOKENIZER.vocab_size - 1) | st.sampled_from(TOKENIZER.encode("The a b")), max_size=12))
def test_decoding_is_sentencepieces_whatever_the_ids(ids: list[int]) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=TOKENIZER.model)
    expected = processor.decode(ids).replace("\n", " ").replace("\r", " ")
    assert TOKENIZER.decode(ids) == expected


def test_threads_share_an_encoder() -> None:
    """Each of them gets the ids of its own texts, however new their words are."""
    encoder, draw = BulkEncoder(TOKENIZER), random.Random(5)
    parts = [["".join(draw.choices("abcdefgh ", k=30)) for _ in range(40)] for _ in range(60)]

    def ids(texts: list[str]) -> tuple[list[int], list[int]]:
        ids_T, lengths_N = encoder.encode(texts)
        return ids_T.tolist(), lengths_N.tolist()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ids, parts))
    for texts, (ids_T, lengths_N) in zip(parts, found, strict=True):
        expected = [TOKENIZER.encode(text) for text in texts]
        assert (ids_T, lengths_N) == (list(chain.from_iterable(expected)), list(map(len, expected)))


def test_a_bad_text_does_not_spoil_the_encoder() -> None:
    encoder, good = BulkEncoder(TOKENIZER), ["a new one", "and another"]
    with pytest.raises(DataError):
        encoder.encode(["words first", "bad \ud800 text", "words last"])
    ids_T, _ = encoder.encode(good)
    assert ids_T.tolist() == [token for text in good for token in TOKENIZER.encode(text)]
