"""What the published board shows, read once: suites with results, costs, facts about encodings, findings."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from leaderboard.results import read_published
from leaderboard.results.cards import read_cards, relative_costs
from leaderboard.results.facts import fact
from leaderboard.results.store import published_suites
from leaderboard.stats.rows import LOCAL, Board, is_ranked
from tasks import InputError

MAIN = "small"
"""The suite of the front page."""
REFERENCES = ("kerple_log", "alibi", "nope", "t5", "rope", "sinusoidal")
LEADERS = 8


def build_board(runs: pd.DataFrame, folder: Path) -> Board:
    """The board of one suite's runs, with costs and facts."""
    suite = runs["suite"].iloc[0]
    costs = relative_costs(folder, suite)
    # Times of different machines do not compare: local encodings have no cost.
    board = Board(runs, costs[["step_time", "step_time_past", "memory"]] if len(costs) else None)
    board.rows["gloss"] = [fact(name.removesuffix(LOCAL), "gloss") for name in board.rows["encoding"]]
    return board


@dataclass
class Published:
    """The published board of a folder."""

    folder: Path
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = published_suites(self.folder)
        if not self.names:
            raise InputError(f"nothing is published under {self.folder}; `lprime publish SUITE` adds finished runs")

    @cached_property
    def boards(self) -> dict[str, Board]:
        """Suite → board, the main suite first; conditions of a suite, and suites that boards do not rank, are left out."""
        found = {}
        for name in sorted(self.names, key=lambda name: (name != MAIN, name)):
            if any(name.startswith(f"{other}-") for other in self.names if other != name):
                continue
            runs = read_published(self.folder, name)
            if len(runs) and any(is_ranked(task) for task in runs["task"].unique()):
                found[name] = build_board(runs, self.folder)
        return found

    @cached_property
    def main(self) -> Board:
        return next(iter(self.boards.values()))

    @cached_property
    def cards(self) -> dict:
        return read_cards(self.folder)


def leaders(board: Board, most: int = LEADERS) -> pd.DataFrame:
    """The rows of the main class that may be first (rank interval from 1), best score first; at most ``most``."""
    rows = board.rows[(board.rows["ranking"] == "standard") & board.rows["complete"]]
    first = rows[rows["rank_low"] == 1] if rows["rank_low"].notna().any() else rows
    return first.head(most)


def references(board: Board) -> pd.DataFrame:
    """Well-known encodings that are not among the leaders."""
    shown = set(leaders(board)["encoding"])
    return board.rows[board.rows["encoding"].isin(REFERENCES) & ~board.rows["encoding"].isin(shown) & board.rows["complete"]]
