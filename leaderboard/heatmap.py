"""Encodings by tasks, as numbers on colour: how well each does past L, and how far it carries."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .beside import broken
from .curves import task_title
from .grid import Grid
from .labels import folded
from .markdown import share, times
from .plot import LINE, MARGIN, NORMAL, POINT, SMALL, WIDTH, Page, footer_height, label
from .statistics import GATE, REACH
from .summary import Cell, Row
from .tables import ABSENT
from .theme import Theme, ink

HEADINGS = {"longer": "Saw longer lengths in training", "task-aware": "Task-aware: knows what the tokens mean"}
HEIGHT = 0.195
"""Inches of a row."""
APART = 0.34
"""Inches before another ranking class, with its heading."""
NAMES = 2.35
"""Inches for rank and name."""
GAP = 0.18
"""Inches between the two blocks."""
CORNER = 0.075
"""Inches of the corner that marks a failed gate."""
FEWER = "*"
"""Behind a number from fewer seeds than asked for."""


def picture(grid: Grid, classes: Mapping[str, Sequence[Row]], theme: Theme) -> Page:
    """Rows in the order of the board, classes apart; left the chance-corrected score past L, right the reach."""
    columns = len(grid.columns)
    width = (WIDTH - 2 * MARGIN - NAMES - GAP) / (2 * columns + 2)
    left = MARGIN + NAMES
    second = left + (columns + 2) * width + GAP
    titles = [folded(task_title(c).split(" (")[0], (width - 0.04) / POINT, SMALL) for c in grid.columns]
    notes = explained(classes)
    heading = "Score past L and reach, encodings by tasks"
    top = Page(1, theme).heading(heading) + 2 * LINE * SMALL * POINT + 0.3
    height = sum(len(rows) * HEIGHT + (i > 0) * APART for i, rows in enumerate(classes.values()))
    page = Page(top + height + 0.08 + footer_height(notes), theme)
    page.heading(heading)
    page.text(left, top - 0.57, "Score past L: 0 is guessing, 1 is perfect", NORMAL, fontweight="bold")
    page.text(second, top - 0.57, f"Reach, in L: exact match ≥ {REACH:g} up to there", NORMAL, fontweight="bold")
    starts = [left + i * width for i in range(columns + 2)], [second + i * width for i in range(columns)]
    for start, title in zip([*starts[0], *starts[1]], [["IQM"], ["mean"], *titles, *titles], strict=True):
        text: dict[str, Any] = {"ha": "center", "va": "bottom", "color": theme.muted}
        page.text(start + width / 2, top - 0.04, "\n".join(title), SMALL, **text)
    board = Board(page, width)
    for i, (name, rows) in enumerate(classes.items()):
        if i:
            top += APART
            page.text(MARGIN, top - 0.17, HEADINGS.get(name) or label(name), NORMAL, fontweight="bold")
        for row in rows:
            board.name(row, top)
            board.overall(row.iqm, row.iqm_interval, starts[0][0], top)
            board.overall(row.score, row.interval, starts[0][1], top)
            for column, one, other in zip(grid.columns, starts[0][2:], starts[1], strict=True):
                board.score(row.cells[column.task], one, top)
                board.reach(row.cells[column.task], other, top)
            top += HEIGHT
    board.finish()
    page.footer(notes, top + 0.08)
    return page


class Board:
    """Cells collected, then drawn at once."""

    def __init__(self, page: Page, width: float) -> None:
        self.page, self.width = page, width
        self.boxes: list[tuple[float, float, float, float]] = []
        self.colours: list[str] = []
        self.ticks: dict[str, list[tuple[float, float, float, float]]] = {}
        """Colour → pieces of line, x, y, x, y."""

    def name(self, row: Row, top: float) -> None:
        style: dict[str, Any] = {"va": "middle"}
        rank = str(row.rank) if row.rank else ABSENT
        self.page.text(MARGIN + 0.22, top + HEIGHT / 2 - 0.01, rank, SMALL, ha="right", color=self.page.theme.muted, **style)
        (text, *more) = folded(row.name, (NAMES - 0.36) / POINT, SMALL)
        self.page.text(MARGIN + 0.3, top + HEIGHT / 2 - 0.01, text + "".join(more), SMALL, **style)

    def overall(self, value: float | None, interval: tuple[float, float] | None, left: float, top: float) -> None:
        """A number over all tasks, with its interval as a line along the bottom of the cell."""
        if value is None:
            self.empty("incomplete", left, top)
            return
        self.fill(value, share(value), left, top, bold=True)
        if interval:
            low, high = (self.across(left, end) for end in interval)
            self.tick(value, low, top + HEIGHT - 0.032, high, top + HEIGHT - 0.032)

    def score(self, cell: Cell, left: float, top: float) -> None:
        """Mean over seeds, with each seed as a tick along the bottom of the cell, and a corner where the gate is failed."""
        if not cell.runs:
            self.empty(cell.state, left, top)
            return
        mean = float(cell.scores.mean())
        self.fill(mean, share(mean) + FEWER * (len(cell.runs) < cell.asked), left, top)
        if len(cell.scores) > 1:
            for value in np.unique(cell.scores):
                x = self.across(left, float(value))
                self.tick(mean, x, top + HEIGHT - 0.045, x, top + HEIGHT - 0.008)
        self.corner(cell, left, top)

    def reach(self, cell: Cell, left: float, top: float) -> None:
        """As a multiple of L; on the colours of the scores, from L to the longest length on a logarithmic scale."""
        if cell.reach is None:
            self.empty(cell.state, left, top)
            return
        lengths, base = cell.column.lengths, cell.column.train_length
        text = times(cell.reach / base) if cell.reach else "0"
        value = max(0.0, math.log(max(cell.reach, base) / base) / math.log(lengths[-1] / base))
        self.fill(value, f"≥ {text}" if cell.reach == lengths[-1] else text, left, top)
        self.corner(cell, left, top)

    def across(self, left: float, value: float) -> float:
        """Where a score stands on the bottom of a cell."""
        return left + 0.03 + value * (self.width - 0.08)

    def fill(self, value: float, text: str, left: float, top: float, bold: bool = False) -> None:
        self.boxes.append((left, top, left + self.width - 0.02, top + HEIGHT - 0.02))
        self.colours.append(self.page.theme.heat_at(value))
        style: dict[str, Any] = {"fontweight": "bold"} if bold else {}
        colour = ink(self.page.theme.heat_at(value))
        place = left + self.width / 2 - 0.01, top + HEIGHT / 2 - 0.02
        self.page.text(*place, text, SMALL, ha="center", va="middle", color=colour, **style)

    def empty(self, text: str, left: float, top: float) -> None:
        place = left + self.width / 2 - 0.01, top + HEIGHT / 2
        self.page.text(*place, text, 6, ha="center", va="middle", color=self.page.theme.muted)

    def tick(self, value: float, *ends: float) -> None:
        """A piece of line on the colour of this value."""
        x, y, to_x, to_y = ends
        self.ticks.setdefault(ink(self.page.theme.heat_at(value)), []).append((x, y, to_x, to_y))

    def corner(self, cell: Cell, left: float, top: float) -> None:
        if cell.flagged:
            right = left + self.width - 0.02
            corners = np.array([[right - CORNER, top], [right, top], [right, top + CORNER]])
            self.page.area(corners, self.page.theme.flag, zorder=2, gid="gate")

    def finish(self) -> None:
        self.page.cells(np.array(self.boxes).reshape(-1, 4), self.colours)
        for colour, pieces in sorted(self.ticks.items()):
            ends = np.array(pieces)
            self.page.line(*broken(ends[:, 0::2], ends[:, 1::2]), colour, 0.8, zorder=2, alpha=0.75, gid="seeds")


def explained(classes: Mapping[str, Sequence[Row]]) -> list[str]:
    """How to read the cells."""
    cells = [cell for rows in classes.values() for row in rows for cell in row.cells.values()]
    parts = ["Score: chance-corrected exact match at l > L, mean over seeds; IQM and mean over all runs and tasks"]
    if any(len(cell.runs) > 1 for cell in cells):
        parts.append("ticks along the bottom of a cell: its seeds, from 0 at the left to 1 at the right; lines: 95 % intervals")
    parts.append(
        "reach: longest tested length up to which exact match, mean over seeds, stays there; ≥: nothing longer was tested"
    )
    if any(cell.flagged for cell in cells):
        parts.append(f"red corner: under {share(GATE)} in distribution, so the task was not learned where it was trained")
    if any(cell.runs and len(cell.runs) < cell.asked for cell in cells):
        parts.append(f"{FEWER}: fewer seeds than asked for")
    return [". ".join(part[0].upper() + part[1:] for part in parts) + "."]
