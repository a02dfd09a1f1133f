"""Figures of results."""

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leaderboard.figures.plots import length_axis
from leaderboard.figures.style import INK, SETTINGS, colour, heading
from leaderboard.render.text import printable
from leaderboard.stats.rows import LOCAL
from tasks import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = {
    "exact": "exact match",
    "token": "token accuracy",
    "exact_score": "exact match, chance-corrected",
    "token_score": "token accuracy, chance-corrected",
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
) -> "Figure":
    """A metric by test length relative to the training length: one panel per task, one line per encoding.

    Lines are means over seeds, dots single seeds; the dotted line is the training length. Each encoding has the colour that it
    has on the board. Your own runs of an encoding that has published ones too are a line of their own, ``NAME (local)``. The
    background is transparent, and text reads on white and on black.

    Arguments:
        results: rows of ``lprime.results``, ``lprime.evaluate`` or ``lprime export``, of one version of one suite.
        metric: one of ``METRICS``.
        encodings: one or several, drawn in this order; by default all.
        tasks: one or several, drawn in this order; by default all.

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

    import matplotlib
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer)
            return buffer.getvalue()

    with matplotlib.rc_context(SETTINGS):
        across = min(ACROSS, len(panels))
        down = math.ceil(len(panels) / across)
        figure = NotebookFigure(figsize=(PANEL[0] * across + 1.6, PANEL[1] * down), dpi=110, layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.subplots(down, across, squeeze=False, sharey=True)
        for ax in axes.flat[len(panels) :]:
            ax.set_axis_off()
        for ax, task in zip(axes.flat, panels, strict=False):
            draw_task(ax, results[results["task"] == task], names, metric)
            heading(ax, f"{printable(task)}, L = {results[results['task'] == task]['train_length'].iloc[0]}")
            if metric != "nll":
                ax.set_ylim(-0.02, 1.02)
        for ax in axes[:, 0]:
            ax.set_ylabel(METRICS[metric])
        lines = {label: line for ax in axes.flat for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
        figure.legend(list(lines.values()), list(lines), loc="outside right upper", frameon=False)
        return figure


def draw_task(axes: "Axes", rows: "pd.DataFrame", names: Sequence[str], metric: str) -> None:
    """One panel: the line of each encoding, with the dots of its seeds."""
    axes.patch.set_alpha(0)
    for name in names:
        own, dashes = rows[rows["encoding"] == name], "--" if name.endswith(LOCAL) else "-"
        ink = colour(name.removesuffix(LOCAL))
        mean = own.groupby("relative_length")[metric].mean()
        axes.plot(mean.index, mean, linewidth=1.5, color=ink, linestyle=dashes, label=printable(name, 40))
        if own["seed"].nunique() > 1:
            axes.plot(own["relative_length"], own[metric], ".", markersize=2.5, alpha=0.5, color=ink)
    axes.axvline(1, color=INK, lw=0.8, ls=":")
    first, last = rows["relative_length"].min(), rows["relative_length"].max()
    length_axis(axes, first, last)
    axes.set_xlim(first, last)


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
