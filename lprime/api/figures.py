"""Figures of results."""

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leaderboard.data.grid import LOCAL
from leaderboard.figures.canvas import figure_settings
from leaderboard.figures.panels import styles
from leaderboard.figures.theme import DARK, LIGHT
from leaderboard.format import VISIBLE_CHANCE, printable, times
from tasks import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

METRICS = {
    "exact": "exact match",
    "token": "token accuracy",
    "exact_score": "exact match, guessing taken out",
    "token_score": "token accuracy, guessing taken out",
    "nll": "negative log-likelihood per answer token, nats",
}
"""Columns of results that can be drawn → label of the axis."""
PANEL = (3.2, 2.4)
"""Width and height of a panel, in inches."""
ACROSS = 3
"""Most panels side by side."""
COLUMNS = ("fingerprint", "encoding", "task", "seed", "train_length", "relative_length", "chance")
"""Columns that a figure needs besides the metric's."""


def plot(
    results: "pd.DataFrame",
    metric: str = "exact",
    *,
    encodings: str | Sequence[str] | None = None,
    tasks: str | Sequence[str] | None = None,
    dark: bool = False,
) -> "Figure":
    """A metric by test length relative to the training length: one panel per task, one line per encoding.

    Lines are means over seeds, dots single seeds; lengths seen in training are shaded. Your own runs of an encoding that has
    published ones too are a line of their own, ``NAME (local)``.

    Arguments:
        results: rows of ``lprime.results``, ``lprime.evaluate`` or ``lprime export``, of one version of one suite.
        metric: one of ``METRICS``.
        encodings: one or several, drawn in this order; by default all.
        tasks: one or several, drawn in this order; by default all.
        dark: light lines and text on a dark background.

    Returns:
        The figure, which a notebook shows and ``savefig`` writes.

    Raises:
        InputError: no rows, a missing column, an unknown metric, encoding or task, one without rows of the others, or rows that
            do not compare.
    """
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    if not hasattr(results, "columns"):
        raise InputError(f"expected a data frame, as lprime.results returns it, got {type(results).__name__}")
    if missing := [name for name in (*COLUMNS, metric) if name not in results.columns]:
        raise InputError(f"the data frame has no column {missing[0]!r}; expected the columns of lprime.results")
    if results.empty:
        raise InputError("there are no results to plot: the data frame has no rows")
    if (versions := results["fingerprint"].nunique()) > 1:
        raise InputError(f"the results are of {versions} suites or versions, which do not compare; select one fingerprint")
    results = results[results["task"].isin(chosen(results, "task", tasks))]
    names = chosen(results, "encoding", encodings, "the results of these tasks" if tasks else "these results")
    results = results[results["encoding"].isin(names)]
    panels = chosen(results, "task", tasks, "the results of these encodings")
    results, names = told_apart(results, names)

    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer)
            return buffer.getvalue()

    theme = DARK if dark else LIGHT
    with figure_settings(theme):
        across = min(ACROSS, len(panels))
        down = math.ceil(len(panels) / across)
        figure = NotebookFigure(figsize=(PANEL[0] * across + 1.6, PANEL[1] * down), dpi=110, layout="constrained")
        axes = figure.subplots(down, across, squeeze=False, sharey=True)
        for ax in axes.flat[len(panels) :]:
            ax.set_axis_off()
        for ax, task in zip(axes.flat, panels, strict=False):
            rows = results[results["task"] == task]
            for name, style in styles(names).items():
                own, colour = rows[rows["encoding"] == name], style.colour(theme)
                mean = own.groupby("relative_length")[metric].mean()
                line = {"color": colour, "linestyle": style.dashes, "label": printable(name, 40)}
                ax.plot(mean.index, mean, linewidth=1.5, **line)
                if own["seed"].nunique() > 1:
                    ax.plot(own["relative_length"], own[metric], ".", markersize=2.5, alpha=0.5, color=colour)
            first, last = rows["relative_length"].min(), rows["relative_length"].max()
            if metric == "exact" and rows["chance"].max() > VISIBLE_CHANCE:
                chance = rows.groupby("relative_length")["chance"].first()
                ax.plot(chance.index, chance, ":", color=theme.muted, linewidth=1, label="chance")
            ax.axvspan(first, 1, color=theme.shade, zorder=0)
            ax.set_xscale("log", base=2)
            ax.set_xlim(first, last)
            ticks = [x for x in (0.25, 0.5, 1, 2, 3, 4, 5, 8, 16, 32) if first <= x <= last]
            ax.set_xticks(ticks, ["L" if x == 1 else f"{times(x)} L" for x in ticks])
            ax.xaxis.set_minor_locator(NullLocator())
            ax.set_title(f"{printable(task)}, L = {rows['train_length'].iloc[0]}")
            if metric != "nll":
                ax.set_ylim(-0.02, 1.02)
        for ax in axes[:, 0]:
            ax.set_ylabel(METRICS[metric])
        lines = {label: line for ax in axes.flat for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
        figure.legend(list(lines.values()), list(lines), loc="outside right upper")
        return figure


def told_apart(results: "pd.DataFrame", names: Sequence[str]) -> "tuple[pd.DataFrame, list[str]]":
    """Your own runs of an encoding get the name ``NAME (local)`` if there are published ones too."""
    if "origin" not in results.columns:  # a table of ``lprime export``
        return results, list(names)
    origins = results.groupby("encoding")["origin"].transform("nunique")
    own = (results["origin"] == "local") & (origins > 1)
    results = results.assign(encoding=results["encoding"].where(~own, results["encoding"] + LOCAL))
    found = set(results["encoding"])
    return results, [shown for name in names for shown in (name, name + LOCAL) if shown in found]


def chosen(results: "pd.DataFrame", column: str, wanted: str | Sequence[str] | None, where: str = "these results") -> list[str]:
    """Names of a column to draw: those asked for, or all in the order of the rows.

    Arguments:
        where: what the rows are, for messages.

    Raises:
        InputError: an unknown name, with the nearest match; or an empty list.
    """
    known = list(dict.fromkeys(results[column]))
    if wanted is None:
        return known
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    if not names:
        raise InputError(f"there is no {column} to plot: the list is empty; expected names, or None for all")
    for name in names:
        if name not in known:
            raise unknown(f"{column} in {where}", name, known)
    return names
