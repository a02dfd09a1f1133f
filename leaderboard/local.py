"""Your own runs beside the published ones: every row of yours is marked ``(local)``, also where its encoding is published."""

from pathlib import Path

from bench.results import Result
from bench.suite import Suite
from tasks import InputError

from .collect import collect
from .grid import LOCAL, Grid, build
from .store import RESULTS, read_runs

NOTE = "Rows marked *(local)* are runs of your own; all others are published."


def beside(suite: Suite | str, out: Path, board: Path) -> list[Grid]:
    """The grids of a suite's published runs and of those under ``out``, the suite's own first.

    Arguments:
        suite: as ``collect`` takes it.
        board: the leaderboard's folder.

    Raises:
        InputError: no such suite, nothing of it is published or has run, or a broken or contradictory result.
    """
    ours = collect(suite, out)
    grid = ours[0]
    published = read_runs(board / RESULTS / grid.name)
    if not published:
        place = board / RESULTS / grid.name
        raise InputError(f"nothing of suite {grid.name} is published under {board}; expected {place}/<encoding>.jsonl")
    local = [marked(run) for one in ours for run in one.all_runs]
    failures = {(task, encoding + LOCAL, seed): failure for (task, encoding, seed), failure in grid.failures.items()}
    return build(grid.suite, [*published, *local], failures)


def marked(run: Result) -> Result:
    return run.model_copy(update={"encoding": run.encoding.model_copy(update={"name": run.encoding.name + LOCAL})})
