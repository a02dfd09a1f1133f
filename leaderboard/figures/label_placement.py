"""Positions of labels next to their discs or curves, without overlap."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .text_layout import LINE, SMALL, text_width
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DISTANCES = (2.0, 5.0, 9.0, 14.0, 20.0, 28.0, 38.0, 50.0, 64.0, 80.0, 100.0, 125.0, 155.0, 190.0)
"""Points from a disc to its label, tried in this order."""
DIRECTIONS = 24
CLEARANCE = 2.5
"""Points between a label and the discs of others."""
OVERLAP, SOFT_OVERLAP = 100.0, 0.6
"""Cost of a square point of overlap, in points of distance: with labels, discs and obstacles, and with thin lines."""
LEADER = 6.0
"""Points from disc to label above which a line joins them."""

Boxes = Float[np.ndarray, "B 4"]
"""Left, bottom, right, top."""
NOTHING: Boxes = np.zeros((0, 4))


class Label(NamedTuple):
    """The label of a disc."""

    text: str
    colour: str
    bold: bool = False


def spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Centres closest to those wanted (least squares), in the same order, such that no two labels overlap.

    After subtracting the heights this is isotonic regression; clipping its solution to a range is again optimal.

    Arguments:
        wanted: usually ascending.
        heights: of the labels, in the same unit.
        low, high: range of the labels. If they do not fit, the first starts at ``low`` and the last exceeds ``high``.
    """
    from scipy.optimize import isotonic_regression

    if not wanted:
        return []
    gaps = np.cumsum(heights) - (np.array(heights) + heights[0]) / 2
    lowest = low + heights[0] / 2
    highest = max(lowest, high - heights[-1] / 2 - gaps[-1])
    centres: list[float] = (np.clip(isotonic_regression(wanted - gaps).x, lowest, highest) + gaps).tolist()
    return centres


def place_labels(
    discs: Float[np.ndarray, "D 2"],
    sizes: Float[np.ndarray, "D 2"],
    bounds: Sequence[float],
    obstacles: Boxes,
    soft: Boxes,
    radius: float,
    order: Iterable[int],
) -> Float[np.ndarray, "D 2"]:
    """Centres of labels close to their discs, clear of other labels, discs and obstacles. All in points.

    Greedy: each label in turn takes the best free position.

    Arguments:
        sizes: width and height of each label.
        bounds: left, bottom, right and top of the area for labels.
        obstacles, soft: boxes that labels should not cover, at a high and at a low cost.
        order: indices of the labels, the first to choose first.
    """
    angles = np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS
    ways = np.stack([np.cos(angles), np.sin(angles)], 1)
    centres, taken = discs.copy(), obstacles
    for i in order:
        clear = np.where(np.arange(len(discs)) == i, radius, radius + CLEARANCE)[:, None]
        blocked = np.concatenate([taken, np.concatenate([discs - clear, discs + clear], 1)])
        steps = ways * np.array(DISTANCES)[:, None, None] + np.clip(ways * 3, -1, 1) * sizes[i] / 2
        at = (discs[i] + steps).reshape(-1, 2)
        boxes = np.concatenate([at - sizes[i] / 2, at + sizes[i] / 2], 1)
        outside = (boxes[:, :2] < bounds[:2]).any(1) | (boxes[:, 2:] > bounds[2:]).any(1)
        cost = (
            np.repeat(DISTANCES, DIRECTIONS)
            + OVERLAP * shared_area(boxes, blocked)
            + SOFT_OVERLAP * shared_area(boxes, soft)
            + 1e6 * outside
        )
        best = int(np.argmin(cost.round(6)))
        centres[i] = at[best]
        taken = np.concatenate([taken, boxes[best : best + 1]])
    return centres


def in_points(ax: "Axes", data: Float[np.ndarray, "N 2"]) -> Float[np.ndarray, "N 2"]:
    """Points from the lower left corner of the axes."""
    return ax.transData.transform(data) - ax.bbox.min


def label_discs(
    ax: "Axes",
    discs: Float[np.ndarray, "D 2"],
    labels: Sequence[Label],
    theme: Theme,
    radius: float,
    *,
    obstacles: Boxes = NOTHING,
    soft: Boxes = NOTHING,
    order: Iterable[int] | None = None,
    above: float = 0.0,
) -> None:
    """Write labels next to their discs, with a line to the disc where that is not close. All in points.

    Arguments:
        radius: of the discs.
        obstacles, soft, order: as in ``place_labels``; by default, the labels choose as they come.
        above: by how much labels may exceed the axes.
    """
    sizes = np.array([(text_width(one.text, SMALL, one.bold) + 2, SMALL * LINE) for one in labels])
    width, height = room = np.array(ax.bbox.size)
    order = range(len(labels)) if order is None else order
    centres = place_labels(discs, sizes, (1, 1, width, height + above), obstacles, soft, radius, order)
    for disc, centre, size, one in zip(discs, centres, sizes, labels, strict=True):
        nearest = np.clip(disc, centre - size / 2, centre + size / 2)
        if np.linalg.norm(nearest - disc) >= LEADER:
            line = np.stack([disc, nearest], 1) / room[:, None]
            ax.plot(*line, color=theme.muted, linewidth=0.5, alpha=0.7, transform=ax.transAxes, zorder=2)
        style: dict[str, Any] = {"ha": "center", "va": "center", "transform": ax.transAxes, "color": one.colour, "zorder": 4}
        x, y = centre / room
        ax.text(x, y, one.text, fontweight="bold" if one.bold else "normal", **style)


def shared_area(boxes: Boxes, others: Boxes) -> Float[np.ndarray, " B"]:
    """Area that each box shares with the others, summed over them."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.clip(high - low, 0, None).prod(-1).sum(1)
