"""Results as a data frame, and tasks as datasets."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from bench.runs.run import check_seed
from bench.suites.suite import holding, load_suite
from leaderboard import published_folder
from leaderboard.export import tidy
from leaderboard.results.frame import read_runs, suite_name

from .runs import AnyTask, references_of

if TYPE_CHECKING:
    from bench.dataset import TaskData  # slow to load


def results(
    suite: str | Path | None = None,
    *,
    out: str | Path | None = "runs",
    published: bool | str | Path = True,
) -> pd.DataFrame:
    """Published results and your own of the newest version of a suite: a data frame with one row per run and test length.

    It has the columns of ``lprime export``. Among them: ``origin`` (``published`` or ``local``), ``suite``, ``fingerprint``,
    ``task``, ``encoding``, ``seed``, ``length``, ``relative_length`` (l / L), ``exact`` and ``token``
    (accuracies), ``exact_score`` and ``token_score`` (chance-corrected), ``nll``, ``step_ms`` (milliseconds).

    Arguments:
        suite: name of a suite, or path of its YAML file; by default all that have results.
        out: folder of your runs; None leaves them out.
        published: False leaves published results out; the folder of a board reads those instead.

    Raises:
        InputError: no such suite, no results, or a broken file.
    """
    board = None if published is False else published_folder() if published is True else Path(published)
    place = Path(out) if out is not None else None
    runs = read_runs([suite_name(suite, place, board)] if suite else None, place, board)
    newest = runs.sort_values(["suite_version", "finished"], kind="stable").groupby("suite")["fingerprint"].last()
    return tidy(runs[runs["fingerprint"].isin(newest)].reset_index(drop=True))


def load_task(task: AnyTask, suite: str | Path = "small", *, train_examples: int = 10_000, seed: int = 0) -> "TaskData":
    """The test examples of a suite and the first training examples of a seed: splits ``test_<length>`` and ``train``.

    They have the suite's own lengths; in suites with blocks, runs of some seeds have others.

    Columns: ``ids`` (token ids, without padding), ``text`` (their symbols, separated by blanks), ``answer`` (symbols after
    ``<sep>``, without ``<eos>``), ``length`` and ``answer_start`` (index of the first id after ``<sep>``). The dictionary also
    has ``vocabulary``, ``task``, ``train_length``, ``fingerprint`` and ``collate``, which makes batches for ``transformers``.

    Arguments:
        task: one of the suite's, or a file or class.
        train_examples: size of the training split, the first examples of that training seed.

    Raises:
        InputError: no such suite or task, a size below 1, or a negative seed.
    """
    from bench.dataset import task_splits

    check_seed(seed)
    name, (task,) = holding(str(suite), references_of(task))
    return task_splits(load_suite(name), task, train_examples, seed)
