"""What the board shows of one encoding on one task: OOD accuracy, score, in-distribution accuracy and reach.

Each ``TaskMetric`` is defined once, with title, explanation, text and sort key, and used by every table that shows it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from leaderboard.format import ABSENT, FLAG, share, times
from leaderboard.stats import scores as st
from leaderboard.stats.summary import Cell, Row


@dataclass(frozen=True)
class TaskMetric:
    """A number of one encoding on one task."""

    title: str
    hint: str
    of_runs: Callable[[Cell, Row], str]
    """The text of a cell with runs."""
    value: Callable[[Cell], float | None]
    """Value in 0 … 1, to sort and colour by; None where there is no run."""
    short: str = ""
    """Title for narrow tables, where it differs."""

    def text(self, cell: Cell, row: Row) -> str:
        return self.of_runs(cell, row) if cell.runs else cell.state


def flagged(value: float | None, failed_gate: bool) -> str:
    """``.979 ⚑``: in-distribution accuracy, marked if it is under the gate."""
    return share_or_absent(value) + (f" {FLAG}" if failed_gate else "")


def share_or_absent(value: float | None) -> str:
    return ABSENT if value is None else share(value)


def with_interval(value: float | None, interval: tuple[float, float] | None) -> str:
    """``.423 [.392, .455]``, or the number alone where there is no interval."""
    return share_or_absent(value) + (f" [{share(interval[0])}, {share(interval[1])}]" if interval else "")


def ood_accuracy(cell: Cell, row: Row) -> str:
    """``.423 ± .051``, followed by `` (2 of 5 seeds)`` where runs are missing."""
    assert cell.ood is not None
    mean, half_width = cell.ood
    text = share(mean) + (f" ± {share(half_width)}" if half_width is not None else "")
    # Where all cells of a row lack the same number of seeds, the row's column of seeds says so once.
    alike = len({(len(c.runs), c.asked, len(c.failed)) for c in row.cells.values()}) == 1 and not cell.failed
    if alike or len(cell.runs) == cell.asked:
        return text
    failed = f", {len(cell.failed)} failed" if cell.failed else ""
    return f"{text} ({len(cell.runs)} of {cell.asked} seeds{failed})"


def reach_text(cell: Cell, row: Row | None = None) -> str:
    """``15 (1.5 L)``; ``≥ 50 (5 L)`` where no longer length was tested; ``0`` where the shortest length fails."""
    if not cell.reach:
        return cell.state if cell.reach is None else "0"
    censored = "≥ " if cell.reach == cell.column.lengths[-1] else ""
    return f"{censored}{cell.reach} ({times(cell.reach / cell.column.train_length)} L)"


OOD = TaskMetric(
    "OOD accuracy",
    "Out-of-distribution: exact match averaged over test lengths l > L, mean over seeds",
    ood_accuracy,
    lambda cell: cell.ood and cell.ood[0],
    short="l > L",
)
OOD_SCORE = TaskMetric(
    "OOD score",
    "Chance-corrected exact match at l > L: 0 is guessing, 1 is perfect; mean over seeds",
    lambda cell, row: share(float(cell.scores.mean())),
    lambda cell: float(cell.scores.mean()) if cell.runs else None,
)
IN_DISTRIBUTION = TaskMetric(
    "in-distribution",
    "Exact match averaged over test lengths l ≤ L, mean over seeds",
    lambda cell, row: flagged(cell.in_distribution, cell.flagged),
    lambda cell: cell.in_distribution,
    short="l ≤ L",
)
REACH = TaskMetric(
    "reach",
    f"the longest tested length up to which exact match, averaged over seeds, never falls below {st.REACH:g}; ≥ if that is the "
    "longest length tested, 0 if even the shortest fails",
    reach_text,
    lambda cell: None if cell.reach is None else cell.reach / cell.column.lengths[-1],
)
"""The board's definition of reach; computed by ``stats.scores.reach``."""
