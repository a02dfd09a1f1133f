"""Figure of an encoding's page: its curve on every task, with each seed, and NoPE's mean for comparison."""

from typing import TYPE_CHECKING

from leaderboard.data.grid import Grid
from leaderboard.format import VISIBLE_CHANCE, printable, share
from leaderboard.stats.summary import BASE, summarise_cell
from tasks import plural

from .canvas import join_lines, render_svgs
from .panels import Panel, Style, draw_panels, task_title
from .stretched import longest_seen
from .text_layout import SMALL
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = Style(1)


def render_encoding(grid: Grid, encoding: str) -> dict[str, bytes]:
    """Look, ``light`` or ``dark`` → SVG of the encoding's figure."""
    return render_svgs(lambda theme: draw_encoding(grid, encoding, theme))


def draw_encoding(grid: Grid, encoding: str, theme: Theme) -> "Figure":
    """One panel per task with runs of the encoding."""
    panels = []
    for column in grid.columns:
        if (column.task, encoding) in grid.runs:
            longest = longest_seen(grid, column, [encoding])
            panels.append(Panel(printable(task_title(column), 34), column, {encoding: STYLE}, longest_seen=longest))
    columns = [panel.column for panel in panels]
    compared = encoding != BASE and any((column.task, BASE) in grid.runs for column in columns)
    several = any(len(grid.runs[column.task, encoding]) > 1 for column in columns)
    notes = ["thick: mean over seeds; thin and dots: single seeds" if several else "line: one seed"]
    notes += [f"dashed: mean of {BASE}"] if compared else []
    notes += ["dotted: chance"] if any(max(column.chance) > VISIBLE_CHANCE for column in columns) else []
    notes.append("shaded: lengths seen in training, l\u00a0≤\u00a0L")
    if any(panel.longest_seen > panel.column.train_length for panel in panels):
        notes[-1] += ", and in blue those seen in a later stage"
    title = f"{printable(encoding)}: exact match by test length"
    figure = draw_panels(grid, panels, theme, title, height=1.35, names=0.25, named=False, notes=notes)
    for ax, column in zip(figure.axes, columns, strict=True):
        x, exact = column.at / column.train_length, grid.exact(column.task, encoding)
        score = float(summarise_cell(grid, column, encoding).scores.mean())
        mean = f"score {share(score)}, {plural(len(exact), 'seed')}"
        ax.set_title(mean, loc="right", color=theme.muted, fontsize=SMALL, fontweight="normal")
        if len(exact) > 1:
            ax.plot(*join_lines(x, exact), color=STYLE.colour(theme), linewidth=0.7, alpha=0.45, zorder=3, label="seeds")
        if compared and (column.task, BASE) in grid.runs:
            base = grid.exact(column.task, BASE).mean(0)
            ax.plot(x, base, "--", color=theme.muted, linewidth=1.2, zorder=2.6, label=BASE)
    return figure
