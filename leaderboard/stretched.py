"""RoPE as trained, against its stretched forms: direct extrapolation and interpolation side by side, in one picture."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .grid import Column, Grid
from .markdown import share
from .plot import COLOURS, DASHES, DPI, LEGEND, MARKERS, Style, curves, keys, label, png
from .statistics import out_of_distribution
from .tables import ABSENT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

PICTURE = "stretched.png"
REFERENCE = "rope"
BELOW = "nope"
"""Drawn in grey for comparison, where there are runs of it."""
FORMS = ("interpolated(rope)", "ntk", "ntk_dynamic", "yarn", "yarn_dynamic", "interpolated(rope,fixed=True)")
"""RoPE with its angles squeezed past L. By name: the family of most is RoPE's own, which holds other things too."""
TUNED = "finetuned({})"
"""The name of a form trained on at longer lengths."""
ZERO_SHOT = "Zero-shot: saw no length past L"
FINE_TUNED = "Fine-tuned: saw longer lengths, for a short while"
QUIET = "#999999"
TUNED_SHADE = "#E6F0F9"

TITLE = "RoPE and its stretched forms"
TEXT = """\
RoPE past L as it was trained (direct extrapolation), and with its angles squeezed towards the range met in training
(interpolation). On the side called *zero-shot* no length past L was ever seen; on the other a short further training at longer
lengths, shaded in blue, came after: **these encodings saw lengths past L** and are ranked apart. RoPE as trained, and NoPE
where there are runs, stand on both for comparison. Numbers are exact match past L, mean over the tasks shown."""


def shown(grid: Grid) -> bool:
    """Whether there is anything to compare: on some task, RoPE and at least one stretched form."""
    return bool(compared(grid))


def compared(grid: Grid) -> list[Column]:
    """The tasks that have runs of RoPE and of at least one stretched form."""
    forms = [*FORMS, *map(TUNED.format, FORMS)]
    runs = grid.runs
    return [c for c in grid.columns if (c.task, REFERENCE) in runs and any((c.task, form) in runs for form in forms)]


def sides(grid: Grid) -> dict[str, dict[str, Style]]:
    """Title → encoding → style of its members: the zero-shot side and the fine-tuned one, as far as there are runs.

    A form has the same colour and marker on both sides. What there is to compare with comes first, and so lies below.
    """
    tasks = {column.task for column in compared(grid)}
    have = {encoding for task, encoding in grid.runs if task in tasks}
    looks = {form: Style(COLOURS[i], MARKERS[i], "-") for i, form in enumerate((REFERENCE, *FORMS))}
    base = {BELOW: Style(QUIET, "", "-"), REFERENCE: looks[REFERENCE]}
    zero_shot = {form: looks[form] for form in FORMS}
    tuned = {TUNED.format(REFERENCE): Style(COLOURS[0], "P", DASHES[1])}  # told apart from RoPE as trained, beside it
    tuned |= {TUNED.format(form): looks[form] for form in FORMS}
    both = {ZERO_SHOT: zero_shot, FINE_TUNED: tuned}
    return {title: {e: s for e, s in (base | own).items() if e in have} for title, own in both.items() if have & set(own)}


def picture(grid: Grid) -> bytes:
    """One row a task, one column a side, with its legend on top; what both sides share is explained below."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    columns, both = compared(grid), sides(grid)
    heights = [0.17 * (2 + max(map(len, both.values()))), *[1.65] * len(columns)]
    figure = Figure(figsize=(8.2 if len(both) > 1 else 5, sum(heights) + 0.7), dpi=DPI, layout="constrained")
    panels = figure.subplots(len(heights), len(both), squeeze=False, height_ratios=heights)
    tuned = False
    for j, (title, members) in enumerate(both.items()):
        lines: dict[str, Line2D] = {}
        for i, column in enumerate(columns, 1):
            lines |= curves(panels[i, j], grid, column, members, small=True)
            tuned |= shade_tuned(panels[i, j], grid, column, members)
            if j:
                panels[i, j].set_ylabel("")
                panels[i, j].tick_params(labelleft=False)
        panels[-1, j].set_xlabel("test length")
        panels[0, j].axis("off")
        panels[0, j].set_title(title, loc="left", fontsize=9, fontweight="bold")
        named = [f"{mean(grid, columns, name)}  {entry(name, title)}" for name in members]
        handles = [lines[name] for name in members]
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 1), "borderaxespad": 0, "borderpad": 0}
        panels[0, j].legend(handles, named, title="mean past L", **place, **LEGEND)
    names = {name for members in both.values() for name in members}
    several = any(len(runs) > 1 for (_, name), runs in grid.runs.items() if name in names)
    shared, labels = keys(columns, {}, {}, several)
    if tuned:
        shared.append(Patch(color=TUNED_SHADE))
        labels.append("fine-tuned, l > L")
    figure.legend(shared, labels, loc="outside lower center", ncols=len(labels), **LEGEND)
    return png(figure)


def entry(name: str, side: str) -> str:
    """An encoding in a legend; on the fine-tuned side, the others say that they are not."""
    return label(name, 44) + (" (not fine-tuned)" if side == FINE_TUNED and name in (BELOW, REFERENCE) else "")


def shade_tuned(axes: "Axes", grid: Grid, column: Column, encodings: Iterable[str]) -> bool:
    """Shade the lengths past L that some run of these encodings saw in training; whether there were any."""
    longest = max((r.longest_seen for name in encodings for r in grid.runs.get((column.task, name), ())), default=0)
    if longest <= column.train_length:
        return False
    edge = axes.get_xlim()[1]
    axes.axvspan(
        column.train_length, edge if longest >= column.lengths[-1] else longest, color=TUNED_SHADE, zorder=0, linewidth=0
    )
    return True


def mean(grid: Grid, columns: list[Column], encoding: str) -> str:
    """OOD exact match, mean over the tasks shown; a dash where a run of one of them is missing."""
    runs = [(c, grid.exact(c.task, encoding)) for c in columns]
    if not all(len(exact) for _, exact in runs):
        return ABSENT
    return share(float(np.mean([out_of_distribution(c.at, exact, c.train_length).mean() for c, exact in runs])))
