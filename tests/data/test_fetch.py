"""`heedful fetch` against a server in this process: resume, digests, offline, archives that mean harm."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import re
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from heedful.cli.main import commands
from heedful.data.atomic import held
from heedful.data.data_sets import CATALOGUE, DataSet, Download, Split, Text, TextPlace, data_set
from heedful.data.fetch import fetch
from heedful.data.text_files import read_pairs
from heedful.errors import ConfigError, DataError

SGM = '<doc>\n<seg id="1"> Ein  Satz. </seg>\n<seg id="2">A &amp; B</seg>\n</doc>\n'
TALK = "<url>http://x</url>\n<speaker>Y</speaker>\n<title>On cats</title>\n<description>About cats</description>\n"


def tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


class Server:
    """Files over HTTP with Range and If-Range; it counts what it sent, and can break off."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.break_after: int | None = None
        self.knows_ranges = True
        self.header = "ETag"  # what it calls its files by; "": by nothing
        self.begins_late = 0  # a part is one from so much further on
        self.length = ""  # what it says that it sends; "": what it sends
        self.at_most: int | None = None  # it gives no more of a part than so many bytes
        self.elsewhere = ""  # where it sends who asks; "": nowhere
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/mirror"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        name, wanted = handler.path.removeprefix("/mirror/"), handler.headers["Range"]
        self.requests.append((name, wanted))
        if self.elsewhere:
            handler.send_response(302)
            handler.send_header("Location", self.elsewhere)
            handler.send_header("Content-Length", "0")
            return handler.end_headers()
        if name not in self.files:
            return handler.send_error(404)
        content = self.files[name]
        called = f'"{hashlib.md5(content).hexdigest()}"'
        is_same = handler.headers["If-Range"] in (None, called)
        begin = int(re.findall(r"\d+", wanted)[0]) if wanted and self.knows_ranges and is_same else 0
        if begin and begin >= len(content):
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(content)}")
            handler.send_header("Content-Length", "0")
            return handler.end_headers()
        begin += self.begins_late if begin else 0
        sent = content[begin:][: self.at_most if begin else None]
        handler.send_response(206 if begin else 200)
        if begin:
            handler.send_header("Content-Range", f"bytes {begin}-{begin + len(sent) - 1}/{len(content)}")
        if self.header:
            handler.send_header(self.header, called)
        handler.send_header("Content-Length", self.length or str(len(sent)))
        handler.end_headers()
        handler.wfile.write(sent[: self.break_after])


@pytest.fixture
def server() -> Iterator[Server]:
    serving = Server()
    yield serving
    serving.server.shutdown()
    serving.server.server_close()
    serving.thread.join()


PLAIN = {"train.en.gz": b"a cat\na dog\n\xc2\x85 one line\n", "train.de.gz": "eine Katze\nein Hund\nä\n".encode()}
TESTS = tar(
    {"./t/test.en.sgm": SGM.encode(), "../../evil": b"harm", "/t/absolute": b"harm", "t/test.de.sgm": SGM.encode()}
)


def small(*, md5: str | None = None, sha256: str | None = None) -> DataSet:
    """A data set with a gzip file for each language, and an archive."""
    return DataSet(
        name="small",
        about="a test",
        downloads=(
            *(Download(url=f"http://nowhere.invalid/{name}") for name in PLAIN),
            Download(url="http://nowhere.invalid/tests.tgz", md5=md5, sha256=sha256),
        ),
        splits={
            "train": Split(
                texts={lang: Text(places=(TextPlace(f"train.{lang}.gz"),)) for lang in ("en", "de")}, lines=3
            ),
            "test": Split(
                texts={
                    lang: Text(places=(TextPlace("tests.tgz", f"t/test.{lang}.sgm", "sgm"),)) for lang in ("en", "de")
                }
            ),
        },
    )


def serve_small(server: Server) -> None:
    server.files = {name: gzip.compress(text) for name, text in PLAIN.items()} | {"tests.tgz": TESTS}


def test_files_are_fetched_checked_and_written_aligned(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    said: list[str] = []
    md5 = hashlib.md5(TESTS).hexdigest()
    texts = fetch(small(md5=md5), tmp_path / "data", mirror=server.url, say=said.append)
    assert sorted(texts) == ["test.de", "test.en", "train.de", "train.en"]
    assert texts["train.en"].read_bytes() == PLAIN["train.en.gz"]
    assert texts["test.de"].read_text() == "Ein Satz.\nA &amp; B\n"
    assert len(list(read_pairs([texts["train.en"]], [texts["train.de"]]))) == 3
    trusted = [line for line in said if "no digest is published" in line]
    assert [line.split(":")[0] for line in trusted] == list(PLAIN), "the archive's digest is published, theirs are not"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == sorted(
        ["fetch.json", *texts, *PLAIN, "tests.tgz", ".fetch.lock"]
    ), "nothing is unpacked under a name that the archive chose, and nothing half done is left"
    assert not (tmp_path.parent / "evil").exists()


def test_what_is_there_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    fetch(small(), tmp_path, mirror=server.url)
    asked = len(server.requests)
    said: list[str] = []
    fetch(small(), tmp_path, mirror="http://127.0.0.1:1", say=said.append)
    assert "already" in said[-1]
    (tmp_path / "test.en").unlink()
    assert fetch(small(), tmp_path, mirror="http://127.0.0.1:1")["test.en"].exists()
    assert len(server.requests) == asked


def test_files_put_there_by_hand_need_no_network(tmp_path: Path) -> None:
    (tmp_path / "downloads").mkdir()
    for name, text in PLAIN.items():
        (tmp_path / "downloads" / name).write_bytes(gzip.compress(text))
    (tmp_path / "downloads" / "tests.tgz").write_bytes(TESTS)
    assert len(fetch(small(), tmp_path, mirror="http://127.0.0.1:1")) == 4


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_broken_download_goes_on(server: Server, tmp_path: Path, knows_ranges: bool) -> None:
    serve_small(server)
    server.break_after, server.knows_ranges = 20, knows_ranges
    left = len(server.files["train.en.gz"]) - 20
    problem = rf"train\.en\.gz: not fetched \(the server broke off, {left} bytes are missing\); run the command again"
    with pytest.raises(DataError, match=problem):
        fetch(small(), tmp_path, mirror=server.url)
    assert (tmp_path / "downloads" / "train.en.gz.part").stat().st_size == 20
    server.break_after = None
    texts = fetch(small(), tmp_path, mirror=server.url)
    assert server.requests[1] == ("train.en.gz", "bytes=20-")
    assert texts["train.en"].read_bytes() == PLAIN["train.en.gz"]
    assert not list((tmp_path / "downloads").glob("*.part*"))


def test_a_length_that_is_no_number_does_not_matter(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    server.length = "unknown"
    texts = fetch(small(), tmp_path, mirror=server.url)
    assert texts["train.en"].read_bytes() == PLAIN["train.en.gz"]


def broken(server: Server, folder: Path) -> None:
    """A download that broke off after 20 bytes."""
    serve_small(server)
    server.break_after = 20
    with pytest.raises(DataError, match="not fetched"):
        fetch(small(), folder, mirror=server.url)
    server.break_after = None


@pytest.mark.parametrize("header", ["ETag", "Last-Modified"])
def test_a_file_that_changed_since_the_download_broke_is_fetched_anew(
    server: Server, tmp_path: Path, header: str
) -> None:
    server.header = header
    broken(server, tmp_path)
    server.files["train.en.gz"] = gzip.compress(b"other\ntext\nnow\n")
    texts = fetch(small(), tmp_path, mirror=server.url)
    assert server.requests[1] == ("train.en.gz", "bytes=20-")
    assert texts["train.en"].read_bytes() == b"other\ntext\nnow\n"


def test_a_part_of_unknown_origin_or_from_another_mirror_is_not_gone_on_with(server: Server, tmp_path: Path) -> None:
    for folder, header in ((tmp_path / "nameless", ""), (tmp_path / "other", "ETag")):
        server.header = header
        broken(server, folder)
        server.requests.clear()
        (folder / "downloads" / "train.en.gz.part").write_bytes(b"of something else")
        fetch(
            small(), folder, mirror=f"{server.url}/" if header == "" else server.url.replace("127.0.0.1", "localhost")
        )
        assert server.requests[0] == ("train.en.gz", None)


def test_a_part_that_begins_elsewhere_is_not_put_behind_what_is_there(server: Server, tmp_path: Path) -> None:
    broken(server, tmp_path)
    server.begins_late = 1
    texts = fetch(small(), tmp_path, mirror=server.url)
    assert texts["train.en"].read_bytes() == PLAIN["train.en.gz"]
    assert server.requests[1:3] == [("train.en.gz", "bytes=20-"), ("train.en.gz", None)]


def test_a_part_that_ends_early_is_not_the_whole_file(server: Server, tmp_path: Path) -> None:
    """A server need not give all that it was asked for."""
    broken(server, tmp_path)
    server.at_most = 10
    with pytest.raises(DataError, match=r"train\.en\.gz: not fetched .*run the command again to go on"):
        fetch(small(), tmp_path, mirror=server.url)
    assert not (tmp_path / "downloads" / "train.en.gz").exists()
    server.at_most = None
    texts = fetch(small(), tmp_path, mirror=server.url)
    assert server.requests[2] == ("train.en.gz", "bytes=30-")
    assert texts["train.en"].read_bytes() == PLAIN["train.en.gz"]


def test_a_download_that_broke_at_its_very_end_is_whole(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    (tmp_path / "downloads").mkdir()
    for name, content in (("train.en.gz", server.files["train.en.gz"]), ("train.de.gz", b"longer than it is" * 20)):
        called = f'"{hashlib.md5(server.files[name]).hexdigest()}"'
        (tmp_path / "downloads" / f"{name}.part").write_bytes(content)
        (tmp_path / "downloads" / f"{name}.part.json").write_text(
            json.dumps({"url": f"{server.url}/{name}", "validator": called})
        )
    texts = fetch(small(), tmp_path, mirror=server.url)
    assert server.requests[0] == ("train.en.gz", f"bytes={len(server.files['train.en.gz'])}-")
    assert texts["train.en"].read_bytes() == PLAIN["train.en.gz"]
    assert texts["train.de"].read_bytes() == PLAIN["train.de.gz"], "what was no beginning of it was fetched anew"


def test_a_file_that_is_not_the_published_one_is_refused(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    with pytest.raises(DataError, match=r"tests\.tgz: its md5 is .*, not 0123 \(as published\); it was removed"):
        fetch(small(md5="0123"), tmp_path, mirror=server.url)
    assert not (tmp_path / "downloads" / "tests.tgz").exists()
    (tmp_path / "downloads" / "tests.tgz").write_bytes(TESTS)
    with pytest.raises(DataError, match=r"its sha256 is .*; remove it"):
        fetch(small(sha256="0123"), tmp_path, mirror=server.url)
    assert (tmp_path / "downloads" / "tests.tgz").exists(), "what we did not fetch is not ours to remove"


def test_a_file_without_a_published_digest_must_stay_what_it_was(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    fetch(small(), tmp_path, mirror=server.url)
    (tmp_path / "downloads" / "train.en.gz").unlink()
    (tmp_path / "train.en").unlink()
    server.files["train.en.gz"] = gzip.compress(b"other\ntext\nnow\n")
    with pytest.raises(DataError, match="what it was the first time"):
        fetch(small(), tmp_path, mirror=server.url)


def test_a_damaged_file_is_not_what_a_whole_one_is_measured_by(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    whole, server.files["train.en.gz"] = server.files["train.en.gz"], server.files["train.en.gz"][:30]
    with pytest.raises(DataError, match=r"train\.en\.gz: is damaged .*; remove it, and run the command again"):
        fetch(small(), tmp_path, mirror=server.url)
    (tmp_path / "downloads" / "train.en.gz").unlink()
    server.files["train.en.gz"] = whole
    assert fetch(small(), tmp_path, mirror=server.url)["train.en"].read_bytes() == PLAIN["train.en.gz"]


def test_an_archive_whose_checksum_is_wrong_is_damaged(server: Server, tmp_path: Path) -> None:
    """Its text may be another. gzip's checksum is among the last eight bytes, behind all that tar reads."""
    for number, packed in enumerate((TESTS[:-8] + b"\0\0\0\0" + TESTS[-4:], TESTS[:-8])):
        serve_small(server)
        server.files["tests.tgz"] = packed
        with pytest.raises(DataError, match=r"tests\.tgz: is damaged .*; remove it, and run the command again"):
            fetch(small(), tmp_path / str(number), mirror=server.url)
        assert not (tmp_path / str(number) / "fetch.json").exists()


def test_an_archive_that_was_unpacked_on_its_way_is_read_too(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    server.files["tests.tgz"] = gzip.decompress(TESTS)
    assert fetch(small(), tmp_path, mirror=server.url)["test.de"].read_text() == "Ein Satz.\nA &amp; B\n"


def test_misaligned_short_or_missing_text_is_refused_and_nothing_is_written(server: Server, tmp_path: Path) -> None:
    cases = {
        "do not have as many lines": {"train.de.gz": gzip.compress(b"one\n")},
        "2 pairs, where 3 are known": {name: gzip.compress(b"a\nb\n") for name in PLAIN},
        "holds no t/test": {"tests.tgz": tar({"t/other": b""})},
        "is damaged": {"tests.tgz": TESTS[:100]},
    }
    for number, (problem, files) in enumerate(cases.items()):
        serve_small(server)
        server.files |= files
        with pytest.raises(DataError, match=problem):
            fetch(small(), tmp_path / str(number), mirror=server.url)
        assert not (tmp_path / str(number) / "train.en").exists()
        assert not list((tmp_path / str(number)).glob(".pieces*"))


def test_talks_lose_their_tags_and_every_23rd_pair_validates(server: Server, tmp_path: Path) -> None:
    talk = TALK + "".join(f"line {n} \n" for n in range(44)) + "\n"
    xml = '<refset><seg id="1"> {} </seg></refset>\n'.replace("><seg", ">\n<seg")
    names = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
    files = {f"de-en/train.tags.de-en.{lang}": talk.encode() for lang in ("de", "en")}
    # The archive's order is not the test's.
    files |= {
        f"de-en/IWSLT14.{n}.de-en.{lang}.xml": xml.format(n).encode() for n in names[::-1] for lang in ("de", "en")
    }
    server.files["de-en.tgz"] = tar(files)
    wanted = data_set("iwslt14")
    splits = wanted.splits | {"test": msgspec.structs.replace(wanted.splits["test"], lines=5)}
    texts = fetch(msgspec.structs.replace(wanted, splits=splits), tmp_path, mirror=server.url)
    train, valid = (texts[f"{name}.de"].read_text().splitlines() for name in ("train", "valid"))
    assert (train[:3], len(train), valid) == (["On cats", "About cats", "line 0"], 44, ["line 20", "line 43"])
    assert texts["test.en"].read_text().splitlines() == list(names)


def test_a_packed_file_inside_a_plain_archive_is_read_too(server: Server, tmp_path: Path) -> None:
    inside = {f"big.{lang}.gz": gzip.compress(b"one\ntwo\n" * 50_000) for lang in ("en", "fr")}
    server.files["big.tar"] = gzip.decompress(tar(inside))
    texts = {lang: Text(places=(TextPlace("big.tar", f"big.{lang}.gz"),)) for lang in ("en", "fr")}
    download = Download(url="http://nowhere.invalid/big.tar", size=len(server.files["big.tar"]))
    wanted = DataSet(name="big", about="", downloads=(download,), splits={"train": Split(texts=texts)})
    assert fetch(wanted, tmp_path / "a", mirror=server.url)["train.fr"].read_bytes() == b"one\ntwo\n" * 50_000
    short = msgspec.structs.replace(wanted, downloads=(msgspec.structs.replace(download, size=5),))
    with pytest.raises(DataError, match=r"its size is .*, not 5"):
        fetch(short, tmp_path / "b", mirror=server.url)


def test_a_text_that_is_not_ours_is_reported_and_kept(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    wanted = small()
    text = msgspec.structs.replace(wanted.splits["train"].texts["en"], same_as="0123")
    train = msgspec.structs.replace(wanted.splits["train"], texts=wanted.splits["train"].texts | {"en": text})
    said: list[str] = []
    changed = msgspec.structs.replace(wanted, splits=wanted.splits | {"train": train})
    assert fetch(changed, tmp_path, mirror=server.url, say=said.append)["train.en"].exists()
    assert [line for line in said if "train.en: is not the text that our own figures" in line]


def test_a_folder_of_another_data_set_is_left_alone(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    fetch(small(), tmp_path, mirror=server.url)
    with pytest.raises(DataError, match="holds the data set small"):
        fetch(data_set("multi30k"), tmp_path, mirror=server.url)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_text_that_fetch_did_not_write_is_left_alone(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    (tmp_path / "train.de").write_text("my own\n")
    with pytest.raises(DataError, match=r"train\.de: is there and not what fetch wrote; move it away or take another"):
        fetch(small(), tmp_path, mirror=server.url)
    assert server.requests == []
    assert [path.name for path in tmp_path.iterdir()] == ["train.de"], "nothing was written"


def test_a_text_that_was_cleaned_by_hand_is_left_alone(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    fetch(small(), tmp_path, mirror=server.url)
    (tmp_path / "train.en").write_text("cleaned\n")
    (tmp_path / "test.de").unlink()
    before = contents(tmp_path)
    with pytest.raises(DataError, match=r"train\.en: is there and not what fetch wrote"):
        fetch(small(), tmp_path, mirror=server.url)
    assert contents(tmp_path) == before


def test_a_fetch_that_was_killed_while_it_put_its_texts_in_place_goes_on(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_small(server)
    replace = Path.replace

    def killed(path: Path, target: Path) -> Path:
        if target.name == "test.en":
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            fetch(small(), tmp_path, mirror=server.url)
    assert (tmp_path / "train.en").exists()
    assert fetch(small(), tmp_path, mirror=server.url)["test.en"].exists()


def test_a_second_fetch_into_the_same_folder_is_refused_while_the_first_goes_on(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    refused: list[str] = []

    def second(said: str) -> None:
        if said.startswith("fetching"):
            with pytest.raises(DataError, match="is in use, another process fetches into it") as error:
                fetch(small(), tmp_path, mirror=server.url)
            refused.append(str(error.value))

    texts = fetch(small(), tmp_path, mirror=server.url, say=second)
    assert len(refused) == len(server.requests) == 3, "the second one asked for nothing"
    assert all(path.exists() for path in texts.values())
    (tmp_path / "test.en").unlink()
    fetch(small(), tmp_path, mirror=server.url)  # it is free again


def test_a_folder_in_use_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with held(tmp_path / ".fetch.lock", DataError("in use")):
        command = [sys.executable, "-m", "heedful", "fetch", "multi30k", "-o", str(tmp_path)]
        done = subprocess.run([*command, "--mirror", "http://127.0.0.1:1"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[1:] == [
        f"heedful: {tmp_path}: is in use, another process fetches into it; wait for it or take another folder (-o)"
    ]


def test_a_whole_data_set_is_found_where_nothing_can_be_written(server: Server, tmp_path: Path) -> None:
    serve_small(server)
    fetch(small(), tmp_path, mirror=server.url)
    (tmp_path / ".fetch.lock").unlink()
    (tmp_path / ".fetch.lock").mkdir()  # as good as a folder that is read-only, also for root
    assert fetch(small(), tmp_path)["test.en"].exists()
    (tmp_path / "test.en").unlink()
    with pytest.raises(DataError, match=r"\.fetch\.lock: cannot be read or written \("):
        fetch(small(), tmp_path)


def test_a_download_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "downloads" / "train.en.gz").mkdir(parents=True)  # as good as one that may not be read, also for root
    with pytest.raises(DataError, match=r"downloads/train\.en\.gz: cannot be read or written \("):
        fetch(small(), tmp_path)


@pytest.mark.parametrize(
    "mirror",
    ["foo", "http://[bad", "http://", "https:///folder", "ftp://host", "http://a..b", "http://h:x", "http://ä/ä"],
)
def test_a_mirror_that_is_no_url_is_named(mirror: str, tmp_path: Path) -> None:
    done = call("fetch", "multi30k", "-o", tmp_path / "new", "--mirror", mirror)
    assert isinstance(done.exception, ConfigError)
    assert f"--mirror {mirror!r} is not a URL" in str(done.exception)
    assert not (tmp_path / "new").exists()


# ------------------------------------------------------------------------------------------ the catalogue, the command


@pytest.mark.parametrize("wanted", CATALOGUE.values(), ids=list(CATALOGUE))
def test_the_catalogue_is_whole(wanted: DataSet) -> None:
    names = [download.name for download in wanted.downloads]
    assert len(set(names)) == len(names)
    pieces = [piece for split in wanted.splits.values() for text in split.texts.values() for piece in text.places]
    assert {piece.download for piece in pieces} == set(names), "every download is used, and every piece has one"
    assert len({(piece.download, piece.member) for piece in pieces}) == len(pieces)
    for download in wanted.downloads:
        assert re.fullmatch(r"https://\S+", download.url)
        assert re.fullmatch("[0-9a-f]{64}", download.sha256 or "0" * 64)
        assert re.fullmatch("[0-9a-f]{32}", download.md5 or "0" * 32)
    for split in wanted.splits.values():
        assert len({len(text.places) for text in split.texts.values()}) == 1


def test_members_of_the_wmt_archives_are_named_by_language() -> None:
    french = data_set("wmt14-en-fr").splits
    assert [piece.member for piece in french["train"].texts["fr"].places] == [
        "training/europarl-v7.fr-en.fr",
        "commoncrawl.fr-en.fr",
        "training/news-commentary-v9.fr-en.fr",
        "un/undoc.2000.fr-en.fr",
        "giga-fren.release2.fixed.fr.gz",
    ]
    german = data_set("wmt14").splits["newstest2014"].texts
    assert german["en"].places[0].member == "test-full/newstest2014-deen-src.en.sgm"
    assert german["de"].places[0].member == "test-full/newstest2014-deen-ref.de.sgm"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


def test_without_a_network_one_line_says_what_to_fetch_by_hand(tmp_path: Path) -> None:
    done = call("fetch", "wmt14", "-o", tmp_path, "--mirror", "http://127.0.0.1:1")
    assert isinstance(done.exception, DataError)
    message = str(done.exception)
    assert "\n" not in message
    assert f"put these files into {tmp_path / 'downloads'} by hand: " in message
    for download in data_set("wmt14").downloads:
        assert download.url in message


def test_a_server_without_the_file_says_so(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the server says 404"):
        fetch(small(), tmp_path, mirror=server.url)


@pytest.mark.parametrize(
    ("elsewhere", "problem"),
    [
        ("/mirror/train.en.gz", "the server says 302 .* infinite loop"),
        ("http://a..b/x", "not fetched .*idna"),
    ],
    ids=["in a circle", "to what is no URL"],
)
def test_a_server_that_leads_astray_is_one_line(server: Server, tmp_path: Path, elsewhere: str, problem: str) -> None:
    server.elsewhere = elsewhere
    with pytest.raises(DataError, match=f"{problem}.*by hand: http://nowhere") as error:
        fetch(small(), tmp_path, mirror=server.url)
    assert "\n" not in str(error.value)


def test_help_names_every_data_set() -> None:
    assert "|".join(CATALOGUE) in call("fetch", "--help").stdout


def test_an_unknown_data_set_names_those_there_are(tmp_path: Path) -> None:
    done = call("fetch", "wmt41", "-o", tmp_path / "new")
    assert isinstance(done.exception, ConfigError)
    assert "multi30k, iwslt14, wmt14" in str(done.exception)
    assert not (tmp_path / "new").exists()
