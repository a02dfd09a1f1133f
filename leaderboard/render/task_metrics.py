"""What the board shows of one encoding on one task: score, accuracy at l ≤ L and reach.

Each ``TaskMetric`` is defined once, with title, explanation, text and sort key, and used by every table that shows it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leaderboard.data.grid import Column
from leaderboard.format import ABSENT, FLAG, reach_text, share
from leaderboard.stats import scores as st
from leaderboard.stats.rows import Cell, Row

CELL_TEXT = "the mean of exact match and token accuracy, each with guessing taken out"
"""What a cell scores."""
SCORE_TEXT = f"{CELL_TEXT[0].upper()}{CELL_TEXT[1:]}, averaged over lengths l > L with equal weight per octave"


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
    """``.979 ⚑``: accuracy at l ≤ L, marked if it is under the gate."""
    return share_or_absent(value) + (f" {FLAG}" if failed_gate else "")


def share_or_absent(value: float | None) -> str:
    return ABSENT if value is None else share(value)


def with_interval(value: float | None, interval: tuple[float, float] | None) -> str:
    """``.423 [.392, .455]``, or the number alone where there is no interval."""
    return share_or_absent(value) + (f" [{share(interval[0])}, {share(interval[1])}]" if interval else "")


def task_score(cell: Cell, row: Row) -> str:
    """``.423 ± .051``, followed by `` (2 of 5 seeds)`` where runs are missing."""
    assert cell.score is not None
    mean, half_width = cell.score
    text = share(mean) + (f" ± {share(half_width)}" if half_width is not None else "")
    # Where all cells of a row lack the same number of seeds, the row's column of seeds says so once.
    alike = len({(len(c.runs), c.asked, len(c.failed)) for c in row.cells.values()}) == 1 and not cell.failed
    if alike or len(cell.runs) == cell.asked:
        return text
    failed = f", {len(cell.failed)} failed" if cell.failed else ""
    return f"{text} ({len(cell.runs)} of {cell.asked} seeds{failed})"


SCORE = TaskMetric(
    "score",
    f"{SCORE_TEXT}: 0 is guessing, 1 is perfect; mean over seeds",
    task_score,
    lambda cell: cell.score and cell.score[0],
)
IN_DISTRIBUTION = TaskMetric(
    "l ≤ L",
    "Exact match averaged over test lengths l ≤ L, mean over seeds",
    lambda cell, row: flagged(cell.in_distribution, cell.flagged),
    lambda cell: cell.in_distribution,
)
REACH_MEANING = (
    "the length, in multiples of L, at which exact match (guessing taken out, mean over seeds) first falls under "
    f"{st.REACH:g}, interpolated in log l between test lengths"
)
REACH = TaskMetric(
    "reach",
    f"{REACH_MEANING}; ≥: the test ends first; <: under it at the shortest length already",
    lambda cell, row: reach_text(cell.reach) if cell.reach else ABSENT,
    lambda cell: position(cell.column, cell.reach.at) if cell.reach else None,
)
"""Computed by ``stats.scores.reach``."""


def position(column: Column, multiple: float) -> float:
    """A multiple of L on a logarithmic scale from the shortest test length, 0, to the longest, 1."""
    ends = np.log(column.at[[0, -1]] / column.train_length)
    return float((np.log(multiple) - ends[0]) / (ends[1] - ends[0]))


TOKENS = TaskMetric(
    "token accuracy",
    "Token accuracy at l > L, averaged like the score, with guessing taken out where its level is known; mean over seeds",
    lambda cell, row: share(float(cell.tokens.mean())),
    lambda cell: float(cell.tokens.mean()) if cell.runs else None,
    short="tokens",
)
NLL = TaskMetric(
    "negative log-likelihood",
    "Mean negative log-likelihood of an answer token at l > L in nats, averaged like the score; mean over seeds; "
    f"{ABSENT} if a run has none, as one that diverged",
    lambda cell, row: f"{cell.nll.mean():.2f}" if len(cell.nll) and np.isfinite(cell.nll).all() else ABSENT,
    lambda cell: None,
    short="nats",
)
