"""The numbers of the board: one ``Row`` per encoding with one ``Cell`` per task, and the tier of each row.

``rank_rows`` decides order and tiers, by the tests in ``significance``. Nothing here is formatted. Shapes: S runs, N lengths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Literal

import numpy as np
from jaxtyping import Float

from bench.result import RANKING_CLASSES, EncodingRecord, Result
from leaderboard.data.grid import LOCAL, Column, Grid, once_per_grid
from tasks import InputError

from . import bootstrap, significance
from . import scores as st

BASE = "nope"
"""The baseline: costs are relative to those of this encoding."""
ANCHOR = "rope"
"""The encoding that every row is compared with, in addition to the next row."""


@dataclass(frozen=True)
class Cell:
    """One encoding on one task. Numbers are None without a run."""

    column: Column
    runs: tuple[Result, ...]
    expected: tuple[int, ...]
    """Seeds of the suite."""
    failed: tuple[int, ...]
    """Seeds that failed and have no result."""
    exact: Float[np.ndarray, "S N"]
    """Exact match of each run at each test length."""
    cells: Float[np.ndarray, "S N"]
    """Score of each run at each test length: see ``scores.cell_scores``."""
    scores: Float[np.ndarray, " S"]
    """Score of each run, over all lengths l > L."""
    score: tuple[float, float | None] | None
    """Mean score over seeds and half-width of its interval, for which two runs say too little."""
    tokens: Float[np.ndarray, " S"]
    """Token accuracy of each run past L, averaged like its score; guessing taken out where its level is known."""
    nll: Float[np.ndarray, " S"]
    """Negative log-likelihood of an answer token past L, averaged alike; NaN where unknown."""
    in_distribution: float | None
    """Mean exact match over runs and test lengths l ≤ L."""
    reach: st.Reach | None

    @property
    def state(self) -> Literal["done", "failed", "missing"]:
        return "done" if self.runs else "failed" if self.failed else "missing"

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def absent(self) -> tuple[int, ...]:
        """Missing seeds: expected, without a result or a failure."""
        return tuple(s for s in self.expected if s not in self.seeds and s not in self.failed)

    @property
    def asked(self) -> int:
        """Number of seeds: expected, finished or failed."""
        return len({*self.expected, *self.seeds, *self.failed})

    @property
    def flagged(self) -> bool:
        return self.in_distribution is not None and not st.passes_gate(self.in_distribution)

    @property
    def by_length(self) -> Float[np.ndarray, " N"]:
        """Exact match at each test length, mean over seeds."""
        return self.exact.mean(0)


@dataclass(frozen=True)
class Versus:
    """Comparison of a row with another."""

    name: str
    """Name of the other row."""
    improvement: float
    """Probability that a run of the row scores above a run of the other."""
    interval: tuple[float, float] | None
    """Interval of ``improvement``; None if either has a single run on a task."""
    p: float
    """p of ``significance.separation_ps``, adjusted for all pairs of encodings on the board."""
    separated: Literal["above", "below"] | None
    """Position relative to the other row, if the test separates them."""


@dataclass(frozen=True)
class Row:
    """One encoding over all tasks. Means over tasks are None unless every task has a run."""

    name: str
    record: EncodingRecord | None
    """Record in its latest run; None without any run."""
    ranking: str
    cells: Mapping[str, Cell]
    iqm: float | None
    """Interquartile mean of the scores of all runs."""
    iqm_interval: tuple[float, float] | None
    """None also if a task has a single run, like every other interval."""
    score: float | None
    """Mean over tasks of the mean score over runs: what rows are ordered by, and what is tested."""
    interval: tuple[float, float] | None
    """Interval of ``score``."""
    reach: st.Reach | None
    """Geometric mean over tasks."""
    in_distribution: float | None
    """Mean over tasks."""
    parameters: tuple[int, int] | None
    """Parameters of the encoding alone: minimum and maximum over tasks (some tables grow with L or L′)."""
    step_time: float | None
    """Relative to NoPE: measured side by side if available, otherwise from the timings of the runs."""
    step_time_past: float | None
    """Step time relative to NoPE at the longest length measured; None if not measured."""
    memory: float | None
    """Peak memory of a training step past L relative to NoPE; None if not measured."""
    busy: bool
    """Whether all step times were taken while the machine was busy with something else."""
    tier: int | None = None
    """None where nothing could be tested: see ``significance.tiers``."""
    places: tuple[int, int] | None = None
    """The best and the worst place among the tested rows of its table that the tests leave open."""
    below: Versus | None = None
    """Comparison with the next tested row."""
    against: Versus | None = None
    """Comparison with ``ANCHOR``."""
    ps: Mapping[str, float] = field(default_factory=dict)
    """Name of each row that it was compared with, of any table → p, as in ``Versus``."""

    @property
    def scores(self) -> list[Float[np.ndarray, " S"]]:
        return [cell.scores for cell in self.cells.values()]

    @property
    def runs(self) -> list[Result]:
        return [run for cell in self.cells.values() for run in cell.runs]

    @property
    def flagged(self) -> bool:
        return any(cell.flagged for cell in self.cells.values())

    @property
    def second_hand(self) -> bool:
        return self.record is not None and self.record.source == "second-hand"

    @property
    def complete(self) -> bool:
        return self.score is not None


Classes = Mapping[str, Sequence[Row]]
"""Ranking class → its rows, as ``summarise`` returns them."""


def all_rows(classes: Classes) -> list[Row]:
    """Rows in the order of the tables."""
    return [row for rows in classes.values() for row in rows]


@once_per_grid
def summarise(grid: Grid) -> dict[str, list[Row]]:
    """Ranking class → its rows: the ranked ones in the order of ``sort_key``, then the incomplete ones by name.

    Raises:
        InputError: boards rank by none of the grid's tasks.
    """
    if not grid.columns:
        raise unranked(grid.name)
    rows = with_ps([summarise_encoding(grid, encoding) for encoding in grid.encodings])
    anchor = next((row for row in rows if row.name == ANCHOR), None)
    classes: dict[str, list[Row]] = {}
    for row in rows:
        classes.setdefault(row.ranking, []).append(row)
    order = [c for c in RANKING_CLASSES if c in classes] + sorted(set(classes) - {*RANKING_CLASSES})
    return {name: rank_rows(classes[name], anchor) for name in order}


def unranked(suite: str) -> InputError:
    return InputError(f"suite {suite} has no task that boards rank by; expected `lprime probe excess {suite}` or so")


def with_ps(rows: Sequence[Row]) -> list[Row]:
    """The rows with p of all pairs that can be tested: complete rows with several runs on every task.

    The pairs of all tables form one family, since each may be read off the board.
    """
    tested = [row for row in rows if row.interval]
    found: dict[str, dict[str, float]] = {row.name: {} for row in rows}
    for (a, b), p in zip(combinations(tested, 2), significance.separation_ps([r.scores for r in tested]), strict=True):
        found[a.name][b.name] = found[b.name][a.name] = p
    return [replace(row, ps=found[row.name]) for row in rows]


def sort_key(row: Row) -> tuple[float, str]:
    """Order of complete rows: by score as printed, best first; then by name."""
    assert row.score is not None
    return -round(row.score, st.DIGITS), row.name


def rank_rows(rows: Sequence[Row], anchor: Row | None) -> list[Row]:
    """The rows of one table in order, with their comparisons, and the tiers and places of those that were tested."""
    complete = sorted((r for r in rows if r.complete), key=sort_key)
    incomplete = sorted((r for r in rows if not r.complete), key=lambda r: r.name)
    tested = [row for row in complete if row.ps]  # single runs cannot be tested
    ahead = np.zeros((len(tested), len(tested)), bool)
    for (i, a), (j, b) in combinations(enumerate(tested), 2):
        ahead[i, j] = separation(a, b) == "above"
    order = zip(significance.tiers(ahead), significance.possible_places(ahead), strict=True)
    ranked = {row.name: replace(row, tier=tier, places=places) for row, (tier, places) in zip(tested, order, strict=True)}
    following = {row.name: after for row, after in pairwise(tested)}
    compared = [
        replace(
            ranked.get(row.name, row),
            below=versus(row, following[row.name]) if row.name in following else None,
            against=versus(row, anchor) if anchor else None,
        )
        for row in complete
    ]
    return compared + incomplete


def versus(a: Row, b: Row) -> Versus | None:
    """Comparison of two rows; None where they were not tested, as a row with itself."""
    if b.name not in a.ps:
        return None
    improvement = st.probability_of_improvement(a.scores, b.scores)
    interval = bootstrap.improvement_interval(a.scores, b.scores)
    return Versus(b.name, improvement, interval, a.ps[b.name], separation(a, b))


def separation(a: Row, b: Row) -> Literal["above", "below"] | None:
    """Position of a relative to b if the test separates them."""
    if a.score is None or b.score is None or a.ps.get(b.name, 1.0) > significance.ALPHA:
        return None
    return "above" if a.score > b.score else "below"


def summarise_encoding(grid: Grid, encoding: str) -> Row:
    cells = {column.task: summarise_cell(grid, column, encoding) for column in grid.columns}
    runs = [run for c in cells.values() for run in c.runs]
    latest = max(runs, key=lambda r: (r.finished, r.task, r.seed), default=None)
    parameters = [run.parameters.encoding for run in runs]
    complete = all(c.runs for c in cells.values())
    scores = [c.scores for c in cells.values()]
    # Times of different machines do not compare: local runs are measured against local runs of NoPE.
    base = BASE + LOCAL if encoding.endswith(LOCAL) else BASE
    cost = grid.costs.get(encoding)
    return Row(
        name=encoding,
        record=latest.encoding if latest else None,
        ranking=ranking_class(runs, latest),
        cells=cells,
        iqm=st.iqm(scores) if complete else None,
        iqm_interval=bootstrap.iqm_interval(scores) if complete else None,
        score=st.mean_score(scores) if complete else None,
        interval=bootstrap.mean_score_interval(scores) if complete else None,
        reach=st.mean_reach([c.reach for c in cells.values() if c.reach]) if complete else None,
        in_distribution=float(np.mean([c.in_distribution for c in cells.values()])) if complete else None,
        parameters=(min(parameters), max(parameters)) if parameters else None,
        step_time=cost.time if cost else st.relative_time(grid.step_times(encoding), grid.step_times(base)),
        step_time_past=cost.time_past if cost else None,
        memory=cost.memory if cost else None,
        busy=cost is not None and cost.busy,
    )


def ranking_class(runs: list[Result], latest: Result | None) -> str:
    """The declared class, except that an encoding that saw lengths past L in training is never ``standard``."""
    declared = latest.encoding.ranking if latest else "standard"
    saw_longer = any(run.longest_seen > run.train_length for run in runs)
    return "longer" if declared == "standard" and saw_longer else declared


def summarise_cell(grid: Grid, column: Column, encoding: str) -> Cell:
    runs, exact = grid.runs.get((column.task, encoding), ()), grid.exact(column.task, encoding)
    failed = tuple(seed for task, name, seed in grid.failures if (task, name) == (column.task, encoding))
    token, guessed, nll = (grid.recorded(column.task, encoding, name) for name in ("token", "token_chance", "nll"))
    at, chance, train_length = column.at, np.array(column.chance), column.train_length
    cells = st.cell_scores(exact, token, chance, guessed)
    scores = st.run_scores(at, cells, train_length)
    return Cell(
        column=column,
        runs=runs,
        expected=grid.seeds,
        failed=failed,
        exact=exact,
        cells=cells,
        scores=scores,
        score=(float(scores.mean()), st.mean_interval(scores)[1] if len(runs) > 2 else None) if runs else None,
        tokens=st.run_scores(at, st.without_guessing(token, np.nan_to_num(guessed)), train_length),
        nll=st.past_mean(at, nll, train_length),
        in_distribution=float(st.in_distribution(at, exact, train_length).mean()) if runs else None,
        reach=st.reach(at, exact, chance, train_length) if runs else None,
    )
