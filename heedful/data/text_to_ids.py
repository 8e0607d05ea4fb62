"""Sentence pairs → token ids (§5.1 of the paper), chunk by chunk, in as many processes as there are cores.

Chunks are encoded in parallel and come back in order, so that the result does not depend on the number of processes;
and few of them are in flight, so that memory stays the same for any corpus. Pairs with an empty side and over-long ones
are left out, and counted. With BPE-dropout the others are encoded several times, by draws that follow from the seed and
the chunk's number. This module knows nothing of files.
"""

import operator
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from itertools import chain, compress, count, islice
from queue import SimpleQueue
from typing import IO, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from heedful import PACKAGE
from heedful.config.settings import Config
from heedful.data.bpe_dropout import DrawingEncoder
from heedful.data.text_files import SentencePair
from heedful.data.tokenizer import BulkEncoder, Int64Array, Tokenizer, take_slices
from heedful.errors import DeviceError

StoredIds: TypeAlias = npt.NDArray[Any]
"""Token ids in the smallest type that holds them all."""
BoolArray: TypeAlias = npt.NDArray[np.bool_]

# Chunks bound the memory that is in flight, also where lines are long.
_CHUNK_PAIRS = 4_096
_CHUNK_CHARACTERS = 2**21
# This many chunks are encoded here in less time than other processes take to start.
_FEW_CHUNKS = 5
# With more processes than this, reading the text is the bottleneck.
_MOST_PROCESSES = 8


@dataclass(frozen=True, slots=True)
class PairCounts:
    """How many pairs were read, kept and left out; tokens are those of the kept pairs, with eos."""

    read: int
    kept: int
    empty: int
    too_long: int
    source_tokens: int
    target_tokens: int
    uneven: int = 0  # one side is much longer than the other
    copies: int = 0  # the target is the source

    @property
    def left_out(self) -> str:
        """What was left out and why; what a switch would leave out is named only if it left something out."""
        found = {"uneven": self.uneven, "copied": self.copies}
        also = "".join(f", {number:,} {kind}" for kind, number in found.items() if number)
        return f"left out: {self.empty:,} empty, {self.too_long:,} too long{also}"

    def __add__(self, other: "PairCounts") -> "PairCounts":
        return PairCounts(*map(operator.add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """The ids of some sentences in a row, each closed by eos, and their lengths including it."""

    ids: StoredIds
    lengths: Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Some pairs after encoding: each side of the kept ones, once for every encoding."""

    source: tuple[Sentences, ...]
    target: tuple[Sentences, ...]
    counts: PairCounts
    kept_N: BoolArray  # of the pairs that were read


@dataclass(frozen=True, slots=True)
class Encoding:
    """How pairs are encoded: those with an empty side, or over `max_length` pieces on a side, are left out.

    Also left out are pairs whose longer side has more than `max_length_ratio` times the pieces of the shorter one
    (0: no limit), and with `drop_copies` those whose sides are equal.

    The first encoding is the plain one. With `dropout` others are drawn, up to `num_encodings` in all; a drawn
    sentence that is longer than `max_length` is replaced by its plain encoding.
    """

    tokenizer: Tokenizer
    max_length: int
    dropout: float = 0.0
    num_encodings: int = 1
    seed: int = 0
    max_length_ratio: float = 0.0
    drop_copies: bool = False

    @classmethod
    def for_training(cls, config: Config, tokenizer: Tokenizer) -> "Encoding":
        """The encoding of training text by these settings."""
        data, pieces = config.data, config.tokenizer
        cleaned = cls(tokenizer, data.max_length, max_length_ratio=data.max_length_ratio, drop_copies=data.drop_copies)
        if not pieces.dropout:
            return cleaned
        return replace(cleaned, dropout=pieces.dropout, num_encodings=pieces.encodings, seed=config.train.seed)

    @classmethod
    def for_validation(cls, config: Config, tokenizer: Tokenizer) -> "Encoding":
        """The plain encoding, as for text to translate."""
        return cls(tokenizer, config.data.max_length)

    @property
    def identity(self) -> tuple[object, ...]:
        """Everything but the text that the result depends on."""
        drawn = (self.dropout, self.num_encodings, self.seed) if self.dropout else ()
        ratio = ("max_length_ratio", self.max_length_ratio) if self.max_length_ratio else ()
        copies = ("drop_copies",) if self.drop_copies else ()
        return (self.tokenizer.fingerprint, self.max_length, *drawn, *ratio, *copies)

    @property
    def dtype(self) -> str:
        """The smallest integer type that holds every id."""
        return "<u2" if self.tokenizer.vocab_size <= 2**16 else "<u4"

    def encode(self, pairs: Iterator[SentencePair], *, processes: int | None = None) -> Generator[Encoded]:
        """Encode the pairs, in order; a small corpus is encoded in this process, whatever `processes` says."""
        stream, num_processes = chunks(pairs), processes or _num_processes()
        first = list(islice(stream, _FEW_CHUNKS))
        if num_processes == 1 or len(first) < _FEW_CHUNKS or not sys.executable:
            yield from map(self.start(), chain(first, stream))
        else:
            yield from _encode_in_processes(chain(first, stream), self, num_processes)

    def start(self) -> Callable[["Chunk"], Encoded]:
        """A function that encodes chunks, and remembers words from one to the next."""
        drawing = DrawingEncoder(self.tokenizer, dropout=self.dropout, seed=self.seed) if self.dropout else None
        return partial(self._encode_chunk, BulkEncoder(self.tokenizer), drawing)

    def _encode_chunk(self, encoder: BulkEncoder, drawing: DrawingEncoder | None, chunk: "Chunk") -> Encoded:
        sources, targets = chunk.source.split("\n"), chunk.target.split("\n")
        source_T, source_lengths_N = encoder.encode(sources)
        target_T, target_lengths_N = encoder.encode(targets)
        kept_N, faults = np.ones(len(sources), np.bool_), {}
        for name, fault_N in self._faults(sources, targets, source_lengths_N, target_lengths_N):
            faults[name] = int((kept_N & fault_N).sum())  # a pair counts for its first fault
            kept_N &= ~fault_N
        kept = int(kept_N.sum())
        source = self._keep(source_T, source_lengths_N, kept_N)
        target = self._keep(target_T, target_lengths_N, kept_N)
        tokens = {"source_tokens": len(source.ids), "target_tokens": len(target.ids)}
        counts = PairCounts(read=len(sources), kept=kept, **tokens, **faults)
        if drawing is None or not kept:
            return Encoded((source,), (target,), counts, kept_N)
        bits = np.random.PCG64([self.seed, chunk.number])
        return Encoded(
            (source, *self._draw(drawing, source, list(compress(sources, kept_N)), bits)),
            (target, *self._draw(drawing, target, list(compress(targets, kept_N)), bits)),
            counts,
            kept_N,
        )

    def _faults(
        self, sources: list[str], targets: list[str], source_lengths_N: Int64Array, target_lengths_N: Int64Array
    ) -> Iterator[tuple[str, BoolArray]]:
        """Why pairs are left out, by the names of `PairCounts`."""
        shorter_N = np.minimum(source_lengths_N, target_lengths_N)
        longer_N = np.maximum(source_lengths_N, target_lengths_N)
        yield "empty", _are_blank(sources) | _are_blank(targets) | (shorter_N == 0)
        yield "too_long", longer_N > self.max_length
        if self.max_length_ratio:
            yield "uneven", longer_N > self.max_length_ratio * shorter_N
        if self.drop_copies:
            same = (a.strip() == b.strip() for a, b in zip(sources, targets, strict=True))
            yield "copies", np.fromiter(same, np.bool_, len(sources))

    def _keep(self, ids_T: StoredIds, lengths_N: Int64Array, kept_N: BoolArray) -> Sentences:
        kept_T, lengths = ids_T[np.repeat(kept_N, lengths_N)], lengths_N[kept_N]
        closed_T = np.insert(kept_T, np.cumsum(lengths), Tokenizer.eos_id)
        return Sentences(closed_T.astype(self.dtype), lengths + 1)

    def _draw(
        self, drawing: DrawingEncoder, plain: Sentences, texts: list[str], bits: np.random.PCG64
    ) -> Iterator[Sentences]:
        """The drawn encodings of the texts of one side."""
        plain_starts_N = np.cumsum(plain.lengths) - plain.lengths
        for ids_T, lengths_N in drawing.encode(texts, bits, times=self.num_encodings - 1):
            drawn = self._keep(ids_T, lengths_N, np.ones(len(texts), np.bool_))
            long_N = drawn.lengths > self.max_length + 1
            # Both encodings lie in a row; each sentence takes one of its two.
            starts_N = np.where(long_N, plain_starts_N, len(plain.ids) + np.cumsum(drawn.lengths) - drawn.lengths)
            lengths_N = np.where(long_N, plain.lengths, drawn.lengths)
            yield Sentences(take_slices(np.concatenate([plain.ids, drawn.ids]), starts_N, lengths_N), lengths_N)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some pairs: the lines of each side, joined by line ends, and the number of chunks before them."""

    source: str
    target: str
    number: int


def _are_blank(lines: list[str]) -> BoolArray:
    return np.fromiter((not line or line.isspace() for line in lines), np.bool_, len(lines))


def chunk_sizes(pairs: Iterator[SentencePair]) -> Iterator[int]:
    """How many of the pairs, which are used up, each chunk has."""
    while size := sum(1 for _ in _some(pairs)):
        yield size


def chunks(pairs: Iterator[SentencePair], *, first: int = 0) -> Iterator[Chunk]:
    """The pairs in chunks; `first` chunks stand before them."""
    for number in count(first):
        if not (chunk := list(_some(pairs))):
            return
        yield Chunk("\n".join(pair.source for pair in chunk), "\n".join(pair.target for pair in chunk), number)


def _some(pairs: Iterator[SentencePair]) -> Iterator[SentencePair]:
    num_characters = 0
    for pair in islice(pairs, _CHUNK_PAIRS):
        yield pair
        num_characters += len(pair.source) + len(pair.target)
        if num_characters >= _CHUNK_CHARACTERS:
            return


# --------------------------------------------------------------------------------------------------- in many processes


def _num_processes() -> int:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, _MOST_PROCESSES)


def _encode_in_processes(chunks: Iterator[Chunk], encoding: Encoding, processes: int) -> Iterator[Encoded]:
    idle: SimpleQueue[_Worker] = SimpleQueue()

    def encode(chunk: Chunk) -> Encoded:
        worker = idle.get()
        try:
            return worker.encode(chunk)
        finally:
            idle.put(worker)

    # The threads are left last: each waits for a worker, and ends after it.
    with ThreadPoolExecutor(processes) as threads, ExitStack() as workers:
        for _ in range(processes):
            idle.put(workers.enter_context(closing(_Worker(encoding))))
        waiting: deque[Future[Encoded]] = deque()
        for chunk in chunks:
            waiting.append(threads.submit(encode, chunk))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class _Worker:
    """A process that encodes chunks: they arrive on its stdin, and their encodings leave on its stdout.

    It is a plain Python process and not one of `multiprocessing`: with spawn or forkserver that would run the caller's
    script a second time, unless it is guarded by `if __name__ == "__main__"`, and a fork copies locks that threads of
    torch may hold. It has a session of its own, so that Ctrl-C reaches only the process that started it; it leaves when
    that one does, as its stdin ends then.
    """

    def __init__(self, encoding: Encoding) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from heedful.data.text_to_ids import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": _module_path(), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        except OSError as error:
            raise DeviceError(f"no process could be started to encode text: {error.strerror}") from error
        self._stdin, self._stdout = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        self._settings: Encoding | None = encoding

    def encode(self, chunk: Chunk) -> Encoded:
        """The chunk, encoded there."""
        try:
            pickle.dump((self._settings, chunk), self._stdin)
            self._stdin.flush()
            encoded: Encoded = pickle.load(self._stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            reason = f"ended with exit code {self._process.wait()}; was there too little memory?"
            raise DeviceError(f"a process that encoded text {reason}") from error
        self._settings = None
        return encoded

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        with suppress(OSError), self._process:
            pass


def serve() -> None:
    """The work of a `_Worker`: encode what arrives on stdin until it ends. The settings come with the first chunk."""
    with suppress(EOFError, OSError):
        encoding, chunk = pickle.load(sys.stdin.buffer)
        encode = encoding.start()
        while True:
            pickle.dump(encode(chunk), sys.stdout.buffer)
            sys.stdout.buffer.flush()
            _, chunk = pickle.load(sys.stdin.buffer)
    os._exit(0)  # without complaint if nobody reads our stdout any more


def _module_path() -> str:
    """Where a process finds the modules that this one found."""
    return os.pathsep.join([*filter(None, sys.path), str(PACKAGE.parent)])
