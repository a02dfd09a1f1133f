"""The answer of a board in few words: who leads, who is clearly behind, and what to start with."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

import tasks
from bench.suites.suite import load_suite, shipped
from leaderboard.results.facts import fact
from leaderboard.stats.ranks import ALPHA
from leaderboard.stats.rows import Board
from tasks import plural

from .columns import DASH, limit, number, span

REFERENCES = ("kerple_log", "alibi", "nope", "t5", "rope", "sinusoidal")
"""Well-known encodings, next to the leaders in the picture of the front page."""
LEADERS, NAMED = 8, 3
"""Most leaders in the picture, and most names in a sentence or a cell."""
CLOSE = 0.03
"""Scores on one task that differ by less are alike."""
CHEAP = 1.2
"""Step time over NoPE's up to which an encoding is not costly."""
CLOSE_BITS = 0.05
"""Bits per character that differ by less are alike."""
SHORT = 1.5
"""Length limit, in multiples of L, under which nobody works beyond the training length."""
CONFIRMED = "source != 'second-hand'"  # what no public source confirms is not recommended
NEEDS = {
    "copying": "Exact copying",
    "addition": "Arithmetic (addition)",
    "parity": "State (parity)",
    "key_retrieval": "Key retrieval",
    "sorting": "Global order (sorting)",
}
"""Task → what a reader needs it for; others go by their titles."""


class Verdict(NamedTuple):
    """What the template of the verdict says."""

    best: Sequence[str]
    """The first encoding by score, and the second if several may be first."""
    open: int
    """Encodings that may be first; 0 if the runs are too few to say."""
    behind: Sequence[str]
    """Well-known encodings that are significantly worse than another one."""
    on_text: Sequence[str]
    """Encodings that do best on real text; none if it is not known."""
    weak_on_text: Sequence[str]
    """Those of ``best`` that do worse than the median encoding there."""
    rates: tuple[int, int]
    """How many learning rates have run, and how many the suite has."""


class Need(NamedTuple):
    """What to start with for a need: a row of the table of the front page."""

    task: str
    """Empty for a need that is no task."""
    need: str
    names: Sequence[str]
    """Encodings whose score is close to the best; none if no encoding works beyond the training length."""
    cost: str
    """See ``times``."""
    note: str


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
    tested, behind = rows[rows["rank_low"].notna()], rows[(rows["rank_low"] > 1) & rows["encoding"].isin(REFERENCES)]
    possible = int((tested["rank_low"] == 1).sum()) * (len(tested) > 1)
    best = (tested if possible else rows).head(2 if possible > 1 else 1)
    return Verdict(
        best=list(best["encoding"]),
        open=possible,
        behind=list(behind.iloc[::-1]["encoding"].head(NAMED)),
        on_text=list(best_on_text(rows.query(CONFIRMED))["encoding"]),
        weak_on_text=list(best[best["text"] > rows["text"].median()]["encoding"]),
        rates=(len(board.rates), len(load_suite(board.suite).learning_rates) if board.suite in shipped() else 0),
    )


def significant_pairs(board: Board, first: pd.DataFrame, second: pd.DataFrame | None = None) -> tuple[int, int]:
    """How many pairs are significantly different, and how many there are: within a group, or between two."""
    ps = board.ps[np.ix_(first.index, (first if second is None else second).index)]
    ps = ps[np.triu_indices(len(first), 1)] if second is None else ps.ravel()
    return int((ps <= ALPHA).sum()), int(ps.size)


def needs(board: Board) -> list[Need]:
    """What to start with: for each task, for real text, and for a RoPE model that is trained already."""
    every, found = main_rows(board).query(CONFIRMED), []
    for task in board.tasks:
        learned = every[[task not in failed.split(", ") for failed in every["fails_within"]]]
        if not len(learned):
            continue
        far = learned.loc[learned[f"limit.{task}"].idxmax()]
        need, farthest = NEEDS.get(task, tasks.title(task)), limit(far, task).removeprefix("≥").removesuffix(".0")
        reached = int(learned[f"limit_mark.{task}"].eq("≥").sum())
        note = f"the best is half right up to {farthest} L"
        if reached:
            note = f"tested to {farthest} L only; {plural(reached, 'encoding')} still half right there"
        if not reached and far[f"limit.{task}"] < SHORT:
            chosen = board.rows[(board.rows["ranking"] == "task-aware") & (board.rows[f"limit.{task}"] >= SHORT)]
            chosen = chosen.sort_values(f"score.{task}", ascending=False).head(NAMED)
            note = f"none is half right beyond {farthest} L{', unless told what tokens mean' if len(chosen) else ''}"
        else:
            chosen = cheap_first(learned[learned[f"score.{task}"] >= learned[f"score.{task}"].max() - CLOSE])
        found.append(Need(task, need, list(chosen["encoding"]), times(chosen), note))
    if len(close := best_on_text(every)):
        bits, median = span(close["text"].min(), close["text"].max()), number(every["text"].median())
        note = f"{bits} bits a character at the longest length; median {median}"
        found.append(Need("", "Real text", list(close["encoding"]), times(close), note))
    rows = board.rows[board.rows["complete"]].sort_values("score", ascending=False, kind="stable")
    extended = rows[[fact(name, "checkpoint") == "RoPE checkpoint" for name in rows["encoding"]]].head(2)
    if len(extended) and len(rope := rows[rows["encoding"] == "rope"]["score"]):
        failed = extended["fails_within"].iloc[0].split(", ")
        fails = f"; fails {plural(len(failed), 'task')} within L" if failed[0] else ""
        note = f"score {number(extended['score'].iloc[0])} in place of rope's {number(rope.iloc[0])}{fails}"
        found.append(Need("", "An existing RoPE model", list(extended["encoding"]), times(extended), note))
    return found


def best_on_text(rows: pd.DataFrame) -> pd.DataFrame:
    """Encodings whose loss on real text is close to the lowest; none if it is not known."""
    rows = rows[rows["text"].notna()].sort_values("text")
    return cheap_first(rows[rows["text"] <= rows["text"].min() + CLOSE_BITS])


def cheap_first(rows: pd.DataFrame) -> pd.DataFrame:
    """At most ``NAMED``, in their order but for costly ones, which come last."""
    return rows.loc[(rows["step_time"] > CHEAP).sort_values(kind="stable").index].head(NAMED)


def times(rows: pd.DataFrame) -> str:
    """``1.00, 1.78×``: step times over NoPE's, one a row; a dash where one is unknown."""
    return f"{', '.join(map(number, rows['step_time']))}×" if rows["step_time"].notna().any() else DASH
