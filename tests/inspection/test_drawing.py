"""Drawings: one file that needs nobody, well-formed SVG, PNG without box glyphs, and errors in one line."""

from __future__ import annotations

import json
import re
import shutil
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from heedful.cli.main import commands
from heedful.data.atomic import unfinished
from heedful.errors import ConfigError, DeviceError, HeedfulError
from heedful.inspection import drawing
from heedful.inspection.attention_map import KINDS, AttentionMap, attention_map
from heedful.inspection.drawing import View, attention_view, png, svg
from heedful.inspection.page_file import PAGE, bundle, html
from heedful.translate.translation import Translator
from tests.small_models import small_model
from tests.small_translator import TEXT, save_translator, small_translator

KOREAN = "동물은 너무 피곤해서 도로를 건너지 않았다."
WORDS = (*KOREAN.split(), "Straßenbahnhaltestellenschild", "שלום", "<b>&\"'", "a$b$", "\x01")


@pytest.fixture(scope="module")
def found() -> AttentionMap:
    return attention_map(small_translator(), TEXT[0], TEXT[1])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_translator(small_translator(), tmp_path_factory.mktemp("models") / "model")


def shown(words: tuple[str, ...] = WORDS) -> View:
    return View(
        "a view",
        words,
        words,
        tuple(tuple(None if j > i else 1 / (i + 1) for j in range(len(words))) for i in range(len(words))),
    )


# ---------------------------------------------------------------------------------------------------------------- HTML


def test_the_file_asks_nobody_for_anything() -> None:
    page = html({"trace": None}, "a title")
    assert not re.search(r"(src|href)=\"(?!#)", page)
    assert set(re.findall(r"https?://[^\s\"'`)]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert "import " not in re.sub(r"/\*.*?\*/|//[^\n]*", "", bundle(), flags=re.DOTALL).replace("important", "")


def test_text_is_never_markup() -> None:
    hostile = "</script><script>alert(1)</script><!--"
    page = html({"text": hostile}, hostile)
    assert hostile not in page
    data = re.search(r'id="heedful-data">(.*?)</script>', page)
    assert data is not None
    assert json.loads(data[1]) == {"text": hostile}


def test_no_module_makes_html_from_strings() -> None:
    for path in PAGE.glob("*.js"):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", source), (
            path
        )
    assert not re.search(r"\son\w+=|style=|<style|<script>", (PAGE / "index.html").read_text(encoding="utf-8"))


def test_everything_is_said_in_both_languages() -> None:
    said = (PAGE / "i18n.js").read_text(encoding="utf-8")
    pair = r'\[\s*"((?:[^"\\]|\\.)*)",\s*"((?:[^"\\]|\\.)*)",?\s*\]'
    texts = re.findall(rf'(?:"([\w.→]+)"|(?<![\w.])(\w+)): {pair}', said)
    keys = {quoted or plain for quoted, plain, _, _ in texts}
    assert len(keys) > 150
    assert all(english and korean for _, _, english, korean in texts)
    for path in PAGE.glob("*.js"):
        used = set(re.findall(r'(?<![\w.])t\("([^"]+)"', path.read_text(encoding="utf-8")))
        assert used <= keys, f"{path.name}: {used - keys}"


# ----------------------------------------------------------------------------------------------------------------- SVG


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_holds_the_words_and_the_shares_of_one_head(found: AttentionMap, kind: str) -> None:
    named = next(each for each in KINDS if each == kind)
    one = attention_view(found, named, layer=1, head=2)
    name = "cross-attention" if kind == "cross" else f"{kind} self-attention"
    assert one.title == f"{name}, layer 1, head 2; rows look at columns, in percent"
    assert one.rows == found.rows(named).words
    assert sum(share or 0 for share in one.shares[2]) == pytest.approx(1)
    assert [share or 0 for share in one.shares[2]] == found.words(named)[0, 1, 2].tolist()
    masked = [share is None for share in one.shares[0]]
    assert any(masked) == (kind == "decoder")
    with pytest.raises(ConfigError, match="head 3 is not there: this model has heads 1 to 2"):
        attention_view(found, named, head=3)


def test_svg_is_well_formed_whatever_the_words() -> None:
    root = ElementTree.fromstring(svg(shown()))
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Straßenbahnhaltestellenschild" in texts
    assert "<b>&\"'" in texts
    assert float(root.attrib["width"]) > 300


def test_svg_is_well_formed_with_what_is_no_character() -> None:
    drawn = ElementTree.fromstring(svg(View("a view", ("\ufffea", "b"), ("\uffff", "\x01"), ((1.0, 0.0),) * 2)))
    assert "\ufffda" in [node.text for node in drawn.iter("{http://www.w3.org/2000/svg}text")]


def test_a_view_shows_itself_and_a_kind_that_is_none_is_named(found: AttentionMap) -> None:
    shown = attention_view(found, "cross")
    assert shown._repr_svg_() == svg(shown)
    with pytest.raises(ConfigError, match="kind 'self' is unknown; choose one of cross, encoder, decoder"):
        attention_view(found, "self")  # type: ignore[arg-type]


def test_without_a_choice_a_view_is_the_mean_of_the_last_layer(found: AttentionMap) -> None:
    weights_LHWW = found.words("cross")
    assert weights_LHWW.size(0) > 1
    shown = attention_view(found, "cross")
    assert f"layer {weights_LHWW.size(0)}, mean of all heads" in shown.title
    assert [list(row) for row in shown.shares] == weights_LHWW[-1].mean(dim=0).tolist()


def test_a_sentence_without_spaces_is_drawn_in_its_pieces(tmp_path: Path) -> None:
    text = ["今天老师喜欢书", "the teacher loves books"]
    languages = {"source_language": "zh", "target_language": "en"}
    translator = Translator.load(small_model(tmp_path / "zh", text=text, data=languages), device="cpu")
    found = attention_map(translator, "老师喜欢今天", "the teacher")
    shown = attention_view(found, "cross")
    assert "".join(shown.columns) == "老师喜欢今天</s>"
    assert len(shown.columns) > 3
    assert shown.rows == found.target.words
    assert all(sum(share or 0 for share in row) == pytest.approx(1, abs=1e-4) for row in shown.shares)
    assert attention_view(found, "encoder").rows == shown.columns


HEBREW = ("החיה", "חצתה", "(הכביש).", "</s>")


def test_svg_is_mirrored_where_columns_run_from_right_to_left() -> None:
    source = svg(View("a view", ("the", "road"), HEBREW, ((1.0, 0.2, 0.3, 0.4),) * 2))
    names = [name.text or "" for name in ElementTree.fromstring(source).iter("{http://www.w3.org/2000/svg}title")]
    places = [float(x) for x in re.findall(r'<rect x="([\d.]+)"', source)]
    assert names[:4] == [f"the → {word}: {share:.3f}" for word, share in zip(HEBREW, (1, 0.2, 0.3, 0.4), strict=True)]
    assert places[:4] == sorted(places[:4], reverse=True)
    assert source.count('direction="rtl"') == 3
    assert 'direction="rtl"' not in svg(View("a view", HEBREW[:1], ("the", "road"), ((1.0, 0.2),))).split("rotate")[1]


LONG_WORD = "Donaudampfschifffahrtsgesellschaft"


@pytest.mark.parametrize("words", [(LONG_WORD, "</s>"), ("ה" * 32, "</s>")])
def test_svg_has_room_for_a_long_word_that_is_not_the_last(words: tuple[str, ...]) -> None:
    root = ElementTree.fromstring(svg(View("a", ("b",), words, ((1.0, 0.0),))))
    places = [node.attrib["transform"] for node in root if "rotate" in node.attrib.get("transform", "")]
    x = float(re.findall(r"[\d.]+", places[0])[0])
    room = x if "rotate(45)" in places[0] else float(root.attrib["width"]) - x
    assert room > 0.7 * 0.6 * 14 * len(words[0])


# ----------------------------------------------------------------------------------------------------------------- PNG


def test_png_has_room_for_long_words_and_cells_beside_them() -> None:
    """matplotlib warns of a drawing that has no room left for its cells, and a warning is an error here."""
    image, edges = pytest.importorskip("matplotlib.image"), []
    for rows, columns in (((LONG_WORD, "b"), ("a", LONG_WORD * 2)), (("a", "b"), ("a", "b"))):
        drawn = png(View("a view with a long title", rows, columns, ((1.0, 1.0),) * 2))
        edges.append(image.imread(BytesIO(drawn))[..., :3].min(axis=2))
    for edge in edges:
        assert min(side.min() for side in (edge[0], edge[-1], edge[:, 0], edge[:, -1])) == 1, "nothing is cut"
    assert edges[0].shape[0] > 2 * edges[1].shape[0]


def test_png_is_mirrored_where_columns_run_from_right_to_left() -> None:
    image = pytest.importorskip("matplotlib.image")
    for words, first in ((HEBREW, "right"), (("a", "b", "c", "d"), "left")):
        drawn = png(View("a view", ("x", "y"), words, ((1.0, 0.0, 0.0, 0.0),) * 2))
        dark = image.imread(BytesIO(drawn))[..., 0] < 0.2
        height, width = dark.shape
        middle = dark[-height // 4]  # through the cells, not the labels
        assert (middle[width // 2 :].sum() > middle[: width // 2].sum()) == (first == "right")


def test_png_has_a_glyph_for_every_letter() -> None:
    """matplotlib warns of a missing glyph, and a warning is an error here."""
    pytest.importorskip("matplotlib")
    try:
        drawing.font_families(KOREAN)
    except DeviceError as error:
        pytest.skip(f"NO KOREAN FONT: {error}")
    assert png(shown((*KOREAN.split(), "Straße", "a$b$", "שלום")))[:4] == b"\x89PNG"


def test_a_font_that_draws_boxes_is_none_and_a_new_one_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    font_manager = pytest.importorskip("matplotlib.font_manager")
    new = tmp_path / "new.ttf"
    shutil.copy(font_manager.findfont("DejaVu Serif"), new)
    monkeypatch.setattr(font_manager.fontManager, "ttflist", list(font_manager.fontManager.ttflist))
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(new), str(tmp_path / "no-font.ttf")])
    found = drawing._system_fonts()
    assert str(new) in [path for _, path in found]
    assert not [name for name, _ in found if name.startswith("Last Resort")]
    with pytest.raises(DeviceError, match="no font here can write"):
        drawing.font_families("\U000f1234")


def test_without_a_font_one_line_names_one_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(drawing, "_system_fonts", list)
    with pytest.raises(DeviceError, match="install Noto Sans CJK") as error:
        png(shown())
    assert "\n" not in str(error.value)
    png(shown(("Straße", "it")))


# ------------------------------------------------------------------------------------------------------------ commands


@pytest.mark.parametrize("form", ["html", "svg", "png", "json"])
def test_attend_writes_what_the_ending_says(model: Path, tmp_path: Path, form: str) -> None:
    output = tmp_path / f"it.{form}"
    result = CliRunner().invoke(
        commands, ["attend", "-m", str(model), TEXT[0], "-o", str(output), "--device", "cpu", "--target", TEXT[1]]
    )
    assert result.exit_code == 0, result.output
    assert "Das Tier\tüberquerte\t" in result.stdout
    content = output.read_bytes()
    if form == "json":
        weights = json.loads(content)["attention"]["cross"]["weights"]
        assert (len(weights), len(weights[0])) == (2, 2)
    else:
        assert {"html": b"<!doctype html>", "svg": b"<svg", "png": b"\x89PNG"}[form] in content[:100]


@pytest.mark.parametrize(
    ("form", "text"),
    [("svg", "decoder self-attention, layer 1, head 2;"), ("html", '"select":{"kind":"decoder","l":0,"h":[1]}')],
)
def test_attend_shows_the_chosen_kind_layer_and_head(model: Path, tmp_path: Path, form: str, text: str) -> None:
    output, place = tmp_path / f"it.{form}", ["--kind", "decoder", "--layer", "1", "--head", "2", "--device", "cpu"]
    CliRunner().invoke(commands, ["attend", "-m", str(model), TEXT[0], "-o", str(output), *place])
    assert text in output.read_text(encoding="utf-8")


def test_the_examples_of_a_target_have_three_columns_whatever_it_holds(model: Path, tmp_path: Path) -> None:
    target = TEXT[1].replace(" Straße", "\tStraße")
    picture = ["-o", str(tmp_path / "it.json"), "--device", "cpu"]
    result = CliRunner().invoke(commands, ["attend", "-m", str(model), TEXT[0], *picture, "--target", target])
    assert {line.count("\t") for line in result.stdout.splitlines()} == {2}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["-o", "it.gif"], "must end in .html, .svg, .png, .json"),
        (["-o", "it.svg", "--layer", "9"], "layers 1 to 2"),
        (["-o", "it.html", "--head", "0"], "heads 1 to 2"),
        (["-o", "nowhere/it.svg"], "cannot be written"),
    ],
)
def test_a_mistake_is_one_line(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(commands, ["attend", "-m", str(model), TEXT[0], "--device", "cpu", *arguments])
    assert isinstance(result.exception, HeedfulError)
    assert line in str(result.exception)


@pytest.mark.parametrize("choice", [["--kind", "cross"], ["--layer", "1"], ["--head", "1"]])
def test_json_holds_all_and_refuses_a_choice(model: Path, tmp_path: Path, choice: list[str]) -> None:
    output = tmp_path / "it.json"
    result = CliRunner().invoke(commands, ["attend", "-m", str(model), TEXT[0], "-o", str(output), *choice])
    assert result.exit_code == 2
    assert f"{choice[0]} goes with .html, .svg and .png" in result.output
    assert not output.exists()


def test_positions_and_curves_are_written(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "step", "step": 1, "loss": 2.0}\n')
    for arguments in (
        ["positions", "-o", f"{tmp_path}/pe.html", "--d-model", "8"],
        ["curves", str(tmp_path), "-o", f"{tmp_path}/c.html"],
    ):
        assert CliRunner().invoke(commands, arguments).exit_code == 0
    assert '"d":8' in (tmp_path / "pe.html").read_text(encoding="utf-8")
    assert '"loss":2.0' in (tmp_path / "c.html").read_text(encoding="utf-8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("form", ["html", "svg", "png", "json"])
def test_a_full_disk_leaves_the_picture_that_was_there(model: Path, tmp_path: Path, form: str) -> None:
    if form == "png":
        pytest.importorskip("matplotlib")
    output = tmp_path / f"it.{form}"
    output.write_text("a picture of old")
    unfinished(output).symlink_to("/dev/full")
    result = CliRunner().invoke(commands, ["attend", "-m", str(model), TEXT[0], "-o", str(output), "--device", "cpu"])
    assert str(result.exception) == f"{output}: cannot be written (No space left on device)"
    assert output.read_text() == "a picture of old"
