"""Figures of results."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from leaderboard.figures.plots import length_axis
from leaderboard.figures.style import INK, colour, heading, new_figure
from leaderboard.render.text import printable
from leaderboard.stats.rates import CELL
from leaderboard.stats.rows import LOCAL
from tasks import InputError, unknown

METRICS = ("exact", "token", "exact_score", "token_score", "nll")
"""Columns of results that can be drawn."""


def plot(results: pd.DataFrame, metric: str = "exact") -> Figure:
    """A metric by test length relative to the training length: one panel per task, one line per encoding.

    Lines are means over seeds, at the learning rates that the board chooses; seeds with another L are interpolated in log l.
    The dotted line is the training length. Each encoding has the colour that it has on the board.
    Your own runs of an encoding that has published ones too are a line of their own, ``NAME (local)``.

    Arguments:
        results: rows of ``lprime.results`` or ``lprime.evaluate``, of one version of one suite. Tasks and encodings are drawn
            in the order of their rows.
        metric: ``exact``, ``token``, ``exact_score``, ``token_score`` or ``nll``, a column of the results.

    Returns:
        The figure, which a notebook shows and ``savefig`` writes.

    Raises:
        InputError: no rows, an unknown metric, rows that do not compare, or several learning rates without the chosen one.
    """
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    if results.empty:
        raise InputError("there are no results to plot: the data frame has no rows")
    if (versions := results["fingerprint"].nunique()) > 1:
        raise InputError(f"the results are of {versions} suites or versions, which do not compare; select one fingerprint")
    both = (results["origin"] == "local") & (results.groupby("encoding")["origin"].transform("nunique") > 1)
    results = results.assign(encoding=results["encoding"].where(~both, results["encoding"] + LOCAL))
    if results.groupby(CELL)["learning_rate"].nunique().max() > 1:
        lines, results = results.groupby(CELL).ngroups, results[results["chosen"]]
        rates = results.groupby([*CELL, "seed"])["learning_rate"].nunique()
        if results.groupby(CELL).ngroups < lines or rates.max() > 1:
            raise InputError("the results have several learning rates, and none or many are chosen; select one")
    panels = list(results["task"].unique())

    from matplotlib import pyplot

    if "inline" in (backend := pyplot.get_backend()):  # of a notebook, which shows figures once it is loaded
        pyplot.switch_backend(backend)

    figure, axes = new_figure(2.7, ncols=len(panels), sharey=True)
    axes[0].set_ylabel(metric.replace("_", " "))
    for ax, task in zip(axes, panels, strict=True):
        for name, own in (here := results[results["task"] == task]).groupby("encoding", sort=False):
            by_seed = own.pivot_table(index="relative_length", columns="seed", values=metric, dropna=False)
            at_all = by_seed.set_axis(np.log(by_seed.index)).interpolate("index", limit_area="inside")
            by_length = at_all.set_axis(by_seed.index).mean(axis=1, skipna=False).dropna()
            dashes = "--" if name.endswith(LOCAL) else "-"
            ax.plot(by_length, color=colour(name.removesuffix(LOCAL)), ls=dashes, lw=1.5, label=printable(name, 40))
        ax.axvline(1, color=INK, lw=0.8, ls=":")
        length_axis(ax, here["relative_length"].min(), here["relative_length"].max())
        heading(ax, printable(task))
    labels = {label: line for ax in axes for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(list(labels.values()), list(labels), loc="outside right upper", frameon=False)
    return figure
