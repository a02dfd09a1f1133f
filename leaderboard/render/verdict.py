"""The answer of a board in few words: who leads, who is clearly behind, and what to start with."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from leaderboard.stats.rows import Board

from .columns import limit

REFERENCES = ("kerple_log", "alibi", "nope", "t5", "rope", "sinusoidal")
"""Well-known encodings, next to the leaders in the picture of the front page."""
LEADERS, NAMED = 8, 3
"""Most leaders in the picture, and most names in a sentence or a cell."""
CLOSE = 0.03
"""Scores on one task that differ by less are alike."""
SHORT = 1.5
"""Length limit, in multiples of L, under which nobody works beyond the training length."""


class Verdict(NamedTuple):
    """What the template of the verdict says."""

    best: Sequence[str]
    """First encodings by score."""
    open: int
    """Encodings that may be first; 0 if the runs are too few to say."""
    behind: Sequence[str]
    """Well-known encodings that are significantly worse than the best one."""
    one_rate: bool
    """Whether the suite has a single learning rate."""


class Start(NamedTuple):
    """What to start with where a task matters: a row of the table of the front page."""

    task: str
    names: Sequence[str]
    """Encodings whose score is close to the best; none if no encoding works beyond the training length."""
    limit: str
    """Length limit of the best encoding."""


def main_rows(board: Board) -> pd.DataFrame:
    """Complete rows of the main class, best score first."""
    return board.rows[(board.rows["ranking"] == "standard") & board.rows["complete"]]


def leaders(board: Board, most: int = LEADERS) -> pd.DataFrame:
    """The rows of the main class that may be first (rank interval from 1), best score first; at most ``most``."""
    rows = main_rows(board)
    return (rows[rows["rank_low"] == 1] if rows["rank_low"].notna().any() else rows).head(most)


def references(board: Board) -> pd.DataFrame:
    """Well-known encodings that are not among the leaders."""
    rows = main_rows(board)
    return rows[rows["encoding"].isin(REFERENCES) & ~rows["encoding"].isin(leaders(board)["encoding"])]


def verdict(board: Board) -> Verdict:
    rows = main_rows(board)
    behind = rows[(rows["rank_low"] > 1) & rows["encoding"].isin(REFERENCES)]
    return Verdict(
        best=list(rows["encoding"].head(2)),
        open=int((rows["rank_low"] == 1).sum()),
        behind=list(behind.iloc[::-1]["encoding"].head(NAMED)),
        one_rate=bool(board.all_runs["learning_rate"].isna().all()),
    )


def starts(board: Board) -> list[Start]:
    """For each task, what to start with: encodings of the main class whose score on it is close to the best."""
    every, found = main_rows(board), []
    for task in board.tasks:
        learned = every[[task not in failed.split(", ") for failed in every["fails_within"]]]
        if len(learned):
            best = learned.loc[learned[f"score.{task}"].idxmax()]
            close = learned[learned[f"score.{task}"] >= best[f"score.{task}"] - CLOSE]
            works = best[f"limit.{task}"] >= SHORT
            found.append(Start(task, list(close["encoding"].head(NAMED)) if works else [], limit(best, task)))
    return found
