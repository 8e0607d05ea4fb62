"""Encoding a parallel text in parts (§5.1): what a plan records of the encoding, the worker, and joining its outputs.

A part is a number of whole chunks, with which `text_to_ids` draws the encodings of BPE-dropout, so that the shards are
those of one process to the last byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec
import numpy as np

from heedful import __version__
from heedful.data.parts.folder import PartFolder, PartOutput, new_plan
from heedful.data.parts.plan import (
    ByteRange,
    InputFile,
    InputReader,
    PartsPlan,
    PartText,
    PlannedPart,
    Stamp,
    open_input,
    refuse_changes,
    stamp,
)
from heedful.data.shards import Shards, join_encoded
from heedful.data.text_files import SentencePair, aligned_pairs, decode_lines, fingerprint, tsv_fields, tsv_pairs
from heedful.data.text_to_ids import Encoded, Encoding, PairCounts, Sentences, chunk_sizes, chunks
from heedful.data.tokenizer import Tokenizer
from heedful.errors import CheckpointError

PART_CHUNKS = 16  # of at most 4,096 pairs each: a worker holds the text of one part
_SIZE_BYTES = 8
_LENGTHS = "<i4"


class PairEncoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="encode"):
    """How every part is encoded."""

    tokenizer: Stamp
    is_tsv: bool  # otherwise the second half of the inputs are translations of the first
    part_chunks: int
    max_length: int
    dropout: float
    num_encodings: int
    seed: int
    max_length_ratio: float
    drop_copies: bool

    threads: ClassVar[int] = 1
    device: ClassVar[str] = "cpu"

    @classmethod
    def of(cls, plan: PartsPlan) -> Self:
        """The encoding that a plan records."""
        try:
            return msgspec.convert(plan.work, cls)
        except msgspec.ValidationError as error:
            raise CheckpointError(f"the plan is for other work than encoding, or damaged ({error})") from None

    def as_json(self) -> dict[str, Any]:
        """As plan.json holds it."""
        work: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return work

    @property
    def opening(self) -> Callable[[], EncodingWorker]:
        """Opens a worker, in any process."""
        return partial(EncodingWorker, self)

    @property
    def encoding(self) -> Encoding:
        """The same with its tokenizer, which is loaded."""
        fields = {name: getattr(self, name) for name in Encoding.__dataclass_fields__ if name != "tokenizer"}
        return Encoding(Tokenizer.load(Path(self.tokenizer.path)), **fields)

    def refuse_changes(self) -> None:
        """Refuse another tokenizer than the plan was made with."""
        refuse_changes([self.tokenizer], _digest, CheckpointError)


def _digest(path: Path) -> str:
    return fingerprint([path])


class EncodingWorker:
    """A worker; it remembers the words that it has encoded."""

    computed_by = f"heedful {__version__}"

    def __init__(self, work: PairEncoding) -> None:
        work.refuse_changes()
        self.work, self.encode = work, work.encoding.start()

    def outputs(self, part: PartText) -> Iterator[PartOutput]:
        """The encoded pairs, chunk by chunk."""
        for chunk in chunks(self._pairs(part), first=part.number * self.work.part_chunks):
            encoded = self.encode(chunk)
            yield PartOutput(_packed(encoded), encoded.counts.read, encoded.counts.kept)

    def _pairs(self, part: PartText) -> Iterator[SentencePair]:
        if self.work.is_tsv:
            return (SentencePair(*tsv_fields(line)) for line in chain.from_iterable(part.texts))
        sources, targets = (chain.from_iterable(part.texts[side::2]) for side in (0, 1))
        return map(SentencePair, sources, targets)


# ------------------------------------------------------------------------------------------------------------ planning


def plan_encoding(
    root: Path,
    source_files: Sequence[Path],
    target_files: Sequence[Path],
    encoding: Encoding,
    tokenizer: Path,
    say: Callable[[str], None],
) -> PartsPlan:
    """Write the folder's plan. A plan of the same text and encoding stays as it is; another one is refused."""
    fields = {name: getattr(encoding, name) for name in Encoding.__dataclass_fields__ if name != "tokenizer"}
    work = PairEncoding(stamp(tokenizer, _digest(tokenizer)), not target_files, PART_CHUNKS, **fields).as_json()

    def make() -> PartsPlan:
        cutter = _PairCutter(root, source_files, target_files, say)
        parts = tuple(cutter.parts())
        return PartsPlan(work, PART_CHUNKS, cutter.inputs, parts, ".encoded")

    return new_plan(root, [*source_files, *target_files], PART_CHUNKS, work, make)


class _PairCutter:
    """Cuts a parallel text into parts of whole chunks."""

    def __init__(
        self, root: Path, source_files: Sequence[Path], target_files: Sequence[Path], say: Callable[[str], None]
    ) -> None:
        self.root, self.source_files, self.target_files, self.say = root, source_files, target_files, say
        self._found: dict[int, InputFile] = {}
        self._ranges: list[ByteRange] = []
        self._open: list[InputReader] = []

    @property
    def inputs(self) -> tuple[InputFile, ...]:
        """The source files, then the target files; known when all parts are."""
        return tuple(self._found[number] for number in sorted(self._found))

    def parts(self) -> Iterator[PlannedPart]:
        """The parts. All text is read once."""
        sizes, before = chunk_sizes(self._pairs()), 0
        while some := list(islice(sizes, PART_CHUNKS)):
            self._take()
            yield PlannedPart(tuple(self._ranges), before, sum(some))
            self._ranges.clear()
            before += sum(some)

    def _pairs(self) -> Iterator[SentencePair]:
        for number, source in enumerate(self.source_files):
            with ExitStack() as stack:
                self._open = [stack.enter_context(reader) for reader in self._readers(number, source)]
                lines, *others = [decode_lines(reader.lines, str(reader.path)) for reader in self._open]
                if others:
                    yield from aligned_pairs(lines, others[0], source, self.target_files[number])
                else:
                    yield from tsv_pairs(lines, source)
                self._take()
                self._found |= {reader.number: reader.input_file() for reader in self._open}
                self._open = []

    def _readers(self, number: int, source: Path) -> Iterator[AbstractContextManager[InputReader]]:
        yield open_input(self.root, number, source, self.say)
        if self.target_files:
            place = len(self.source_files) + number
            yield open_input(self.root, place, self.target_files[number], self.say)

    def _take(self) -> None:
        """What was read of the open files belongs to the part."""
        ranges = [reader.taken() for reader in self._open]
        self._ranges += ranges if any(each.size for each in ranges) else []


# ------------------------------------------------------------------------------------------------------------- joining


def join_shards(
    folder: PartFolder,
    directory: Path,
    source_files: Sequence[Path],
    target_files: Sequence[Path],
    *,
    progress: Callable[[PairCounts], None],
) -> Shards:
    """Put the encoded parts together; the shards are those that one process would have made."""
    encoding = PairEncoding.of(folder.plan).encoding
    numbers = range(len(folder.plan.parts))
    encoded = chain.from_iterable(_unpacked(folder.verified_output(number), encoding.dtype) for number in numbers)
    pairs = [each.lines for each in folder.plan.inputs[: len(source_files)]]
    return join_encoded(
        directory, source_files, target_files, encoding, encoded, pairs_of_files=pairs, progress=progress
    )


class _EncodedChunk(msgspec.Struct, frozen=True, array_like=True):
    """A chunk on disk: the ids and the lengths of each encoding of each side, and which pairs were kept."""

    counts: PairCounts
    kept: bytes
    source: list[tuple[bytes, bytes]]
    target: list[tuple[bytes, bytes]]


def _packed(encoded: Encoded) -> bytes:
    source, target = _arrays(encoded.source), _arrays(encoded.target)
    chunk = _EncodedChunk(encoded.counts, np.packbits(encoded.kept_N).tobytes(), source, target)
    content = msgspec.msgpack.encode(chunk)
    return len(content).to_bytes(_SIZE_BYTES, "little") + content


def _arrays(encodings: tuple[Sentences, ...]) -> list[tuple[bytes, bytes]]:
    return [(each.ids.tobytes(), each.lengths.astype(_LENGTHS).tobytes()) for each in encodings]


def _unpacked(path: Path, dtype: str) -> Iterator[Encoded]:
    with path.open("rb") as file:
        while size := file.read(_SIZE_BYTES):
            chunk = msgspec.msgpack.decode(file.read(int.from_bytes(size, "little")), type=_EncodedChunk)
            bits = np.frombuffer(chunk.kept, np.uint8)
            kept_N = np.unpackbits(bits, count=chunk.counts.read).astype(np.bool_)
            yield Encoded(_sentences(chunk.source, dtype), _sentences(chunk.target, dtype), chunk.counts, kept_N)


def _sentences(encodings: list[tuple[bytes, bytes]], dtype: str) -> tuple[Sentences, ...]:
    arrays = ((np.frombuffer(ids, dtype), np.frombuffer(lengths, _LENGTHS)) for ids, lengths in encodings)
    return tuple(Sentences(ids, lengths.astype(np.int64)) for ids, lengths in arrays)
