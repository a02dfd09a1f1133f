"""Labels beside what they name: where each goes, so that none lies on another."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from .plot import fitted, label, text_width

BREAKS = "(,_ "
"""Places in a name after which it may go on in another line."""


def spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Centres nearest to those wanted (least sum of squares), in the same order, with no two labels overlapping.

    With gaps taken out this is isotonic regression, done by pooling adjacent violators (Ayer et al. 1955); clipping what it
    gives to a range is again the best there.

    Arguments:
        wanted: ascending.
        heights: of the labels, in the same unit.
        low, high: range that the labels stay in; if they do not fit, they stand on ``low`` and reach beyond ``high``.
    """
    gaps = [sum(heights[:i]) + (height - heights[0]) / 2 for i, height in enumerate(heights)]
    pools: list[tuple[float, int]] = []  # mean and size
    for want, gap in zip(wanted, gaps, strict=True):
        mean, size = want - gap, 1
        while pools and pools[-1][0] >= mean:
            other, more = pools.pop()
            mean, size = (mean * size + other * more) / (size + more), size + more
        pools.append((mean, size))
    free = [mean for mean, size in pools for _ in range(size)]
    lowest = low + heights[0] / 2 if heights else low
    highest = max(lowest, high - heights[-1] / 2 - gaps[-1]) if heights else high
    return [min(max(place, lowest), highest) + gap for place, gap in zip(free, gaps, strict=True)]


def folded(name: str, width: float, size: float, bold: bool = False, suffix: str = "") -> list[str]:
    """A name as one line of at most ``width`` points or two, broken after punctuation where there is any; else cut.

    Arguments:
        suffix: stands behind it, whatever is cut.
    """

    def fits(text: str) -> bool:
        return text_width(text, size, bold) <= width

    shown = label(name)
    if fits(shown + suffix):
        return [shown + suffix]
    breaks = [i + 1 for i, c in enumerate(shown[:-1]) if c in BREAKS and fits(shown[: i + 1])]
    if not breaks:
        return [fitted(shown, width, size, bold, suffix)]
    at = next((i for i in reversed(breaks) if fits(shown[i:] + suffix)), breaks[-1])
    return [shown[:at].rstrip(), fitted(shown[at:], width, size, bold, suffix)]


def overlap(boxes: "Boxes", others: "Boxes") -> Float[np.ndarray, " B"]:
    """Area that each box (left, bottom, right, top) shares with the others, summed over them."""
    if not len(others):
        return np.zeros(len(boxes))
    across = np.minimum(boxes[:, None, 2], others[None, :, 2]) - np.maximum(boxes[:, None, 0], others[None, :, 0])
    up = np.minimum(boxes[:, None, 3], others[None, :, 3]) - np.maximum(boxes[:, None, 1], others[None, :, 1])
    return (np.clip(across, 0, None) * np.clip(up, 0, None)).sum(1)


DISTANCES = (2.0, 5.0, 9.0, 14.0, 20.0, 28.0, 38.0, 50.0, 64.0, 80.0, 100.0, 125.0, 155.0, 190.0)
"""Points from what is named to its label, tried in this order."""
DIRECTIONS = 24
LEADER = 6.0
"""From here on, a line joins the two; it keeps clear of other labels too."""
SAMPLES = np.linspace(0.08, 1, 12)
"""Places along a leader that are looked at."""
CLEAR = 2.5
"""Points between a label and what it does not name."""
HARD, SOFT = 100.0, 12.0
"""Points of distance that are gone rather than hide a square point of a name or a disc, or of a name behind a leader."""
ROUNDS = 3

Boxes = Float[np.ndarray, "B 4"]
"""Left, low, right and high ends."""


def place(
    anchors: Float[np.ndarray, "A 2"],
    sizes: Float[np.ndarray, "A 2"],
    within: Sequence[float],
    obstacles: Boxes,
    orders: Sequence[Sequence[int]],
    disc: float,
) -> Float[np.ndarray, "A 2"]:
    """Centres of labels near what they name, clear of each other, of their leaders and of the obstacles.

    Greedy: one label after the other takes the best place, near and free; in further rounds a better one that has become free.

    Arguments:
        anchors: what is named, points.
        sizes: width and height of the labels, points.
        within: left, low, right and high ends of where labels may lie.
        disc: diameter of what is named; labels keep further from the discs of others than from their own.
        orders: in which they choose; the one with the best places is taken.
    """
    tried = [place_in(order, anchors, sizes, within, obstacles, disc) for order in orders]
    return min(tried, key=lambda one: one[0])[1]


def place_in(
    order: Sequence[int],
    anchors: Float[np.ndarray, "A 2"],
    sizes: Float[np.ndarray, "A 2"],
    within: Sequence[float],
    obstacles: Boxes,
    disc: float,
) -> tuple[float, Float[np.ndarray, "A 2"]]:
    """How bad the places are that this order gives, and the centres."""
    angles = np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS
    ways = np.stack([np.cos(angles), np.sin(angles)], 1)
    found: dict[int, Float[np.ndarray, " 2"]] = {}
    costs: dict[int, float] = {}
    for _ in range(ROUNDS):
        for i in order:
            anchor, size = anchors[i], sizes[i]
            others = [j for j in found if j != i]
            labels = np.array([box(found[j], sizes[j]) for j in others]).reshape(-1, 4)
            lines = [leader(anchors[j], found[j][None], sizes[j])[0] for j in others if far(anchors[j], found[j], sizes[j])]
            clear = np.where(np.arange(len(anchors)) == i, disc / 2, disc / 2 + CLEAR)[:, None]
            discs = np.concatenate([anchors - clear, anchors + clear], 1)
            hard, soft = np.concatenate([obstacles, discs, labels]), np.concatenate([np.zeros((0, 4)), *lines])
            costs[i] = np.inf
            for distance in DISTANCES:
                if distance >= costs[i]:
                    break
                at = anchor + ways * distance + np.clip(ways * 3, -1, 1) * size / 2
                boxes = np.concatenate([at - size / 2, at + size / 2], 1)
                outside = (boxes[:, :2] < within[:2]).any(1) | (boxes[:, 2:] > within[2:]).any(1)
                cost = distance + HARD * overlap(boxes, hard) + SOFT * overlap(boxes, soft) + 1e6 * outside
                if distance >= LEADER:
                    cost += SOFT * overlap(leader(anchor, at, size).reshape(-1, 4), labels).reshape(DIRECTIONS, -1).sum(1)
                if cost.min() < costs[i] - 1e-9:
                    found[i], costs[i] = at[np.argmin(cost)], float(cost.min())
    centres = np.array([found[i] for i in range(len(anchors))]).reshape(-1, 2)
    return sum(costs.values()), centres


def box(centre: Float[np.ndarray, " 2"], size: Float[np.ndarray, " 2"]) -> Float[np.ndarray, " 4"]:
    return np.concatenate([centre - size / 2, centre + size / 2])


def touch(
    anchor: Float[np.ndarray, " 2"], centre: Float[np.ndarray, "*E 2"], size: Float[np.ndarray, " 2"]
) -> Float[np.ndarray, "*E 2"]:
    """The point of a label nearest to what it names."""
    return np.clip(anchor, centre - size / 2, centre + size / 2)


def far(anchor: Float[np.ndarray, " 2"], centre: Float[np.ndarray, " 2"], size: Float[np.ndarray, " 2"]) -> bool:
    """Whether a label is so far from what it names that a line must join them."""
    return bool(np.linalg.norm(touch(anchor, centre, size) - anchor) >= LEADER)


def leader(
    anchor: Float[np.ndarray, " 2"], centres: Float[np.ndarray, "E 2"], size: Float[np.ndarray, " 2"]
) -> Float[np.ndarray, "E P 4"]:
    """Small boxes along the lines from what is named to each of these places of its label."""
    points = anchor + SAMPLES[:, None] * (touch(anchor, centres, size) - anchor)[:, None]
    return np.concatenate([points - 0.6, points + 0.6], -1)


def along(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"], gap: float = 3.0) -> Boxes:
    """Small boxes along a line, at most ``gap`` apart: obstacles that keep labels off it."""
    pieces = []
    for start, end in pairwise(np.stack([x, y], 1)):
        count = max(2, int(np.linalg.norm(end - start) / gap) + 2)
        pieces.append(start + np.linspace(0, 1, count)[:, None] * (end - start))
    at = np.concatenate(pieces) if pieces else np.zeros((0, 2))
    return np.concatenate([at - 0.6, at + 0.6], 1)
