"""What every picture of a board is drawn with: colours, curves, axes, legends. It imports matplotlib only to draw."""

import io
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import tasks

from .grid import Column, Grid
from .markdown import printable, times
from .tables import VISIBLE_CHANCE

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

DPI = 150  # nearly twice the pixels of a README's column, for dense screens

# Okabe & Ito 2008, colour-blind safe; their yellow is left out, too pale on white. The second round is dashed.
COLOURS = ("#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("-", (0, (4, 1.5)))
GREY = "#B0B0B0"
SHADE = "#F0F0F0"
LEGEND: dict[str, Any] = {"alignment": "left", "frameon": False, "fontsize": 8, "title_fontsize": 8, "labelspacing": 0.4}


@dataclass(frozen=True)
class Style:
    """How one encoding is drawn in all pictures of a board."""

    colour: str
    marker: str
    dashes: str | tuple[int, tuple[float, ...]]


@contextmanager
def fresh_settings() -> Iterator[None]:
    """matplotlib as a board's pictures want it: a reader's own settings must not change the bytes, and stay as they were."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "font.size": 9,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.edgecolor": "#555555",
                "text.parse_math": False,  # a name may hold a dollar sign
            }
        )
        yield


def curves(axes: "Axes", grid: Grid, column: Column, known: Mapping[str, Style], small: bool = False) -> "dict[str, Line2D]":
    """Draw one task: mean over seeds as a line, single seeds faintly.

    Arguments:
        known: encoding → style, of those to draw, the lowest first.

    Returns:
        Encoding → its line, for those that have runs.
    """
    drawn: dict[str, Line2D] = {}
    grey = sum(style.colour == GREY for style in known.values())
    for place, (encoding, style) in enumerate(known.items(), -grey):
        exact = grid.exact(column.task, encoding)
        if not len(exact):
            continue
        # Later lines lie on top and are smaller: where curves coincide, those below still show around them.
        size = (0.6 if small else 1) * (1 - 0.55 * place / max(1, len(known) - grey - 1) if place >= 0 else 0.3)
        if len(exact) > 1:
            axes.plot(column.at, exact.T, color=style.colour, linewidth=0.6, alpha=0.2 if small else 0.35, zorder=2)
        (drawn[encoding],) = axes.plot(
            column.at,
            exact.mean(0),
            color=style.colour,
            linestyle=style.dashes,
            linewidth=2.6 * size,
            marker=style.marker,
            markersize=7.5 * size,
            markeredgewidth=0,
            zorder=3 + place / len(known),
            clip_on=False,
        )
    frame(axes, column, small)
    return drawn


def frame(axes: "Axes", column: Column, small: bool) -> None:
    """Title, axes, the trained side shaded up to a line at L, and chance where it is above the axis."""
    known = tasks.catalogue().get(column.task)
    train_length, lengths = column.train_length, column.lengths
    axes.set_title(printable(f"{known.title if known else column.task} ({column.variant})", 40), loc="left", fontsize=9)
    axes.set_xscale("log", base=2)  # test lengths are a geometric grid of L
    axes.set_xlim(lengths[0] / 1.08, lengths[-1] * 1.08)
    axes.set_xticks(lengths, labels=tick_labels(column, small))
    axes.minorticks_off()
    axes.set_ylim(-0.02, 1.02)
    axes.set_yticks(np.linspace(0, 1, 5))
    axes.set_ylabel("exact match")
    if not small:
        axes.set_xlabel("test length" + (f" ({known.length_is})" if known else ""))
    axes.grid(axis="y", color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.axvspan(lengths[0] / 1.08, train_length, color=SHADE, zorder=0, linewidth=0)
    axes.axvline(train_length, color="#777777", linewidth=0.9, zorder=1)
    if max(column.chance) > VISIBLE_CHANCE:
        axes.plot(lengths, column.chance, color="#777777", linewidth=1, linestyle=":", zorder=1.5)


def tick_labels(column: Column, small: bool) -> list[str]:
    """Tested lengths, with their multiple of L in the large picture; blank where the label would run into its neighbour."""
    train_length, lengths = column.train_length, column.lengths
    width = math.log(lengths[-1] / lengths[0]) / (9 if small else 22)  # of a label, on the axis
    kept = [train_length]
    for length in sorted(lengths, key=lambda n: (n != lengths[-1], n != lengths[0], n)):
        if all(abs(math.log(length / other)) > width for other in kept):
            kept.append(length)
    multiples = {n: n / train_length for n in lengths}
    below = {n: f"{times(m)} L" if m != 1 else "L" for n, m in multiples.items() if math.isclose(m, round(m, 1))}
    shown = {n: f"{n}\n{below.get(n, '')}" if n == train_length or not small else str(n) for n in kept}
    return [shown.get(n, "") for n in lengths]


def keys(
    columns: Sequence[Column], lines: "Mapping[str, Line2D]", entries: Mapping[str, str], seeds: bool
) -> "tuple[list[Artist], list[str]]":
    """Legend handles and labels: the styled encodings, the others as one, then what else is drawn.

    Arguments:
        columns: the tasks shown.
        entries: encoding → label, in order.
        seeds: whether single seeds are drawn.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    styled = [name for name in entries if lines[name].get_color() != GREY]
    handles: list[Artist] = [lines[name] for name in styled]
    labels = [entries[name] for name in styled]
    if others := len(entries) - len(styled):
        handles.append(Line2D([], [], color=GREY))
        labels.append(f"{others} other{'s' * (others != 1)}")
    if seeds:
        handles.append(Line2D([], [], color="#555555", linewidth=0.6, alpha=0.5))
        labels.append("single seeds")
    if any(max(column.chance) > VISIBLE_CHANCE for column in columns):
        handles.append(Line2D([], [], color="#777777", linewidth=1, linestyle=":"))
        labels.append("chance")
    handles.append(Patch(color=SHADE))
    labels.append("trained, l ≤ L")
    return handles, labels


def png(figure: "Figure") -> bytes:
    """PNG bytes that hang on the figure alone: no date, no version of the library."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a name in another script shows as boxes
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def label(name: str, limit: int = 28) -> str:
    return printable(name, limit)
