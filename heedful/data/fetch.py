"""A data set of the catalogue → aligned text files in a folder: fetch, check, take the text out, write it.

Downloads lie in `downloads/` under their own names. A file that is there already is checked and not fetched again, so
a user may put it there without a network. A broken download is resumed. `fetch.json` records what was found: a file
without a published digest is trusted the first time, and must be the same from then on. A text that is not as we wrote
it is somebody's work, and is never replaced. Archives cannot choose names: only members that the catalogue names are
read. One process at a time writes to a folder.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import tarfile
import urllib.error
import urllib.parse
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, cast

import msgspec
from msgspec import Struct

from heedful.data.atomic import explained, held, remove, temporary_folder, tidy, write_file
from heedful.data.data_sets import DataSet, Download, Split, TextFormat, TextPlace
from heedful.data.download import BLOCK_BYTES, NO_NETWORK, Say, download_to
from heedful.errors import ConfigError, DataError

DOWNLOADS, RECORD, PIECES, LOCK = "downloads", "fetch.json", "pieces", ".fetch.lock"
OLDER_PIECES = ".pieces"  # what a version before this one left when it was killed

_DAMAGED = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError)


class Fetched(Struct, frozen=True):
    """A download as it was found. `published`: its digest is in the catalogue; otherwise the first one was trusted."""

    url: str
    size: int
    sha256: str
    published: bool


class WrittenText(Struct, frozen=True):
    """A text file that was written."""

    lines: int
    sha256: str


class FetchRecord(Struct, frozen=True):
    """fetch.json: what is in the folder."""

    data_set: str
    downloads: dict[str, Fetched] = {}
    texts: dict[str, WrittenText] = {}


def fetch(wanted: DataSet, folder: Path, *, mirror: str = "", say: Say = lambda _: None) -> dict[str, Path]:
    """Write a data set's texts into a folder; return them by name. `mirror` is a URL with all downloads below it."""
    if mirror:
        _check_mirror(mirror)
    paths = {name: folder / name for name in _text_names(wanted)}
    with _explained(folder):
        _refuse_foreign(paths, _read_record(folder, wanted))
        if all(path.exists() for path in paths.values()):
            say(f"{wanted.name} is in {folder} already, unchanged since it was written")
            return paths
        (folder / DOWNLOADS).mkdir(parents=True, exist_ok=True)
        in_use = f"{folder}: is in use, another process fetches into it; wait for it or take another folder (-o)"
        with held(folder / LOCK, DataError(in_use)):
            record = _read_record(folder, wanted)  # another fetch may have finished meanwhile
            _refuse_foreign(paths, record)
            record = _fetch_all(wanted, folder, record, mirror, say)
            _write_texts(wanted, folder, record, say)
    return paths


def _check_mirror(mirror: str) -> None:
    """Refuse anything but a URL here: later it would be an error in many places."""
    try:
        parts = urllib.parse.urlsplit(mirror)
        host = (parts.hostname or "").encode("idna")
        is_url = parts.scheme in ("http", "https") and host and parts.port != 0 and re.fullmatch("[!-~]+", mirror)
    except ValueError:
        is_url = None
    if not is_url:
        raise ConfigError(f"--mirror {mirror!r} is not a URL; give one such as https://host/folder")


def _text_names(wanted: DataSet) -> list[str]:
    """The files that a data set becomes."""
    return [file for name, split in wanted.splits.items() for file in _file_names(name, split)]


def _file_names(name: str, split: Split) -> list[str]:
    return [f"{part}.{language}" for part in _parts(name, split) for language in split.texts]


def _parts(name: str, split: Split) -> list[str]:
    """A split, and the one that is held out of it."""
    return [name, *([split.held_out[0]] if split.held_out else [])]


def _refuse_foreign(paths: Mapping[str, Path], record: FetchRecord) -> None:
    """Refuse to replace a file that is not as we wrote it."""
    for name, path in paths.items():
        if not path.exists():
            continue
        is_ours = name in record.texts and path.is_file() and _digest(path, "sha256") == record.texts[name].sha256
        if not is_ours:
            raise DataError(f"{path}: is there and not what fetch wrote; move it away or take another folder (-o)")


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Explain an OSError by the file that it names; that of a full disk names none."""
    try:
        yield
    except OSError as error:
        with explained(Path(error.filename or folder), DataError, "cannot be read or written"):
            raise


# ------------------------------------------------------------------------------------------------------------- fetching


def _fetch_all(wanted: DataSet, folder: Path, record: FetchRecord, mirror: str, say: Say) -> FetchRecord:
    for download in wanted.downloads:
        path = folder / DOWNLOADS / download.name
        url = f"{mirror.rstrip('/')}/{download.name}" if mirror else download.url
        is_ours = not path.exists()
        if is_ours:
            _download(url, path, download, wanted, say)
        found = _check(path, download, record.downloads.get(download.name), url, is_ours=is_ours)
        if not found.published and download.name not in record.downloads:
            say(f"{download.name}: no digest is published for it; its SHA-256 {found.sha256} goes into {RECORD}")
        record = msgspec.structs.replace(record, downloads=record.downloads | {download.name: found})
    return record


def _download(url: str, path: Path, download: Download, wanted: DataSet, say: Say) -> None:
    """Fetch a file; without a network, say what to fetch by hand and where to put it."""
    size = f" ({download.size / 1e6:,.0f} MB)" if download.size else ""
    say(f"fetching {url}{size}")
    try:
        download_to(path, url, say)
    except urllib.error.HTTPError as error:
        said = _one_line(f"{error.code} {error.reason}")
        raise DataError(f"{url}: the server says {said}; {_by_hand(wanted, path.parent)}") from None
    except NO_NETWORK as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"{url}: not fetched ({_one_line(reason)}); {_by_hand(wanted, path.parent)}") from None


def _by_hand(wanted: DataSet, folder: Path) -> str:
    missing = " ".join(each.url for each in wanted.downloads if not (folder / each.name).exists())
    return f"run the command again to go on, or put these files into {folder} by hand: {missing}"


def _one_line(reason: object) -> str:
    return " ".join(str(getattr(reason, "strerror", None) or reason or type(reason).__name__).split())


def _check(path: Path, download: Download, before: Fetched | None, url: str, *, is_ours: bool) -> Fetched:
    """Compare a download with its published digest, or with the digest that it had the first time."""
    size, digest, published = path.stat().st_size, _digest(path, "sha256"), bool(download.sha256 or download.md5)
    found = {"sha256": digest, "md5": _digest(path, "md5") if download.md5 else "", "size": str(size)}
    expected = {"sha256": download.sha256, "md5": download.md5, "size": str(download.size or "")}
    if before and not published:
        expected["sha256"] = before.sha256
    for kind, value in expected.items():
        if value and found[kind] != value:
            if is_ours:
                path.unlink()
            what = "it was removed; try again" if is_ours else "remove it, and run the command again"
            since = "what it was the first time" if kind == "sha256" and not published else "as published"
            raise DataError(f"{path}: its {kind} is {found[kind]}, not {value} ({since}); {what}")
    return Fetched(url, size, digest, published)


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


# ------------------------------------------------------------------------------------------------------------ the texts


def _write_texts(wanted: DataSet, folder: Path, record: FetchRecord, say: Say) -> None:
    """Write all texts, or none. The record is written first, so that every text in its place is known as ours."""
    tidy(folder, PIECES)
    remove(folder / OLDER_PIECES)
    with temporary_folder(folder / PIECES) as pieces:
        _take_out(wanted, folder, pieces)
        written: dict[str, WrittenText] = {}
        for name, split in wanted.splits.items():
            written |= _write_split(name, split, pieces, say)
        found = FetchRecord(wanted.name, record.downloads, written)
        write_file(folder / RECORD, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
        for name in written:
            (pieces / name).replace(folder / name)


def _take_out(wanted: DataSet, folder: Path, pieces: Path) -> None:
    """Write the text of every place to its own file; each archive is read once, from front to back."""
    for download in wanted.downloads:
        here = [place for place in _places(wanted) if place.download == download.name]
        path = folder / DOWNLOADS / download.name
        try:
            if any(place.member for place in here):
                _take_members(path, {place.member: place for place in here}, pieces)
            for place in (each for each in here if not each.member):
                with path.open("rb") as file:
                    _take(file, place, path.name, pieces)
        except _DAMAGED as error:
            raise DataError(f"{path}: is damaged ({_one_line(error)}); remove it, and run the command again") from None


def _places(wanted: DataSet) -> list[TextPlace]:
    return [place for split in wanted.splits.values() for text in split.texts.values() for place in text.places]


def _take_members(path: Path, wanted: dict[str, TextPlace], pieces: Path) -> None:
    missing = dict(wanted)
    with _unzipped(path) as stream, tarfile.open(fileobj=stream, mode="r|*") as archive:
        for member in archive:
            place = missing.pop(member.name.removeprefix("./"), None) if member.isfile() else None
            file = archive.extractfile(member) if place else None
            if place and file:
                _take(file, place, place.member, pieces)
        while stream.read(BLOCK_BYTES):  # gzip's checksum comes after the last member
            pass
    if missing:
        raise DataError(f"{path}: holds no {', '.join(missing)}; is it the right file?")


def _unzipped(path: Path) -> IO[bytes]:
    """The archive, unzipped here, because tarfile would not check gzip's checksum."""
    with path.open("rb") as file:
        is_zipped = file.read(2) == b"\x1f\x8b"
    return cast("IO[bytes]", gzip.open(path)) if is_zipped else path.open("rb")


def _take(file: IO[bytes], place: TextPlace, name: str, pieces: Path) -> None:
    lines = gzip.GzipFile(fileobj=file) if name.endswith(".gz") else file
    with _piece_file(place, pieces).open("wb") as out:
        out.writelines(line + b"\n" for line in _plain_lines(lines, place.format))


def _piece_file(place: TextPlace, pieces: Path) -> Path:
    return pieces / hashlib.sha256(f"{place.download} {place.member}".encode()).hexdigest()


def _plain_lines(lines: Iterable[bytes], format: TextFormat) -> Iterator[bytes]:
    """The sentences, without line ends. Entities stay as they are, as in sacreBLEU and fairseq."""
    ended = (line.removesuffix(b"\n").removesuffix(b"\r") for line in lines)
    match format:
        case "plain":
            yield from ended
        case "sgm":
            segments = (re.match(rb"\s*<seg[^>]*>(.*)</seg>", line) for line in ended)
            yield from (b" ".join(found[1].split()) for found in segments if found)
        case "ted":
            yield from _talk_lines(ended)


def _talk_lines(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Titles, descriptions and the talk itself, without its other metadata."""
    for line in lines:
        tagged = re.fullmatch(rb"\s*<(\w+)[^>]*>(.*?)(</\1>)?\s*", line)
        if not tagged:
            yield line.strip()
        elif tagged[1] in (b"title", b"description"):
            yield tagged[2].strip()


def _write_split(name: str, split: Split, pieces: Path, say: Say) -> dict[str, WrittenText]:
    """Write the texts of a split, and of the one held out of it, beside the pieces."""
    temporary = {file: pieces / file for file in _file_names(name, split)}
    columns = {
        language: chain.from_iterable(_lines_of(_piece_file(place, pieces)) for place in text.places)
        for language, text in split.texts.items()
    }
    _check_aligned(name, split, pieces)
    _distribute(name, split, columns, temporary)
    written = {file: WrittenText(_count(path), _digest(path, "sha256")) for file, path in temporary.items()}
    _check_lines(name, split, written)
    first = next(iter(split.texts))
    say(", ".join(f"{part}: {written[f'{part}.{first}'].lines:,} pairs" for part in _parts(name, split)))
    for language, text in split.texts.items():
        if text.same_as and written[f"{name}.{language}"].sha256 != text.same_as:
            say(f"{name}.{language}: is not the text that our own figures were made with; scores may differ a little")
    return written


def _lines_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _check_aligned(name: str, split: Split, pieces: Path) -> None:
    """Raise unless all languages have equally many lines in each place, so that line n translates line n."""
    for aligned in zip(*(text.places for text in split.texts.values()), strict=True):
        counts = {place.member or place.download: _count(_piece_file(place, pieces)) for place in aligned}
        if len(set(counts.values())) > 1:
            found = " and ".join(f"{member} has {count:,}" for member, count in counts.items())
            raise DataError(f"{name}: the languages do not have as many lines: {found}")


def _count(path: Path) -> int:
    return sum(1 for _ in _lines_of(path))


def _distribute(name: str, split: Split, columns: Mapping[str, Iterator[bytes]], files: dict[str, Path]) -> None:
    """Write pairs to files; every n-th of those that have all sides goes to the split that is held out."""
    held_out, every = split.held_out or ("", 0)
    rows = zip(*columns.values(), strict=True)
    whole = (row for row in rows if not held_out or all(line.strip() for line in row))
    with ExitStack() as stack:
        out = {file: stack.enter_context(path.open("wb")) for file, path in files.items()}
        for number, row in enumerate(whole, start=1):
            part = held_out if every and number % every == 0 else name
            for language, line in zip(columns, row, strict=True):
                out[f"{part}.{language}"].write(line)


def _check_lines(name: str, split: Split, written: dict[str, WrittenText]) -> None:
    lines = written[f"{name}.{next(iter(split.texts))}"].lines
    if split.lines is not None and lines != split.lines:
        raise DataError(f"{name}: {lines:,} pairs, where {split.lines:,} are known to be; are these the right files?")


# ----------------------------------------------------------------------------------------------------------- fetch.json


def _read_record(folder: Path, wanted: DataSet) -> FetchRecord:
    path = folder / RECORD
    if not path.exists():
        return FetchRecord(wanted.name)
    try:
        record = msgspec.json.decode(path.read_bytes(), type=FetchRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}); remove it to begin anew") from None
    if record.data_set != wanted.name:
        raise DataError(f"{folder}: holds the data set {record.data_set}; take another folder (-o)")
    return record
