"""Free text and HTML: what is translated, and that everything else stays character for character."""

from __future__ import annotations

import html
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.web.documents import LONGEST_UNIT, Document
from heedful.web.markup import Markup

TAGS = st.sampled_from(
    ["<p>", "</p>", "<b class='x'>", "</b>", "<br>", "<br/>", "<pre>", "</pre>", "<script>", "</script>", "<!-- c -->"]
)
WORDS = st.sampled_from(
    ["The cat. ", "Sat!", "\n", "&amp;", "&lt;b&gt;", "a < b", "&nbsp;", "&#x41;", "<", "&", "<p", "ü"]
)


def translated(text: str) -> str:
    markup = Markup.of(text)
    return markup.join([unit.upper() for unit in markup.units], "en")


# -------------------------------------------------------------------------------------------------------------- text


@given(st.text(st.sampled_from("ab. !?\n\r\t\u2028\x0c。"), max_size=60))
def test_with_itself_as_translation_a_text_comes_back(text: str) -> None:
    document = Document.of(text)
    assert document.join(document.units, "zh") == text
    assert all(unit.strip() == unit and unit for unit in document.units)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("", ()),
        (" \n ", ()),
        ("The cat sat. The mat lay.", ("The cat sat.", "The mat lay.")),
        ("One line\nand another\n\n  third", ("One line", "and another", "third")),
        ("Dr. Smith came. He sat.", ("Dr. Smith came.", "He sat.")),
        ("你好。再见。", ("你好。", "再见。")),
    ],
)
def test_a_text_is_split_into_sentences(text: str, units: tuple[str, ...]) -> None:
    assert Document.of(text).units == units


def test_sentences_that_stood_side_by_side_get_a_space_where_the_language_has_them() -> None:
    document = Document.of("你好。再见。\n好。")
    assert document.join(["Hello.", "Bye.", "Good."], "en") == "Hello. Bye.\nGood."
    assert document.join(["Hello.", "Bye.", "Good."], "ja") == "Hello.Bye.\nGood."


def test_a_sentence_without_end_is_cut_at_spaces() -> None:
    text = "word " * 1000 + "x" * 2500
    document = Document.of(text)
    assert max(map(len, document.units)) <= LONGEST_UNIT
    assert document.join(document.units, "zh") == text


# -------------------------------------------------------------------------------------------------------------- html


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<p class="a">the <b>cat</b></p>', '<p class="a">THE <b>CAT</b></p>'),
        ("<P CLASS=a>x</P>", "<P CLASS=a>X</P>"),
        ("a<br>b<br/>c<img alt='d'>", "A<br>B<br/>C<img alt='d'>"),
        ("a &amp; b &lt;i&gt;", "A &amp; B &lt;I&gt;"),
        ("<script>if (a < b) {}</script>x", "<script>if (a < b) {}</script>X"),
        ("<style>p > b {}</style>x", "<style>p > b {}</style>X"),
        ("<pre>a\n <b>b</b> &lt;</pre>x", "<pre>a\n <b>b</b> &lt;</pre>X"),
        ("x <code>a &amp;&amp; b</code> y", "X <code>a &amp;&amp; b</code> Y"),
        ('<p translate="no">a <b>b</b></p>c', '<p translate="no">a <b>b</b></p>C'),
        ('<p translate=no>a <b translate="yes">b</b></p>', '<p translate=no>a <b translate="yes">B</b></p>'),
        ('<i class="x notranslate">a</i>b', '<i class="x notranslate">a</i>B'),
        ('<img translate="no">b', '<img translate="no">B'),
        ("<!-- a --><!DOCTYPE html>b<?c d>", "<!-- a --><!DOCTYPE html>B<?c d>"),
        ("</b>a</i>", "</b>A</i>"),
        ("<pre>a</b>b</pre>c", "<pre>a</b>b</pre>C"),
        ("", ""),
    ],
)
def test_text_is_translated_and_markup_kept(text: str, expected: str) -> None:
    assert translated(text) == expected


@given(st.lists(TAGS | WORDS, max_size=12).map("".join))
def test_no_text_becomes_markup_and_no_tag_is_lost(text: str) -> None:
    assert tags_of(translated(text)) == tags_of(text)


@given(st.text(st.sampled_from("<>&;/!-a b=\"'#x\n?[]"), max_size=40))
def test_with_itself_as_translation_html_means_the_same(text: str) -> None:
    markup = Markup.of(text)
    assert html.unescape(markup.join(markup.units, "zh")) == html.unescape(text)


def test_a_translation_is_escaped() -> None:
    assert Markup.of("<p>x</p>").join(["<script>alert(1)</script>"], "de") == (
        "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"
    )


def test_deep_and_broken_nesting_takes_linear_time() -> None:
    assert translated("<a>" * 20_000 + "</b>" * 20_000 + "x").endswith("X")


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(f"{tag} {attrs}")

    def handle_endtag(self, tag: str) -> None:
        self.found.append(f"/{tag}")


def tags_of(text: str) -> list[str]:
    return Tags(text).found
