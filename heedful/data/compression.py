"""Compressed text files, .gz, .xz and .zst: the bytes inside, read and written as a stream.

A file that ends in the middle is an error. This module knows only bytes and names.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import GzipFile
from importlib.util import find_spec
from io import BufferedReader, RawIOBase
from lzma import LZMAError, LZMAFile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from heedful.config.optional_packages import install_line
from heedful.errors import DataError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

COMPRESSED = (".gz", ".xz", ".zst")
UNREADABLE = (OSError, EOFError, zlib.error, LZMAError)
_BLOCK_BYTES = 2**17


def is_compressed(path: Path) -> bool:
    """Whether the name ends in .gz, .xz or .zst."""
    return path.suffix.lower() in COMPRESSED


def uncompressed(path: Path) -> Path:
    """The name without .gz, .xz or .zst."""
    return path.with_suffix("") if is_compressed(path) else path


def open_unpacked(path: Path) -> BufferedReader:
    """The bytes of a plain or compressed file."""
    # The compressed files' own readline is Python code; a buffer in front of them splits lines in C.
    match path.suffix.lower():
        case ".gz":
            return BufferedReader(GzipFile(path))
        case ".xz":
            return BufferedReader(LZMAFile(path))
        case ".zst":
            return BufferedReader(_ZstdReader(path))
        case ".bz2" | ".zip" as kind:
            raise DataError(f"{path}: {kind} is not read; unpack the file, or pack it as .gz, .xz or .zst")
        case _:
            return path.open("rb")


@contextmanager
def packed_writer(path: Path, name: Path) -> Iterator[IO[bytes]]:
    """A file that compresses what is written, as `name` says. The same bytes give the same file."""
    with path.open("wb") as file:
        match name.suffix.lower():
            case ".gz":
                writer: Any = GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
            case ".xz":
                writer = LZMAFile(file, "wb")  # noqa: SIM115
            case ".zst":
                writer = _zstandard(name).ZstdCompressor().stream_writer(file, closefd=False)
            case _:
                writer = file
        with writer:
            yield writer


def refuse_missing_library(path: Path) -> None:
    """Refuse a .zst file before any work if zstandard is not installed."""
    if path.suffix.lower() == ".zst":
        _zstandard(path)


def _zstandard(path: Path) -> Any:
    if find_spec("zstandard") is None:
        raise DataError(f"{path}: .zst needs the package zstandard; {install_line('zstandard')}")
    import zstandard

    return zstandard


class _ZstdReader(RawIOBase):
    """The bytes of a .zst file of one or more frames. (The library's own reader accepts a truncated file.)"""

    def __init__(self, path: Path) -> None:
        self._library = _zstandard(path)
        self._file = path.open("rb")
        self._frame = self._library.ZstdDecompressor().decompressobj()
        self._is_inside = False  # a frame
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer)
        while not self._ready and (block := self._block()):
            self._ready = memoryview(self._decompressed(block))
        size = min(len(target), len(self._ready))
        target[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _block(self) -> bytes:
        """Compressed bytes, the rest of the last block first; none at the end of the file."""
        if self._frame.eof:
            rest: bytes = self._frame.unused_data
            self._frame, self._is_inside = self._library.ZstdDecompressor().decompressobj(), False
            if rest:
                return rest
        block = self._file.read(_BLOCK_BYTES)
        if not block and self._is_inside:
            raise EOFError("the file ends in the middle of a frame")
        return block

    def _decompressed(self, block: bytes) -> bytes:
        self._is_inside = True
        try:
            text: bytes = self._frame.decompress(block)
        except self._library.ZstdError as error:
            raise OSError(str(error)) from None
        return text

    def close(self) -> None:
        self._file.close()
        super().close()
