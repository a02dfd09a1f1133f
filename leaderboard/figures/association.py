"""The measures from inside the models that go with the score past L: a disc for each encoding."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from leaderboard.format import printable, signed
from leaderboard.stats.association import MEASURES, Association

from .canvas import MARGIN, WIDTH, new_figure
from .label_placement import Label, in_points, label_discs
from .text_layout import SMALL, fitted
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEM = "association"
ALT = "Score past L against numbers from inside the models, a disc per encoding"
TITLE = "Score past L against what is measured inside the models, mean over tasks"
LEFT, HEAD, FOOT, HEIGHT = 0.45, 0.26, 0.42, 2.3
"""Inches: for tick labels, above, below and of a panel."""
DISC = 4.0
"""Diameter of a disc, points."""
WIDEST = 90.0
"""Largest width of a name, points."""


def draw_association(found: Association, theme: Theme) -> "Figure":
    """A panel for each measure that goes with the score, two in a row."""
    names = list(found.found)
    down = -(-len(names) // 2)
    notes = ["y axis: score past L of the runs that were probed"]
    notes += ["titles: Kendall's τ, the rank correlation with the score over these encodings on each task, mean over tasks"]
    figure, bottom, top = new_figure(TITLE, down * (HEIGHT + HEAD + FOOT), theme, notes=notes)
    total = figure.get_figheight()
    spec = figure.add_gridspec(down, min(2, len(names)), wspace=0.12, hspace=(HEAD + FOOT) / HEIGHT)
    spec.update(left=LEFT / WIDTH, right=1 - MARGIN / WIDTH, bottom=bottom + FOOT / total, top=top - HEAD / total)
    for n, name in enumerate(names):
        draw_measure(figure.add_subplot(spec[n]), found, name, theme)
    return figure


def draw_measure(ax: "Axes", found: Association, name: str, theme: Theme) -> None:
    data = np.stack([found.of_measure(name), found.scores.mean(1)], 1)
    ax.set_title(f"{name}: τ {signed(found.found[name])}")
    ax.set_xlabel(fitted(MEASURES[name].about, 0.9 * ax.bbox.width, SMALL))
    ax.set_xlim(limits(data[:, 0]))
    ax.set_ylim(limits(data[:, 1]))
    ax.plot(*data.T, "o", color=theme.colours[0], markersize=DISC, markeredgewidth=0, zorder=3)
    labels = [Label(fitted(printable(one), WIDEST, SMALL), theme.muted) for one in found.encodings]
    label_discs(ax, in_points(ax, data), labels, theme, DISC / 2)


def limits(values: Float[np.ndarray, " E"]) -> tuple[float, float]:
    """Of an axis, with room for the names at either end."""
    room = 0.1 * np.ptp(values) or 0.1
    return float(values.min() - room), float(values.max() + room)
