"""What the tables show, as numbers: one ``Row`` an encoding, one ``Cell`` a task of it. Formats nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Float

from bench.results import EncodingRecord, Result

from . import inference, significance
from . import statistics as st
from .grid import LOCAL, Column, Grid

BASE = "nope"
"""The encoding whose step time is the unit."""
ANCHOR = "rope"
"""The encoding that every other is compared with."""
CLASSES = ("standard", "longer", "task-aware")
"""Ranking classes in the order of their tables; others follow by name."""


@dataclass(frozen=True)
class Cell:
    """One encoding on one task. Numbers are None where there is no run."""

    column: Column
    runs: tuple[Result, ...]
    expected: tuple[int, ...]
    """Seeds that should be there."""
    failed: tuple[int, ...]
    exact: Float[np.ndarray, "S N"]
    scores: Float[np.ndarray, " S"]
    """Chance-corrected OOD score of each run."""
    ood: tuple[float, float | None] | None
    """OOD exact match: mean over seeds and half-width."""
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
        """Expected seeds without result that did not fail either."""
        return tuple(s for s in self.expected if s not in self.seeds and s not in self.failed)

    @property
    def asked(self) -> int:
        """Seeds that are there or should be."""
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
    """A row against another."""

    name: str
    """Of the other."""
    improvement: float
    """Probability that a run of the row scores above a run of the other."""
    interval: tuple[float, float] | None
    """Of the improvement; None where one of them has a single run on a task."""
    p: float
    """Of the permutation test, with Holm's correction over all pairs of the table."""
    separated: Literal["above", "below"] | None
    """Where the row stands to the other, if the test tells them apart."""


@dataclass(frozen=True)
class Row:
    """One encoding over all tasks. What is a mean over tasks is None unless every task has a run."""

    name: str
    record: EncodingRecord | None
    """What its last run said of it; None without any run."""
    ranking: str
    cells: Mapping[str, Cell]
    iqm: float | None
    """Interquartile mean of the scores of all runs."""
    iqm_interval: tuple[float, float] | None
    """None also where a task has a single run; so are the other intervals."""
    score: float | None
    """Mean over tasks of the mean score over runs."""
    interval: tuple[float, float] | None
    """Of ``score``."""
    gap: float | None
    """Optimality gap."""
    in_distribution: float | None
    parameters: tuple[int, int] | None
    """Of the encoding alone: fewest and most over the tasks (tables grow with L or L′)."""
    step_time: float | None
    """Times NoPE's: measured side by side where it was, else by the runs' own clocks."""
    step_time_past: float | None
    """At the longest length measured; None where it was not measured."""
    memory: float | None
    """Peak memory of a training step past L, times NoPE's; None where it was not measured."""
    busy: bool
    """The step time is known from times alone when the machine was busy with something else."""
    rank: int | None = None
    places: tuple[int, int] | None = None
    """The best and the worst place in its table that the tests leave open."""
    below: Versus | None = None
    """Against the next row."""
    against: Versus | None = None
    """Against ``ANCHOR``."""
    ps: Mapping[str, float] = field(default_factory=dict)
    """Name of every row it was compared with → p, as in ``Versus``."""

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
    """Ranking class → its rows: the ranked ones in the order of ``standing``, then the incomplete ones by name."""
    rows = [row(grid, encoding) for encoding in grid.encodings]
    anchor = next((r for r in rows if r.name == ANCHOR and r.complete), None)
    classes: dict[str, list[Row]] = {}
    for one in rows:
        classes.setdefault(one.ranking, []).append(one)
    order = [c for c in CLASSES if c in classes] + sorted(set(classes) - set(CLASSES))
    return {name: ranked(classes[name], anchor) for name in order}


def standing(row: Row) -> tuple[float, float, str]:
    """What complete rows are sorted by: IQM, then mean, best first and as printed; then name."""
    assert row.iqm is not None and row.score is not None
    return -round(row.iqm, st.DIGITS), -round(row.score, st.DIGITS), row.name


def ranked(rows: Sequence[Row], anchor: Row | None) -> list[Row]:
    """The rows of one table in order, with what sets them apart."""
    whole = sorted((r for r in rows if r.complete), key=standing)
    others = [anchor] if anchor and all(anchor is not r for r in whole) else []
    if sum(r.iqm_interval is not None for r in [*whole, *others]) >= 2:
        whole = compared(whole, anchor, others)
    else:  # single runs: nothing to test with
        ranks = st.ranks([r.iqm or 0.0 for r in whole], [r.score or 0.0 for r in whole])
        whole = [replace(r, rank=rank) for r, rank in zip(whole, ranks, strict=True)]
    return whole + sorted((r for r in rows if not r.complete), key=lambda r: r.name)


def compared(rows: Sequence[Row], anchor: Row | None, others: Sequence[Row]) -> list[Row]:
    """Complete rows, sorted, with ranks that only tell those apart that a test does.

    Arguments:
        others: of other tables, to compare each row with. All pairs are one family for Holm's correction, since every pair
            bears on the ranks.
    """
    pairs = [*combinations(rows, 2), *((r, other) for r in rows for other in others)]
    ps = significance.holm([significance.permutation_p(a.scores, b.scores) for a, b in pairs])
    found: dict[str, dict[str, float]] = {row.name: {} for row in (*rows, *others)}
    for (a, b), p in zip(pairs, ps, strict=True):
        found[a.name][b.name] = found[b.name][a.name] = p

    def versus(a: Row, b: Row) -> Versus:
        p = found[a.name][b.name]
        improvement, interval = st.improvement(a.scores, b.scores), inference.improvement_interval(a.scores, b.scores)
        return Versus(b.name, improvement, interval, p, separated(a, b, p))

    ahead = np.zeros((len(rows), len(rows)), bool)
    for (i, a), (j, b) in combinations(enumerate(rows), 2):
        ahead[i, j] = separated(a, b, found[a.name][b.name]) == "above"
    ranks, places = significance.shared_ranks(ahead), significance.places(ahead)
    return [
        replace(
            row,
            rank=ranks[i],
            places=places[i],
            below=versus(row, rows[i + 1]) if i + 1 < len(rows) else None,
            against=versus(row, anchor) if anchor and row.name != anchor.name else None,
            ps=found[row.name],
        )
        for i, row in enumerate(rows)
    ]


def separated(a: Row, b: Row, p: float) -> Literal["above", "below"] | None:
    """Where a stands to b, if p is small enough and the order of rows is that of the means, which the test compares."""
    up, down = (a, b) if standing(a) < standing(b) else (b, a)
    assert up.score is not None and down.score is not None
    if p > significance.ALPHA or up.score <= down.score:
        return None
    return "above" if up is a else "below"


def row(grid: Grid, encoding: str) -> Row:
    cells = {column.task: cell(grid, column, encoding) for column in grid.columns}
    runs = [run for c in cells.values() for run in c.runs]
    last = max(runs, key=lambda r: (r.finished, r.task, r.seed), default=None)
    parameters = [run.parameters.encoding for run in runs]
    complete = all(c.runs for c in cells.values())
    scores = [c.scores for c in cells.values()]
    # Times of another machine tell nothing: a row of runs made here is measured by NoPE's that were made here too.
    base = BASE + LOCAL if encoding.endswith(LOCAL) else BASE
    price = grid.prices.get(encoding)
    return Row(
        name=encoding,
        record=last.encoding if last else None,
        ranking=ranking_class(runs, last),
        cells=cells,
        iqm=st.iqm(scores) if complete else None,
        iqm_interval=inference.iqm_interval(scores) if complete else None,
        score=st.overall(scores) if complete else None,
        interval=inference.overall_interval(scores) if complete else None,
        gap=st.optimality_gap(scores) if complete else None,
        in_distribution=float(np.mean([c.in_distribution for c in cells.values()])) if complete else None,
        parameters=(min(parameters), max(parameters)) if parameters else None,
        step_time=price.time if price else st.relative_time(step_times(grid, encoding), step_times(grid, base)),
        step_time_past=price.time_past if price else None,
        memory=price.memory if price else None,
        busy=price.busy if price else never_quiet(grid, encoding) or never_quiet(grid, base),
    )


def ranking_class(runs: list[Result], last: Result | None) -> str:
    """What the encoding declares, except that nobody who saw lengths past L in training is ``standard``."""
    declared = last.encoding.ranking if last else "standard"
    saw_longer = any(run.longest_seen > run.train_length for run in runs)
    return "longer" if declared == "standard" and saw_longer else declared


def cell(grid: Grid, column: Column, encoding: str) -> Cell:
    runs, exact = grid.runs.get((column.task, encoding), ()), grid.exact(column.task, encoding)
    failed = tuple(seed for task, name, seed in grid.failures if (task, name) == (column.task, encoding))
    at, train_length = column.at, column.train_length
    return Cell(
        column=column,
        runs=runs,
        expected=grid.seeds,
        failed=failed,
        exact=exact,
        scores=st.score(at, exact, np.array(column.chance), train_length) if runs else np.zeros(0),
        ood=st.mean_interval(st.out_of_distribution(at, exact, train_length)) if runs else None,
        in_distribution=float(st.in_distribution(at, exact, train_length).mean()) if runs else None,
        reach=st.reach(at, exact) if runs else None,
    )


def step_times(grid: Grid, encoding: str) -> list[list[float]]:
    """For each task, milliseconds a step of each run; those of a busy machine only where there are no others."""
    cells = [timed(grid, c, encoding) for c in grid.columns]
    return [[run.timings.step_ms for run in [r for r in runs if not r.timings.busy] or runs] for runs in cells]


def timed(grid: Grid, column: Column, encoding: str) -> list[Result]:
    """The runs that took a step: one that diverged at once has no time of it."""
    return [run for run in grid.runs.get((column.task, encoding), ()) if run.timings.step_ms > 0]


def never_quiet(grid: Grid, encoding: str) -> bool:
    """Whether on some task all runs were timed on a busy machine."""
    cells = [timed(grid, c, encoding) for c in grid.columns]
    return any(runs and all(run.timings.busy for run in runs) for runs in cells)
