"""Names beside the right end of a panel, each joined to its curve, none on another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .labels import folded, spread
from .markdown import share
from .plot import POINT, SMALL, Page, text_width

Dashes = str | tuple[int, tuple[float, ...]]
LOW, HIGH = -0.03, 1.03
"""Ends of an axis of shares."""
START, END = 0.05, 0.03
"""Inches in a panel before its first value and after its last."""
HEAD = 0.2
"""Inches above a panel, for its title."""
CREST = 0.06
"""Inches above a panel that names may reach: titles are wider than panels."""
FOOT = 0.2
"""Inches below it, for the values of its axis."""
GUTTER = 0.06
"""Inches between a panel and what stands beside it."""
SWATCH = 0.18
"""Inches of line beside a name."""
TOGETHER = 0.06
"""Curves whose ends are closer than this end together."""


class Box(NamedTuple):
    """Of a data area, inches from the top left corner of the page."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def up(self, share: Any) -> Any:
        """Where shares stand, inches from the top of the page."""
        return self.top + (HIGH - share) / (HIGH - LOW) * self.height


@dataclass(frozen=True)
class Named:
    """One curve and what stands beside it."""

    name: str
    mean: float
    """The number before its name."""
    end: float
    """Where the curve ends."""
    colour: str
    dashes: Dashes = "-"
    bold: bool = False
    mark: str = ""
    """Stands behind the name."""


def beside(page: Page, named: Sequence[Named], box: Box, names: float) -> None:
    """Draw names to the right of a panel, with a piece of line each and a thin one to the curve's end.

    Arguments:
        names: inches that they may take.
    """
    places = box.right - END, box.right + GUTTER, box.right + GUTTER + SWATCH
    values = max((text_width(share(one.mean), SMALL, bold=True) for one in named), default=0)
    name_at = places[2] + 0.04 + (values + 3) * POINT
    room = (box.right + names - name_at - 0.06) / POINT
    order = stacked(named)
    lines = [folded(one.name, room, SMALL, one.bold, one.mark) for one in order]
    heights = [len(text) * SMALL * 1.18 * POINT for text in lines]
    centres = spread([box.up(one.end) for one in order], heights, box.top - CREST, box.bottom + FOOT)
    for one, text, height, centre in zip(order, lines, heights, centres, strict=True):
        page.line(places[:2], [box.up(one.end), centre], one.colour, 0.6, alpha=0.7)
        page.line(places[1:], [centre] * 2, one.colour, 2, linestyle=one.dashes)
        weight: dict[str, Any] = {"fontweight": "bold" if one.bold else "normal", "va": "middle"}
        page.text(name_at - 3 * POINT, centre, share(one.mean), SMALL, ha="right", **weight)
        for i, line in enumerate(text):
            page.text(name_at, centre + ((i + 0.5) / len(text) - 0.5) * height, line, SMALL, **weight)


def stacked(named: Sequence[Named]) -> list[Named]:
    """From high to low by where curves end; those that end together, and so cannot keep their place, by their means."""
    order: list[Named] = []
    close: list[Named] = []
    for one in sorted(named, key=lambda one: (-one.end, one.name)):
        if close and close[-1].end - one.end > TOGETHER:
            order += sorted(close, key=lambda one: (-one.mean, one.name))
            close = []
        close.append(one)
    return order + sorted(close, key=lambda one: (-one.mean, one.name))


def broken(x: Float[np.ndarray, "C N"], y: Float[np.ndarray, "C N"]) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    """Many lines as one with gaps, which takes a fraction of the time and bytes."""
    gap = np.full((len(x), 1), np.nan)
    return np.concatenate([x, gap], 1).ravel(), np.concatenate([y, gap], 1).ravel()
