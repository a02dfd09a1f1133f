"""Accuracy against cost: score of each encoding by the time of its training step, and the Pareto front."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from leaderboard.format import BUSY, printable, share
from leaderboard.stats.rows import Classes, Row, all_rows
from leaderboard.stats.summary import BASE

from .canvas import single_axes
from .highlight import ranked_apart
from .label_placement import Boxes, Label, in_points, label_discs
from .text_layout import SMALL, fitted
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST, MOST = 3.2, 5.8
"""Height of the axes in inches, by the number of names."""
NOISE = 1.09
"""Times that differ by less than this factor may be equal: of 52 encodings measured twice against ``nope`` on one machine, 49
differed by up to 9 %, half of them by up to 2 %."""
LARGEST_NOISE = 1.14
"""The largest of these differences."""
DISC = 5.0
"""Diameter of a disc, points."""
CROWD = (70.0, 25.0)
"""Discs closer than this, horizontally and vertically in points, crowd each other."""
WIDEST = 120.0
"""Largest width of a name, points."""


@dataclass(frozen=True)
class Point:
    """An encoding in the figure."""

    name: str
    time: float
    """Time of a training step, as a multiple of the baseline's."""
    score: float
    interval: tuple[float, float] | None
    seeds: tuple[float, ...]
    """Score of each seed that all tasks have, mean over tasks."""
    apart: bool
    busy: bool
    """Timed only while the machine did other work."""


def points(classes: Classes) -> list[Point]:
    """Encodings with a score and a step time, best score first."""
    found, apart = [], ranked_apart(classes)
    for row in all_rows(classes):
        if row.score is not None and row.step_time is not None:
            numbers = row.step_time, row.score, row.interval, seed_means(row)
            found.append(Point(row.name, *numbers, row.name in apart, row.busy))
    return sorted(found, key=lambda one: (-one.score, one.time, one.name))


def seed_means(row: Row) -> tuple[float, ...]:
    """Mean score over tasks of each seed that all tasks have; empty if there are fewer than two."""
    cells = [dict(zip(cell.seeds, cell.scores, strict=True)) for cell in row.cells.values()]
    common = sorted(set.intersection(*map(set, cells)))
    return tuple(float(np.mean([cell[seed] for cell in cells])) for seed in common) if len(common) > 1 else ()


def pareto_front(of: Sequence[Point]) -> list[Point]:
    """The Pareto front, slowest first: any point with a higher score takes longer, by more than the noise of times.

    Arguments:
        of: best score first. Points ranked apart are ignored.
    """
    rivals = [one for one in of if not one.apart]
    return [one for i, one in enumerate(rivals) if all(better.time > one.time * NOISE for better in rivals[:i])]


def draw_cost(classes: Classes, theme: Theme) -> "Figure":
    """One disc per encoding, with its interval, its seeds and its name; the Pareto front is a line."""
    shown = points(classes)
    front = pareto_front(shown)
    title = f"Score past L against the time of a training step ({BASE} = 1)"
    height = min(MOST, LEAST + 0.07 * len(shown))
    figure, ax = single_axes(title, height, theme, notes=explained(shown))
    x, y = np.array([(one.time, one.score) for one in shown]).T
    set_axes(ax, shown)
    if front:
        ax.plot(*front_line(front, ax.get_xlim()[1]).T, color=theme.colours[0], linewidth=1, alpha=0.6, label="front")
    if sure := [one for one in shown if one.interval]:
        ends = np.array([one.interval for one in sure]).T
        ax.vlines([one.time for one in sure], *ends, color=theme.grey, linewidth=0.8, zorder=1, label="intervals")
    seeds = np.array([(one.time, seed) for one in shown for seed in one.seeds]).reshape(-1, 2)
    ax.plot(*seeds.T, "o", color=theme.muted, markersize=1.8, markeredgewidth=0, alpha=0.6, zorder=1.5, label="seeds")
    edges = [theme.colours[0] if one in front else theme.text if one.apart else theme.muted for one in shown]
    faces = [theme.background if one.apart else edge for one, edge in zip(shown, edges, strict=True)]
    ax.scatter(x, y, s=DISC**2, facecolors=faces, edgecolors=edges, linewidths=1.1, zorder=3, label="encodings")
    name_points(ax, shown, front, theme)
    return figure


def set_axes(ax: "Axes", shown: Sequence[Point]) -> None:
    """Scales, limits and ticks: time is logarithmic, the score starts at 0."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    fastest, slowest = (pick(one.time for one in shown) for pick in (min, max))
    room = (slowest / fastest) ** 0.08 * 1.02  # for names next to the first and the last
    highest = max(max((one.score, *(one.interval or ()), *one.seeds)) for one in shown)
    ax.set(xscale="log", xlim=(fastest / room, slowest * room), ylim=(0, max(highest, 0.05) * 1.02))
    ax.set(xlabel=f"time of a training step, × {BASE}", ylabel="score past L")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if slowest > 8 * fastest else MaxNLocator(8, steps=[1, 2, 5, 10]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: share(value).rstrip("0").rstrip(".") or "0"))


def name_points(ax: "Axes", shown: Sequence[Point], front: Sequence[Point], theme: Theme) -> None:
    """Names close to their discs, clear of the front's line. The front chooses first, then those in the largest crowds."""
    at = in_points(ax, np.array([(one.time, one.score) for one in shown]))
    crowd = (np.abs(at[:, None] - at[None]) < CROWD).all(-1).sum(1)
    order = sorted(range(len(shown)), key=lambda i: (shown[i] not in front, -crowd[i], i))
    texts = [fitted(printable(one.name), WIDEST, SMALL, suffix=f" {BUSY}" * one.busy) for one in shown]
    colours = [theme.text if one in front or one.apart else theme.muted for one in shown]
    labels = [Label(text, colour, one in front) for one, text, colour in zip(shown, texts, colours, strict=True)]
    corners = in_points(ax, front_line(front, ax.get_xlim()[1]))
    stairs = along(corners[:-1], corners[1:])
    ends = in_points(ax, np.array([(one.time, end) for one in shown for end in one.interval or ()]).reshape(-1, 2))
    intervals = along(ends[::2], ends[1::2])
    label_discs(ax, at, labels, theme, DISC / 2, obstacles=stairs, soft=intervals, order=order, above=6)


def front_line(front: Sequence[Point], right: float) -> Float[np.ndarray, "N 2"]:
    """Corners of the stairs through the front, from a score of 0 to the right end of the axis."""
    at = np.array([(one.time, one.score) for one in reversed(front)]).reshape(-1, 2)
    return np.stack([np.append(at[:, 0].repeat(2), right), np.append(0, at[:, 1].repeat(2))], 1)


def along(starts: Float[np.ndarray, "N 2"], ends: Float[np.ndarray, "N 2"]) -> Boxes:
    """Boxes around lines that are horizontal or vertical."""
    return np.concatenate([np.minimum(starts, ends) - 0.6, np.maximum(starts, ends) + 0.6], 1)


def explained(shown: Sequence[Point]) -> list[str]:
    """Notes below the figure."""
    notes = ["higher is better, further left is cheaper; the time axis is logarithmic"]
    longer = f"a step that is over {100 * (NOISE - 1):.0f}\u00a0% longer"
    notes.append(f"line, with bold names: encodings that no other beats in score without {longer}")
    if any(one.interval for one in shown):
        notes.append("thin vertical lines: 95\u00a0% intervals")
    if any(one.seeds for one in shown):
        notes.append("dots: single seeds, mean over tasks")
    if any(one.apart for one in shown):
        notes.append("hollow: ranked apart, and not part of the line")
    if any(one.busy for one in shown):
        notes.append(f"{BUSY}: timed while the machine did other work")
    return notes
