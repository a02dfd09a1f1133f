"""What every picture of a board is drawn on: a page in inches, its text, its bytes. Imports matplotlib only to draw."""

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .markdown import printable
from .svg import svg
from .theme import THEMES, Theme, blend

if TYPE_CHECKING:
    from matplotlib.path import Path

WIDTH = 9.6
"""Inches, of every picture: on a code host, whose column is some 900 pixels wide, 7 points are then nearly 9 pixels."""
MARGIN = 0.12
DPI = 105  # of the PNG: 1008 pixels across
PALETTE = 128
"""Colours of a PNG."""
EDGES = (0.25, 0.5, 0.75)
"""How much of a line's colour there is in those along its edge that are kept, so that thin lines keep their hue."""
SMALL, NORMAL, LARGE = 7.0, 8.5, 11.0
"""Font sizes, points."""
LINE = 1.22
"""Line height, in font sizes."""
MIDDLE = 0.32
"""From a letter's baseline to its middle, in font sizes: between half a small letter and half a digit."""
POINT = 1 / 72
"""Inches."""


class Page:
    """A figure whose places are inches from its top left corner."""

    def __init__(self, height: float, theme: Theme, width: float = WIDTH) -> None:
        from matplotlib.figure import Figure
        from matplotlib.transforms import Affine2D

        self.width, self.height, self.theme = width, height, theme
        self.title = ""
        self.figure = Figure(figsize=(width, height), dpi=DPI, facecolor=theme.background)
        self.inches = Affine2D().scale(1, -1).translate(0, height) + self.figure.dpi_scale_trans

    def text(self, left: float, top: float, text: str, size: float = NORMAL, /, **style: Any) -> None:
        """Text whose first line begins at that place.

        Arguments:
            style: matplotlib's, and ``va="middle"`` for one line with the middle of its letters there, whichever they are.
        """
        if style.get("va") == "middle":
            top, style = top + MIDDLE * size * POINT, style | {"va": "baseline"}
        merged: dict[str, Any] = {"va": "top", "ha": "left", "color": self.theme.text, "linespacing": LINE, **style}
        self.figure.text(left, top, text, fontsize=size, transform=self.inches, **merged)

    def line(self, x: ArrayLike, y: ArrayLike, colour: str, width: float, /, **style: Any) -> None:
        """A line through these places; gaps where there are NaNs.

        Arguments:
            width: points.
        """
        from matplotlib.lines import Line2D

        style = {"solid_capstyle": "butt"} | style
        self.figure.add_artist(Line2D(x, y, color=colour, linewidth=width, transform=self.inches, **style))

    def area(self, corners: Float[np.ndarray, "N 2"], colour: str, **style: Any) -> None:
        """A filled polygon, by default below everything else."""
        from matplotlib.patches import Polygon

        style = {"linewidth": 0, "zorder": 0} | style
        self.figure.add_artist(Polygon(corners, facecolor=colour, transform=self.inches, **style))

    def rectangle(self, left: float, top: float, width: float, height: float, colour: str, **style: Any) -> None:
        """A filled box."""
        right, bottom = left + width, top + height
        self.area(np.array([[left, top], [right, top], [right, bottom], [left, bottom]]), colour, **style)

    def cells(self, boxes: Float[np.ndarray, "C 4"], colours: Sequence[str]) -> None:
        """Filled boxes (left, top, right, bottom), each in its colour, above the ground."""
        from matplotlib.collections import PolyCollection

        left, top, right, bottom = boxes.T
        corners = np.stack([left, top, right, top, right, bottom, left, bottom], 1).reshape(-1, 4, 2)
        drawn = PolyCollection(list(corners), facecolors=colours, linewidths=0, zorder=1, transform=self.inches)
        self.figure.add_artist(drawn)

    def repeat(self, path: "Path", places: Sequence[tuple[float, float]], colour: str, width: float) -> None:
        """One path, in points upwards and to the right, drawn at each of these places: the file holds it only once."""
        from matplotlib.collections import PathCollection
        from matplotlib.transforms import Affine2D

        place: dict[str, Any] = {"offsets": places, "offset_transform": self.inches}
        drawn = PathCollection([path], facecolors="none", edgecolors=colour, linewidths=width, zorder=1, **place)
        drawn.set_transform(Affine2D().scale(1 / 72) + self.figure.dpi_scale_trans)
        self.figure.add_artist(drawn)

    def heading(self, title: str, *below: str) -> float:
        """Title of the picture and lines in smaller type; returns where what follows may begin, inches."""
        self.title = title
        self.text(MARGIN, 0.1, title, LARGE, fontweight="bold")
        top = 0.1 + LINE * LARGE * POINT + 0.03
        for line in filter(None, below):
            for part in wrapped(line, (self.width - 2 * MARGIN) / POINT, NORMAL):
                self.text(MARGIN, top, part)
                top += LINE * NORMAL * POINT
        return top + 0.08

    def footer(self, lines: Sequence[str], top: float) -> None:
        """Notes under the picture; ``footer_height`` says how much room they take."""
        self.text(MARGIN, top, "\n".join(footer_lines(lines, self.width)), SMALL, color=self.theme.muted)


def footer_lines(lines: Sequence[str], width: float = WIDTH) -> list[str]:
    return [part for line in lines for part in wrapped(line, (width - 2 * MARGIN) / POINT, SMALL)]


def footer_height(lines: Sequence[str]) -> float:
    return len(footer_lines(lines)) * SMALL * LINE * POINT + MARGIN


@contextmanager
def fresh_settings(theme: Theme) -> Iterator[None]:
    """matplotlib as a board's pictures want it: a reader's own settings must not change the bytes, and stay as they were."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "font.family": "DejaVu Sans",  # comes with matplotlib
                "font.size": SMALL,
                "text.color": theme.text,
                "text.parse_math": False,  # a name may hold a dollar sign
                "path.simplify": False,  # dots are very short lines
                "text.hinting": "none",  # texts are as wide in the PNG as in the SVG
                "svg.fonttype": "none",
                "svg.hashsalt": "lprime",  # else ids are random
            }
        )
        yield


def both_looks(stem: str, draw: "Callable[[Theme], Page]") -> dict[str, bytes]:
    """File name → bytes of a picture as SVG and PNG, each light and dark.

    Arguments:
        draw: from theme to page; called with matplotlib set up for that theme.
    """
    files = {}
    for theme in THEMES:
        with fresh_settings(theme), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a name in another script shows as boxes
            page = draw(theme)
            files[file_name(stem, "svg", theme.name)] = svg(page)
            files[file_name(stem, "png", theme.name)] = png(page)
    return files


def file_name(stem: str, ending: str, look: str = "light") -> str:
    """``accuracy.svg``, ``accuracy.dark.svg``."""
    return f"{stem}.{ending}" if look == "light" else f"{stem}.{look}.{ending}"


def png(page: Page) -> bytes:
    """PNG bytes that hang on the page alone, no date, no version of the library; with a palette, a third of the size.

    Its palette has the colours of the theme, what lies between them and the background along the edges of lines, and what else
    covers most of the page; all other pixels take the nearest of these.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(page.figure)
    canvas.draw()
    theme = page.theme
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].astype(np.int32) @ (1 << 16, 1 << 8, 1)
    ground = int(theme.background[1:], 16)
    inked = pixels != ground
    there, where, counts = np.unique(pixels[inked], return_inverse=True, return_counts=True)
    edges = [blend(theme.background, colour, part) for colour in (theme.text, theme.muted, *theme.colours) for part in EDGES]
    known = [int(colour[1:], 16) for colour in (theme.background, *theme.flat, *edges)]
    covering = there[np.argsort(-counts, kind="stable")][: PALETTE - len(known)]
    palette = rgb(np.concatenate([known, covering]))
    indices = np.zeros(pixels.shape, np.uint8)
    indices[inked] = ((rgb(there)[:, None] - palette) ** 2).sum(-1).argmin(1)[where]
    reduced = Image.fromarray(indices).convert("P")
    reduced.putpalette(palette.astype(np.uint8).tobytes())
    buffer = io.BytesIO()
    reduced.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def rgb(colours: Int[np.ndarray, " C"]) -> Int[np.ndarray, "C 3"]:
    """Red, green and blue of colours 0xRRGGBB."""
    return colours[:, None] >> (16, 8, 0) & 255


@lru_cache(4096)
def text_width(text: str, size: float, bold: bool = False) -> float:
    """Points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        font = FontProperties(size=size, weight="bold" if bold else "normal")
        return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def wrapped(text: str, width: float, size: float) -> list[str]:
    """Lines of at most ``width`` points, broken at blanks; a word that is longer than a line stands alone and is cut."""
    lines = [""]
    for word in text.split(" "):  # not at blanks that hold together
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [fitted(line, width, size) for line in lines]


def fitted(text: str, width: float, size: float, bold: bool = False, suffix: str = "") -> str:
    """Text, cut in the middle until it is at most ``width`` points wide together with the suffix behind it."""
    kept = len(text)
    while text_width((shown := halves(text, kept)) + suffix, size, bold) > width and kept > 2:
        kept -= 1
    return shown + suffix


def halves(text: str, kept: int) -> str:
    """The first and last characters of a text, so many in all, an ``…`` between them among these."""
    return text if kept >= len(text) else f"{text[: kept // 2]}…{text[len(text) - (kept - kept // 2 - 1) :]}"


def label(name: str, limit: int = 60) -> str:
    """A name as it is drawn."""
    return printable(name, limit)
