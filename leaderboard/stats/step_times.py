"""Step times of an encoding's runs, from the timings in their results."""

from leaderboard.data.grid import Grid


def step_times(grid: Grid, encoding: str) -> list[list[float]]:
    """Step times of runs in milliseconds, by task; those of a busy machine do not count, nor runs without a time."""
    cells = [grid.runs.get((column.task, encoding), ()) for column in grid.columns]
    return [[run.timings.step_ms for run in runs if run.timings.step_ms > 0 and not run.timings.busy] for runs in cells]
