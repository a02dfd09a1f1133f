"""RoPE as trained, against its stretched forms: direct extrapolation and interpolation side by side, in one picture."""

from typing import Any

import numpy as np

from .grid import Column, Grid
from .markdown import share
from .plot import COLOURS, DASHES, DPI, LEGEND, MARKERS, SHADE, Style, curves, keys, label, png
from .statistics import out_of_distribution
from .tables import ABSENT

PICTURE = "stretched.png"
REFERENCE = "rope"
BELOW = "nope"
"""Drawn in grey for comparison, where there are runs of it."""
FORMS = ("interpolated(rope)", "ntk", "ntk_dynamic", "yarn", "yarn_dynamic", "interpolated(rope,fixed=True)")
"""RoPE with its angles squeezed past L. By name: the family of most is RoPE's own, which holds other things too."""
TUNED = "finetuned({})"
"""The name of a form trained on at longer lengths."""
QUIET = "#999999"
TUNED_SHADE = "#DCEBF7"

TEXT = """\
RoPE past L as it was trained (direct extrapolation), and with its angles squeezed towards the range met in training
(interpolation). Left: zero-shot, no length past L was ever seen. Right: after a short further training at longer lengths,
shaded in blue: **these saw lengths past L** and are ranked apart. RoPE as trained stands on both sides."""


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
    have = {encoding for task, encoding in grid.runs if task in {c.task for c in compared(grid)}}
    looks = {form: Style(COLOURS[i], MARKERS[i], "-") for i, form in enumerate((REFERENCE, *FORMS))}
    base = {BELOW: Style(QUIET, "", "-"), REFERENCE: looks[REFERENCE]}
    zero_shot = {form: looks[form] for form in FORMS}
    tuned = {TUNED.format(REFERENCE): Style(COLOURS[0], "P", DASHES[1])}  # told apart from RoPE as trained, beside it
    tuned |= {TUNED.format(form): looks[form] for form in FORMS}
    both = {"Zero-shot: trained at lengths up to L alone": zero_shot, "Fine-tuned: also saw lengths past L, for a short while": tuned}
    return {title: {e: s for e, s in (base | own).items() if e in have} for title, own in both.items() if have & set(own)}


def picture(grid: Grid) -> bytes:
    """One row a task, one column a side, with its legend on top."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    columns, both = compared(grid), sides(grid)
    entries = 3 + max(map(len, both.values()))  # of the longer legend
    heights = [0.16 * (entries + 2), *[1.6] * len(columns)]
    figure = Figure(figsize=(4.1 * len(both), sum(heights) + 0.3), dpi=DPI, layout="constrained")
    panels = figure.subplots(len(heights), len(both), squeeze=False, height_ratios=heights)
    for j, (title, members) in enumerate(both.items()):
        lines = {}
        tuned = False
        for i, column in enumerate(columns):
            axes = panels[i + 1, j]
            lines |= curves(axes, grid, column, members, small=True)
            if (longest := longest_seen(grid, column, list(members))) > column.train_length:
                axes.axvspan(column.train_length, min(longest, axes.get_xlim()[1]), color=TUNED_SHADE, zorder=0, linewidth=0)
                tuned = True
            if j:
                axes.set_ylabel("")
        named = {name: f"{mean(grid, columns, name)}  {label(name, 40)}" for name in members}
        several = any(len(grid.runs.get((c.task, name), ())) > 1 for c in columns for name in members)
        handles, labels = keys(columns, lines, named, several)
        if tuned:
            handles.append(Patch(color=TUNED_SHADE))
            labels.append("seen in fine-tuning, l > L")
        panels[0, j].axis("off")
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 1), "borderaxespad": 0}
        panels[0, j].set_title(title, loc="left", fontsize=9, fontweight="bold")
        panels[0, j].legend(handles, labels, title="mean past L", **place, **LEGEND).set_in_layout(False)
    figure.supxlabel("test length", fontsize=9)
    return png(figure)


def longest_seen(grid: Grid, column: Column, encodings: list[str]) -> int:
    """The longest length that any of their runs on one task saw in training."""
    return max(run.longest_seen for name in encodings for run in grid.runs.get((column.task, name), ()))


def mean(grid: Grid, columns: list[Column], encoding: str) -> str:
    """OOD exact match, mean over the tasks shown; a dash where a run of one of them is missing."""
    runs = [(c, grid.exact(c.task, encoding)) for c in columns]
    if not all(len(exact) for _, exact in runs):
        return ABSENT
    return share(float(np.mean([out_of_distribution(c.at, exact, c.train_length).mean() for c, exact in runs])))
