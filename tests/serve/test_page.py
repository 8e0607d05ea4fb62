"""The page in a real browser: the distribution's Chromium (Debian: apt-get install chromium), driven by playwright.

The server is ours, on a free port, with a model that knows one sentence by heart. Every test ends with a look at the
console and at where requests went.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from heedful.inspection.page_file import html
from heedful.inspection.trace import positions, trace
from heedful.translate.translation import Translator
from tests.small_translator import TEXT, family_translator, save_translator, taught, taught_translator

if TYPE_CHECKING:
    from heedful.serve.limits import RefusalError

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("NO BROWSER: the page is NOT TESTED; apt-get install chromium", allow_module_level=True)
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="NO PLAYWRIGHT: the page is NOT TESTED; pip install playwright"
)
uvicorn = pytest.importorskip("uvicorn", reason="NO SERVER: the page is NOT TESTED; make install")

# The server and the browser's driver leave sockets to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-first-run",
]
SCORE = {"value": 99.0, "interval": {"mean": 99.0, "margin": 0.3}, "signature": "tok:13a"}
CARD = {
    "name": "<b>mine</b>",
    "weights_sha256": "a" * 64,
    "training": {
        "date": "2026-01-01",
        "version": "0.1.0",
        "commit": "0123456789abcdef",
        "machine": {"processor": "a CPU", "cores": 2, "gpu": "", "num_gpus": 0},
        "precision": "fp32",
        "seed": 1,
        "steps": 743,
        "seconds": 205.0,
        "tokens_per_second": 7467.7,
        "gpu_hours": None,
        "averaged_steps": [700, 750],
        "training": {
            "source": [{"name": "train.en", "lines": 200_000}],
            "target": [{"name": "train.de", "lines": None}],
        },
    },
    "evaluations": [
        {
            "name": "test.de",
            "report": {"num_lines": 1000, "bleu": SCORE, "chrf": SCORE, "ter": SCORE},
            "engine": "torch",
            "beam_size": 4,
            "alpha": 0.6,
        }
    ],
}
HOSTILE = "<img src=x onerror=alert(1)> it"


@pytest.fixture(scope="module")
def translator() -> Translator:
    return taught_translator()


@pytest.fixture(scope="module")
def server(translator: Translator) -> Iterator[str]:
    from heedful.serve.app import create_app
    from tests.served import serving

    with serving(create_app([translator])) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=120_000)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of its own; nothing may go to the console, and no request may leave this machine."""
    with_page = browser.new_context(viewport={"width": 1200, "height": 900}, locale="en-US")
    page = with_page.new_page()
    page.set_default_timeout(60_000)
    wrong: list[str] = []

    def hear(message: Any) -> None:
        if message.type in ("error", "warning"):
            wrong.append(message.text)

    def follow(request: Any) -> None:
        if not re.match(r"http://127\.0\.0\.1|file:|blob:", request.url):
            wrong.append(request.url)

    page.on("console", hear)
    page.on("request", follow)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    yield page
    with_page.close()
    assert not wrong


def translated(page: Any, server: str, hash_: str = "", text: str = TEXT[0]) -> None:
    """Type a sentence and wait until all is drawn."""
    page.goto(f"{server}/#{hash_}")
    page.fill("#source", text)
    page.wait_for_selector(".matrix td, .lines .link")


def here(page: Any) -> str:
    """The address, as the page itself has it at this moment."""
    return str(page.evaluate("location.href"))


def shown(page: Any) -> str:
    return " ".join(page.locator("#target .word").all_inner_texts())


# -------------------------------------------------------------------------------------------------------------- served


def test_typing_translates_and_draws_every_region(page: Any, server: str) -> None:
    translated(page, server)
    assert shown(page) == TEXT[1]
    assert page.locator(".thumb").count() == 4
    assert page.locator(".matrix td").count() == 12 * 12
    assert page.locator(".tree .node.best").count() > 10
    page.locator("#worked > summary").click()
    page.locator("#inside > summary").click()
    page.wait_for_selector(".positions .curve")
    assert page.locator(".steps li").count() == 5
    assert page.locator("#inside pre").inner_text().startswith("curl -s http://127.0.0.1")


class WithoutPrefix:
    """What nginx does at `location /mt/`: nothing else of the server is there, and it hears nothing of /mt."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            prefix, folder, path = scope["path"].partition("/mt/")
            scope = scope | {"path": f"/{path}" if folder and not prefix else "/elsewhere"}
        await self.app(scope, receive, send)


def test_it_works_in_a_folder_of_a_proxy(page: Any, translator: Translator) -> None:
    from heedful.serve.app import create_app
    from tests.served import serving

    app = create_app([translator])
    app.add_middleware(WithoutPrefix)
    with serving(app) as url:
        translated(page, f"{url}/mt")
        assert shown(page) == TEXT[1]
        page.locator("#inside > summary").click()
        page.wait_for_selector(".positions .curve")
        assert page.locator("#inside pre").inner_text().startswith(f"curl -s {url}/mt/api/")


def test_an_alternative_can_be_chosen(page: Any, server: str) -> None:
    translated(page, server)
    page.locator(".alternatives button").nth(1).click()
    assert shown(page) != TEXT[1]
    assert "n=1" in here(page)
    assert page.locator(".alternatives button").nth(1).get_attribute("aria-pressed") == "true"


def test_a_clicked_word_offers_choices_and_the_rest_is_decoded_anew(page: Any, server: str) -> None:
    translated(page, server)
    page.locator("#target .word").nth(3).click()
    other = page.locator(".popover button.choice:not(.own)").first
    word = other.locator(".piece").inner_text().lstrip("\u2011")
    other.click()
    page.wait_for_function("text => document.querySelector('#target').innerText.includes(text)", arg=word)
    assert shown(page).startswith("Das Tier überquerte")
    assert "prefix=Das+Tier" in here(page)


def test_characters_that_are_spelled_in_bytes_stay_when_the_rest_is_decoded_anew(page: Any, server: str) -> None:
    page.goto(f"{server}/#q={quote(TEXT[0])}&prefix={quote('Das 猫')}")
    page.locator("#target .word").nth(2).click()
    choice = page.locator(".popover button.choice:not(.own)").first
    with page.expect_response("**/api/trace"):
        choice.click()
    page.wait_for_selector("[aria-busy=false] #target .word")
    assert "<0x" not in shown(page)
    assert shown(page).startswith("Das 猫")
    assert any("Das 猫" in node.get_attribute("aria-label") for node in page.locator(".tree .node").all())
    page.locator("#decode input[type=range]").fill("4")
    assert page.locator("#decode .prefix").inner_text().startswith("Das �")
    assert page.locator("#decode button.choice").count() == 0, "a part of a character is none to begin with"


def test_a_word_that_a_link_has_chosen_still_offers_its_choices(page: Any, server: str) -> None:
    page.goto(f"{server}/#q={TEXT[0]}&t=3")
    word = page.locator("#target .word").nth(3)
    page.wait_for_selector("#target .word.chosen")
    word.click()
    assert page.locator(".popover .choice").count() > 0
    word.click()
    assert page.locator(".popover").count() == 0
    assert "t=" not in here(page).split("#")[1]


def test_a_translation_is_copied_even_where_the_page_is_not_secure(page: Any, server: str) -> None:
    """Over plain HTTP from another machine there is no navigator.clipboard."""
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    translated(page, server)
    page.get_by_role("button", name="Copy").first.click()
    page.get_by_text("Copied.").wait_for()
    page.fill("#source", "")
    page.focus("#source")
    page.keyboard.press("Control+V")
    assert page.locator("#source").input_value() == TEXT[1]


def test_hovering_a_word_marks_what_it_looked_at(page: Any, server: str) -> None:
    translated(page, server)
    tint = "parseInt(word.style.getPropertyValue('--tint'))"
    tints = f"() => [...document.querySelectorAll('.source-words .word')].map(word => {tint})"
    page.locator("#target .word").nth(1).hover()
    assert max(page.evaluate(tints)) > 0
    page.locator(".source-words .word").nth(1).hover()
    assert max(page.evaluate(tints.replace("source-words", "target-words"))) > 0


def test_the_keyboard_reaches_and_pins_every_value(page: Any, server: str) -> None:
    translated(page, server)
    page.locator(".matrix td").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.locator("#attention .reading").inner_text().startswith("“Tier” looked at “animal”")
    page.keyboard.press("Enter")
    assert "t=1" in here(page)
    assert "s=1" in here(page)
    page.keyboard.press("Escape")
    assert "t=" not in here(page).split("#")[1]
    page.locator("#tab-cross").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tab-encoder").get_attribute("aria-selected") == "true"


@pytest.mark.parametrize(
    ("hash_", "words"),
    [("", "#target .word"), ("", ".source-words .word"), ("view=lines", ".lines [role=button]")],
)
def test_a_row_of_words_is_one_stop_of_the_tab_key(page: Any, server: str, hash_: str, words: str) -> None:
    number = f"[...document.querySelectorAll('{words}')].indexOf(document.activeElement)"
    translated(page, server, hash_)
    page.locator(words).first.focus()
    for key, place in {"ArrowRight": 1, "ArrowDown": 2, "ArrowLeft": 1, "End": page.locator(words).count() - 1}.items():
        page.keyboard.press(key)
        assert page.evaluate(number) == place
    page.locator(words).nth(3).focus()
    page.keyboard.press("Tab")
    assert page.evaluate(number) == -1, "the others are passed over"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(number) == 3, "and who comes back is where he was"


@pytest.mark.parametrize("place", ["#target .word", ".thumb", ".matrix td", ".tree .node", "#tab-cross"])
def test_alt_and_an_arrow_are_left_to_the_browser(page: Any, server: str, place: str) -> None:
    translated(page, server)
    page.locator(place).first.focus()
    pressed = "key => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', key))"
    key = {"key": "ArrowRight", "bubbles": True, "cancelable": True}
    assert page.evaluate(pressed, key | {"altKey": True}), "nobody prevents it"
    assert page.locator(place).first.evaluate("node => node === document.activeElement")
    page.evaluate(pressed, key)
    assert page.locator(place).first.evaluate("node => node !== document.activeElement")


FOCUSED = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"


@pytest.mark.parametrize(
    "place",
    [
        "[data-value=lines]",
        "[data-value=pieces]",
        ".mean >> nth=0",
        ".thumb >> nth=3",
        "#tab-encoder",
        ".alternatives button >> nth=1",
        ".tree .node >> nth=5",
    ],
)
def test_a_control_keeps_the_focus_when_it_is_used(page: Any, server: str, place: str) -> None:
    translated(page, server)
    page.locator(place).focus()
    before = page.evaluate(FOCUSED)
    url = here(page)
    page.keyboard.press("Enter")
    assert here(page) != url
    assert page.evaluate(FOCUSED) == before


def test_the_word_that_lines_start_from_keeps_the_focus(page: Any, server: str) -> None:
    translated(page, server, "view=lines")
    page.locator(".lines [role=button]").nth(2).focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_lines_hold_the_weight_of_each_word_unless_they_are_a_crowd(page: Any, server: str) -> None:
    titles = "() => [...document.querySelectorAll('.lines .link title')].map(node => node.textContent)"
    translated(page, server, "view=lines&kind=encoder")
    page.get_by_text("Lines hold 90 %").wait_for()
    assert 100 < len(page.evaluate(titles)) <= 200
    page.fill("#source", f"{TEXT[0].removesuffix('.')} and {TEXT[0]}")
    page.get_by_text("The 4 strongest lines of each word").wait_for()
    assert len(page.evaluate(titles)) == 4 * page.locator(".lines [role=button]").count()
    page.locator(".lines [role=button]", has_text="road").first.click()
    page.get_by_text("Lines hold 90 %").wait_for()
    shares = [float(title.split(": ")[1].removesuffix(" %")) for title in page.evaluate(titles)]
    assert len(shares) > 4
    assert sum(shares) > 86, "each is rounded"


def test_arrow_keys_walk_the_beam_as_it_is_drawn(page: Any, server: str) -> None:
    translated(page, server)
    where = "(({x, y}) => [x, y])(document.activeElement.querySelector('rect').getBBox())"
    page.locator(".tree .node").first.focus()
    x, y = page.evaluate(where)
    page.keyboard.press("ArrowRight")
    right = page.evaluate(where)
    assert right[0] > x
    assert right[1] == y
    page.keyboard.press("ArrowDown")
    assert page.evaluate(where)[0] == right[0]
    assert page.evaluate(where)[1] > y
    page.keyboard.press("Space")
    assert "step=1" in here(page)


AX_ROLES = {"grid", "row", "gridcell", "rowheader", "columnheader"}


def roles(page: Any, place: str) -> dict[str, int]:
    """How often each role of a grid is there for assistive technology, in what the browser tells it."""
    session = page.context.new_cdp_session(page)
    root = session.send("Runtime.evaluate", {"expression": f"document.querySelector('{place}')"})["result"]["objectId"]
    told = session.send("Accessibility.queryAXTree", {"objectId": root})["nodes"]
    found = [node["role"]["value"] for node in told if not node["ignored"]]
    return {role: found.count(role) for role in sorted(AX_ROLES & set(found))}


def test_the_map_is_a_grid_with_heads_for_assistive_technology(page: Any, server: str) -> None:
    translated(page, server)
    width, height = page.locator(".matrix th.column").count(), page.locator(".matrix th.row").count()
    cells = {"gridcell": width * height, "grid": 1, "row": height + 1, "rowheader": height}
    assert roles(page, ".matrix") == cells | {"columnheader": width + 1}
    assert page.locator(".matrix [tabindex='0']").count() == 1


def test_the_beam_is_a_grid_of_steps_and_places(page: Any, server: str) -> None:
    translated(page, server)
    nodes = page.locator(".tree .node")
    rows = page.locator(".tree [role=row]")
    assert roles(page, ".tree") == {"grid": 1, "gridcell": nodes.count(), "row": rows.count()}
    assert page.locator(".tree [tabindex='0']").count() == 1
    steps = page.evaluate(
        "[...document.querySelectorAll('.tree .node')].map(n => Number(n.getAttribute('aria-colindex')))"
    )
    assert max(steps) == int(page.locator(".tree").get_attribute("aria-colcount"))
    for row in rows.all():
        columns = [int(node.get_attribute("aria-colindex")) for node in row.locator("[role=gridcell]").all()]
        assert columns == sorted(set(columns)), "one node for a step in a row"
    page.locator(".tree .node").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-colindex')") == "2"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "step"


def test_the_choices_of_a_word_take_the_focus_and_give_it_back(page: Any, server: str) -> None:
    translated(page, server)
    page.locator("#target .word").nth(2).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.locator(".popover .choice").first.evaluate("node => node === document.activeElement")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.t") == "2"


def test_steps_can_be_walked(page: Any, server: str) -> None:
    translated(page, server)
    page.locator(".scrubber input").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".prefix").inner_text().split() == ["Das", "Tier"]
    page.locator(".scrubber button", has_text="→").click()
    assert "step=2" in here(page)


def test_every_plot_can_be_read_as_a_table(page: Any, server: str) -> None:
    translated(page, server)
    page.locator("#worked > summary").click()
    while (closed := page.get_by_role("button", name="View as table")).count():
        closed.first.click()
    assert page.locator("figure:visible").count() == page.locator("figure .table-place table:visible").count() > 4
    with page.expect_download() as download:
        page.locator("#attention figure button", has_text="CSV").last.click()
    assert download.value.suggested_filename.endswith(".csv")


def test_a_table_stays_open_and_tells_what_is_chosen_next(page: Any, server: str) -> None:
    translated(page, server)
    figure = page.locator("#attention figure").last
    figure.get_by_role("button", name="View as table").click()
    page.locator(".thumb").nth(0).click()
    assert figure.locator(".table-place caption").inner_text().endswith("layer 1, heads: 1")
    figure.get_by_role("button", name="Hide table").click()
    page.locator(".thumb").nth(1).click()
    assert figure.locator(".table-place table").count() == 0


def test_a_link_brings_back_the_view(page: Any, server: str) -> None:
    translated(page, server)
    page.goto("about:blank")
    page.goto(f"{server}/#q={TEXT[0]}&to=de&kind=decoder&l=0&h=1&view=lines&t=2")
    page.wait_for_selector(".lines .strong")
    assert page.locator(".thumb[aria-pressed=true]").get_attribute("data-head") == "1"
    assert page.locator(".lines .strong").first.text_content().startswith("überquerte")
    assert page.locator(".legend span").first.inner_text().strip() == "Head 2"


@pytest.mark.parametrize(
    "wrong", ["n=-1", "n=99", "kind=none", "t=99", "l=99", "h=99", "step=-5", "to=xx", "ui=xx", "sentence=9"]
)
def test_a_link_that_asks_for_what_there_is_not_shows_what_there_is(page: Any, server: str, wrong: str) -> None:
    page.goto(f"{server}/#q={TEXT[0]}&{wrong}")
    page.wait_for_selector(".matrix td")
    assert page.locator("#target .word").count() > 0
    assert page.locator(".status.error").count() == 0


def test_a_link_followed_within_the_page_finds_its_languages(page: Any, server: str) -> None:
    page.goto(server)
    page.wait_for_selector(".samples")
    page.evaluate("text => (location.hash = `q=${text}`)", TEXT[0])
    page.wait_for_selector("#target .word")
    assert shown(page) == TEXT[1]


def test_the_counter_counts_what_is_there(page: Any, server: str) -> None:
    translated(page, server)
    assert page.get_by_text(f"{len(TEXT[0])} characters").count() == 1
    page.get_by_role("button", name="Clear").click()
    assert page.get_by_text("0 characters", exact=True).count() == 1


def test_another_source_language_brings_a_target_that_it_has(page: Any, translator: Translator) -> None:
    from heedful.serve.app import create_app
    from tests.served import serving

    with serving(create_app([translator, taught_translator("ko", "fr")])) as url:
        page.goto(f"{url}/#q={TEXT[0]}&prefix=Das")
        page.wait_for_selector(".matrix td")
        page.get_by_label("From", exact=True).select_option("ko")
        page.wait_for_function("() => location.hash.includes('to=fr')")
        assert page.get_by_label("To", exact=True).evaluate("node => node.value") == "fr"
        assert "prefix" not in here(page)
        page.wait_for_selector("[aria-busy=false] #target .word")


def test_a_language_that_nothing_is_translated_from_is_no_source(page: Any, server: str) -> None:
    codes = "nodes => nodes.map(node => node.value)"
    translated(page, server)
    assert page.get_by_label("From", exact=True).locator("option").evaluate_all(codes) == ["auto", "en"]
    assert page.get_by_label("To", exact=True).locator("option").evaluate_all(codes) == ["de"]


def test_hidden_tokens_and_masks_are_named(page: Any, server: str) -> None:
    translated(page, server, "kind=decoder")
    assert page.locator(".matrix td.masked").count() > 20
    assert "causal mask" in page.locator("#attention").inner_text()
    columns = page.locator(".matrix th.column").count()
    page.get_by_label("Hide </s> and punctuation").check()
    assert page.locator(".matrix th.column").count() < columns
    assert "scaled up to 100 %" in page.locator("#attention").inner_text()
    assert "where a layer read, not why" in page.locator(".caveat").inner_text()


def test_text_from_users_is_never_markup(page: Any, server: str) -> None:
    translated(page, server, text=HOSTILE)
    assert page.locator("main img").count() == 0
    assert page.locator(".source-words").inner_text().split() == HOSTILE.split()


def test_what_is_too_long_to_look_into_is_translated_all_the_same(page: Any, server: str) -> None:
    answer = {"status": 200, "json": {"source": None}}
    page.route("**/api/trace", lambda route: route.fulfill(**answer))
    page.goto(server)
    page.fill("#source", TEXT[0])
    page.wait_for_selector(".status.error")
    assert TEXT[1] in page.locator("#target").inner_text()


def test_another_layer_of_a_long_sentence_leaves_the_last_one_where_it_is_shown(
    page: Any, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.inspection.trace.MANY_PIECES", 1)
    translated(page, server)
    page.wait_for_selector("#decode .looks")
    page.locator(".mean").first.click()
    page.wait_for_selector(".matrix td")
    assert page.locator("#decode .looks").count() == 1


def test_an_encoder_layer_of_a_long_sentence_is_asked_for_once_beside_an_alternative(
    page: Any, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.inspection.trace.MANY_PIECES", 1)
    translated(page, server)
    page.locator(".alternatives li button").nth(1).click()
    page.click("#tab-encoder")
    page.wait_for_selector(".matrix td")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator(".mean").first.click()
    page.wait_for_timeout(500)
    assert page.locator(".matrix td").count() > 0
    assert [url.rpartition("/")[2] for url in asked].count("trace") == 1


SHORT = ["It was too tired.", "The road!"]
LONG_TEXT = f"{TEXT[0]} {SHORT[0]}\n\n{SHORT[1]}"


def divided(page: Any, server: str, hash_: str = "") -> str:
    """Type three sentences in two paragraphs and wait for their translation, which is given back."""
    page.goto(f"{server}/#{hash_}")
    page.fill("#source", LONG_TEXT)
    page.get_by_text("Each sentence was translated by itself").wait_for()
    return str(page.locator("#target").inner_text())


def looked_into(page: Any) -> list[str]:
    """The words of the source that are looked into, once they are there."""
    page.wait_for_selector("[aria-busy=false] #target .sentence.chosen .word")
    return list(page.locator(".source-words .word").all_inner_texts())


def test_a_text_of_several_sentences_is_shown_whole(page: Any, server: str) -> None:
    whole = divided(page, server)
    assert page.locator(".sentences button .text").all_inner_texts() == [TEXT[0], *SHORT], "as the server divides"
    told = page.request.post(f"{server}/translate", data={"q": LONG_TEXT, "source": "en", "target": "de"}).json()
    assert whole == told["translatedText"]
    assert whole.startswith(f"{TEXT[1]} ")
    assert page.locator("#target .word, .alternatives li, .matrix, [aria-pressed=true] .text").count() == 0
    assert "Choose a sentence first." in page.locator("#attention").inner_text()
    assert "Choose a sentence first." in page.locator("#decode").inner_text()


def test_marks_alone_stay_and_are_not_looked_into(page: Any, server: str) -> None:
    page.goto(server)
    page.fill("#source", ":)")
    page.get_by_text(":)", exact=True).wait_for()
    page.fill("#source", f"{SHORT[0]}\n—\n{SHORT[1]}")
    page.get_by_text("Each sentence was translated by itself").wait_for()
    assert page.locator("#target").inner_text().split("\n")[1] == "—"
    assert [button.is_disabled() for button in page.locator(".sentences button").all()] == [False, True, False]


def test_each_sentence_can_be_looked_into(page: Any, server: str) -> None:
    divided(page, server)
    for place, sentence in enumerate([TEXT[0], *SHORT]):
        page.locator(".sentences button").nth(place).click()
        page.wait_for_function(
            "n => document.querySelectorAll('.matrix thead .column').length === n", arg=1 + len(sentence.split())
        )
        assert looked_into(page) == sentence.split()
        assert page.locator("#source").input_value() == LONG_TEXT
        assert page.locator("#target .sentence").count() == 3
        assert page.locator(".sentences [aria-pressed=true] .text").all_inner_texts() == [sentence]
        assert page.locator(".tree .node").count() > 0
        assert page.locator(".alternatives button").count() > 1
        assert f"sentence={place}" in here(page)


def test_a_sentence_is_left_by_its_button_and_by_escape(page: Any, server: str) -> None:
    whole = divided(page, server)
    second = page.locator(".sentences button").nth(1)
    for leave in ("Enter", "Escape"):
        second.focus()
        page.keyboard.press("Enter")
        looked_into(page)
        page.keyboard.press(leave)
        page.wait_for_selector("#target:not(:has(.word))")
        assert page.locator("#target").inner_text() == whole
        assert "sentence" not in here(page)
        assert second.evaluate("node => node === document.activeElement")
        assert second.get_attribute("aria-pressed") == "false"


def test_escape_frees_a_word_before_it_leaves_the_sentence(page: Any, server: str) -> None:
    divided(page, server)
    page.locator(".sentences button").first.click()
    looked_into(page)
    page.locator("#target .word").nth(1).click()
    page.wait_for_selector(".popover")
    page.keyboard.press("Escape")
    assert page.locator(".popover").count() == 0
    assert looked_into(page) == TEXT[0].split()
    page.keyboard.press("Escape")
    page.wait_for_selector("#target:not(:has(.word))")
    assert page.locator(".sentences button").first.evaluate("node => node === document.activeElement")


def test_a_sentence_of_the_translation_can_be_clicked(page: Any, server: str) -> None:
    divided(page, server)
    page.locator("#target .sentence").first.click()
    assert looked_into(page) == TEXT[0].split()


def test_a_sentence_is_decoded_anew_from_a_word_and_keeps_the_others(page: Any, server: str) -> None:
    whole = divided(page, server)
    page.locator(".sentences button").first.click()
    looked_into(page)
    page.locator("#target .word").nth(3).click()
    with page.expect_request("**/api/trace") as asked:
        page.locator(".popover button.choice:not(.own)").first.click()
    assert asked.value.post_data_json["q"] == TEXT[0]
    page.wait_for_selector("[aria-busy=false] #target .word")
    found = page.locator("#target").inner_text()
    assert found.startswith("Das Tier überquerte ")
    assert found != whole
    assert found.endswith(whole.removeprefix(TEXT[1]))
    assert "sentence=0" in here(page)
    assert "prefix=Das+Tier" in here(page)


def test_a_link_brings_back_the_sentence_and_its_word(page: Any, server: str) -> None:
    page.goto(f"{server}/#q={quote(LONG_TEXT)}&to=de&sentence=1&s=2")
    page.wait_for_selector(".matrix td")
    assert looked_into(page) == SHORT[0].split()
    assert page.locator(".source-words .word.chosen").inner_text() == "too"
    page.evaluate("location.hash = location.hash.replace('sentence=1', 'sentence=0')")
    page.wait_for_function(
        "n => document.querySelectorAll('.source-words .word').length === n", arg=len(TEXT[0].split())
    )
    page.evaluate("location.hash = location.hash.replace('sentence=0', 'sentence=99')")
    page.get_by_text("Each sentence was translated by itself").wait_for()
    assert "sentence" not in here(page)


def test_another_text_leaves_the_sentence(page: Any, server: str) -> None:
    divided(page, server)
    page.locator(".sentences button").nth(1).click()
    looked_into(page)
    page.fill("#source", TEXT[0])
    page.wait_for_function("text => document.querySelector('#target').innerText === text", arg=TEXT[1])
    page.wait_for_selector("#target .word")
    assert page.locator(".sentences button").count() == 0
    assert "sentence" not in here(page)


def test_a_sentence_is_asked_for_alone_and_the_text_only_once(page: Any, server: str) -> None:
    asked: list[str] = []
    page.on(
        "request", lambda request: asked.append(request.url.removeprefix(server)) if request.method == "POST" else None
    )
    divided(page, server)
    for place in (0, 1):
        page.locator(".sentences button").nth(place).click()
        page.wait_for_selector(f".sentences li:nth-child({place + 1}) [aria-pressed=true]")
        looked_into(page)
    assert asked == ["/api/sentences", "/api/trace", "/api/trace"]


def test_copying_within_a_sentence_copies_all(page: Any, server: str) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    whole = divided(page, server)
    page.locator(".sentences button").first.click()
    looked_into(page)
    page.get_by_role("button", name="Copy").first.click()
    page.get_by_text("Copied.").wait_for()
    page.fill("#source", "")
    page.focus("#source")
    page.keyboard.press("Control+V")
    assert page.locator("#source").input_value() == whole


def test_swapping_within_a_sentence_takes_all_along(page: Any, translator: Translator) -> None:
    from heedful.serve.app import create_app
    from tests.served import serving

    with serving(create_app([translator, taught_translator("de", "en", (TEXT[1], TEXT[0]))])) as url:
        whole = divided(page, url, "from=en&to=de")
        page.locator(".sentences button").first.click()
        looked_into(page)
        page.get_by_role("button", name="Swap languages").click()
        assert page.locator("#source").input_value() == whole
        page.wait_for_selector(f"[aria-busy=false] #target .sentence >> text={TEXT[0]}")
        assert "sentence" not in here(page)


def test_a_text_in_the_targets_language_is_left_alone(page: Any, server: str) -> None:
    page.goto(f"{server}/#q=Eins.%20Zwei.&from=de&to=de")
    page.get_by_text("The text is in that language already.").wait_for()
    assert page.locator("#target").inner_text() == "Eins. Zwei."
    assert page.locator(".sentences button").count() == 0


@pytest.fixture
def unwatched(browser: Any) -> Iterator[Any]:
    """A page whose console may speak: browsers report every request that fails."""
    context = browser.new_context(locale="en-US")
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()


def test_a_server_that_is_away_and_back_can_be_asked_again(unwatched: Any, server: str) -> None:
    translated(unwatched, server)
    unwatched.route("**/api/sentences", lambda route: route.abort())
    unwatched.fill("#source", "it was tired")
    unwatched.get_by_text("The server does not answer.").wait_for()
    assert unwatched.locator(".word, .alternatives li").count() == 0, "no translation of another text stays"
    unwatched.unroute("**/api/sentences")
    unwatched.get_by_role("button", name="Try again").click()
    unwatched.wait_for_selector("#target .word")
    assert unwatched.get_by_role("button", name="Try again").count() == 0


def test_languages_that_did_not_come_are_asked_for_again(unwatched: Any, server: str) -> None:
    unwatched.route("**/languages", lambda route: route.abort())
    unwatched.goto(server)
    unwatched.get_by_text("The server does not answer.").wait_for()
    unwatched.unroute("**/languages")
    unwatched.fill("#source", TEXT[0])
    unwatched.wait_for_selector("#target .word")
    assert shown(unwatched) == TEXT[1]


def test_an_answer_that_comes_late_is_not_shown(page: Any, server: str) -> None:
    translated(page, server)
    page.locator("#worked > summary").click()
    held: list[Any] = []
    page.route("**/api/trace", lambda route: held.append(route))
    with page.expect_request("**/api/trace"):
        page.locator(".alternatives button").nth(2).click()
    page.get_by_role("button", name="Clear").click()
    while not held:
        page.wait_for_timeout(20)
    held[0].fulfill(response=page.request.post(held[0].request.url, data=held[0].request.post_data_json))
    page.wait_for_timeout(200)
    assert page.locator("#target .word").count() == 0


def both(source: list[str], target: list[str]) -> dict[str, Any]:
    """What /api/sentences answers to lines."""
    spaces = ["", *["\n"] * (len(source) - 1), ""]
    sides = {"en": source, "de": target}
    found = [{"language": code, "sentences": lines, "spaces": spaces} for code, lines in sides.items()]
    return dict(zip(("source", "target"), found, strict=True))


def test_a_slow_answer_gives_way_to_a_newer_one(page: Any, server: str) -> None:
    held: list[Any] = []

    def answer(route: Any) -> None:
        if route.request.post_data_json["q"] == "old":
            held.append(route)
        else:
            route.fulfill(status=200, json=both(["new", "lines"], ["newer.", "in lines"]))

    page.route("**/api/sentences", answer)
    page.goto(server)
    with page.expect_request("**/api/sentences"):
        page.fill("#source", "old")
    page.fill("#source", "new\nlines")
    page.get_by_text("newer.").wait_for()
    held[0].fulfill(status=200, json=both(["old"], ["older"]))
    page.wait_for_timeout(200)
    assert page.locator("#target").inner_text() == "newer.\nin lines"


def test_nothing_is_headed_that_is_not_there_yet(page: Any, server: str) -> None:
    page.route("**/api/model?*", lambda route: None)
    page.goto(server)
    page.locator("#inside > summary").click()
    page.locator("#inside h3:visible").first.wait_for()
    assert page.locator("#inside h3:visible").all_inner_texts() == ["Model card"]


def test_what_will_not_pass_is_not_offered_again(unwatched: Any, server: str) -> None:
    unwatched.goto(server)
    unwatched.fill("#source", "word " * 5000)
    unwatched.get_by_text("exceeds text limit").wait_for()
    assert unwatched.get_by_role("button", name="Try again").count() == 0


def test_a_server_with_keys_is_asked_for_with_one(translator: Translator, browser: Any) -> None:
    from heedful.serve.app import create_app
    from tests.served import serving

    with serving(create_app([translator], keys=["sesame"])) as url:
        context = browser.new_context()
        locked = context.new_page()
        locked.goto(f"{url}/#q={TEXT[0]}&from=en&to=de")
        locked.get_by_label("This server asks for a key").fill("sesame")
        locked.get_by_role("button", name="Use").click()
        locked.wait_for_selector(".matrix td")
        assert shown(locked) == TEXT[1]
        locked.locator("#inside > summary").click()
        command = locked.locator("#inside pre").inner_text()
        assert " -H 'Authorization: Bearer KEY' " in command, "the line that is copied needs one, too"
        assert "sesame" not in command
        context.close()


def test_it_speaks_korean(page: Any, server: str) -> None:
    translated(page, server)
    page.locator("#languages button", has_text="한국어").click()
    page.wait_for_function("() => document.documentElement.lang === 'ko'")
    page.wait_for_selector(".matrix td")
    assert page.locator("#translate h2").inner_text() == "번역"
    assert not re.search(r"\b(layer|head|weight)\b", page.locator("#attention figcaption").first.inner_text())


REFUSAL = """async ([code, status, text]) => {
  const { chooseLanguage, refusal } = await import("/i18n.js");
  chooseLanguage(code);
  return refusal(status, text);
}"""
HANGUL = re.compile("[가-힣]")


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/api/sentences", {"q": "a" * 20_001}, ["20001", "20000"]),
        ("/api/sentences", {"q": "a" * 2**20}, ["1048576"]),
        ("/api/sentences", {"q": "a", "target": "xx"}, ["xx"]),
        ("/api/trace", {"q": "word " * 400}, ["200"]),
        ("/api/trace", {"q": " "}, []),
        ("/api/trace", {"q": "a", "source": "de", "target": "en"}, ["de", "en"]),
    ],
)
def test_what_the_server_refuses_is_told_in_korean(
    page: Any, server: str, path: str, body: dict[str, str], told: list[str]
) -> None:
    answer = page.request.post(f"{server}{path}", data=body)
    error = answer.json()["error"]
    page.goto(server)
    korean = page.evaluate(REFUSAL, ["ko", answer.status, error])
    assert HANGUL.search(korean)
    assert all(value in korean for value in told)
    assert page.evaluate(REFUSAL, ["en", answer.status, error]) == error


def held_up() -> list[RefusalError]:
    """What a server refuses that is locked, asked too often, busy, or on its way out."""
    from heedful.serve.app import SHUTTING_DOWN
    from heedful.serve.limits import Keys, RateLimit, RefusalError

    rate = RateLimit(1)
    rate.check("one")
    with pytest.raises(RefusalError) as often:
        rate.check("one")
    with pytest.raises(RefusalError) as locked:
        Keys(["sesame"]).check("")
    others = [
        (408, ""),
        (500, "internal error"),
        (501, ""),
        (502, "502 Bad Gateway"),
        (503, SHUTTING_DOWN),
        (503, "Slowdown"),
    ]
    return [often.value, locked.value, *(RefusalError(*each) for each in others)]


def test_a_server_that_cannot_answer_now_says_so_in_korean(page: Any, server: str) -> None:
    page.goto(server)
    told = [page.evaluate(REFUSAL, ["ko", each.status, each.text]) for each in held_up()]
    assert all(HANGUL.search(each) for each in told)
    assert len(set(told)) == len(told) - 1, "a gateway's word and a busy server's are the same"
    assert page.evaluate(REFUSAL, ["ko", 418, "I'm a teapot"]) == "I'm a teapot"


def test_a_refusal_is_shown_in_korean_beside_the_text(unwatched: Any, server: str) -> None:
    unwatched.goto(f"{server}/#ui=ko")
    unwatched.fill("#source", "word " * 5000)
    unwatched.get_by_text("텍스트가 너무 깁니다(25000자).").wait_for()
    unwatched.route("**/api/trace", lambda route: route.fulfill(status=503, json={"error": "Slowdown: too many texts"}))
    unwatched.fill("#source", TEXT[0])
    unwatched.get_by_text("서버가 응답할 수 없는 상태입니다.").wait_for()
    assert TEXT[1] in unwatched.locator("#target").inner_text()
    assert unwatched.get_by_role("button", name="다시 시도").count() == 1


HEBREW = "החיה לא חצתה את הכביש (הרחב), כי היא עייפה."
ARABIC = "لم يعبر الحيوان الطريق، لأنه كان متعبا."


@pytest.fixture(scope="module")
def from_the_right() -> Iterator[str]:
    """Arabic into Hebrew."""
    from heedful.serve.app import create_app
    from tests.served import serving

    with serving(create_app([taught_translator("ar", "he", (ARABIC, HEBREW))])) as url:
        yield url


def test_text_from_right_to_left_is_mirrored(page: Any, from_the_right: str) -> None:
    translated(page, from_the_right, text=ARABIC)
    assert shown(page) == HEBREW
    direction = "node => getComputedStyle(node).direction"
    for place in ("#source", ".source-words", "#target", ".matrix", ".looks", ".alternatives .text"):
        assert page.locator(place).first.evaluate(direction) == "rtl", place
    columns = [box["x"] for box in (head.bounding_box() for head in page.locator(".matrix th.column").all())]
    assert columns == sorted(columns, reverse=True)
    nodes = [node.bounding_box()["x"] for node in page.locator(".tree .best:not(.edge) rect").all()]
    assert nodes == sorted(nodes, reverse=True)
    page.locator(".matrix td").first.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.j") == "1"
    page.locator("#target .word").first.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.t") == "1"
    page.set_viewport_size({"width": 400, "height": 800})
    page.get_by_role("button", name="Lines").click()
    label = page.locator(".lines text[direction=rtl]").last
    assert label.bounding_box()["x"] > 200, "words looked at stand to the right of the lines"
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


CHINESE = "动物没有过马路，因为它太累了。"
JAPANESE = "動物は疲れていたので 道を渡らなかった。"


def test_a_language_without_spaces_stands_in_its_pieces(page: Any) -> None:
    from heedful.serve.app import create_app
    from tests.served import serving

    into_japanese = taught_translator("zh", "ja", (CHINESE, JAPANESE))
    with serving(create_app([into_japanese])) as url:
        translated(page, url, text=CHINESE)
        assert page.locator("#target").inner_text() == JAPANESE
        assert page.locator(".source-words").inner_text() == CHINESE
        words = page.locator(".target-words .word").all_inner_texts()
        assert "".join(words) == JAPANESE.replace(" ", "")
        assert len(words) == len(into_japanese.tokenizer.encode(JAPANESE)) > 2
        page.locator(".target-words .word").nth(2).click()
        choice = page.locator(".popover button.choice:not(.own)").first
        choice.click()
        sync_api.expect(page.locator("#target")).not_to_have_text(JAPANESE)
        page.wait_for_selector(".target-words .word")
        assert page.locator("#target").inner_text().replace(" ", "").startswith("".join(words[:2]))


def test_viridis_can_be_chosen_and_linked_to(page: Any, server: str) -> None:
    translated(page, server)
    paint = "node => getComputedStyle(node).backgroundColor"
    before = page.locator(".matrix td").first.evaluate(paint)
    page.get_by_role("button", name="viridis").click()
    assert page.locator(".matrix td").first.evaluate(paint) != before
    assert "ramp=viridis" in here(page)


def test_the_calculation_is_worked_through_for_every_alternative(page: Any, server: str) -> None:
    translated(page, server, "kind=decoder")
    page.locator("#worked > summary").click()
    page.locator(".alternatives button").nth(2).click()
    page.wait_for_function("() => document.querySelectorAll('.steps li').length === 5")
    pieces = page.locator(".matrix tbody th").count()
    assert page.locator(".steps table tbody tr").count() >= pieces
    page.locator("#worked select").first.select_option("2")
    assert page.locator(".steps table td", has_text="−∞").count() > 0


def test_curves_grow_while_the_training_goes_on(page: Any, translator: Translator, tmp_path: Path) -> None:
    from heedful.data.run_metrics import append_metrics
    from heedful.serve.app import create_app
    from tests.served import serving

    run = tmp_path / "run"
    save_translator(translator, tmp_path / "model").rename(run)
    for step in (1, 2):
        append_metrics(run, {"kind": "step", "step": step, "loss": 3.0 / step, "learning_rate": 0.1})
    with serving(create_app([run], device="cpu", engine="torch")) as url:
        translated(page, url)
        page.locator("#inside > summary").click()
        page.get_by_role("heading", name="Loss").wait_for()
        append_metrics(run, {"kind": "step", "step": 3, "loss": 1.0, "learning_rate": 0.1})
        points = "document.querySelector('#inside .curve').getAttribute('points').split(' ').length"
        page.wait_for_function(f"() => {points} === 3")
        page.locator("#inside > summary").click()  # which ends the stream


def test_what_a_model_is_needs_no_sentence(page: Any, server: str) -> None:
    page.goto(server)
    page.locator("#inside > summary").click()
    page.wait_for_selector(".positions .curve")
    assert "English → German" in page.locator("#inside").inner_text()
    divided(page, server)
    assert page.locator("#inside .positions .curve").count() > 0
    assert "Choose a sentence first." not in page.locator("#inside").inner_text()


def test_curves_are_watched_again_when_the_server_was_away(page: Any, server: str) -> None:
    ended = 'event: anew\ndata: {"step": [], "validation": []}\n\n'
    page.route("**/api/run/metrics?*", lambda route: route.fulfill(content_type="text/event-stream", body=ended))
    translated(page, server)
    page.locator("#inside > summary").click()
    page.wait_for_selector(".positions .curve")
    with page.expect_request("**/api/run/metrics?*"):
        page.fill("#source", "it was tired")
    page.wait_for_selector("[aria-busy=false] #target .word")


def test_the_models_card_is_shown(page: Any, server: str) -> None:
    page.route("**/api/model?*", lambda route: route.fulfill(status=200, json={"card": CARD}))
    translated(page, server)
    page.locator("#inside > summary").click()
    inside = page.locator("#inside")
    inside.get_by_text("<b>mine</b>").wait_for()
    assert "train.en (200,000)" in inside.inner_text()
    assert re.search(r"steps done\s+743\b", inside.inner_text()), "which may be fewer than the settings ask for"
    assert "99.0 ± 0.3" in inside.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["cross", "encoder", "decoder"])
def test_it_fits_a_narrow_screen_in_light_and_dark(page: Any, server: str, scheme: str, kind: str) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    page.emulate_media(color_scheme=scheme)
    translated(page, server, f"kind={kind}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", ground)[0]) < 64) == (scheme == "dark")
    buttons = "[...document.querySelectorAll('main button:not(.word), select, summary')]"
    small = f"() => {buttons}.filter(b => b.offsetParent && b.offsetHeight < 24).map(b => b.outerHTML.slice(0, 80))"
    assert page.evaluate(small) == []


OUTSIDE = """() => [...document.querySelectorAll(".box")].flatMap((box) =>
  [...box.querySelectorAll("header *")]
    .filter((node) => node.getBoundingClientRect().right > box.getBoundingClientRect().right)
    .map((node) => node.textContent))"""


@pytest.mark.parametrize("width", [320, 360, 390])
def test_what_stands_over_a_text_stays_in_its_box_on_every_telephone(page: Any, server: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    translated(page, server)
    page.get_by_text("Detect (English)").wait_for(state="attached")
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [320, 390, 640, 768])
def test_letters_in_drawings_keep_their_size_on_every_screen(page: Any, server: str, width: int) -> None:
    """640: a window of 1280 at 200 %."""
    page.set_viewport_size({"width": width, "height": 800})
    translated(page, server, "view=lines")
    page.locator("#inside > summary").click()
    page.wait_for_selector(".positions .curve")
    height = "nodes => nodes.map(n => n.getScreenCTM().a * parseFloat(getComputedStyle(n).fontSize))"
    sizes = page.locator(".plot text, .lines text").evaluate_all(height)
    assert min(sizes) > 9
    assert max(sizes) < 20


CONTRAST = """() => {
  const context = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d", {
    willReadFrequently: true,
  });
  const linear = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const lightness = () => {
    const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  };
  const fill = (colour) => ((context.fillStyle = colour), context.fillRect(0, 0, 1, 1));
  const bad = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
    if (!own || !node.getClientRects().length || node.closest("title, option, select")) continue;
    const around = [];
    for (let each = node; each; each = each.parentElement) around.unshift(getComputedStyle(each).backgroundColor);
    around.forEach(fill);
    const ground = lightness();
    const style = getComputedStyle(node);
    fill(node instanceof SVGElement ? style.fill : style.color);
    const [low, high] = [ground, lightness()].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) bad.push(`${ratio.toFixed(2)} ${node.outerHTML.slice(0, 90)}`);
  }
  return bad;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(page: Any, server: str, scheme: str) -> None:
    """WCAG's 4.5 : 1."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    translated(page, server, "t=1&h=1")
    page.locator("#worked > summary").click()
    page.locator("#inside > summary").click()
    page.wait_for_selector(".positions .curve")
    page.locator("#target .word").nth(4).click()
    for ramp in ("viridis", "blue"):
        page.get_by_role("button", name=ramp).click()
        assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sentences_can_be_read_and_touched_on_a_narrow_screen(page: Any, server: str, scheme: str) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    divided(page, server)
    page.locator(".sentences button").first.click()
    looked_into(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert min(button.bounding_box()["height"] for button in page.locator(".sentences button").all()) >= 24
    assert page.evaluate(CONTRAST) == []


# ----------------------------------------------------------------------------------------------------------- from disk


def test_the_file_of_attend_holds_every_layer_and_head_of_the_three_kinds(
    page: Any, translator: Translator, tmp_path: Path
) -> None:
    found = trace(translator, TEXT[0], layers=[0, 1])
    (tmp_path / "it.html").write_text(html({"trace": found, "positions": positions(16, 16)}, "it"), encoding="utf-8")
    page.goto(f"file://{tmp_path}/it.html")
    assert shown(page) == TEXT[1]
    for kind in ("cross", "encoder", "decoder"):
        page.locator(f"#tab-{kind}").click()
        assert page.locator(".thumb canvas").count() == 4
        page.locator(".thumb").nth(3).click()
        assert page.locator(".matrix td:not(.masked)").first.inner_text() != ""
    page.locator("#worked > summary").click()
    assert page.locator(".strip canvas").count() == 5
    page.locator("#target .word").nth(2).click()
    assert page.locator(".popover .choice").count() == 8


def test_the_worked_calculation_agrees_with_the_map(page: Any, translator: Translator, tmp_path: Path) -> None:
    found = trace(translator, TEXT[0], layers=[0, 1])
    (tmp_path / "it.html").write_text(html({"trace": found}, "it"), encoding="utf-8")
    for kind in ("cross", "encoder", "decoder"):
        page.goto("about:blank")
        page.goto(f"file://{tmp_path}/it.html#kind={kind}&l=1&h=1&t=3&s=3&unit=pieces")
        page.locator("#worked > summary").click()
        worked = page.locator(".steps table td:last-child").all_inner_texts()
        row = found["source" if kind == "encoder" else "hypotheses"]
        side = row if kind == "encoder" else row[0]
        cells = page.locator(f".matrix td[data-i='{side['word_of_piece'].index(3)}']").all_inner_texts()
        for share, cell in zip(worked, cells, strict=True):
            if cell:
                assert float(share.rstrip(" %")) == pytest.approx(float(cell), abs=1.6)


def test_a_file_works_through_its_alternatives_and_a_given_translation(
    page: Any, translator: Translator, tmp_path: Path
) -> None:
    own = trace(translator, TEXT[0], layers=[0, 1], other_vector_bytes=10**7)
    given = trace(translator, TEXT[0], layers=[0, 1], target=TEXT[1])
    for name, found, hash_ in (("own", own, "n=1&t=2"), ("given", given, "t=2")):
        (tmp_path / f"{name}.html").write_text(html({"trace": found}, name), encoding="utf-8")
        page.goto(f"file://{tmp_path}/{name}.html#kind=cross&{hash_}")
        page.locator("#worked > summary").click()
        assert page.locator(".steps > li").count() == 5
    examples = page.locator("#decode .wrapped tbody tr")
    assert examples.count() == len(given["hypotheses"][0]["words"])
    assert examples.nth(1).inner_text().split()[:2] == ["Das", "Tier"]


def test_two_words_can_be_compared_layer_by_layer(page: Any, translator: Translator, tmp_path: Path) -> None:
    found = trace(translator, TEXT[0], layers=[0, 1])
    (tmp_path / "it.html").write_text(html({"trace": found}, "it"), encoding="utf-8")
    page.goto(f"file://{tmp_path}/it.html#kind=encoder&s=1")
    page.locator("#worked > summary").click()
    page.get_by_role("button", name="Keep this word to compare").click()
    page.locator("#worked select").first.select_option("5")
    plot = page.locator("#worked figure", has_text="Likeness to animal")
    plot.get_by_role("button", name="View as table").click()
    likeness = [float(cell) for cell in plot.locator("td").all_inner_texts()]
    assert len(likeness) == 3, "before the first layer and after each of the two"
    assert all(-1 <= value < 0.999 for value in likeness)


def test_the_files_of_positions_and_curves_draw(page: Any, tmp_path: Path) -> None:
    metrics = {
        "step": [{"step": s, "loss": 5 / s, "perplexity": 9 / s, "learning_rate": s} for s in range(1, 9)],
        "validation": [{"step": 4, "loss": 1.0, "bleu": 3.0}, {"step": 8, "loss": 0.5, "bleu": 9.0}],
    }
    for name, data in {"pe": {"positions": positions(64, 32)}, "curves": {"metrics": metrics}}.items():
        (tmp_path / f"{name}.html").write_text(html(data, name), encoding="utf-8")
        page.goto(f"file://{tmp_path}/{name}.html")
        assert page.locator(".curve").count() >= 4
        assert page.locator(".legend span").count() >= 2, "curves of one plot are told apart"


def test_the_table_of_perplexity_has_perplexities_not_their_logarithms(page: Any, tmp_path: Path) -> None:
    metrics = {"step": [{"step": s, "perplexity": 1000 / s} for s in (1, 2, 4)], "validation": []}
    (tmp_path / "curves.html").write_text(html({"metrics": metrics}, "curves"), encoding="utf-8")
    page.goto(f"file://{tmp_path}/curves.html")
    plot = page.locator("figure", has_text="Perplexity")
    plot.get_by_role("button", name="View as table").click()
    assert plot.locator("td").all_inner_texts() == ["1000", "500", "250"]


@pytest.mark.parametrize("d_model", [8, 7])
def test_the_similarity_of_a_position_to_itself_is_one_and_to_others_that_of_their_distance(
    page: Any, tmp_path: Path, d_model: int
) -> None:
    (tmp_path / "pe.html").write_text(html({"positions": positions(12, d_model)}, "pe"), encoding="utf-8")
    page.goto(f"file://{tmp_path}/pe.html")
    plot = page.locator("figure", has_text="Similarity by distance")
    plot.get_by_role("button", name="View as table").click()
    shown = [float(row.split()[-1]) for row in plot.locator("tbody tr").all_inner_texts()]
    pairs = range(d_model // 2)
    for k, similarity in enumerate(shown):
        mean = sum(math.cos(k / 10000 ** (2 * i / d_model)) for i in pairs) / len(pairs)
        assert similarity == pytest.approx(mean, abs=0.006)


def test_a_model_that_learned_its_positions_shows_no_sinusoids(
    page: Any, translator: Translator, tmp_path: Path
) -> None:
    found = trace(translator, TEXT[0], layers=[0, 1])
    for kind, num_tables in {"sinusoidal": 1, "learned": 0}.items():
        data = {"trace": found | {"model": found["model"] | {"positions": kind}}, "positions": positions(16, 16)}
        (tmp_path / f"{kind}.html").write_text(html(data, kind), encoding="utf-8")
        page.goto(f"file://{tmp_path}/{kind}.html")
        page.locator("#inside > summary").click()
        page.wait_for_selector("#inside .card-grid")
        assert page.locator("#inside .positions").count() == num_tables
        assert ("learned a vector for each position" in page.locator("#inside").inner_text()) == (kind == "learned")


@pytest.mark.usefixtures("families_of_others")
def test_a_family_shows_the_attention_that_it_has_and_its_own_settings(page: Any, tmp_path: Path) -> None:
    sizes: dict[str, dict[str, Any]] = {
        "glance": {},
        "mixer": {"num_layers": 2, "num_heads": 2, "d_ff": 24, "token_width": 12},
    }
    shows = {"glance": (["Cross"], 1), "mixer": (["Cross", "Decoder self"], 4)}
    for name, (tabs, num_heads) in shows.items():
        found = trace(taught(family_translator({"family": name, **sizes[name]}, "en", "de")), TEXT[0])
        (tmp_path / f"{name}.html").write_text(html({"trace": found}, name), encoding="utf-8")
        page.goto(f"file://{tmp_path}/{name}.html#kind=encoder")
        assert page.locator(".tabs button").all_inner_texts() == tabs
        assert page.locator(".thumb canvas").count() == num_heads
        assert page.locator(".matrix td").count() == len(found["hypotheses"][0]["words"]) * 12
        page.locator("#target .word").nth(2).hover()
        assert page.locator("#worked").is_visible() == (name == "mixer")
        page.locator("#inside > summary").click()
        assert {"glance": "sharpness", "mixer": "token_width"}[name] in page.locator("#inside .card-grid").inner_text()
    page.locator("#worked > summary").click()
    assert page.locator(".steps li").count() == 5
    page.locator("#tab-cross").press("ArrowRight")
    assert page.locator("#tab-decoder").get_attribute("aria-selected") == "true"
    assert page.locator(".matrix .masked").count() > 0


@pytest.mark.usefixtures("families_of_others")
@pytest.mark.parametrize(("ui", "why"), [("en", "has no attention (model.family = bag)"), ("ko", "어텐션이 없으므로")])
def test_a_family_without_attention_is_served_and_the_page_says_why_there_are_no_weights(
    page: Any, ui: str, why: str
) -> None:
    from heedful.serve.app import create_app
    from tests.served import serving

    with serving(create_app([taught(family_translator({"family": "bag"}, "en", "de"))])) as url:
        page.goto(f"{url}/#ui={ui}")
        page.fill("#source", TEXT[0])
        page.wait_for_selector("#target .word")
        assert why in page.locator("#attention").inner_text()
        assert page.locator(".tabs button:visible, .thumb, .matrix, #worked:visible").count() == 0
        assert page.locator(".tree .node.best").count() > 0
        page.locator("#target .word").first.click()
        assert page.locator(".popover .choice").count() == 8
        page.locator("#inside > summary").click()
        page.wait_for_selector("#inside .curve")
        assert "slope" in page.locator("#inside .card-grid").inner_text()
        assert page.locator("#inside .positions").count() == 0


@pytest.mark.parametrize("cooldown_steps", [0, 2000])
def test_the_rate_of_a_model_without_its_run_is_the_trainers(page: Any, server: str, cooldown_steps: int) -> None:
    from heedful.config.learning_rate import cooldown, learning_rate

    sizes = {"d_model": 512, "warmup_steps": 4000}
    model = sizes | {"learning_rate_factor": 1.5, "steps": 10_000, "cooldown_steps": cooldown_steps}
    page.goto(server)
    draw = "async (model) => document.body.append((await import('/curves.js')).scheduleView(model))"
    page.evaluate(draw, model)
    page.get_by_role("button", name="View as table").last.click()
    rows = [row.split() for row in page.locator("table").last.locator("tbody tr").all_inner_texts()]
    assert len(rows) == 200
    for step, rate in ((int(step.replace(",", "")), float(rate)) for step, rate in rows):
        left = cooldown(step, steps=10_000, cooldown_steps=cooldown_steps)
        assert rate == pytest.approx(left * learning_rate(step, **sizes, factor=1.5), rel=0.02), step


def test_a_curve_of_one_point_is_a_dot(page: Any, tmp_path: Path) -> None:
    steps = [{"step": s, "loss": 5 / s, "perplexity": 9 / s, "learning_rate": s} for s in range(1, 9)]
    metrics = {"step": steps, "validation": [{"step": 4, "loss": 1.0, "bleu": 3.0}]}
    (tmp_path / "curves.html").write_text(html({"metrics": metrics}, "curves"), encoding="utf-8")
    page.goto(f"file://{tmp_path}/curves.html")
    bleu = page.locator("figure", has_text="BLEU")
    assert bleu.locator(".dot").count() == 1
    box, drawing = bleu.locator(".dot").bounding_box(), bleu.locator("svg").bounding_box()
    assert box["width"] > 4
    assert drawing["x"] < box["x"] < drawing["x"] + drawing["width"]
