"""What all figures share: one colour for each encoding everywhere, sizes, and SVGs whose bytes depend on the numbers alone."""

import hashlib
import io
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 9.2
"""Inches; shown at the 884 pixels of GitHub's column of text, so that a point is 4/3 pixels."""
SMALL, NORMAL, LARGE = 9, 9.5, 11.5
"""Sizes of text in points; none is smaller, since 9 points are 12 pixels."""
INK, FAINT = "#757a82", "#9aa0a866"
"""Text and lines: this grey has the same contrast, 4.3, to white and to GitHub's black."""
COLOURS = {
    "nope": "#7d858f", "sinusoidal": "#bf8700", "learned": "#9a6700", "t5": "#1a7f37", "alibi": "#0969da", "rope": "#cf222e",
    "hard_alibi": "#8250df", "kerple_log": "#1b7c83", "fire": "#d4602a", "dape(kerple_log)": "#bf3989", "sandwich": "#4a9a2f",
    "cope": "#a06ff5", "stick_breaking": "#3f8de0", "fox": "#a5562f", "yarn": "#c4384a", "rope_partial": "#dd57a3",
    "ssmax(nope)": "#0a8f6c", "logn(nope)": "#6e7f00", "asentmax": "#b35c00", "abacus": "#5b4bd6",
    "position_coupling": "#96408f", "transformer_xl": "#8b781d", "shaw": "#1f8693", "da": "#6c6de0",
    "interpolated(rope)": "#767e1b", "ssmax(rope)": "#b16825", "logn(rope)": "#d74255", "randomised(rope)": "#8163de",
}  # fmt: skip
"""Encodings that most figures show; others share the colours from the tenth on."""
SETTINGS: Any = {
    "svg.hashsalt": "lprime", "svg.fonttype": "none", "font.size": NORMAL, "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"], "text.color": INK,
    "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False,
    "axes.spines.right": False, "xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "axes.labelsize": SMALL,
    "axes.grid": True, "grid.color": FAINT, "grid.linewidth": 0.6, "text.parse_math": False,
}  # fmt: skip


def colour(encoding: str) -> str:
    """The colour of an encoding: of its own if it is well known, else one that depends on its name."""
    others = list(COLOURS.values())[10:]
    return COLOURS.get(encoding) or others[int(hashlib.sha256(encoding.encode()).hexdigest(), 16) % len(others)]


def new_figure(height: float, **grid) -> "tuple[Figure, list[Axes]]":
    """A figure of the page's width and its axes, row by row.

    Arguments:
        height: inches.
        grid: arguments of ``Figure.subplots``.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, height), layout="constrained")
        axes = figure.subplots(squeeze=False, **grid)
    return figure, list(axes.ravel())


def headline(figure: "Figure", text: str) -> None:
    """The title of a figure, which says what it shows."""
    figure.suptitle(text, x=0.01, ha="left", weight="bold", fontsize=LARGE, color=INK)


def heading(axes: "Axes", text: str) -> None:
    """The title of a panel."""
    axes.set_title(text, loc="left", fontsize=NORMAL, weight="bold", color=INK)


def as_svg(figure: "Figure") -> bytes:
    """The figure as SVG with a transparent background, the same bytes for the same numbers.

    Coordinates have two decimals, and clip paths are numbered: their ids hash decimals that depend on what was drawn before.
    """
    import matplotlib

    out = io.BytesIO()
    with matplotlib.rc_context(SETTINGS):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    shorter = re.sub(rb'(?<= )(?:d|x|y)="[^"]*"', lambda found: re.sub(rb"(\.\d\d)\d+", rb"\1", found.group()), out.getvalue())
    for number, clip in enumerate(dict.fromkeys(re.findall(rb"url\(#(p\w+)\)", shorter))):
        shorter = shorter.replace(clip, b"clip%d" % number)
    return re.sub(rb"[ \t]+\n", b"\n", shorter)


def end_labels(axes: "Axes", labels: list[tuple[float, str]], x: float) -> None:
    """Names at the ends of lines, each with a thin line to the value there, moved apart where they would overlap.

    Arguments:
        labels: value at the end of the line, and encoding.
        x: where the lines end, in data coordinates.
    """
    low, high = axes.get_ylim()
    height = axes.get_window_extent().height * 72 / axes.figure.dpi  # points, before the layout
    gap = 1.25 * SMALL * (high - low) / max(height, 1)
    ordered, places = sorted(labels), list[float]()
    for value, _ in ordered:
        places.append(max(value, places[-1] + gap) if places else value)
    overflow = max(0.0, places[-1] - high) if places else 0.0
    for place, (value, name) in zip(places, ordered, strict=True):
        ink = colour(name)
        line = {"arrowstyle": "-", "color": ink, "lw": 0.6, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)}
        axes.annotate(
            name, (x, value), xytext=(16, (place - overflow - value) / gap * 1.25 * SMALL), textcoords="offset points",
            va="center", color=ink, fontsize=SMALL, arrowprops=line, annotation_clip=False,
        )  # fmt: skip
