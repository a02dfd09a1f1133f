"""Base of every figure: matplotlib's settings for a theme, a figure with title and notes, and its SVG."""

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .text_layout import LARGE, LINE, NORMAL, POINT, SMALL, fitted, sentences, wrapped
from .theme import THEMES, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 9.6
"""Inches, for every figure: in a column of 900 pixels, as on GitHub, 7 points are nearly 9 pixels."""
MARGIN = 0.12
"""Inches, at the edges of a figure."""
FONTS = "'DejaVu Sans', Verdana, sans-serif"
"""The first comes with matplotlib; Verdana, on Windows and macOS, has letters of the same width."""
MIDDLE = 0.32
"""From a text's baseline to the middle of its letters, in font sizes: between half a small letter and half a digit."""


@contextmanager
def figure_settings(theme: Theme) -> Iterator[None]:
    """matplotlib's defaults with the board's style; the user's own settings have no effect and are restored afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        rc = matplotlib.rc
        rc("svg", fonttype="none", hashsalt="lprime")  # text stays text; ids are not random
        rc("path", simplify=False)  # it would drop dots, see plot_dots
        rc("figure", facecolor=theme.background)
        rc("font", family="DejaVu Sans", size=SMALL)
        rc("text", color=theme.text, parse_math=False)  # names may contain a dollar sign
        rc("axes", facecolor="none", edgecolor=theme.muted, linewidth=0.6, labelcolor=theme.muted, labelsize=SMALL)
        rc("axes", titlelocation="left", titlesize=8, titleweight="bold", titlepad=5, axisbelow=True)
        rc("axes.spines", left=False, right=False, top=False)
        rc("axes", grid=True)
        rc("axes.grid", axis="y")
        rc("grid", color=theme.grid, linewidth=0.6)
        rc("xtick", color=theme.muted, labelsize=SMALL)
        rc("ytick", color=theme.muted, labelsize=SMALL)
        rc("xtick.major", size=2, width=0.6, pad=2)
        rc("ytick.major", size=0, pad=3)
        rc("legend", frameon=False, fontsize=NORMAL)
        yield


def new_figure(
    title: str, height: float, theme: Theme, *, subtitle: str = "", notes: Sequence[str] = ()
) -> "tuple[Figure, float, float]":
    """A figure with a title, a subtitle in smaller type, and notes at the bottom.

    Arguments:
        height: inches between subtitle and notes, for axes with their titles and tick labels.
        notes: written as sentences, one after the other.

    Returns:
        The figure, and the bottom and top of that space, as fractions of the figure's height.
    """
    from matplotlib.figure import Figure

    room = (WIDTH - 2 * MARGIN) / POINT
    above, below = wrapped(subtitle, room, NORMAL), wrapped(sentences(notes), room, SMALL)
    heading = 0.13 + LINE * LARGE * POINT
    top = heading + LINE * NORMAL * len(above) * POINT + 0.06 * bool(above)
    bottom = LINE * SMALL * len(below) * POINT + MARGIN
    total = top + height + bottom
    figure = Figure(figsize=(WIDTH, total), dpi=72)  # a pixel is a point, as in the SVG
    left = MARGIN / WIDTH
    title = fitted(title, room, LARGE, bold=True)
    figure.suptitle(title, x=left, y=1 - 0.1 / total, ha="left", fontsize=LARGE, fontweight="bold")
    figure.text(left, 1 - heading / total, "\n".join(above), va="top", fontsize=NORMAL, linespacing=LINE)
    figure.text(left, bottom / total, "\n".join(below), va="top", linespacing=LINE, color=theme.muted)
    return figure, bottom / total, 1 - top / total


def single_axes(
    title: str, height: float, theme: Theme, *, right: float = MARGIN, notes: Sequence[str] = ()
) -> "tuple[Figure, Axes]":
    """A figure with one axes.

    Arguments:
        height: inches.
        right: inches to the right of the axes.
    """
    left, below = 0.5, 0.42  # inches, for ticks and labels
    figure, bottom, _ = new_figure(title, height + below + 0.1, theme, notes=notes)
    total = figure.get_figheight()
    return figure, figure.add_axes((left / WIDTH, bottom + below / total, 1 - (left + right) / WIDTH, height / total))


def join_lines(x: Float[np.ndarray, "*C N"], y: Float[np.ndarray, "C N"]) -> Float[np.ndarray, "2 M"]:
    """Many lines as one with gaps (NaN), which is much smaller as SVG."""
    return np.concatenate([np.broadcast_arrays(x, y), np.full((2, len(y), 1), np.nan)], 2).reshape(2, -1)


def plot_dots(ax: "Axes", x: Float[np.ndarray, " N"], y: Float[np.ndarray, "S N"], **style: Any) -> None:
    """Plot dots, as lines of length zero with round ends: one path for all of them. Equal dots are drawn once."""
    at = np.unique(np.stack([np.broadcast_to(x, y.shape), y], -1).reshape(-1, 2), axis=0)
    ax.plot(*join_lines(at[:, [0, 0]], at[:, [1, 1]]), solid_capstyle="round", **style)


def file_name(stem: str, look: str) -> str:
    """``accuracy.svg``, ``accuracy.dark.svg``."""
    return f"{stem}.svg" if look == "light" else f"{stem}.{look}.svg"


def render_svgs(draw: "Callable[[Theme], Figure]") -> dict[str, bytes]:
    """Look, ``light`` or ``dark`` → SVG of a figure. The same figure gives the same bytes with the same version of matplotlib.

    Arguments:
        draw: called with matplotlib set up for the theme.
    """
    files = {}
    for theme in THEMES:
        with figure_settings(theme), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # names in other scripts show as boxes here
            figure, buffer = draw(theme), io.BytesIO()
            metadata = {"Title": figure.get_suptitle(), "Date": None, "Creator": None}
            figure.savefig(buffer, format="svg", metadata=metadata)
        files[theme.name] = compact(buffer.getvalue().decode()).encode()
    return files


def compact(svg: str) -> str:
    """SVG with the coordinates of paths to a tenth of a point, and the fonts once instead of in every text."""
    svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.1f}", path[0]), svg)
    return svg.replace("font-family: 'DejaVu Sans'; ", "").replace("<svg ", f'<svg font-family="{FONTS}" ', 1)
