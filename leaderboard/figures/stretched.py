"""RoPE as trained, and its stretched forms: direct extrapolation and interpolation compared in one figure."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leaderboard.data.grid import Column, Grid
from leaderboard.format import VISIBLE_CHANCE

from .panels import COLOURS, DASHES, SCORE_NOTE, Panel, Style, axes_note, draw_panels, task_title
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEM = "stretched"
REFERENCE = "rope"
BELOW = "nope"
"""Drawn for comparison if it has runs."""
FORMS = ("interpolated(rope)", "ntk", "ntk_dynamic", "yarn", "yarn_dynamic", "interpolated(rope,fixed=True)")
"""RoPE with its angles compressed past L. Listed by name, because most belong to RoPE's family, which has other members."""
TUNED = "finetuned({})"
"""Name of a form after further training at longer lengths."""
ZERO_SHOT = "Zero-shot: saw no length past L"
FINE_TUNED = "Fine-tuned: saw longer lengths, for a short while"
TITLE = "RoPE and its stretched forms"
TEXT = """\
RoPE past L as it was trained (direct extrapolation), and with its angles compressed towards the range seen in training
(interpolation). *Zero-shot* encodings saw no length past L. The fine-tuned ones were then trained briefly at longer lengths,
shaded in blue: **these encodings saw lengths past L** and are ranked apart. Both columns show RoPE as trained, and NoPE if it
has runs, for comparison. Numbers are scores past L on that task."""


def compared(grid: Grid) -> list[Column]:
    """Tasks with runs of RoPE and of at least one stretched form; the figure exists if there are any."""
    forms = [*FORMS, *map(TUNED.format, FORMS)]
    runs = grid.runs
    return [c for c in grid.columns if (c.task, REFERENCE) in runs and any((c.task, form) in runs for form in forms)]


def sides(grid: Grid) -> dict[str, dict[str, Style]]:
    """Title → encoding → style: the zero-shot side and the fine-tuned side, as far as there are runs.

    A form has the same colour on both sides. RoPE and NoPE come last, and so are drawn below the others.
    """
    tasks = {column.task for column in compared(grid)}
    have = {encoding for task, encoding in grid.runs if task in tasks}
    looks = {form: Style(i) for i, form in enumerate(FORMS)}
    black = COLOURS - 1  # or white: the colour of text
    base = {REFERENCE: Style(black), BELOW: Style(black, DASHES[2])}
    tuned = {TUNED.format(REFERENCE): Style(black, DASHES[1])}  # RoPE as trained, on the same side, is solid
    tuned |= {TUNED.format(form): look for form, look in looks.items()}
    both = {ZERO_SHOT: looks, FINE_TUNED: tuned}
    return {
        title: {e: s for e, s in (members | base).items() if e in have}
        for title, members in both.items()
        if have & set(members)
    }


def draw_stretched(grid: Grid, theme: Theme) -> "Figure":
    """One row per task, one column per side; all encodings of the board in grey."""
    both = sides(grid)
    panels = [
        Panel(
            f"{task_title(column)}, L = {column.train_length}",
            column,
            members,
            longest_seen=longest_seen(grid, column, members),
        )
        for column in compared(grid)
        for members in both.values()
    ]
    tuned = any(panel.longest_seen > panel.column.train_length for panel in panels)
    across, shaded = axes_note(grid, panels)
    notes = [across, shaded + (", and in blue those seen only in fine-tuning" if tuned else "")]
    notes.append(f"dotted: chance, where it is above {VISIBLE_CHANCE:g}")
    notes.append(SCORE_NOTE)
    notes.append(f"black or white: {REFERENCE} as trained, on both sides (fine-tuned: dashed), and {BELOW} (dotted)")
    notes.append("grey: all encodings of the board")
    return draw_panels(
        grid,
        panels,
        theme,
        TITLE,
        height=1.4,
        names=2.2,
        across=len(both),
        others=grid.encodings,
        headings=list(both),
        notes=notes,
    )


def longest_seen(grid: Grid, column: Column, encodings: Iterable[str]) -> int:
    """Longest length that a run of these encodings saw in training."""
    return max((run.longest_seen for name in encodings for run in grid.runs.get((column.task, name), ())), default=0)
