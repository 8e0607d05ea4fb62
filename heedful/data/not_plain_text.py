"""Refuses files other than plain text by name or beginning: subtitles, documents, translation memories.

Read line by line, their timecodes, tags or bytes would become sentences. This module opens no files.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from heedful.errors import DataError

_KINDS = {
    "a subtitle file": ".srt .vtt .ass .ssa .sub",
    "a text document": ".docx .doc .odt .rtf",
    "an e-book": ".epub",
    "a slide show": ".pptx",
    "a spreadsheet": ".xlsx",
    "a PDF document": ".pdf",
    "a translation memory": ".tmx",
    "a translation file": ".xliff .xlf",
    "a message catalogue": ".po",
    "a web page": ".html .htm .xhtml",
}
SUFFIXES = {suffix: kind for kind, suffixes in _KINDS.items() for suffix in suffixes.split()}

HEAD_BYTES = 4096
MANY_NULS = 0.1  # of the bytes: UTF-16 has more, and a text in UTF-8 may have a stray one
BEGINNINGS = (
    (rb"PK\x03\x04", "a zip archive or an office document"),
    (rb"%PDF-", "a PDF document"),
    (rb"\{\\rtf", "a text document (RTF)"),
    (rb"WEBVTT\s", "a subtitle file (WebVTT)"),
    (rb"\s*\d+[ \t]*\r?\n[ \t]*\d+:\d\d:\d\d[,.]\d{3}\s*-->", "a subtitle file (SubRip)"),
    (rb"(?i:\s*<(!doctype\s+html|html[\s>]))", "a web page (HTML)"),
    (rb"\s*<(\?xml\s|tmx\s|xliff\s)", "an XML file"),
    (rb'((#[^\n]*)?\r?\n)*msgid\s+"', "a message catalogue (gettext)"),
)


def refuse_by_name(path: Path, unpacked: Path) -> None:
    """Refuse a file by its name; `unpacked` is the name without .gz, .xz or .zst."""
    suffix = unpacked.suffix.lower()
    if kind := SUFFIXES.get(suffix):
        raise _not_plain(str(path), f"{kind} ({suffix})")


def refuse_by_content(name: str, head: bytes) -> None:
    """Refuse a file by its beginning, of which `head` is what has been read."""
    head = head[:HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
    for beginning, kind in BEGINNINGS:
        if re.match(beginning, head):
            raise _not_plain(name, kind)
    if head.count(0) > MANY_NULS * len(head):
        raise _not_plain(name, "binary or UTF-16 (it is full of NUL bytes)")


def _not_plain(name: str, kind: str) -> DataError:
    return DataError(f"{name} is {kind}, not plain text; save its text as a .txt file in UTF-8, one sentence a line")
