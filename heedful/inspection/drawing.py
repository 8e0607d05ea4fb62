"""One attention map as a picture, SVG or PNG: words that look as rows, words looked at as columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import Any, Literal

import torch
from torch import Tensor

from heedful.config.optional_packages import install_line
from heedful.errors import ConfigError, DeviceError
from heedful.inspection.attention_map import KINDS, AttentionMap, Kind, check_kind

FONTS = (
    "system-ui, 'Segoe UI', Roboto, 'Apple SD Gothic Neo', 'Malgun Gothic', 'Noto Sans KR', 'Noto Sans CJK KR', "
    "'Noto Sans', sans-serif"
)
KIND_NAMES: dict[Kind, str] = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
}


@dataclass(frozen=True, slots=True)
class View:
    """One map to draw: words that look × words looked at, in shares; None: masked."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    shares: tuple[tuple[float | None, ...], ...]

    def _repr_svg_(self) -> str:
        """What a notebook shows of it."""
        return svg(self)

    @property
    def is_mirrored(self) -> bool:
        """Columns run as their text does: from the right, if most of their words do."""
        directions = [direction for word in self.columns if (direction := _direction(word))]
        return 2 * sum(map(_is_from_right, directions)) > len(directions)


def _direction(word: str) -> str:
    """Unicode's class of the first letter that has a direction; special tokens have none."""
    classes = (unicodedata.bidirectional(letter) for letter in word if word not in ("<s>", "</s>"))
    return next((each for each in classes if each in ("L", "R", "AL")), "")


def _is_from_right(direction: str) -> bool:
    return direction in ("R", "AL")


def attention_view(found: AttentionMap, kind: Kind, *, layer: int | None = None, head: int | None = None) -> View:
    """The map of one head, or the mean of a layer's; the last layer unless told. Both count from 1."""
    if kind not in KINDS:
        raise ConfigError(f"kind {kind!r} is unknown; choose one of {', '.join(KINDS)}")
    check_kind(found.family, found.weights_LHTS, kind)
    weights_LHWW = found.words(kind)
    layer = weights_LHWW.size(0) if layer is None else layer
    check_place(layer, head, *weights_LHWW.shape[:2])
    chosen_WW = weights_LHWW[layer - 1].mean(dim=0) if head is None else weights_LHWW[layer - 1, head - 1]
    name = "mean of all heads" if head is None else f"head {head}"
    title = f"{KIND_NAMES[kind]}, layer {layer}, {name}; rows look at columns, in percent"
    return View(title, found.rows(kind).words, found.columns(kind).words, _shares(chosen_WW, kind))


def check_place(layer: int | None, head: int | None, num_layers: int, num_heads: int) -> None:
    """Refuse a layer or head that the model does not have."""
    for name, value, most in (("layer", layer, num_layers), ("head", head, num_heads)):
        if value is not None and not 1 <= value <= most:
            raise ConfigError(f"{name} {value} is not there: this model has {name}s 1 to {most}")


def _shares(weights_WW: Tensor, kind: Kind) -> tuple[tuple[float | None, ...], ...]:
    """What is not written yet is masked; a word of several pieces may have looked at its own first ones."""
    masked_WW = torch.ones_like(weights_WW).triu(diagonal=1).bool() & (weights_WW == 0) & (kind == "decoder")
    return tuple(
        tuple(None if hidden else value for value, hidden in zip(row, flags, strict=True))
        for row, flags in zip(weights_WW.tolist(), masked_WW.tolist(), strict=True)
    )


# ----------------------------------------------------------------------------------------------------------------- SVG

CELL, FONT, GAP = 36, 14, 12
SLANT = 0.72  # of a label at 45°: how far it reaches up, and aside
INK, MUTED, PAPER, HATCH = "#1b1f27", "#5b6270", "#ffffff", "#d9dad6"
RAMP = ((244, 245, 243), (143, 176, 223), (23, 64, 139))


def svg(shown: View) -> str:
    """The view as SVG; words keep their own direction."""
    beside, overhang, top = _margins(shown)
    width = max(beside + CELL * len(shown.columns) + overhang, _width(shown.title) + 2 * GAP)
    height = top + CELL * len(shown.rows) + 2 * GAP
    left = width - beside - CELL * len(shown.columns) if shown.is_mirrored else beside
    parts = [*_svg_labels(shown, left, top), *_svg_cells(shown, left, top)]
    title = _svg_text(shown.title, width - GAP if shown.is_mirrored else GAP, "end" if shown.is_mirrored else "start")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONTS}" font-size="{FONT}">\n'
        f'<rect width="100%" height="100%" fill="{PAPER}"/>\n'
        f'<g fill="{MUTED}" font-size="13" transform="translate(0 24)">{title}</g>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _margins(shown: View) -> tuple[float, float, float]:
    """Room for the words beside the rows, for those that reach beyond the last column, and for those above the rows."""
    reaches = (SLANT * _width(word) - CELL * n for n, word in enumerate(reversed(shown.columns)))
    beside = max(map(_width, shown.rows), default=0) + 2 * GAP
    return beside, max(reaches, default=0) + 2 * GAP, SLANT * max(map(_width, shown.columns), default=0) + 48


def _svg_labels(shown: View, left: float, top: float) -> Iterator[str]:
    """The words that look beside the rows, where reading begins; those looked at above the columns, aslant."""
    mirrored = shown.is_mirrored
    beside, anchor = (left + CELL * len(shown.columns) + GAP, "start") if mirrored else (left - GAP, "end")
    for i, word in enumerate(shown.rows):
        y = top + CELL * (i + 0.5)
        yield f'<g fill="{INK}" transform="translate(0 {y:.1f})">{_svg_text(word, beside, anchor, dy="0.35em")}</g>'
    turn, anchor = (45, "end") if mirrored else (-45, "start")
    for j, word in enumerate(shown.columns):
        x = left + CELL * (_column(shown, j) + 0.5)
        place = f"translate({x:.1f} {top - 8:.1f}) rotate({turn})"
        yield f'<g fill="{INK}" transform="{place}">{_svg_text(word, 0, anchor)}</g>'


def _svg_text(text: str, x: float, anchor: str, dy: str = "0") -> str:
    """Text whose left end (start) or right end (end) is at x; from right to left SVG's own names are the other way."""
    direction = ""
    if _is_from_right(_direction(text)):
        anchor, direction = {"start": "end", "end": "start"}[anchor], ' direction="rtl"'
    return f'<text x="{x:.1f}" dy="{dy}" text-anchor="{anchor}"{direction}>{_xml(text)}</text>'


def _column(shown: View, j: int) -> int:
    """Where a column stands, from the left."""
    return len(shown.columns) - 1 - j if shown.is_mirrored else j


def _svg_cells(shown: View, left: float, top: float) -> Iterator[str]:
    for i, row in enumerate(shown.shares):
        for j, share in enumerate(row):
            x, y = left + CELL * _column(shown, j), top + CELL * i
            box = f'<rect x="{x + 1:.1f}" y="{y + 1:.1f}" width="{CELL - 2}" height="{CELL - 2}" rx="4"'
            if share is None:
                yield f'{box} fill="none" stroke="{HATCH}" stroke-dasharray="3 3"><title>masked</title></rect>'
                continue
            name = f"{shown.rows[i]} → {shown.columns[j]}: {share:.3f}"
            yield f'{box} fill="rgb{_colour(share)}"><title>{_xml(name)}</title></rect>'
            if share >= 0.045:
                ink = "#ffffff" if share > 0.55 else INK
                yield (
                    f'<text x="{x + CELL / 2:.1f}" y="{y + CELL / 2:.1f}" dy="0.35em" text-anchor="middle" '
                    f'font-size="12" fill="{ink}">{100 * share:.0f}</text>'
                )


def _colour(share: float) -> tuple[int, ...]:
    """One hue, light to dark by way of a middle tone."""
    share = min(1.0, max(0.0, share))
    begin, end, part = (RAMP[0], RAMP[1], 2 * share) if share < 0.5 else (RAMP[1], RAMP[2], 2 * share - 1)
    return tuple(round(a + (b - a) * part) for a, b in zip(begin, end, strict=True))


def _width(text: str) -> float:
    """About how wide a text is: East Asian letters are square."""
    return sum(FONT * (1.0 if unicodedata.east_asian_width(character) in "FW" else 0.6) for character in text)


def _xml(text: str) -> str:
    """Text for XML, which knows no control characters, nor the two that are none."""
    return escape("".join("\ufffd" if (c < " " and c != "\t") or c in "\ufffe\uffff" else c for c in text))


# ----------------------------------------------------------------------------------------------------------------- PNG

PREFERRED = ("notosanscjk", "notosanskr", "nanumgothic", "malgun", "applesdgothic", "notosans", "undotum", "baekmuk")
FIRST_FONT = "DejaVu Sans"  # comes with matplotlib


def png(shown: View) -> bytes:
    """The view as PNG, by matplotlib, which joins letters and turns directions; every letter has a glyph, or an error
    says which font to install."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise DeviceError(
            f"a .png needs matplotlib (.svg and .html need nothing); {install_line('matplotlib')}"
        ) from None
    families = font_families("".join([shown.title, *shown.rows, *shown.columns]))
    size, place = _png_places(shown)
    figure = Figure(figsize=size)
    axes = figure.add_axes(place)
    _png_cells(axes, shown)
    words: dict[str, Any] = {"fontfamily": families, "fontsize": 10}
    side: Literal["left", "right"] = "right" if shown.is_mirrored else "left"
    turn = -45 if shown.is_mirrored else 45
    columns = [*map(_plain, shown.columns)]
    axes.set_xticks(range(len(columns)), columns, rotation=turn, ha=side, rotation_mode="anchor", **words)
    axes.set_yticks(range(len(shown.rows)), [*map(_plain, shown.rows)], **words)
    axes.set_title(shown.title, fontsize=9, color=MUTED, loc=side)
    if shown.is_mirrored:
        axes.invert_xaxis()
        axes.yaxis.tick_right()
    content = BytesIO()
    figure.savefig(content, format="png", dpi=150)
    return content.getvalue()


def _png_places(shown: View) -> tuple[tuple[float, float], tuple[float, float, float, float]]:
    """The size of the figure in inches, and what part of it the cells take; letters of 10 points have room around."""
    beside, overhang, top, below = (length * 10 / 72 / FONT for length in (*_margins(shown), GAP))
    title = _width(shown.title) * 9 / 72 / FONT
    cells = 0.42 * len(shown.columns), 0.38 * len(shown.rows)
    width, height = beside + max(cells[0] + overhang, title), top + cells[1] + below
    left = width - beside - cells[0] if shown.is_mirrored else beside
    return (width, height), (left / width, below / height, cells[0] / width, cells[1] / height)


def _png_cells(axes: Any, shown: View) -> None:
    hidden = [[[1.0, 1.0, 1.0] if s is None else [c / 255 for c in _colour(s)] for s in row] for row in shown.shares]
    axes.imshow(hidden, aspect="auto")
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for i, row in enumerate(shown.shares):
        for j, share in enumerate(row):
            if share is None or share >= 0.045:
                text, ink = ("·", MUTED) if share is None else (f"{100 * share:.0f}", "white" if share > 0.55 else INK)
                axes.text(j, i, text, ha="center", va="center", fontsize=8, color=ink)


def _plain(text: str) -> str:
    """matplotlib would take a pair of $ for a formula."""
    return text.replace("$", r"\$")


def font_families(text: str) -> list[str]:
    """Fonts that have every letter of a text between them, the usual one first."""
    from matplotlib import font_manager

    first = font_manager.findfont(FIRST_FONT)
    missing = {c for c in text if not c.isspace()} - _letters(first)
    families = [FIRST_FONT]
    for name, path in _system_fonts() if missing else ():
        if missing & (letters := _letters(path)):
            families.append(name)
            missing -= letters
        if not missing:
            break
    if missing:
        letter = min(missing)
        raise DeviceError(
            f"no font here can write {letter!r} ({unicodedata.name(letter, 'unnamed')}); install Noto Sans CJK "
            f"(Debian: apt-get install fonts-noto-cjk) or, for other scripts, Noto Sans (fonts-noto-core), or write "
            f".svg or .html instead of .png"
        )
    return families


def _letters(path: str) -> set[str]:
    from matplotlib import font_manager

    return {chr(code) for code in font_manager.get_font(path).get_charmap()}


def _system_fonts() -> Sequence[tuple[str, str]]:
    """Name and file of every font here, those made for many scripts first.

    matplotlib remembers which there were when it was first used, and has one of its own that draws boxes.
    """
    from matplotlib import font_manager

    known = {font.fname for font in font_manager.fontManager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):
        with suppress(RuntimeError, OSError, ValueError):  # a file that matplotlib cannot read as a font
            font_manager.fontManager.addfont(path)

    def rank(font: Any) -> tuple[int, bool, str]:
        plain = font.name.lower().replace(" ", "")
        place = next((i for i, name in enumerate(PREFERRED) if plain.startswith(name)), len(PREFERRED))
        return place, font.weight != 400, font.name

    fonts = [font for font in font_manager.fontManager.ttflist if not font.name.startswith("Last Resort")]
    return [(font.name, font.fname) for font in sorted(fonts, key=rank)]
