"""Local runs next to published ones: every local row is marked ``(local)``, even if its encoding is published too."""

from pathlib import Path

from bench.suites.suite import Suite
from leaderboard import published_folder
from tasks import InputError

from .cards import read_cards, with_declarations
from .collect import collect
from .grid import LOCAL, Grid, build_grids
from .store import RESULTS, read_runs

NOTE = "Rows marked *(local)* are your own runs; all others are published."


def with_local_runs(suite: Suite | str, out: Path, board: Path) -> list[Grid]:
    """The grids of a suite's published runs and of those under ``out``, the suite's own first.

    Arguments:
        suite: as in ``collect``.
        board: folder of the published board.

    Raises:
        InputError: no such suite, none of its runs published or available here, or a broken or contradictory result.
    """
    local_grids = collect(suite, out)
    newest, board = local_grids[0], published_folder(board)
    place = board / RESULTS / newest.name
    published = with_declarations(read_runs(place), read_cards(board))
    if not published:
        raise InputError(f"no runs of suite {newest.name} are published under {board}; expected {place}/<encoding>.jsonl")
    local = [
        run.model_copy(update={"encoding": run.encoding.model_copy(update={"name": run.encoding.name + LOCAL})})
        for grid in local_grids
        for run in grid.all_runs
    ]
    failures = {(task, encoding + LOCAL, seed): failure for (task, encoding, seed), failure in newest.failures.items()}
    return build_grids(newest.suite, [*published, *local], failures)
