"""What the published board shows, read once: suites with results, costs, facts about encodings, findings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from leaderboard.results import read_local, read_published, together
from leaderboard.results.cards import read_cards, relative_costs
from leaderboard.results.chosen import nothing_published
from leaderboard.results.facts import fact
from leaderboard.results.store import published_suites
from leaderboard.stats.rows import LOCAL, Board, is_ranked
from tasks import InputError, unknown

MAIN = "small"
"""The suite of the front page."""


def build_board(runs: pd.DataFrame, folder: Path | None) -> Board:
    """The board of one suite's runs, with published costs and with facts.

    Arguments:
        folder: the published board; None leaves costs out, since times of different machines do not compare.
    """
    costs = relative_costs(folder, runs["suite"].iloc[0]) if folder else pd.DataFrame()
    board = Board(runs, costs[["step_time", "step_time_past", "memory"]] if len(costs) else None)
    board.rows["gloss"] = [fact(name.removesuffix(LOCAL), "gloss") for name in board.rows["encoding"]]
    return board


def local_board(suite: str, out: Path) -> Board:
    """The board of your own runs.

    Raises:
        InputError: there are none.
    """
    runs = read_local(out, suite)
    if not len(runs):
        raise InputError(f"no results of suite {suite} under {out / suite}; run `lprime run {suite}` first, or use --published")
    return build_board(runs, None)


def joint_board(suite: str, out: Path | None, folder: Path) -> Board:
    """The published board with your own runs of the suite, if any, marked as local.

    Arguments:
        out: folder of your runs; None leaves them out.

    Raises:
        InputError: nothing of the suite is published.
    """
    published = read_published(folder, suite)
    if not len(published):
        raise unknown("published suite", suite, names) if (names := published_suites(folder)) else nothing_published(folder)
    if out is None or not len(local := read_local(out, suite)):
        return build_board(published, folder)
    local["encoding"] += LOCAL
    return build_board(together(published, local), folder)


@dataclass
class Published:
    """The published board of a folder."""

    folder: Path

    @cached_property
    def boards(self) -> Mapping[str, Board]:
        """Suite → board, the main suite first; conditions of a suite, and suites that boards do not rank, are left out.

        Raises:
            InputError: there are none.
        """
        found, names = {}, published_suites(self.folder)
        for name in sorted(names, key=lambda name: (name != MAIN, name)):
            if any(name.startswith(f"{other}-") for other in names):
                continue
            runs = read_published(self.folder, name)
            if len(runs) and any(is_ranked(task) for task in runs["task"].unique()):
                found[name] = build_board(runs, self.folder)
        if not found:
            raise nothing_published(self.folder)
        return found

    @cached_property
    def cards(self) -> Mapping:
        return read_cards(self.folder)

    @cached_property
    def findings(self) -> Sequence[Mapping[str, str]]:
        """Published findings with their verdicts, as the columns of the page of findings."""
        from bench.findings.finding import shipped_findings
        from bench.findings.outcome import published_outcomes, read_outcomes
        from bench.findings.verdict import RULES, verdict_of

        outcomes = read_outcomes(published_outcomes(self.folder))
        order, rows = [*RULES], list[dict[str, Any]]()
        for finding in shipped_findings() if outcomes else ():
            judged = verdict_of(finding, outcomes.get(finding.name))
            rows.append(
                {
                    "claim": finding.claim,
                    "paper": finding.source.paper.split(",")[0],
                    "link": finding.source.link,
                    "setting": finding.source.setting,
                    "verdict": judged.verdict,
                    "numbers": [(part.text, part.published, part.estimate, part.half_width) for part in judged.parts],
                    "why": judged.why or finding.objection,
                    "file": finding.name,
                }
            )
        return sorted(rows, key=lambda row: order.index(row["verdict"]) if row["verdict"] in order else len(order))
