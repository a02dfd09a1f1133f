"""One panel of accuracy by length: a few encodings stand out and are named beside their curves, all others are grey."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

import tasks

from .beside import END, HEAD, START, Box, Dashes, Named, beside, broken
from .grid import Column, Grid
from .markdown import times
from .plot import POINT, SMALL, Page, label, text_width
from .statistics import out_of_distribution
from .tables import VISIBLE_CHANCE
from .theme import DARK, Theme

if TYPE_CHECKING:
    from matplotlib.path import Path

COLOURS = len(DARK.colours)
DASHES: tuple[Dashes, ...] = ("-", (0, (2.5, 1.1)), (0, (1, 1.2)))
"""Of the first round of colours, the second, the third."""
APART = "†"
"""Marks a name that is ranked apart."""


@dataclass(frozen=True)
class Style:
    """How an encoding stands out."""

    place: int
    """Among the colours of a theme."""
    dashes: Dashes

    def colour(self, theme: Theme) -> str:
        return theme.colours[self.place]


def styles(names: Iterable[str]) -> dict[str, Style]:
    """Encoding → style, all different, for up to 21 encodings."""
    return {name: Style(i % COLOURS, DASHES[i // COLOURS % len(DASHES)]) for i, name in enumerate(names)}


@dataclass(frozen=True)
class Panel:
    """One task, some encodings."""

    title: str
    column: Column
    members: Mapping[str, Style]
    """Those that stand out; the first lies on top. Those without runs on this task are left out."""
    others: Sequence[str]
    """Those drawn in grey, below; may hold members too."""
    best: str | None = None
    """The one whose name is bold."""
    apart: frozenset[str] = frozenset()
    """Those whose names are marked with ``APART``."""
    tuned: int = 0
    """The longest length met in a stage after training by one of the members; 0 if there is none."""


def draw_panels(page: Page, grid: Grid, panels: Sequence[tuple[Panel, Box]], names: float) -> None:
    """Draw panels.

    Arguments:
        panels: each with the place of its data area; title above, lengths below and names to the right come on top of that.
            All have the same size. The leftmost say the values of exact match.
        names: inches to the right for the names.
    """
    first = min(box.left for _, box in panels)
    grounds: dict[tuple[Column, tuple[str, ...]], list[Box]] = {}
    for panel, box in panels:
        grounds.setdefault((panel.column, tuple(panel.others)), []).append(box)
        draw_panel(page, grid, panel, box, names, box.left == first)
    for (column, others), boxes in grounds.items():
        grey = [exact.mean(0) for name in others if len(exact := grid.exact(column.task, name))]
        if grey:
            path = joined(scaled(column, boxes[0]) - boxes[0].left, boxes[0].bottom - boxes[0].up(np.array(grey)))
            page.repeat(path, [(box.left, box.bottom) for box in boxes], page.theme.grey, 0.6)


def draw_panel(page: Page, grid: Grid, panel: Panel, box: Box, names: float, left: bool) -> None:
    column, theme = panel.column, page.theme
    frame(page, panel, box, left)
    page.text(box.left, box.top - HEAD + 0.02, panel.title, 8, fontweight="bold")
    x = scaled(column, box)
    shown = {name: exact for name in panel.members if len(exact := grid.exact(column.task, name))}
    for place, (name, exact) in enumerate(reversed(shown.items())):
        style, colour = panel.members[name], panel.members[name].colour(theme)
        dots(page, x, box.up(exact), colour, 1.9, zorder=3 + place / len(shown))
        # Where curves coincide, those below still show around the thinner ones on top.
        width = 2.4 - 1.2 * place / max(1, len(shown) - 1)
        page.line(
            x, box.up(exact.mean(0)), colour, width, linestyle=style.dashes, zorder=4 + place / len(shown), gid=label(name)
        )
    name_curves(page, panel, shown, box, names)


def scaled(column: Column, box: Box) -> Float[np.ndarray, " N"]:
    """Places of the test lengths, inches from the left of the page.

    Lengths are a geometric grid of L, so on a logarithmic axis; half as wide up to L, where there is the least to see.
    """
    octaves = np.log2(column.at / column.train_length)
    octaves[octaves < 0] /= 2
    return box.left + START + (octaves - octaves[0]) / (octaves[-1] - octaves[0]) * (box.width - START - END)


def frame(page: Page, panel: Panel, box: Box, left: bool) -> None:
    """Axes, the trained side shaded up to a line at L, and chance where it is above the axis.

    Drawn by hand: matplotlib's axes and ticks take most of the time, and of the bytes of an SVG.
    """
    column, theme, x = panel.column, page.theme, scaled(panel.column, box)
    at_train = float(np.interp(column.train_length, column.at, x))
    page.rectangle(box.left, box.top, at_train - box.left, box.height, theme.shade)
    if panel.tuned > column.train_length:
        end = box.right if panel.tuned >= column.lengths[-1] else float(np.interp(panel.tuned, column.at, x))
        page.rectangle(at_train, box.top, end - at_train, box.height, theme.tuned_shade)
    values = box.up(np.array([0, 0.25, 0.5, 0.75, 1]))
    page.line(*broken(np.array([[box.left, box.right]] * 5), np.stack([values, values], 1)), theme.grid, 0.6, zorder=0.5)
    page.line([at_train] * 2, [box.top, box.bottom], theme.muted, 0.8, zorder=0.6)
    page.line([box.left, box.right], [box.bottom] * 2, theme.muted, 0.6, zorder=0.6)
    marks = np.stack([x, x], 1), np.array([[box.bottom, box.bottom + 0.025]] * len(x))
    page.line(*broken(*marks), theme.muted, 0.6, zorder=0.6)
    for place, text in zip(x, tick_labels(column, x), strict=True):
        if text:
            page.text(place, box.bottom + 0.035, text, SMALL, ha="center", color=theme.muted)
    for value, text in ((0.0, "0"), (0.5, ".5"), (1.0, "1")) if left else ():
        page.text(box.left - 0.04, box.up(value), text, SMALL, ha="right", va="middle", color=theme.muted)
    if max(column.chance) > VISIBLE_CHANCE:
        chance = box.up(np.array(column.chance))
        page.line(x, chance, theme.muted, 1, linestyle=":", zorder=2.5, gid="chance")
        page.text(box.left + 0.03, chance[0] - 0.02, "chance", 6, color=theme.muted, va="bottom", zorder=2.5)


def tick_labels(column: Column, x: Float[np.ndarray, " N"]) -> list[str]:
    """Multiples of L, blank where one would run into its neighbour; L itself and the ends come first, then whole multiples.

    Arguments:
        x: inches.
    """
    lengths, base = column.lengths, column.train_length
    at = dict(zip(lengths, x / POINT, strict=True))
    texts = {n: "L" if n == base else times(n / base) for n in lengths}
    kept: list[int] = []
    for n in sorted(
        lengths, key=lambda n: (n != base, n not in (lengths[0], lengths[-1]), n % base != 0, n * 2 % base != 0, n)
    ):
        room = text_width(texts[n], SMALL) / 2 + 2
        if all(abs(at[n] - at[other]) >= room + text_width(texts[other], SMALL) / 2 for other in kept):
            kept.append(n)
    return [texts[n] if n in kept else "" for n in lengths]


def joined(x: Float[np.ndarray, " N"], y: Float[np.ndarray, "C N"]) -> "Path":
    """Many curves, in inches, as one path in points."""
    from matplotlib.path import Path

    points = np.stack([np.broadcast_to(x, y.shape), y], -1).reshape(-1, 2) / POINT
    codes = np.full(y.shape, Path.LINETO)
    codes[:, 0] = Path.MOVETO
    return Path(points, codes.ravel())


def dots(page: Page, x: Float[np.ndarray, " N"], y: Float[np.ndarray, "S N"], colour: str, size: float, zorder: float) -> None:
    """One dot a seed and length, as a broken line of very short pieces with round ends: one path for all of them.

    Arguments:
        x, y: inches.
        size: of a dot, points.
    """
    points = np.unique(np.stack([np.broadcast_to(x, y.shape), y], -1).reshape(-1, 2), axis=0)  # equal ones hide each other
    half = 0.06 * POINT
    pieces = points[:, :1] + [[-half, half]], points[:, 1:].repeat(2, 1)
    page.line(*broken(*pieces), colour, size, solid_capstyle="round", alpha=0.55, zorder=zorder, gid="seeds", snap=False)


def past(column: Column, exact: Float[np.ndarray, "S N"]) -> float:
    """Mean exact match past L, over runs and lengths."""
    return float(out_of_distribution(column.at, exact, column.train_length).mean())


def name_curves(page: Page, panel: Panel, shown: Mapping[str, Float[np.ndarray, "S N"]], box: Box, names: float) -> None:
    """Names to the right, each with its mean past L."""
    named = []
    for name, exact in shown.items():
        style, mark = panel.members[name], f" {APART}" if name in panel.apart else ""
        end = float(exact.mean(0)[-1])
        named.append(
            Named(name, past(panel.column, exact), end, style.colour(page.theme), style.dashes, name == panel.best, mark)
        )
    beside(page, named, box, names)


def chance_note(column: Column) -> str:
    """What guessing gets, in words."""
    high = max(column.chance)
    return "chance is dotted" if high > VISIBLE_CHANCE else f"chance is under {max(high, 0.001):.2g}"


def task_title(column: Column) -> str:
    known = tasks.catalogue().get(column.task)
    return label(f"{known.title if known else column.task} ({column.variant})", 50)


def unit(column: Column) -> str:
    known = tasks.catalogue().get(column.task)
    return f"L = {column.train_length}" + (f" ({label(known.length_is)})" if known else "")
