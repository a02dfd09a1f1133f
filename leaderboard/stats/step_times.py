"""Step times of an encoding's runs, from the timings in their results."""

from bench.result import Result
from leaderboard.data.grid import Grid


def step_times(grid: Grid, encoding: str) -> list[list[float]]:
    """Step times of runs in milliseconds, by task; runs on a busy machine count only if there are no others."""
    cells = timed_runs(grid, encoding)
    return [[run.timings.step_ms for run in [r for r in runs if not r.timings.busy] or runs] for runs in cells]


def always_busy(grid: Grid, encoding: str) -> bool:
    """Whether on some task all runs were timed on a busy machine."""
    return any(runs and all(run.timings.busy for run in runs) for runs in timed_runs(grid, encoding))


def timed_runs(grid: Grid, encoding: str) -> list[list[Result]]:
    """The runs that took at least one step, by task; others have no step time, and that of sealed runs includes messages."""
    return [
        [run for run in grid.runs.get((c.task, encoding), ()) if run.timings.step_ms > 0 and not run.sealed]
        for c in grid.columns
    ]
