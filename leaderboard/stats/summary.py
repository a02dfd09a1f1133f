"""The numbers of the board: one ``Row`` per encoding with one ``Cell`` per task, and the rank of each row.

``rank_rows`` decides ranks; the tests behind them are in ``significance``. Nothing here is formatted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Float

from bench.result import RANKING_CLASSES, EncodingRecord, Result
from leaderboard.data.grid import LOCAL, Column, Grid

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
    scores: Float[np.ndarray, " S"]
    """Chance-corrected OOD score of each run."""
    ood: tuple[float, float | None] | None
    """OOD exact match: mean over seeds and half-width of its interval."""
    in_distribution: float | None
    reach: int | None

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
    """p of the permutation test, with Holm's correction over all pairs of the table."""
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
    """Mean over tasks of the mean score over runs."""
    interval: tuple[float, float] | None
    """Interval of ``score``."""
    gap: float | None
    """Optimality gap."""
    in_distribution: float | None
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
    rank: int | None = None
    places: tuple[int, int] | None = None
    """Rank range: the best and the worst place in its table compatible with the tests."""
    below: Versus | None = None
    """Comparison with the next row."""
    against: Versus | None = None
    """Comparison with ``ANCHOR``."""
    ps: Mapping[str, float] = field(default_factory=dict)
    """Name of each row it was compared with → p, as in ``Versus``."""

    @property
    def scores(self) -> list[Float[np.ndarray, " S"]]:
        return [cell.scores for cell in self.cells.values()]

    @property
    def flagged(self) -> bool:
        return any(cell.flagged for cell in self.cells.values())

    @property
    def complete(self) -> bool:
        return self.score is not None


def summarise(grid: Grid) -> dict[str, list[Row]]:
    """Ranking class → its rows: the ranked ones in the order of ``sort_key``, then the incomplete ones by name."""
    rows = [summarise_encoding(grid, encoding) for encoding in grid.encodings]
    anchor = next((row for row in rows if row.name == ANCHOR and row.complete), None)
    classes: dict[str, list[Row]] = {}
    for row in rows:
        classes.setdefault(row.ranking, []).append(row)
    order = [c for c in RANKING_CLASSES if c in classes] + sorted(set(classes) - {*RANKING_CLASSES})
    return {name: rank_rows(classes[name], anchor) for name in order}


def sort_key(row: Row) -> tuple[float, float, str]:
    """Order of complete rows: by IQM, then by mean, both as printed and best first; then by name."""
    assert row.iqm is not None and row.score is not None
    return -round(row.iqm, st.DIGITS), -round(row.score, st.DIGITS), row.name


def rank_rows(rows: Sequence[Row], anchor: Row | None) -> list[Row]:
    """The rows of one table in order, with ranks and comparisons."""
    complete = sorted((r for r in rows if r.complete), key=sort_key)
    others = [anchor] if anchor and all(anchor is not r for r in complete) else []
    if sum(r.iqm_interval is not None for r in [*complete, *others]) >= 2:
        complete = rank_by_tests(complete, anchor, others)
    else:  # single runs cannot be tested
        ranks = st.competition_ranks([r.iqm or 0.0 for r in complete], [r.score or 0.0 for r in complete])
        complete = [replace(r, rank=rank) for r, rank in zip(complete, ranks, strict=True)]
    return complete + sorted((r for r in rows if not r.complete), key=lambda r: r.name)


def rank_by_tests(rows: Sequence[Row], anchor: Row | None, others: Sequence[Row]) -> list[Row]:
    """Sorted, complete rows with ranks that differ only where a test separates rows.

    Arguments:
        others: rows of other tables to compare each row with. All pairs form one family for Holm's correction, because every
            pair affects the ranks.
    """
    pairs = [*combinations(rows, 2), *((r, other) for r in rows for other in others)]
    adjusted = significance.holm([significance.permutation_p(a.scores, b.scores) for a, b in pairs])
    ps: dict[str, dict[str, float]] = {row.name: {} for row in (*rows, *others)}
    for (a, b), p in zip(pairs, adjusted, strict=True):
        ps[a.name][b.name] = ps[b.name][a.name] = p

    def versus(a: Row, b: Row) -> Versus:
        p, interval = ps[a.name][b.name], bootstrap.improvement_interval(a.scores, b.scores)
        return Versus(b.name, st.probability_of_improvement(a.scores, b.scores), interval, p, separation(a, b, p))

    ahead = np.zeros((len(rows), len(rows)), bool)
    for (i, a), (j, b) in combinations(enumerate(rows), 2):
        ahead[i, j] = separation(a, b, ps[a.name][b.name]) == "above"
    ranks, places = significance.shared_ranks(ahead), significance.rank_ranges(ahead)
    return [
        replace(
            row,
            rank=ranks[i],
            places=places[i],
            below=versus(row, rows[i + 1]) if i + 1 < len(rows) else None,
            against=versus(row, anchor) if anchor and row.name != anchor.name else None,
            ps=ps[row.name],
        )
        for i, row in enumerate(rows)
    ]


def separation(a: Row, b: Row, p: float) -> Literal["above", "below"] | None:
    """Position of a relative to b if p is small enough and their order agrees with that of the means, which are tested."""
    upper, lower = (a, b) if sort_key(a) < sort_key(b) else (b, a)
    assert upper.score is not None and lower.score is not None
    if p > significance.ALPHA or upper.score <= lower.score:
        return None
    return "above" if upper is a else "below"


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
        gap=st.optimality_gap(scores) if complete else None,
        in_distribution=float(np.mean([c.in_distribution for c in cells.values()])) if complete else None,
        parameters=(min(parameters), max(parameters)) if parameters else None,
        step_time=cost.time if cost else st.relative_time(step_times(grid, encoding), step_times(grid, base)),
        step_time_past=cost.time_past if cost else None,
        memory=cost.memory if cost else None,
        busy=cost.busy if cost else always_busy(grid, encoding) or always_busy(grid, base),
    )


def ranking_class(runs: list[Result], latest: Result | None) -> str:
    """The declared class, except that an encoding that saw lengths past L in training is never ``standard``."""
    declared = latest.encoding.ranking if latest else "standard"
    saw_longer = any(run.longest_seen > run.train_length for run in runs)
    return "longer" if declared == "standard" and saw_longer else declared


def summarise_cell(grid: Grid, column: Column, encoding: str) -> Cell:
    runs, exact = grid.runs.get((column.task, encoding), ()), grid.exact(column.task, encoding)
    failed = tuple(seed for task, name, seed in grid.failures if (task, name) == (column.task, encoding))
    at, train_length = column.at, column.train_length
    return Cell(
        column=column,
        runs=runs,
        expected=grid.seeds,
        failed=failed,
        exact=exact,
        scores=st.run_scores(at, exact, np.array(column.chance), train_length) if runs else np.zeros(0),
        ood=st.mean_interval(st.out_of_distribution(at, exact, train_length)) if runs else None,
        in_distribution=float(st.in_distribution(at, exact, train_length).mean()) if runs else None,
        reach=st.reach(at, exact) if runs else None,
    )


def step_times(grid: Grid, encoding: str) -> list[list[float]]:
    """Step times of runs in milliseconds, by task; runs on a busy machine count only if there are no others."""
    cells = timed_runs(grid, encoding)
    return [[run.timings.step_ms for run in [r for r in runs if not r.timings.busy] or runs] for runs in cells]


def always_busy(grid: Grid, encoding: str) -> bool:
    """Whether on some task all runs were timed on a busy machine."""
    return any(runs and all(run.timings.busy for run in runs) for runs in timed_runs(grid, encoding))


def timed_runs(grid: Grid, encoding: str) -> list[list[Result]]:
    """The runs that took at least one step, by task; others have no step time."""
    return [[run for run in grid.runs.get((c.task, encoding), ()) if run.timings.step_ms > 0] for c in grid.columns]
