"""Overall scores of the encodings in the suite and under each of its conditions; lines that cross are changes of order."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.suites.vary import condition_title
from leaderboard.format import signed
from leaderboard.stats.robustness import Robustness

from .canvas import single_axes
from .curve_labels import CurveLabel, name_curves
from .panels import styles
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEM = "robustness"
ALT = "Overall scores under each condition, one line per encoding"
TITLE = "Overall scores with one thing changed at a time"
HEIGHT, NAMES = 3.4, 1.7
"""Inches: height of the axes, and room for the names."""


def draw_robustness(found: Robustness, theme: Theme) -> "Figure":
    """A column for the suite and each condition, and the last for every encoding at its best learning rate."""
    columns = {condition_title(one.condition): one for one in found.comparisons}
    columns |= {"best rate of\u00a0each": found.tuned.comparison} if found.tuned and found.tuned.changed else {}
    base = {name: score for one in columns.values() for name, score in zip(one.encodings, one.base, strict=True)}
    base |= dict(zip(found.comparisons[0].encodings, found.comparisons[0].base, strict=True))
    names = sorted(base, key=lambda name: (-base[name], name))
    known = [base, *(dict(zip(one.encodings, one.scores, strict=True)) for one in columns.values())]
    scores = np.array([[column.get(name, np.nan) for column in known] for name in names])
    notes = ["lines that cross are changes of order", "numbers at the top: Kendall's τ between the order below and the suite's"]
    notes.append("number of a name: score at the end of its line")
    flagged = [{name for one in columns.values() for name in one.base_flagged}, *(one.flagged for one in columns.values())]
    if any(flagged):
        notes.append("hollow: some task is not learned at l\u00a0≤\u00a0L")
    if any(np.isnan(row).any() for row in scores):
        notes.append("thin: not run under the conditions between")
    figure, ax = single_axes(TITLE, HEIGHT, theme, right=NAMES, notes=notes)
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    pad = 0.04 * (high - low) or 0.02
    ax.set(xlim=(-0.15, len(columns)), ylim=(low - pad, high + 3 * pad), ylabel="overall score")
    ax.set_xticks(range(len(columns) + 1), ["suite", *map(tick, columns)])
    ax.get_xticklabels()[-1].set_horizontalalignment("right")
    for place, one in enumerate(columns.values(), 1):
        if not np.isnan(one.tau):
            side = "center" if place < len(columns) else "right"
            ax.text(place, 1, f"τ {signed(one.tau)}", va="top", ha=side, transform=ax.get_xaxis_transform())
    labels = []
    for (name, style), row in zip(styles(names).items(), scores, strict=True):
        line: dict[str, Any] = {"color": style.colour(theme), "linestyle": style.dashes, "linewidth": 1.3, "markersize": 3}
        ax.plot(row, marker="o", clip_on=False, label=name, **line)
        hollow = [place for place, names in enumerate(flagged) if name in names]
        ax.plot(
            hollow,
            row[hollow],
            "o",
            clip_on=False,
            zorder=3,
            **line | {"color": theme.background, "markersize": 1.5, "linestyle": ""},
        )
        there = np.flatnonzero(~np.isnan(row))
        for left, right in pairwise(there):
            if right > left + 1:
                ax.plot([left, right], row[[left, right]], color=style.colour(theme), linewidth=0.5, alpha=0.6)
        end = float(row[there[-1]])
        labels.append(CurveLabel(name, end, end, style.colour(theme), style.dashes))
    name_curves(ax, labels, NAMES)
    return figure


def tick(title: str) -> str:
    """A title in two lines."""
    return "\n".join(title.rsplit(" ", 1))
