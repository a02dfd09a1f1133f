"""Local runs next to published ones: every local row is marked ``(local)``, even if its encoding is published too."""

from pathlib import Path

from bench.suites.suite import Suite
from leaderboard import published_folder

from .cards import read_cards, with_cards
from .collect import NoResults, read_suite_runs
from .grid import LOCAL, Grid
from .probes import with_probes
from .store import RESULTS, read_runs, stored_grids

NOTE = "Rows marked *(local)* are your own runs; all others are published."


def with_local_runs(suite: Suite | str, out: Path, board: Path) -> list[Grid]:
    """The grids of a suite's published runs and of those under ``out``, if any, the suite's own first; failed ones too.

    Arguments:
        suite: as in ``collect``.
        board: folder of the published board.

    Raises:
        InputError: no such suite, none of its runs published or available here, or a broken or contradictory result.
    """
    known, name, results, failures = read_suite_runs(suite, out)
    board = published_folder(board)
    place = board / RESULTS / name
    cards, published = read_cards(board), read_runs(place)
    if not published:
        raise NoResults(f"no runs of suite {name} are published under {board}; expected {place}/<encoding>.jsonl")
    local = [
        run.model_copy(update={"encoding": run.encoding.model_copy(update={"name": run.encoding.name + LOCAL})})
        for run in results
    ]
    ours = {(task, encoding + LOCAL, seed): failure for (task, encoding, seed), failure in failures.items()}
    grids = with_cards({name: stored_grids(place, known, [*published, *local], ours)}, cards)
    return with_probes(grids, board)[name]
