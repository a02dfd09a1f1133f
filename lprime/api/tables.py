"""Results as a data frame, and tasks as datasets."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.result import Result
from bench.runs.run import check_seed
from bench.suites.suite import is_shipped, load_suite, shipped
from leaderboard import archived_boards, published_folder
from leaderboard.data.cards import read_cards, with_declarations
from leaderboard.data.collect import read_results
from leaderboard.data.grid import age
from leaderboard.data.store import RESULTS, read_runs, suite_folders
from leaderboard.render.export import results_table
from tasks import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd
    from datasets import DatasetDict


def results(
    suite: str | Path | None = None,
    *,
    version: int | None = None,
    out: str | Path | None = "runs",
    published: bool | str | Path = True,
) -> "pd.DataFrame":
    """Published results and your own as a data frame, with one row per run and test length.

    Its columns are those of ``lprime export``, after ``origin``: ``published`` or ``local``. Among them: ``suite``,
    ``fingerprint``, ``task``, ``encoding``, ``seed``, ``length``, ``relative_length`` (l / L), ``exact`` and ``token``
    (accuracies), ``exact_score`` and ``token_score`` (with guessing taken out), ``nll``, ``step_ms`` (milliseconds).

    Arguments:
        suite: name of a suite, or path of its YAML file; by default all that have results.
        version: version of the suite. By default the newest with results; rows of different fingerprints do not compare.
        out: folder of your runs; None leaves them out.
        published: False leaves published results out; the folder of a board reads those instead.

    Raises:
        InputError: no such suite, no results, or a broken file.
    """
    name = suite_name(suite) if suite else None
    if isinstance(published, str | Path):
        folders = [Path(published)]
    else:
        board = published_folder()
        folders = [board, *archived_boards(board)] if published else []
    found = {
        "published": [run for folder in folders for run in published_runs(folder, name)],
        "local": local_runs(Path(out), name) if out is not None else [],
    }
    everything = [run for runs in found.values() for run in runs]
    if not everything:
        places = ", ".join(map(str, [*folders, *([out] if out is not None else [])]))
        if name and name == str(suite) and not is_shipped(name):
            raise unknown("suite", name, shipped())
        raise InputError(f"no results{f' of suite {name}' if name else ''} in {places or 'no folder'}")
    chosen = newest_fingerprints(everything, version)
    kept = {origin: [run for run in runs if run.fingerprint in chosen] for origin, runs in found.items()}
    return as_frame(kept)


def suite_name(suite: str | Path) -> str:
    """The name of a suite that may be given as the path of its YAML file."""
    text = str(suite)
    return load_suite(text).name if text.endswith((".yaml", ".yml")) else text


def published_runs(folder: Path, suite: str | None) -> list[Result]:
    places = suite_folders(folder) if suite is None else [folder / RESULTS / suite]
    return with_declarations((run for place in places for run in read_runs(place)), read_cards(folder))


def local_runs(out: Path, suite: str | None) -> list[Result]:
    folders = sorted(path for path in out.glob("*") if path.is_dir()) if suite is None else [out / suite]
    return [run for folder in folders for run in read_results(folder)]


def newest_fingerprints(runs: Sequence[Result], version: int | None) -> set[str]:
    """The fingerprint of each suite's newest runs, of that version if given.

    Raises:
        InputError: no runs of that version.
    """
    found = [run for run in runs if version in (None, run.suite_version)]
    if not found:
        versions = sorted({run.suite_version for run in runs})
        raise InputError(f"no results of version {version}; expected one of: {', '.join(map(str, versions))}")
    return set({run.suite: run.fingerprint for run in sorted(found, key=age)}.values())  # the last of a suite is its newest


def as_frame(runs: Mapping[str, Sequence[Result]]) -> "pd.DataFrame":
    """The tidy table of some runs; see ``results``.

    Arguments:
        runs: origin, ``published`` or ``local`` → its runs.
    """
    frame = results_table([run for own in runs.values() for run in own]).to_pandas()
    frame.insert(0, "origin", [origin for origin, own in runs.items() for run in own for _ in run.scores])
    return frame


def load_task(task: str, suite: str | Path = "small", *, train_examples: int = 10_000, seed: int = 0) -> "DatasetDict":
    """The test examples of a suite's runs and the first training examples of a seed: splits ``test_<length>`` and ``train``.

    Columns: ``ids`` (token ids, without padding), ``text`` (their symbols, separated by blanks), ``answer`` (symbols after
    ``<sep>``, without ``<eos>``) and ``length``.

    Arguments:
        train_examples: size of the training split, the first examples of that training seed.

    Raises:
        InputError: no such suite or task, a size below 1, or a negative seed.
    """
    from datasets import DatasetDict

    from bench.dataset import no_progress_bars, task_splits

    check_seed(seed)
    with no_progress_bars():
        splits = task_splits(load_suite(str(suite)), task, train_examples, seed)
    return DatasetDict({name: data for name, (data, _) in splits.items()})
