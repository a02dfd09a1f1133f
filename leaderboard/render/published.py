"""What the published board shows, read once: suites with results, costs, facts about encodings, findings."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bench.findings.finding import OUTCOMES, Finding, Outcome, shipped_findings
from bench.findings.verdict import RULES, Judgement, verdict_of
from bench.result import read_records
from bench.suites.suite import Suite, load_suite
from leaderboard.results.facts import fact
from leaderboard.results.frame import nothing_published, published_suites, read_local, read_published, together
from leaderboard.results.store import relative_costs
from leaderboard.stats.rows import LOCAL, Board, is_ranked, newest_runs
from leaderboard.stats.transfer import compare, measured, of_runs
from tasks import InputError, unknown

if TYPE_CHECKING:
    from bench.encodings import Encoding

MAIN, TEXT, CORPORA = "small", "text", ("text", "text-python")
"""The suite of the front page, the suite of real text, and the suites that differ from it in the corpus alone."""
SIZES_OF_TEXT = (TEXT, "text-train_length-x2", "text-train_length-x4", "text-medium", "text-standard")
"""Suites that differ in training length or size alone."""
STATED = 1
"""The seed whose block has a suite's own training length and steps."""


def build_board(runs: pd.DataFrame, folder: Path | None) -> Board:
    """The board of one suite's runs, with published costs and with facts.

    Arguments:
        folder: the published board; None leaves costs out, since times of different machines do not compare.
    """
    board = Board(runs, relative_costs(folder, runs["suite"].iloc[0]) if folder else None)
    board.rows["gloss"] = [fact(name.removesuffix(LOCAL), "gloss") for name in board.rows["encoding"]]
    bits = text_bits(folder) if folder and board.suite == MAIN else {}  # of models of this size
    board.rows["text"] = board.rows["encoding"].map(bits).astype(float)
    return board


def text_bits(folder: Path) -> dict[str, float]:
    """Encoding that has all seeds and rates → bits per character of real text at the longest test length, their mean."""
    runs = read_published(folder, TEXT)
    if not len(runs):
        return {}
    every = newest_runs(runs)
    each = every["encoding"].value_counts()  # one run for each seed and learning rate
    chosen = every[every["chosen"] & every["encoding"].isin(each.index[each == each.max()])]
    return of_runs(chosen)["far"].groupby(chosen["encoding"]).mean().to_dict()


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
    runs = read_published(folder, suite)
    if not len(runs):
        raise unknown("published suite", suite, names) if (names := published_suites(folder)) else nothing_published(folder)
    if out is not None:
        local = read_local(out, suite)
        same = local["fingerprint"].isin(newest_runs(runs)["fingerprint"]) & local["seed"].isin(runs["seed"])
        if not same.all():
            print("lprime: your runs of another version or seed are left out; `lprime board` shows them", file=sys.stderr)
        local = local[same]
        runs = together(runs, local.assign(encoding=local["encoding"] + LOCAL))
    return build_board(runs, folder)


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
    def texts(self) -> Mapping[str, Board]:
        """Suite → board of every suite of real text: corpora, sizes and training lengths."""
        names = [name for name in published_suites(self.folder) if name == TEXT or name.startswith(f"{TEXT}-")]
        runs = ((name, read_published(self.folder, name)) for name in names)
        return {name: Board(one) for name, one in runs if len(one)}

    @cached_property
    def text_by_size(self) -> Mapping[str, pd.Series]:
        """Training length and width → bits of one run per encoding, see ``stated``."""
        suites = [load_suite(name) for name in SIZES_OF_TEXT if name in self.texts]
        titles = [f"L {suite.tasks[0].train_length}, width {suite.model.width}" for suite in suites]
        return {title: stated(self.texts[suite.name], suite) for title, suite in zip(titles, suites, strict=True)}

    @cached_property
    def on_text(self) -> Mapping[str, pd.DataFrame]:
        """Suite of real text → what was measured there, see ``measured``; the best encoding first."""
        return {name: measured(board) for name, board in self.texts.items()}

    @cached_property
    def compared(self) -> Mapping[str, dict[str, Any]]:
        """Suite of real text → how far the order of the main suite goes with it, see ``compare``."""
        main = next(iter(self.boards.values()))
        return {name: found for name, table in self.on_text.items() if (found := compare(main, table))}

    @cached_property
    def corpora(self) -> Sequence[str]:
        """Suites of the corpora that have run at all their learning rates, and can be compared."""
        rates = {name: {*self.texts[name].all_runs["learning_rate"]} for name in CORPORA if name in self.compared}
        return [name for name, own in rates.items() if {*load_suite(name).learning_rates} <= own]

    @cached_property
    def carried(self) -> Sequence[str]:
        """Tasks whose order carries over to every corpus that has run, by the rule of ``transfer``."""
        lows = [self.compared[name]["taus"]["low"].unstack()["rise"] for name in self.corpora]
        return [task for task in next(iter(self.boards.values())).tasks if lows and all(low[task] > 0 for low in lows)]

    @cached_property
    def sizes(self) -> Mapping[str, Board]:
        """Suite → board of the main suite and of the suites with the same tasks, lengths and scores; empty if it is alone."""
        main, *_ = self.boards.values()
        same = {name: board for name, board in self.boards.items() if tested(board) <= tested(main)}
        return same if len(same) > 1 else {}

    @cached_property
    def findings(self) -> Sequence[tuple[Finding, Judgement]]:
        """Findings with their verdicts, confirmed ones first; none without outcomes."""
        outcomes = read_records(self.folder / "results" / OUTCOMES, Outcome)
        judged = [(finding, verdict_of(finding, outcomes.get(finding.name))) for finding in shipped_findings()]
        return sorted(judged, key=lambda pair: RULES.index(pair[1].verdict)) if outcomes else []


def tested(board: Board) -> set[tuple]:
    """What is trained and tested, and how it is scored, whatever the size of the model."""
    columns = board.runs[["task", "variant", "train_length", "score_is"]]
    return set(columns.itertuples(index=False, name=None))


def stated(board: Board, suite: Suite) -> pd.Series:
    """Encoding and measure → bits per character, at the suite's own training length, steps and learning rate.

    Measures: ``half`` and ``near``, with L/2 and L characters in view; ``rise 2`` and ``rise 8``, bits at 2 L and 8 L minus
    bits at L.
    """
    runs = board.all_runs[(board.all_runs["seed"] == STATED) & (board.all_runs["learning_rate"] == suite.recipe.learning_rate)]
    columns = zip(runs["encoding"], runs["length"], runs["train_length"], runs["nll"], strict=True)
    bits = {name: dict(zip(np.divide(at, own), np.divide(loss, np.log(2)), strict=True)) for name, at, own, loss in columns}
    found = pd.DataFrame.from_dict(bits, "index").reindex(columns=[0.5, 1, 2, 8])
    rises = found[[2, 8]].sub(found[1], axis=0)
    return found[[0.5, 1]].join(rises).set_axis(["half", "near", "rise 2", "rise 8"], axis=1).stack()


def built_in(name: str) -> "type[Encoding] | None":
    """The class of a built-in encoding; None of others, whose code is not run here."""
    from bench.plugins.registry import get_encoding, is_built_in  # loads torch

    return get_encoding(name) if is_built_in(name) else None
