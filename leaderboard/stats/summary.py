"""The numbers of the board: the row of each encoding, its place and its tier.

``rank_rows`` decides order and tiers, by the tests in ``significance``. Nothing here is formatted. Shapes: S runs, N lengths.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Literal

import numpy as np

from bench.result import RANKING_CLASSES, Result
from bench.suites.suite import suite_argument
from leaderboard.data.grid import LOCAL, Column, Grid, once_per_grid
from tasks import InputError

from . import bootstrap, significance
from . import scores as st
from .rows import Cell, Row, Versus

BASE = "nope"
"""The baseline: costs are relative to those of this encoding."""
ANCHOR = "rope"
"""The encoding that every row is compared with, in addition to the next row."""


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
    command = f"lprime probe excess {suite_argument(suite)}"
    return InputError(f"suite {suite} has no task that boards rank by; expected `{command}` or so")


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
