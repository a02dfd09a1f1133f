"""Figures of what probes found: one line per encoding, the mean over seeds, layers and heads of a quantity."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from .style import FAINT, colour, end_labels, headline, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Chart(NamedTuple):
    """A quantity of one probe on one task, against a coordinate of the probe frame."""

    title: str
    where: Mapping[str, object]
    """Columns of the probe frame and the values to keep."""
    across: str
    """Column on the x axis."""
    xlabel: str
    shown: Sequence[str]
    """Encodings with a colour."""
    logarithmic: bool = False


KEYS = {"suite": "small", "task": "key_retrieval"}
WORDS = {"suite": "language", "task": "language"}
PLAIN = ("nope", "alibi", "t5", "sinusoidal", "rope")
CHARTS = {
    "position": Chart(
        "Without encoding, one layer is enough to know the position",
        {**WORDS, "quantity": "error", "length": 32}, "layer", "after layer (0: the input)", PLAIN,
    ),
    "attention": Chart(
        "Attention that stays sharp: the largest weight by length, key retrieval trained to 16",
        {**KEYS, "quantity": "largest_weight"}, "length", "length", ("hard_alibi", "kerple_log", "nope", "t5", "rope"), True,
    ),
    "needle": Chart(
        "At 16 L, the place of the needle matters: accuracy by its place in the prompt",
        {**KEYS, "probe": "needle", "quantity": "accuracy", "length": 256}, "at",
        "eighth of the prompt (7: nearest to the question)",
        ("hard_alibi", "kerple_log", "nope", "t5", "yarn"),
    ),
    "distance": Chart(
        "How far back attention looks: 0 is the token itself, 1 the first; copying at 2 L",
        {"suite": "small", "task": "copying", "quantity": "mean_distance", "length": 32}, "layer", "layer",
        ("hard_alibi", "sandwich", "nope", "sinusoidal", "rope"),
    ),
    "excess": Chart(
        "Loss above the optimum, nats per word: alike up to L = 32, apart beyond",
        {**WORDS, "probe": "excess", "quantity": "excess"}, "length", "length", PLAIN, True,
    ),
}  # fmt: skip
"""File → picture of the page "Inside the models"."""


def draw(chart: Chart, frame: pd.DataFrame) -> "Figure":
    """One line per encoding, those of ``shown`` in colour.

    Arguments:
        frame: ``leaderboard.results.probes.probe_frame``.
    """
    for name, value in chart.where.items():
        frame = frame[frame[name] == value]
    table = frame.assign(x=pd.to_numeric(frame[chart.across])).pivot_table("value", "x", "encoding")
    figure, (axes,) = new_figure(3.0)
    x = table.index.to_numpy(float)
    for name in table:
        strong = name in chart.shown
        axes.plot(x, table[name], color=colour(name) if strong else FAINT, lw=2 if strong else 0.8, zorder=3 if strong else 1)
    if chart.logarithmic:
        axes.set_xscale("log", base=2)
    axes.set_xticks(x, [f"{value:g}" for value in x])
    axes.minorticks_off()
    axes.set_xlim(x[0], x[-1] * (x[-1] / x[0]) ** 0.17 if chart.logarithmic else x[-1] + 0.17 * (x[-1] - x[0]))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(chart.xlabel)
    end_labels(axes, [(float(table[name].iloc[-1]), name) for name in chart.shown if name in table], float(x[-1]))
    headline(figure, chart.title)
    return figure
