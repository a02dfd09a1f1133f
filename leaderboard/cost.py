"""Accuracy against cost: the score of each encoding by the time of its training step, and who is beaten on neither."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .beside import Box, broken
from .labels import Boxes, along, far, place, touch
from .markdown import share, times
from .plot import LINE, MARGIN, POINT, SMALL, WIDTH, Page, fitted, footer_height, label, text_width
from .spotlight import apart
from .summary import BASE, Row
from .theme import Theme

LEFT, BELOW = 0.5, 0.42
"""Inches left of the panel, and below it for values and title of the axis."""
LEAST, MOST = 3.2, 5.8
"""Inches of its height, by how many names it must hold."""
TICKS = (
    0.1,
    0.2,
    0.3,
    0.5,
    0.7,
    0.8,
    0.9,
    1,
    1.1,
    1.2,
    1.3,
    1.5,
    1.75,
    2,
    2.5,
    3,
    4,
    5,
    6,
    8,
    10,
    15,
    20,
    30,
    50,
    100,
    200,
    500,
)
NOISE = 1.05
"""Times that are closer than this factor may be one and the same: an encoding measured against itself comes that far off 1."""
DISC = 5.0
"""Points across."""
CROWD = (70.0, 25.0)
"""Points to the side and up, within which others make a crowd."""
BUSY = " *"
WIDEST = 120.0
"""Points that a name may take."""


@dataclass(frozen=True)
class Point:
    """What is drawn of one encoding."""

    name: str
    time: float
    """Of a training step, in those of the base."""
    score: float
    interval: tuple[float, float] | None
    seeds: tuple[float, ...]
    """Mean over tasks of the score of each seed that all tasks have."""
    apart: bool
    """Whether it is not ranked with the others."""
    busy: bool
    """Whether its time is known only from a machine that did other work."""


@dataclass(frozen=True)
class Plane:
    """From times and scores to inches: times on a logarithmic axis, scores from 0."""

    box: Box
    low: float
    high: float
    top: float

    def across(self, time: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
        return self.box.left + np.log(time / self.low) / math.log(self.high / self.low) * self.box.width

    def up(self, score: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
        return self.box.bottom - score / self.top * (self.box.height - 0.1)


def points(classes: Mapping[str, Sequence[Row]]) -> list[Point]:
    """The encodings that have a score and a step time, best score first."""
    found, marked = [], apart(classes)
    for rows in classes.values():
        for row in rows:
            if row.score is not None and row.step_time is not None:
                numbers = row.step_time, row.score, row.interval, by_seed(row)
                found.append(Point(row.name, *numbers, row.name in marked, row.busy))
    return sorted(found, key=lambda one: (-one.score, one.time, one.name))


def by_seed(row: Row) -> tuple[float, ...]:
    cells = [dict(zip(cell.seeds, cell.scores, strict=True)) for cell in row.cells.values()]
    common = sorted(set.intersection(*map(set, cells)))
    return tuple(float(np.mean([cell[seed] for cell in cells])) for seed in common) if len(common) > 1 else ()


def front(of: Sequence[Point]) -> list[Point]:
    """The Pareto front, dearest first: whoever scores higher than one of it takes longer, by more than times are off.

    Arguments:
        of: best score first, as ``points`` gives them. Those ranked apart do not compete.
    """
    rivals = [one for one in of if not one.apart]
    return [one for i, one in enumerate(rivals) if all(better.time > one.time * NOISE for better in rivals[:i])]


def picture(classes: Mapping[str, Sequence[Row]], theme: Theme) -> Page:
    """One disc an encoding, with its interval, its seeds and its name; the Pareto front is a line."""
    shown = points(classes)
    best = front(shown)
    notes = [note(shown)]
    heading = f"Mean score past L against the time of a training step ({BASE} = 1)"
    top = Page(1, theme).heading(heading)
    height = min(MOST, LEAST + 0.07 * len(shown))
    page = Page(top + height + BELOW + footer_height(notes), theme)
    page.heading(heading)
    x = np.array([one.time for one in shown])
    highest = max(max((one.score, *(one.interval or ()), *one.seeds)) for one in shown)
    box = Box(LEFT, top, WIDTH - LEFT - MARGIN, height)
    room = (x.max() / x.min()) ** 0.08 * 1.02  # for names beside the first and the last
    plane = Plane(box, x.min() / room, x.max() * room, max(highest, 0.05))
    frame(page, plane)
    line = np.zeros((0, 4))
    if best:
        ahead = np.array([(one.time, one.score) for one in reversed(best)])
        stairs = np.append(ahead[:, 0].repeat(2), plane.high), np.append(0, ahead[:, 1].repeat(2))
        corners = plane.across(stairs[0]), plane.up(stairs[1])
        page.line(*corners, theme.colours[0], 1, alpha=0.6, zorder=1.5, gid="front")
        line = along(corners[0] / POINT, corners[1] / POINT)
    draw_spread(page, plane, shown)
    for one in shown:
        colour = colour_of(one, best, theme)
        face = {"markerfacecolor": theme.background if one.apart else colour, "markeredgecolor": colour}
        at = plane.across(np.array([one.time])), plane.up(np.array([one.score]))
        page.line(*at, colour, 0, marker="o", markersize=DISC, markeredgewidth=1.1, zorder=3, gid=label(one.name), **face)
    name_points(page, plane, shown, best, line)
    page.footer(notes, box.bottom + BELOW)
    return page


def colour_of(one: Point, best: Sequence[Point], theme: Theme) -> str:
    return theme.colours[0] if one in best else theme.text if one.apart else theme.muted


def draw_spread(page: Page, plane: Plane, shown: Sequence[Point]) -> None:
    """Intervals as thin lines, seeds as dots."""
    sure = [(one.time, one.interval) for one in shown if one.interval]
    if sure:
        ends = np.array([interval for _, interval in sure])
        at = plane.across(np.array([time for time, _ in sure]))
        page.line(*broken(np.stack([at, at], 1), plane.up(ends)), page.theme.grey, 0.8, zorder=1, gid="intervals")
    dots = np.array([(one.time, seed) for one in shown for seed in one.seeds]).reshape(-1, 2)
    style = {"linestyle": "none", "marker": "o", "markersize": 1.8, "markeredgewidth": 0, "alpha": 0.6}
    page.line(plane.across(dots[:, 0]), plane.up(dots[:, 1]), page.theme.muted, 0, zorder=1.5, gid="seeds", **style)


def name_points(page: Page, plane: Plane, shown: Sequence[Point], best: Sequence[Point], line: Boxes) -> None:
    """Names near their discs and off the line, joined by a thin one where they had to move away; in a crowd first come those
    that have least room."""
    x, y = np.array([(one.time, one.score) for one in shown]).T
    at = np.stack([plane.across(x), plane.up(y)], 1) / POINT
    crowd = (np.abs(at[:, None] - at[None]) < CROWD).all(-1).sum(1)
    ahead = [one not in best for one in shown]
    count = range(len(shown))
    orders = [sorted(count, key=lambda i: (ahead[i], -crowd[i], i)), sorted(count, key=lambda i: (ahead[i], i))]
    orders += [sorted(count, key=lambda i: (ahead[i], -i)), sorted(count, key=lambda i: (ahead[i], at[i, 0], i))]
    texts = [fitted(label(one.name), WIDEST, SMALL, suffix=BUSY * one.busy) for one in shown]
    bold = [one in best for one in shown]
    sizes = np.array([(text_width(text, SMALL, heavy) + 2, SMALL * LINE) for text, heavy in zip(texts, bold, strict=True)])
    box = plane.box
    within = (box.left / POINT + 1, box.top / POINT - 6, box.right / POINT, box.bottom / POINT - 1)
    centres = place(at, sizes, within, line, orders, DISC)
    for one, text, heavy, size, centre, anchor in zip(shown, texts, bold, sizes, centres, at, strict=True):
        if far(anchor, centre, size):
            x, y = np.stack([anchor, touch(anchor, centre, size)], 1) * POINT
            page.line(x, y, page.theme.muted, 0.5, alpha=0.7, zorder=2)
        weight = {"fontweight": "bold" if heavy else "normal"}
        colour = page.theme.text if heavy or one.apart else page.theme.muted
        page.text(
            centre[0] * POINT,
            centre[1] * POINT,
            text,
            SMALL,
            ha="center",
            va="middle",
            color=colour,
            zorder=4,
            **weight,
        )


def frame(page: Page, plane: Plane) -> None:
    """Grid, values and titles of both axes."""
    theme, box = page.theme, plane.box
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2) if plane.top / step <= 7)
    values = np.arange(0, plane.top + 1e-9, step)
    up = plane.up(values)
    page.line(*broken(np.array([[box.left, box.right]] * len(up)), np.stack([up, up], 1)), theme.grid, 0.6, zorder=0.5)
    for value, y in zip(values, up, strict=True):
        text = share(value).rstrip("0").rstrip(".") or "0"
        page.text(box.left - 0.04, y, text, SMALL, ha="right", va="middle", color=theme.muted)
    page.line([box.left, box.right], [box.bottom] * 2, theme.muted, 0.6, zorder=0.6)
    last = -math.inf
    for tick in sorted((t for t in TICKS if plane.low <= t <= plane.high), key=float):
        (x,) = plane.across(np.array([tick]))
        half = text_width(times(tick), SMALL) / 2 * POINT
        page.line([x, x], [box.bottom, box.bottom + 0.025], theme.muted, 0.6, zorder=0.6)
        if x - half > last + 0.04:
            page.text(x, box.bottom + 0.035, times(tick), SMALL, ha="center", color=theme.muted)
            last = x + half
    style = {"ha": "center", "color": theme.muted}
    page.text(box.left + box.width / 2, box.bottom + 0.17, f"time of a training step, × {BASE}", SMALL, **style)
    page.text(
        MARGIN + SMALL * POINT / 2, box.top + box.height / 2, "mean score past L", SMALL, rotation=90, va="center", **style
    )


def note(shown: Sequence[Point]) -> str:
    """How to read the discs."""
    parts = ["Higher is better, further left is cheaper; the axis of time is logarithmic"]
    parts.append("line, with bold names: encodings that no other beats in score without a step that is longer by over 5 %")
    if any(one.interval for one in shown):
        parts.append("thin upright lines: 95 % intervals")
    if any(one.seeds for one in shown):
        parts.append("dots: single seeds, mean over tasks")
    if any(one.apart for one in shown):
        parts.append("hollow: ranked apart, and not counted there")
    if any(one.busy for one in shown):
        parts.append(f"{BUSY.strip()}: timed while the machine did other work")
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."
