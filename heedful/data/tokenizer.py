"""Joint byte-pair encoding: one SentencePiece vocabulary for both languages (§5.1 of the paper), or characters alone.

A text is brought to NFC first. Decoding its ids gives back every character of it, also those that the vocabulary has
never seen (they are spelled in bytes), with these exceptions and no others:
- spaces (U+0020) at the ends are dropped, and a run of them becomes one: in a translation they mean nothing, and every
  .spm file that Marian and CTranslate2 users know does the same. Tabs and all other kinds of space stay;
- U+2581 ▁ stands for the space inside SentencePiece, so that it counts as a space;
- \\n and \\r come back as spaces, or one line of input could become two lines of output.

What looks special (`</s>`, `<unk>`, `<0x0A>`) is plain text. This module knows nothing of files of text or of models.
"""

import hashlib
import io
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import sentencepiece

from heedful.data.atomic import explained, write_file
from heedful.data.special_ids import EOS_ID, UNK_ID
from heedful.errors import CheckpointError, ConfigError, DataError

Int32Array: TypeAlias = npt.NDArray[np.int32]
Int64Array: TypeAlias = npt.NDArray[np.int64]

SPACE = "\u2581"
_MULTIPLE = 8
_BYTES_AND_SPECIALS = 256 + 2

# A larger sample takes longer and does not change the vocabulary.
_SAMPLED_LINES = 5_000_000
# SentencePiece ends the whole process at 65,536 characters, and its time grows with the square of a word's length.
_LONGEST_WORD = 1_000
# SentencePiece keeps the tab and U+2585 to itself, and skips a text that holds them; NUL only ends a piece there.
_RESERVED = str.maketrans("\t\u2585", "\0\0")
# Characters that may fill a vocabulary of characters up to a multiple of 8.
_FILLERS = [character for character in map(chr, range(0x30, 0x250)) if character.isalnum()]
# The number of threads has no effect but is written into the model; with a constant, equal models are equal files.
_TRAINER_FLAGS: dict[str, Any] = {
    "model_type": "bpe",
    "byte_fallback": True,
    "character_coverage": 1.0,
    "normalization_rule_name": "identity",
    "bos_id": -1,
    "eos_id": EOS_ID,
    "unk_id": UNK_ID,
    "pad_id": -1,
    "input_format": "tsv",
    "max_sentence_length": 2**20,
    "num_threads": 1,
    "hard_vocab_limit": False,
    "minloglevel": 3,
}

# Our vocabularies return this unchanged except for spaces: NUL, a tab, and a ligature that NFKC would split.
_PROBE, _PROBE_BACK = " \0\tﬁ  a b", "\0\tﬁ a b"

# Pieces of distinct words that are remembered: about 170,000 words and 30 MB.
_REMEMBERED_PIECES = 2**19


class Tokenizer:
    """Text ↔ token ids. It is a value that can be pickled; equal models are equal files."""

    eos_id: ClassVar[int] = EOS_ID
    unk_id: ClassVar[int] = UNK_ID

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = _open_model(model)
        self._size = int(self._processor.get_piece_size())

    @classmethod
    def learn(cls, lines: Iterable[str], vocab_size: int, *, seed: int) -> Self:
        """Learn exactly `vocab_size` pieces; if the text is too small for them, the error names the largest size."""
        words = _count_words(lines, seed=seed)
        model = _train_merges(words, vocab_size)
        largest = _num_pieces(model)
        if largest < vocab_size:
            raise DataError(
                f"tokenizer.vocab_size = {vocab_size}: the text can fill at most {_round_down(words, largest)}"
            )
        return cls(model)

    @classmethod
    def learn_at_most(cls, lines: Iterable[str], vocab_size: int, *, seed: int) -> Self:
        """Learn `vocab_size` pieces, or as many as the text can fill."""
        words = _count_words(lines, seed=seed)
        model = _train_merges(words, vocab_size)
        largest = _num_pieces(model)
        # Merges are learned in order, so that the second training repeats the first and stops a few merges earlier.
        return cls(model if largest == vocab_size else _train_merges(words, _round_down(words, largest)))

    @classmethod
    def learn_characters(cls, lines: Iterable[str], vocab_size: int, *, seed: int) -> Self:
        """A piece for each character; the rarest of those beyond `vocab_size` pieces are spelled in bytes."""
        words = _count_words(lines, seed=seed)
        _check_multiple(vocab_size)
        if vocab_size < _BYTES_AND_SPECIALS:
            raise ConfigError(
                f"tokenizer.vocab_size = {vocab_size} is too small: {_BYTES_AND_SPECIALS} bytes and special pieces "
                f"need at least {_round_up(_BYTES_AND_SPECIALS)}"
            )
        return cls(_train(_filled_up(words, vocab_size), vocab_size, kind="char"))

    @classmethod
    def load(cls, path: Path) -> Self:
        """The tokenizer in a file that `save` wrote."""
        try:
            return cls(path.read_bytes())
        except FileNotFoundError as error:
            raise CheckpointError(f"{path}: no such tokenizer file") from error
        except OSError as error:
            raise CheckpointError(f"{path}: the tokenizer cannot be read: {error.strerror}") from error
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error

    def save(self, path: Path) -> None:
        """Write the SentencePiece model, whole or not at all."""
        with explained(path, CheckpointError):
            write_file(path, self.model)

    @property
    def vocab_size(self) -> int:
        """V: the number of pieces, a multiple of 8."""
        return self._size

    @cached_property
    def kind(self) -> Literal["bpe", "char"]:
        """Whether words are made of characters alone, or of longer pieces too: `tokenizer.kind`."""
        ordinary = filter(self.is_ordinary, range(self._size))
        return "char" if all(len(self._processor.id_to_piece(index)) == 1 for index in ordinary) else "bpe"

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The text of each piece; empty for eos; without the pieces whose text depends on their neighbours."""
        ordinary = filter(self.is_ordinary, range(self._size))
        texts = {index: _on_one_line(self._processor.id_to_piece(index).replace(SPACE, " ")) for index in ordinary}
        return texts | {self.eos_id: ""}

    @property
    def fingerprint(self) -> str:
        """A digest of the vocabulary."""
        return hashlib.sha256(self.model).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without eos."""
        # For a list SentencePiece starts a thread, which takes longer than one text does.
        try:
            ids: list[int] = self._processor.encode(normalise(text))
        except (RuntimeError, TypeError, UnicodeEncodeError):
            return self.encode_batch([text])[0]  # which names what is wrong
        return ids

    def encode_batch(self, texts: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """The ids of each text, without eos."""
        try:
            ids: list[list[int]] = self._processor.encode(list(map(normalise, texts)), num_threads=threads)
        except (TypeError, UnicodeEncodeError) as error:
            lone = next(character for character in "".join(texts) if "\ud800" <= character <= "\udfff")
            raise DataError(f"the text holds a lone surrogate (U+{ord(lone):04X}), which is not a character") from error
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids, on one line; eos is left out."""
        given = ids if isinstance(ids, tuple | list) else list(ids)
        try:
            return "".join(map(self._texts.__getitem__, given)).lstrip(" ")
        except KeyError:  # a piece that SentencePiece must decode, or an unknown id
            kept = [index for index in self._checked(given) if index != self.eos_id]
            return _on_one_line(self._processor.decode(kept))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces as people read them: ▁ for the space before a word, <0x0A> for a byte, </s> for eos."""
        return [self._processor.id_to_piece(index) for index in self._checked(ids)]

    def is_ordinary(self, index: int) -> bool:
        """Whether words are made of this piece: it is neither a byte nor eos nor unknown."""
        kinds = (self._processor.is_byte, self._processor.is_control, self._processor.is_unknown)
        return not any(is_of_kind(index) for is_of_kind in kinds)

    def _checked(self, ids: Iterable[int]) -> list[int]:
        checked = [int(index) for index in ids]
        for index in checked:
            if not 0 <= index < self._size:
                raise DataError(f"token id {index} is outside the vocabulary (0 to {self._size - 1})")
        return checked

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        return type(self), (self.model,)

    def __eq__(self, other: object) -> bool:
        return self.model == other.model if isinstance(other, Tokenizer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.model)


class BulkEncoder:
    """Encodes many texts into one array, each distinct word once; several threads may ask.

    No piece crosses a space, so a text's ids are its words' ids in a row. Looking words up is much faster than encoding
    them again. The words are forgotten when they become too many.
    """

    def __init__(self, tokenizer: Tokenizer, *, threads: int = 1) -> None:
        self._encode, self._lock = partial(tokenizer.encode_batch, threads=threads), threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._numbers = WordNumbers()
        self._ids: Int32Array = np.empty(0, np.int32)
        self._starts: Int64Array = np.empty(0, np.int64)
        self._lengths: Int64Array = np.empty(0, np.int64)

    def encode(self, texts: Sequence[str]) -> tuple[Int32Array, Int64Array]:
        """The ids of all texts in one row, without eos, and the number of ids of each text."""
        words_by_text = [normalise(text).split(" ") for text in texts]
        with self._lock:
            words_W = self._look_up(words_by_text)
            ids, starts, lengths = self._ids, self._starts, self._lengths
        lengths_W = lengths[words_W]
        return take_slices(ids, starts[words_W], lengths_W), lengths_of_texts(words_by_text, lengths_W)

    def _look_up(self, words_by_text: Sequence[Sequence[str]]) -> Int64Array:
        if self._ids.size > _REMEMBERED_PIECES:
            self._forget()
        words_W = self._numbers.look_up(words_by_text)
        try:
            self._learn(self._encode(self._numbers.take_new()))
        except BaseException:
            self._forget()  # the new words have numbers but no ids
            raise
        return words_W

    def _learn(self, ids: list[list[int]]) -> None:
        self._lengths = np.append(self._lengths, np.fromiter(map(len, ids), np.int64, len(ids)))
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._ids = np.append(self._ids, np.fromiter(chain.from_iterable(ids), np.int32))


class WordNumbers(dict[str, int]):
    """Words, numbered in the order in which they are first looked up."""

    def __init__(self) -> None:
        self._new: list[str] = []

    def __missing__(self, word: str) -> int:
        self._new.append(word)
        number = self[word] = len(self)
        return number

    def look_up(self, words_by_text: Sequence[Sequence[str]]) -> Int64Array:
        """The numbers of the words of all texts, in one row."""
        words = list(chain.from_iterable(words_by_text))
        return np.fromiter(map(self.__getitem__, words), np.int64, len(words))

    def take_new(self) -> list[str]:
        """The words that are new since the last call."""
        new, self._new = self._new, []
        return new


def lengths_of_texts(words_by_text: Sequence[Sequence[str]], lengths_W: Int64Array) -> Int64Array:
    """The number of ids of each text, from those of its words; a text has at least one word, an empty one."""
    last_word_N = np.cumsum(np.fromiter(map(len, words_by_text), np.int64, len(words_by_text))) - 1
    return np.diff(np.cumsum(lengths_W)[last_word_N], prepend=0)


def take_slices(values_T: npt.NDArray[Any], starts_N: Int64Array, lengths_N: Int64Array) -> npt.NDArray[Any]:
    """The slices values[start : start + length], one after the other."""
    ends_N = np.cumsum(lengths_N)
    shifts_N = starts_N - ends_N + lengths_N
    slices: npt.NDArray[Any] = values_T[np.repeat(shifts_N, lengths_N) + np.arange(lengths_N.sum())]
    return slices


def _on_one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def normalise(text: str) -> str:
    """The text as SentencePiece gets it: runs of spaces are joined, and those at the ends dropped."""
    return unicodedata.normalize("NFC", text).replace(SPACE, " ")


def _open_model(model: bytes) -> Any:
    sentencepiece.set_min_log_level(3)
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
        sound = _is_ours(processor)
    # A damaged model can hold pieces that are not UTF-8.
    except (RuntimeError, ValueError) as error:
        raise CheckpointError("not a SentencePiece model, or a damaged one") from error
    if not sound:
        raise CheckpointError("a SentencePiece model, but not one that heedful learned (special ids, bytes or spaces)")
    return processor


def _is_ours(processor: Any) -> bool:
    ids = (processor.eos_id(), processor.unk_id(), processor.bos_id(), processor.pad_id())
    if ids != (Tokenizer.eos_id, Tokenizer.unk_id, -1, -1) or processor.get_piece_size() % _MULTIPLE:
        return False
    encoded: list[int] = processor.encode(_PROBE)
    by_word = chain.from_iterable(processor.encode(_PROBE.split(" ")))
    crosses = any(SPACE in processor.id_to_piece(index)[1:] for index in range(processor.get_piece_size()))
    return encoded == list(by_word) and processor.decode(encoded) == _PROBE_BACK and not crosses


def _count_words(lines: Iterable[str], *, seed: int, limit: int = _SAMPLED_LINES) -> Counter[str]:
    """The words of a random sample of at most `limit` lines; the lines themselves are not kept.

    Every line draws a level: half of them 0, a quarter 1, and so on. When there are too many, the lowest level is
    dropped. So the sample has between half of `limit` and all of it, and depends on the seed and the line numbers only.
    """
    random, lowest, num_kept = Random(seed), 0, 0
    num_lines, words = [0] * 33, [Counter[str]() for _ in range(33)]
    for line in lines:
        level = _trailing_zeros(random.getrandbits(32) | 1 << 32)
        if level >= lowest:
            words[level].update(normalise(line).split(" "))
            num_lines[level] += 1
            num_kept += 1
        while num_kept > limit:
            words[lowest].clear()
            num_kept -= num_lines[lowest]
            lowest += 1
    return _without_blanks(words)


def _trailing_zeros(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _without_blanks(counters: Iterable[Counter[str]]) -> Counter[str]:
    words: Counter[str] = Counter()
    for counter in counters:
        words.update(counter)
    del words[""]
    if not words:
        raise DataError("the text is blank: there is no word to learn a vocabulary from")
    return words


def _train_merges(words: Counter[str], vocab_size: int) -> bytes:
    """A model of at most `vocab_size` pieces."""
    _check_multiple(vocab_size)
    _check_smallest(words, vocab_size)
    return _train(words, vocab_size, kind="bpe")


def _train(words: Counter[str], vocab_size: int, *, kind: Literal["bpe", "char"]) -> bytes:
    """SentencePiece's model of the words. No piece goes beyond a word, so word counts are enough."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            # A list, as Ctrl-C inside an iterator of ours would come out as SentencePiece's error.
            sentence_iterator=iter(list(_word_lines(words))),
            model_writer=model,
            vocab_size=vocab_size,
            **_TRAINER_FLAGS | {"model_type": kind},
        )
    except (RuntimeError, ValueError) as error:
        raise DataError(f"SentencePiece cannot learn from the text: {' '.join(str(error).split())}") from error
    return model.getvalue()


def _word_lines(words: Counter[str]) -> Iterator[str]:
    for word, times in words.items():
        for begin in range(0, len(word), _LONGEST_WORD):
            yield f"{word[begin : begin + _LONGEST_WORD].translate(_RESERVED)}\t{times}"


def _check_multiple(vocab_size: int) -> None:
    if vocab_size % _MULTIPLE:
        nearest = max(1, round(vocab_size / _MULTIPLE)) * _MULTIPLE
        raise ConfigError(f"tokenizer.vocab_size = {vocab_size} is not a multiple of {_MULTIPLE}; {nearest} would be")


def _check_smallest(words: Counter[str], vocab_size: int) -> None:
    smallest = _smallest_size(words)
    if vocab_size < smallest:
        raise DataError(
            f"tokenizer.vocab_size = {vocab_size} is too small: {_BYTES_AND_SPECIALS} bytes and special pieces and the "
            f"text's {smallest - _BYTES_AND_SPECIALS} characters need at least {_round_up(smallest)}"
        )


def _smallest_size(words: Counter[str]) -> int:
    return _BYTES_AND_SPECIALS + len(_characters(words))


def _characters(words: Counter[str]) -> set[str]:
    """The characters that become pieces; the others are bytes in any vocabulary."""
    return (set().union(*words) | {SPACE}) - {"\0", "\t", "\u2585"}


def _filled_up(words: Counter[str], vocab_size: int) -> Counter[str]:
    """The words, and characters that they lack, so that there are pieces for a multiple of 8."""
    size = _smallest_size(words)
    missing = [character for character in _FILLERS if character not in _characters(words)]
    return words + Counter(missing[: _round_up(size) - size]) if size <= vocab_size else words


def _round_up(size: int) -> int:
    return -(-size // _MULTIPLE) * _MULTIPLE


def _round_down(words: Counter[str], largest: int) -> int:
    """The largest size that the text can fill and that is a multiple of 8."""
    size = largest // _MULTIPLE * _MULTIPLE
    if size < _smallest_size(words):
        raise DataError(f"the text is too small: it fills a vocabulary of {largest}, and 8 must divide the size")
    return size


def _num_pieces(model: bytes) -> int:
    return int(sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size())
