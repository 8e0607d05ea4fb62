"""Free text and HTML: what is translated, and that everything else stays character for character."""

from __future__ import annotations

import html
import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.translate.documents.markup import MOST_ELEMENTS, Markup
from heedful.translate.documents.paragraphs import LONGEST_UNIT, Document

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
    assert document.join(["Hello.", "Bye.", "Good."], "th") == "Hello. Bye.\nGood."
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
        ("<![if x]>a<![;>", "<![if x]>A<![;>"),
        ("<pre>a</b>b</pre>c", "<pre>a</b>b</pre>C"),
        ("<p>&nbsp;&nbsp;a b&nbsp;</p><td>&nbsp;</td>", "<p>\xa0\xa0A B\xa0</p><td>&nbsp;</td>"),
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
    joined = markup.join(markup.units, "zh")
    assert letters(joined) == letters(text)
    assert tags_of(joined) == tags_of(text)


def test_a_translation_is_escaped() -> None:
    assert Markup.of("<p>x</p>").join(["<script>alert(1)</script>"], "de") == (
        "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"
    )


def test_deep_and_broken_nesting_takes_linear_time() -> None:
    assert translated("<a>" * 20_000 + "</b>" * 20_000 + "x").endswith("X")


@pytest.mark.parametrize("part", ["<a ", "<a", "<a x='", "</a ", "<!--", "<?", "&#"])
def test_what_never_ends_takes_linear_time_and_is_kept(part: str) -> None:
    text = "The cat. <p>sat</p>" + part * (20_000 // len(part))
    begin = time.process_time()
    joined = translated(text)
    assert time.process_time() - begin < 1.5
    assert joined.startswith("THE CAT. <p>SAT</p>")
    assert tags_of(joined[:200]) == tags_of(text[:200])


def test_behind_a_start_tag_that_never_ends_all_is_kept() -> None:
    assert translated("a <b>b</b> <i x='c> d <b>e</b>") == "A <b>B</b> <i x='c> d <b>e</b>"


# ------------------------------------------------------------------------------------------------------------ inline


def aligned(text: str, translation: str, links: str) -> str:
    """Links as Pharaoh writes them: source-target."""
    markup = Markup.of(text)
    pairs = tuple((int(i), int(j)) for i, j in (link.split("-") for link in links.split()))
    return markup.join([translation], "de", {0: pairs})


@pytest.mark.parametrize(
    ("text", "translation", "links", "expected"),
    [
        ("the <b>cat</b> sat", "die Katze saß", "0-0 1-1 2-2", "die <b>Katze</b> saß"),
        ("<a href='x'>the cat</a> sat", "saß die Katze", "2-0 0-1 1-2", "saß <a href='x'>die Katze</a>"),
        ("the <b>cat</b>, too.", "Katze, auch.", "1-0 2-1", "<b>Katze</b>, auch."),
        ("a <b>road</b> and", "Straße, und", "1-0 2-1", "<b>Straße</b>, und"),
        ("<b>All of it.</b>", "Alles.", "0-0", "<b>Alles.</b>"),
        ("<b>the</b> cat", "고양이는", "1-0", "<b>고양이는</b>"),
        ("<b>the</b> <i>cat</i>", "고양이는", "1-0", "<b></b><i>고양이는</i>"),
        ("<b>big <i>cat</i></b> sat", "saß große Katze", "2-0 0-1 1-2", "saß <b>große <i>Katze</i></b>"),
        ("<i></i> see <b>it</b><img src=x>", "es sehen", "1-0 0-1", "<i></i> <b>es</b> sehen<img src=x>"),
        ("see <wbr>it now", "jetzt es sehen", "2-0 1-1 0-2", "jetzt <wbr>es sehen"),
        ("un<b>believ</b>able thing", "Ding unglaublich", "1-0 0-1", "Ding <b>unglaublich</b>"),
        ("<b>un</b><i>able</i>", "un fähig", "0-0 0-1", "<i></i><b>un fähig</b>"),
        ("<u>a b</u> <s>c d</s>", "c a d b", "2-0 0-1 3-2 1-3", "<s>c</s> <u>a d b</u>"),
        ("x <b>y</b>", "<script>", "1-0", "<b>&lt;script&gt;</b>"),
    ],
)
def test_inline_tags_go_around_the_words_that_come_from_theirs(
    text: str, translation: str, links: str, expected: str
) -> None:
    assert aligned(text, translation, links) == expected


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("<p>the <b>cat</b> sat</p>", ("the cat sat",)),
        ("<p>the\n  cat</p><p>sat</p>", ("the cat", "sat")),
        ("<li>the <a href=x>cat</a><li>the mat", ("the cat", "the mat")),
        ("the cat<br>the mat", ("the cat", "the mat")),
        ("the <code>cat</code> sat", ("the", "sat")),
        ("the <b translate=no>cat</b> sat", ("the", "sat")),
        ("<b>the <p>cat</p></b>", ("the", "cat")),
        ("<b>the <i>cat</b> sat</i>", ("the", "cat", "sat")),
        ("<b>The cat. It</b> sat.", ("The cat.", "It sat.")),
        ("<p>the&nbsp;cat&nbsp;<b>sat</b>&nbsp; on it</p>", ("the cat sat on it",)),
    ],
)
def test_blocks_divide_sentences_and_inline_tags_do_not(text: str, units: tuple[str, ...]) -> None:
    assert Markup.of(text).units == units


WORD = st.sampled_from(["cat", "<b>", "a&b", "ü,", "(x)", "it."])
CLOSED = st.recursive(
    WORD.map(html.escape) | st.sampled_from(["<img src='x'>", "<!-- c -->", " "]),
    lambda inner: st.builds(
        lambda tag, parts: f"<{tag} id='{len(parts)}'>{' '.join(parts)}</{tag}>",
        st.sampled_from(["b", "i", "a", "span", "p", "code"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=12,
)


@given(st.lists(CLOSED, max_size=6).map(" ".join), st.data())
def test_whatever_the_alignment_tags_come_back_once_and_nested_as_they_were(text: str, data: st.DataObject) -> None:
    markup = Markup.of(text)
    translations = [" ".join(data.draw(st.lists(WORD, min_size=1, max_size=6))) for _ in markup.units]
    sizes = [
        (len(unit.split(" ")), len(each.split(" "))) for unit, each in zip(markup.units, translations, strict=True)
    ]
    places = [st.tuples(st.integers(0, i - 1), st.integers(0, j - 1)) for i, j in sizes]
    links = {n: tuple(sorted(data.draw(st.sets(place, max_size=8)))) for n, place in enumerate(places)}
    joined = markup.join(translations, "de", links)
    assert sorted(tags_of(joined)) == sorted(tags_of(text))
    assert sorted(parents_of(joined)) == sorted(parents_of(text)), "each element has the parent that it had"
    shown = "".join(Tags(joined).text.split())
    assert all("".join(translation.split()) in shown for translation in translations)


@given(st.lists(st.sampled_from(["the", "cat", "<b>", "</b>", "<i>", "</i>", "<p>", "</p>"]), max_size=14))
def test_word_for_word_tags_stay_where_they_were(parts: list[str]) -> None:
    text = " ".join(parts)
    markup = Markup.of(text)
    assert re.sub(r"\s", "", markup.join(markup.units, "de")) == re.sub(r"\s", "", text)


def test_many_tags_take_no_longer_than_their_number() -> None:
    deep = "<b>x " * 3_000 + "</b>" * 3_000
    wide = "<b>x</b> " * 5_000
    begin = time.process_time()
    assert tags_of(translated(deep)) == tags_of(deep)
    assert tags_of(translated(wide)) == tags_of(wide)
    assert time.process_time() - begin < 5


def test_a_run_has_the_words_of_its_units_and_no_more() -> None:
    (run,) = Markup.of(" <b>The cat. It sat.</b>  ").runs
    words = [run.words.text[begin:end] for begin, end in zip(run.words.begins, run.words.ends, strict=True)]
    assert words == ["The", "cat.", "It", "sat."]


def test_tags_that_are_too_many_divide() -> None:
    assert Markup.of("<b>x</b> " * MOST_ELEMENTS).units == (" ".join("x" * MOST_ELEMENTS),)
    many = Markup.of("<b>x</b> " * (MOST_ELEMENTS + 1) + "<p>the <b>cat</b></p>")
    assert many.units == (*"x" * (MOST_ELEMENTS + 1), "the cat")
    assert many.tagged == (MOST_ELEMENTS + 1,)


def test_no_alignment_makes_a_join_slow() -> None:
    markup = Markup.of("<b>x</b> " * MOST_ELEMENTS + "y " * 9_000)
    nowhere = {n: tuple((0, j) for j in range(len(unit.split(" ")))) for n, unit in enumerate(markup.units)}
    begin = time.process_time()
    markup.join(markup.units, "de", nowhere)
    assert time.process_time() - begin < 1.5


def test_where_tags_divide_nothing_is_left_to_align() -> None:
    text = "<p>the <b>cat</b><!-- c --> sat <img> on<i>"
    divided = Markup.of(text).divided()
    assert divided.units == ("the", "cat", "sat", "on")
    assert divided.join(divided.units, "zh") == text
    assert divided.divided() == divided


class Tags(HTMLParser):
    """Tags and text as a browser sees them."""

    def parse_html_declaration(self, i: int) -> int:
        is_section = self.rawdata.startswith("<![", i)
        return self.parse_bogus_comment(i) if is_section else super().parse_html_declaration(i)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.parents: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(f"{tag} {attrs}")
        self.parents.append(f"{self.open[-1:]} {tag}")
        self.open += [] if tag == "img" else [tag]

    def handle_endtag(self, tag: str) -> None:
        self.found.append(f"/{tag}")
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.text += data


def letters(text: str) -> list[str]:
    """All but spaces; a comment within a word moves before it."""
    return sorted("".join(html.unescape(text).split()))


def tags_of(text: str) -> list[str]:
    return Tags(text).found


def parents_of(text: str) -> list[str]:
    return Tags(text).parents
