"""Token ids on disk: two languages' sentences in flat arrays, mapped into memory (§5.1 of the paper).

A folder of shards is made once from text and tokenizer, and reused while text, tokenizer and encoding stay the same. If
sentences are encoded several times, the plain encodings of all sentences come first, then the second ones, and so on.
Memory hardly grows with the corpus: text is encoded chunk by chunk, and only the sentences' lengths stay resident.
This module knows nothing of batches or of torch.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, repeat
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from heedful.data.atomic import explained, is_free, replaced_folder, write_file
from heedful.data.text_files import SentencePair, fingerprint, read_pairs
from heedful.data.text_to_ids import Encoded, Encoding, Sentences, StoredIds
from heedful.data.text_to_ids import PairCounts as PairCounts
from heedful.data.tokenizer import Int64Array, take_slices
from heedful.errors import CheckpointError, ConfigError, DataError

_FORMAT = 1
_RECORD = "record.json"
# The start of every 16th sentence is kept in memory; lengths give the starts between.
_BLOCK = 16
# Larger files are read and not mapped: touched pages of a map count as resident memory, and random sentences soon
# touch all of them.
_MAPPED_BYTES = 300 * 2**20
# A file that changes twice within this time may show the same time stamp.
_CLOCK_TICK_NS = 2_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One language: the ids of all sentences in a row, each closed by eos, and their lengths including it."""

    ids: StoredIds
    lengths: npt.NDArray[np.int32]
    reader: _Reader | None = None
    _block_starts: Int64Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        blocks = np.add.reduceat(self.lengths, np.arange(0, len(self.lengths), _BLOCK), dtype=np.int64)
        object.__setattr__(self, "_block_starts", np.cumsum(blocks) - blocks)

    def starts(self, indices_N: Int64Array) -> Int64Array:
        """The places in `ids` where these sentences begin."""
        block_N = indices_N // _BLOCK
        earlier_NB = np.minimum(block_N[:, None] * _BLOCK + np.arange(_BLOCK), indices_N[:, None])
        lengths_NB = np.where(earlier_NB < indices_N[:, None], self.lengths[earlier_NB], 0)
        starts_N: Int64Array = self._block_starts[block_N] + lengths_NB.sum(axis=1)
        return starts_N

    def gather(self, indices_N: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The ids of these sentences in a row, and their lengths."""
        starts_N, lengths_N = self.starts(indices_N), self.lengths[indices_N].astype(np.int64)
        take = self.reader.take_slices if self.reader else partial(take_slices, self.ids)
        return take(starts_N, lengths_N).astype(np.int64), lengths_N


class _Reader:
    """Slices of a file of numbers, read from the page cache.

    `os.pread` would release the interpreter's lock for every sentence, and wait up to 5 ms to get it back from a busy
    training thread. The same call through PyDLL keeps the lock.
    """

    def __init__(self, path: Path, dtype: str) -> None:
        self._dtype = np.dtype(dtype)
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._pread = ctypes.PyDLL(None).pread
        self._pread.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
        self._pread.restype = ctypes.c_ssize_t

    def take_slices(self, starts_N: Int64Array, lengths_N: Int64Array) -> StoredIds:
        """The slices, one after the other."""
        size = self._dtype.itemsize
        slices_T = np.empty(lengths_N.sum(), self._dtype)
        places_N = slices_T.ctypes.data + size * (np.cumsum(lengths_N) - lengths_N)
        arguments = places_N.tolist(), (size * lengths_N).tolist(), (size * starts_N).tolist()
        if sum(map(self._pread, repeat(self._file), *arguments)) != slices_T.nbytes:
            raise CheckpointError("the shards were damaged while they were read")
        return slices_T


@dataclass(frozen=True, slots=True, eq=False)
class Shards:
    """A parallel corpus as numbers: sentence n of the source side and sentence n of the target side are a pair.

    Of N pairs the sentences n, n + N, n + 2 N, … are encodings of the same pair, the first of them the plain one.
    `kept_of_files` says how many pairs are of each file, in order; it is empty if an older version made the shards.
    `weights` says how often an epoch takes the pairs of each file; empty: once.
    """

    source: Side
    target: Side
    counts: PairCounts
    num_encodings: int = 1
    kept_of_files: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()

    def weighted(self, weights: Sequence[float]) -> Shards:
        """The same shards; an epoch takes the pairs of each file as often as its weight says."""
        if weights and len(weights) != len(self.kept_of_files):
            raise ConfigError(
                f"data.weights has {len(weights)} weights, and the encoded text knows of "
                f"{len(self.kept_of_files)} files (of none, if an older version made it); take a new folder (-o)"
            )
        return replace(self, weights=tuple(weights))

    def __len__(self) -> int:
        return self.counts.kept


class _File(msgspec.Struct, frozen=True):
    """A digest of a text file, and its size and times when it was read."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    read_ns: int
    fingerprint: str


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a folder of shards was made from, and what is in it."""

    format: int
    fingerprint: str
    files: list[_File]
    dtype: str
    counts: PairCounts
    num_encodings: int = 1
    kept_of_files: list[int] = []


@dataclass(frozen=True, slots=True)
class _Text:
    """The files of a folder's text, a digest of it and its encoding, and what is known of each file."""

    paths: list[Path]
    identity: str
    files: list[_File]


# ------------------------------------------------------------------------------------------------- make, open, compare


def prepare(
    directory: Path,
    source_files: Sequence[Path],
    target_files: Sequence[Path],
    encoding: Encoding,
    *,
    processes: int | None = None,
    progress: Callable[[PairCounts], None] = lambda _: None,
) -> Shards:
    """Encode the pairs into `directory`, or reuse shards that were made from the same text in the same way."""
    read_pairs(source_files, target_files)  # refuses files that do not go together
    identity, files = _identity(directory, source_files, target_files, encoding)
    if _is_made_from(directory, identity):
        _remember_files(directory, files)
        return open_shards(directory)
    counter = _FileCounter()
    with closing(encoding.encode(counter.read(source_files, target_files), processes=processes)) as encoded:
        text = _Text([*source_files, *target_files], identity, files)
        return _write(directory, text, encoding, map(counter.count, encoded), counter, progress)


def join_encoded(
    directory: Path,
    source_files: Sequence[Path],
    target_files: Sequence[Path],
    encoding: Encoding,
    encoded: Iterable[Encoded],
    *,
    pairs_of_files: Sequence[int],
    progress: Callable[[PairCounts], None],
) -> Shards:
    """Write what was encoded elsewhere: the bytes are those of `prepare`. `pairs_of_files` were read of each file."""
    text = _Text([*source_files, *target_files], *_identity(directory, source_files, target_files, encoding))
    counter = _FileCounter(pairs_of_files)
    return _write(directory, text, encoding, map(counter.count, encoded), counter, progress)


def _write(
    directory: Path,
    text: _Text,
    encoding: Encoding,
    encoded: Iterable[Encoded],
    counter: _FileCounter,
    progress: Callable[[PairCounts], None],
) -> Shards:
    _refuse_other_things(directory)
    with explained(directory, DataError), replaced_folder(directory) as folder:
        counts = _write_sides(folder, encoded, encoding.num_encodings, progress)
        _check_not_empty(counts, encoding.max_length, text.paths)
        made = text.identity, text.files, encoding.dtype, counts, encoding.num_encodings, counter.kept
        _write_record(folder, _Record(_FORMAT, *made))
    return open_shards(directory)


def open_shards(directory: Path) -> Shards:
    """The shards that `prepare` made."""
    record = _read_record(directory)
    counts = record.counts
    try:
        source = _open_side(directory / "source", record, counts.source_tokens)
        target = _open_side(directory / "target", record, counts.target_tokens)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{directory}: the shards are damaged; remove the folder to make them anew") from error
    return Shards(source, target, counts, record.num_encodings, tuple(record.kept_of_files))


def made_from(directory: Path) -> str:
    """A digest of the text and the encoding that the shards in `directory` were made from."""
    return _read_record(directory).fingerprint


def is_current(directory: Path, source_files: Sequence[Path], target_files: Sequence[Path], encoding: Encoding) -> bool:
    """Whether `prepare` would reuse the shards in `directory`; false where a file is missing."""
    with suppress(DataError):
        return _is_made_from(directory, _identity(directory, source_files, target_files, encoding)[0])
    return False


def is_of_other_text(
    directory: Path, source_files: Sequence[Path], target_files: Sequence[Path], encoding: Encoding
) -> bool:
    """Whether shards were made from other text or in another way; false if there are no shards."""
    try:
        before = made_from(directory)
    except CheckpointError:
        return False
    return before != _identity(directory, source_files, target_files, encoding)[0]


def _open_side(name: Path, record: _Record, num_tokens: int) -> Side:
    ids = np.memmap(name.with_suffix(".ids"), record.dtype, mode="r")
    lengths = np.memmap(name.with_suffix(".lengths"), "<i4", mode="r")
    plain, drawn = (int(part.sum(dtype=np.int64)) for part in np.split(lengths, [record.counts.kept]))
    if (plain, plain + drawn, record.counts.kept * record.num_encodings) != (num_tokens, len(ids), len(lengths)):
        raise ValueError("cut off, or written over")
    if lengths.min() < 1:
        raise ValueError("a sentence of no token")
    reader = _Reader(name.with_suffix(".ids"), record.dtype) if ids.nbytes > _MAPPED_BYTES else None
    return Side(ids, lengths, reader)


def _is_made_from(directory: Path, identity: str) -> bool:
    try:
        open_shards(directory)
    except CheckpointError:
        return False
    return made_from(directory) == identity


def _identity(
    directory: Path, source_files: Sequence[Path], target_files: Sequence[Path], encoding: Encoding
) -> tuple[str, list[_File]]:
    """A digest of the text and the encoding, and what is in the files of the text."""
    known: dict[str, _File] = {}
    with suppress(CheckpointError):
        known = {file.path: file for file in _read_record(directory).files}
    files = [_look_at(path, known.get(_name(path))) for path in (*source_files, *target_files)]
    content = ([file.fingerprint for file in files], len(source_files), *encoding.identity)
    return hashlib.sha256(repr(content).encode()).hexdigest(), files


def _look_at(path: Path, known: _File | None) -> _File:
    """What is in a file; if it is surely unchanged, from the record: hashing a large corpus takes seconds."""
    if known and path.is_file() and _is_unchanged(known, path.stat()):
        return known
    read_ns, content = time.time_ns(), fingerprint([path])
    status = path.stat()
    return _File(_name(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, read_ns, content)


def _is_unchanged(known: _File, now: os.stat_result) -> bool:
    # A file can change twice within a tick of the clock and show the same time.
    settled = known.read_ns - max(known.mtime_ns, known.ctime_ns) > _CLOCK_TICK_NS
    then = (known.size, known.mtime_ns, known.ctime_ns)
    return settled and then == (now.st_size, now.st_mtime_ns, now.st_ctime_ns)


def _name(path: Path) -> str:
    return ascii(str(path.absolute()))  # a file's name need not be valid UTF-8


# ---------------------------------------------------------------------------------------------------------- the folder


def _read_record(directory: Path) -> _Record:
    try:
        record = msgspec.json.decode((directory / _RECORD).read_bytes(), type=_Record)
    except FileNotFoundError as error:
        raise CheckpointError(f"{directory}: no shards are here ({_RECORD} is missing)") from error
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{directory / _RECORD} cannot be read: {error}") from error
    if record.format != _FORMAT:
        raise CheckpointError(f"{directory}: shards of format {record.format}, and this version makes {_FORMAT}")
    return record


def _write_record(directory: Path, record: _Record) -> None:
    write_file(directory / _RECORD, msgspec.json.format(msgspec.json.encode(record)))


def _remember_files(directory: Path, files: list[_File]) -> None:
    record = _read_record(directory)
    if record.files != files:
        # This only saves time at the next start.
        with suppress(OSError):
            _write_record(directory, msgspec.structs.replace(record, files=files))


def _refuse_other_things(directory: Path) -> None:
    if not is_free(directory) and not (directory / _RECORD).is_file():
        raise CheckpointError(f"{directory} holds something other than shards; move it away")


def _write_sides(
    folder: Path, encoded: Iterable[Encoded], num_encodings: int, progress: Callable[[PairCounts], None]
) -> PairCounts:
    counts = PairCounts(0, 0, 0, 0, 0, 0)
    with ExitStack() as stack:
        source, target = (_Writer(folder / name, num_encodings, stack) for name in ("source", "target"))
        for part in encoded:
            source.write(part.source)
            target.write(part.target)
            counts += part.counts
            progress(counts)
        source.finish()
        target.finish()
    return counts


class _Writer:
    """Writes the two files of a side part by part; every encoding has files of its own until the end."""

    def __init__(self, name: Path, num_encodings: int, stack: ExitStack) -> None:
        names = [name, *(name.with_name(f"{name.name}-{number}") for number in range(1, num_encodings))]
        self._files = [
            [stack.enter_context(each.with_suffix(suffix).open("w+b")) for suffix in (".ids", ".lengths")]
            for each in names
        ]

    def write(self, encodings: Sequence[Sentences]) -> None:
        # A part of which nothing is kept has only one encoding, an empty one.
        for (ids, lengths), sentences in zip(self._files, encodings, strict=False):
            ids.write(sentences.ids.tobytes())
            lengths.write(sentences.lengths.astype("<i4").tobytes())

    def finish(self) -> None:
        """Append the other encodings to the first one."""
        first, *others = self._files
        for file, *parts in zip(first, *others, strict=True):
            for part in parts:
                part.seek(0)
                shutil.copyfileobj(part, file)
                Path(part.name).unlink()


class _FileCounter:
    """Counts the pairs of each file that are kept."""

    def __init__(self, pairs_of_files: Sequence[int] = ()) -> None:
        self.kept: list[int] = []
        self._begins = [sum(pairs_of_files[:file]) for file in range(len(pairs_of_files))]  # pairs before each file
        self._num_encoded = 0

    def read(self, source_files: Sequence[Path], target_files: Sequence[Path]) -> Iterator[SentencePair]:
        """All pairs, in order."""
        number = 0
        for place, source in enumerate(source_files):
            self._begins.append(number)
            for pair in read_pairs([source], target_files[place : place + 1]):
                number += 1
                yield pair

    def count(self, encoded: Encoded) -> Encoded:
        """Count these pairs. They were read before they were encoded, so the begin of their file is known."""
        self.kept += [0] * (len(self._begins) - len(self.kept))
        begins = [max(begin - self._num_encoded, 0) for begin in self._begins]
        for file, (begin, end) in enumerate(pairwise([*begins, len(encoded.kept_N)])):
            self.kept[file] += int(encoded.kept_N[begin:end].sum())
        self._num_encoded += len(encoded.kept_N)
        return encoded


def _check_not_empty(counts: PairCounts, max_length: int, files: Sequence[Path]) -> None:
    if not counts.kept:
        raise DataError(
            f"{' and '.join(map(str, files))}: no sentence pair is left of {counts.read:,}: "
            f"{counts.empty:,} are empty on a side, "
            f"{counts.too_long:,} are longer than data.max_length = {max_length} pieces, {counts.uneven:,} have sides "
            f"of too different lengths and {counts.copies:,} are copies"
        )
