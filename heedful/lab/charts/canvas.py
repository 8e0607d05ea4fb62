"""A drawing of lines, dots and text as SVG or PNG. It knows coordinates in pixels from the upper left; no data."""

from __future__ import annotations

from html import escape
from io import BytesIO
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from heedful.config.optional_packages import install_line
from heedful.errors import DeviceError
from heedful.inspection.drawing import FONTS, INK, PAPER, font_families

Anchor: TypeAlias = Literal["start", "middle", "end"]
FONT = 13
DOTS_PER_PIXEL = 2
_ALIGNMENTS: dict[Anchor, str] = {"start": "left", "middle": "center", "end": "right"}


class Line(Struct, frozen=True):
    """A line through points."""

    points: tuple[tuple[float, float], ...]
    colour: str = INK
    width: float = 1.0
    is_dashed: bool = False


class Dot(Struct, frozen=True):
    """A filled circle; `title` is what a browser shows over it."""

    x: float
    y: float
    radius: float
    colour: str
    title: str = ""


class Label(Struct, frozen=True):
    """Text whose vertical middle is at y."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    colour: str = INK
    size: float = FONT
    is_turned: bool = False  # reads from below


Shape: TypeAlias = Line | Dot | Label


class Drawing(Struct, frozen=True):
    """Shapes on paper, later ones on top."""

    width: float
    height: float
    shapes: tuple[Shape, ...]


def svg(drawing: Drawing) -> str:
    """The drawing as SVG."""
    size = f"{drawing.width:.0f} {drawing.height:.0f}"
    width, height = size.split()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {size}" '
        f'font-family="{FONTS}">\n<rect width="100%" height="100%" fill="{PAPER}"/>\n'
        + "\n".join(map(_svg_shape, drawing.shapes))
        + "\n</svg>\n"
    )


def _svg_shape(shape: Shape) -> str:
    if isinstance(shape, Line):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
        dashes = ' stroke-dasharray="5 4"' if shape.is_dashed else ""
        return f'<polyline points="{points}" fill="none" stroke="{shape.colour}" stroke-width="{shape.width}"{dashes}/>'
    if isinstance(shape, Dot):
        title = f"<title>{escape(shape.title)}</title>" if shape.title else ""
        return (
            f'<circle cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius}" fill="{shape.colour}">{title}</circle>'
        )
    place = f'x="{shape.x:.1f}" y="{shape.y:.1f}"'
    turn = f' transform="rotate(-90 {shape.x:.1f} {shape.y:.1f})"' if shape.is_turned else ""
    return (
        f'<text {place} dy="0.35em" text-anchor="{shape.anchor}" font-size="{shape.size}" '
        f'fill="{shape.colour}"{turn}>{escape(shape.text)}</text>'
    )


def png(drawing: Drawing) -> bytes:
    """The drawing as PNG, by matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise DeviceError(f"a .png needs matplotlib; {install_line('matplotlib')}") from None
    figure = Figure(figsize=(drawing.width / 100, drawing.height / 100))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, drawing.width), ylim=(drawing.height, 0))
    axes.axis("off")
    families = font_families("".join(shape.text for shape in drawing.shapes if isinstance(shape, Label)))
    for shape in drawing.shapes:
        _png_shape(axes, shape, families)
    content = BytesIO()
    figure.savefig(content, format="png", dpi=100 * DOTS_PER_PIXEL)
    return content.getvalue()


def _png_shape(axes: Any, shape: Shape, families: list[str]) -> None:
    """matplotlib measures widths and letters in points, of which 72 are as long as our 100 pixels."""
    points = 72 / 100
    if isinstance(shape, Line):
        xs, ys = zip(*shape.points, strict=True)
        axes.plot(xs, ys, color=shape.colour, linewidth=shape.width * points, ls="--" if shape.is_dashed else "-")
    elif isinstance(shape, Dot):
        axes.plot([shape.x], [shape.y], "o", color=shape.colour, markersize=2 * shape.radius * points, mew=0)
    else:
        axes.text(
            shape.x,
            shape.y,
            shape.text.replace("$", r"\$"),
            ha=_ALIGNMENTS[shape.anchor],
            va="center_baseline" if not shape.is_turned else "center",
            rotation=90 if shape.is_turned else 0,
            fontsize=shape.size * points,
            color=shape.colour,
            fontfamily=families,
        )
