"""Names to the right of a panel, each joined to the end of its curve."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leaderboard.format import share

from .canvas import MIDDLE
from .label_placement import spread
from .text_layout import POINT, SMALL, folded, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Dashes = str | tuple[int, tuple[float, ...]]
GUTTER, SWATCH, SPACE = 4.5, 13.0, 3.0
"""Widths in points: gap between panel and swatch, swatch (a piece of the curve's line), blank before and after the number."""
ABOVE, BELOW = 4.5, 14.5
"""Points by which names may exceed a panel above and below."""
PITCH = 1.18 * SMALL
"""Points from one line to the next."""


@dataclass(frozen=True)
class CurveLabel:
    """A curve's name and how it is shown."""

    name: str
    mean: float
    """Number before the name."""
    end: float
    """Last value of the curve."""
    colour: str
    dashes: Dashes = "-"
    bold: bool = False
    suffix: str = ""


def name_curves(ax: "Axes", labels: Sequence[CurveLabel], room: float) -> None:
    """Draw names to the right of a panel: a thin line from the end of the curve, a swatch, the mean and the name.

    Arguments:
        room: inches to the right of the panel.
    """
    (width, height), (low, high) = ax.bbox.size, ax.get_ylim()
    numbers = max((text_width(share(one.mean), SMALL, bold=True) for one in labels), default=0)
    swatch, number = width + GUTTER, width + GUTTER + SWATCH + SPACE + numbers
    text = number + SPACE
    labels = sorted(labels, key=lambda one: (-one.mean, one.name))
    names = [folded(one.name, width + room / POINT - text - SPACE, SMALL, one.bold, one.suffix) for one in labels]
    heights = [len(lines) * PITCH for lines in names]
    wanted = [(one.end - low) / (high - low) * height for one in labels]
    centres = spread(wanted[::-1], heights[::-1], -BELOW, height + ABOVE)[::-1]
    line: dict[str, Any] = {"transform": ax.transAxes, "clip_on": False, "solid_capstyle": "butt"}
    for one, lines, end, centre in zip(labels, names, wanted, centres, strict=True):
        y = centre / height
        ax.plot([1, swatch / width], [end / height, y], color=one.colour, linewidth=0.6, alpha=0.7, **line)
        ax.plot(
            [swatch / width, (swatch + SWATCH) / width], [y, y], color=one.colour, linewidth=2, linestyle=one.dashes, **line
        )
        style: dict[str, Any] = {"transform": ax.transAxes, "fontweight": "bold" if one.bold else "normal"}
        ax.text(number / width, (centre - MIDDLE * SMALL) / height, share(one.mean), ha="right", **style)
        for i, part in enumerate(lines):
            below = MIDDLE * SMALL + (i - (len(lines) - 1) / 2) * PITCH
            ax.text(text / width, (centre - below) / height, part, **style)
