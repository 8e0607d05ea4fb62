"""The pictures of the page in docs/images, made anew: `python -m benchmarks.pictures ENGLISH-GERMAN KOREAN-ENGLISH`.

Both are runs of `heedful demo`. Each is served, and a browser (the distribution's Chromium, driven by playwright) opens
an address of the page for each picture, which says what is chosen. Heads are the best ones at pronouns, as
`python -m benchmarks.attention` finds them. It judges nothing: look at what it wrote before you commit it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.attention import PAIRS, PRONOUN, pronoun_report
from benchmarks.command import parser, run
from benchmarks.serve_load import Server, running
from heedful.config.optional_packages import install_line
from heedful.errors import DeviceError
from heedful.inspection.attention_map import Kind
from heedful.translate.translation import Translator

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TIRED, WIDE = PAIRS
KOREAN = "동물은 너무 피곤해서 도로를 건너지 않았다."
STEP_OF_PRONOUN, SECONDS_TO_DRAW = 9, 2.0
WIDE_SCREEN, PHONE = (1120, 900), (400, 1820)
TALLEST = 1820  # pixels


@dataclass(frozen=True)
class Picture:
    """A region of the page, or all that the screen shows, where the address chooses this."""

    name: str
    region: str
    chosen: dict[str, Any]
    screen: tuple[int, int] = WIDE_SCREEN
    scheme: str = "light"
    click: str = ""


OF_KOREAN = Picture("korean", "#attention", {"q": KOREAN, "ui": "ko"})


def pictures(model: Path) -> list[Picture]:
    """Those of the model into German."""
    translator = Translator.load(model, device="cpu", engine="torch")
    cross, decoder = _best_head(translator, "cross"), _best_head(translator, "decoder")
    german = {"q": TIRED, "from": "en", "to": "de"}
    es = german | {"t": PRONOUN}
    return [
        Picture("translate", "#translate", german, click=f"#target .word >> nth={PRONOUN}"),
        Picture("attention", "#attention", es | cross),
        Picture("dark", "#attention", es | decoder, scheme="dark"),
        Picture("lines", "#attention", es | {"q": WIDE, "view": "lines"} | cross),
        Picture("worked", "#worked", es | cross, click="#worked summary"),
        Picture("decode", "#decode", es | {"step": STEP_OF_PRONOUN}),
        Picture("inside", "#inside", es, click="#inside summary"),
        Picture("narrow", "", es | cross, screen=PHONE),
    ]


def _best_head(translator: Translator, kind: Kind) -> dict[str, Any]:
    report = pronoun_report(translator, kind)
    return {"kind": kind, "l": report.layer, "h": report.head}


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser; an error that says what to install where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise DeviceError(f"pictures need playwright; {install_line('playwright')}") from None
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise DeviceError("pictures need a browser; install it: apt-get install chromium fonts-noto-cjk")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def take(browser: Any, server: Server, picture: Picture, folder: Path) -> None:
    """Open the address, wait until all is drawn, and write what is seen."""
    width, height = picture.screen
    with browser.new_context(viewport={"width": width, "height": height}, color_scheme=picture.scheme) as context:
        page = context.new_page()
        page.goto(f"http://{server.host}:{server.port}/#{urlencode(picture.chosen)}")
        page.wait_for_selector("#decode .tree")
        if picture.click:
            page.click(picture.click)
        page.wait_for_timeout(1000 * SECONDS_TO_DRAW)
        shown = page.locator(picture.region) if picture.region else page
        write(shown.screenshot(), folder / f"{picture.name}.png")


def write(png: bytes, path: Path) -> None:
    """Its upper part if it is long; with no more than 256 colours, which nobody misses, and a third of the bytes."""
    from PIL import Image  # comes with matplotlib

    image = Image.open(BytesIO(png)).convert("RGB")
    upper = image.crop((0, 0, image.width, min(image.height, TALLEST)))
    upper.quantize(256).save(path, optimize=True)
    print(path)


def main() -> None:
    command = parser(__doc__)
    command.add_argument("german", type=Path, help="a run from English into German")
    command.add_argument("korean", type=Path, help="a run from Korean into English")
    command.add_argument("-o", "--output", type=Path, default=IMAGES, help="the folder of the pictures")
    given = command.parse_args()
    wanted_of = {given.german: pictures(given.german), given.korean: [OF_KOREAN]}
    with browsing() as browser:
        for model, wanted in wanted_of.items():
            with running(model, ()) as server:
                for picture in wanted:
                    take(browser, server, picture, given.output)


if __name__ == "__main__":
    run(main)
