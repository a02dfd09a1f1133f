"""Submit runs: split them into jobs, write a plan of the array of jobs, and give SLURM its script.

A run is submitted at least once. Its lock and its result make a second job harmless: it waits, or finds nothing to do. The
jobs of a launcher that was killed are found in the queue by their name.
"""

import math
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from bench.files import folder_atomic
from bench.plugins import registry
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.runs.estimate import estimate
from bench.runs.run import FAILURE, Run
from bench.runs.shared_training import group_by_training, shared_trainings
from tasks import InputError

from . import commands
from .cluster import Cluster
from .records import PLAN, Plan, Source, Submission
from .script import job_script, log_options
from .status import Queue

NO_SOURCES: Mapping[str, Source] = MappingProxyType({})
TIME_LIMIT_FRACTION = 0.8
"""Jobs are planned to end within this fraction of the time limit: estimates err, and imports take time."""


def launch(
    runs: Sequence[Run], out: Path, cluster: Cluster, keep_weights: bool = False, sources: Mapping[str, Source] = NO_SOURCES
) -> tuple[Submission | None, int]:
    """Submit the runs that are in no job yet, as one array of jobs.

    Arguments:
        runs: of one suite. Reports of their earlier failures are deleted.
        keep_weights: whether all runs keep their weights, and not only those whose training others share.
        sources: sources of encodings that are not to be loaded here.

    Returns:
        The submission, if there was something to submit, and the number of runs that were in a job already.

    Raises:
        InputError: SLURM does not answer, refuses the jobs, or has jobs of another version of this suite.
    """
    todo, plan = plan_submission(runs, out, cluster, Queue.read(out, runs[0].suite), keep_weights, sources)
    if plan is None:
        return None, len(runs)
    submission = Submission(plan.folder)
    with folder_atomic(submission.folder) as new:
        (new / PLAN).write_text(plan.model_dump_json() + "\n")
    for run in todo:
        (run.folder(out) / FAILURE).unlink(missing_ok=True)
    try:
        submission.write_job(commands.submit_script(log_options(plan), job_script(plan)))
    except commands.NoAnswer:
        shutil.rmtree(submission.folder)
        raise
    return submission, len(runs) - len(todo)


def plan_submission(
    runs: Sequence[Run],
    out: Path,
    cluster: Cluster,
    queue: Queue,
    keep_weights: bool = False,
    sources: Mapping[str, Source] = NO_SOURCES,
) -> tuple[Sequence[Run], Plan | None]:
    """The runs that are in no job yet, and their plan; None if there are no such runs. Writes nothing.

    Raises:
        InputError: jobs in the queue train the suite as it was before its file was edited.
    """
    names = {info.name for info in queue.live.values()}
    if old := [s for s in queue.submissions if s.plan.name in names and not queue.is_current(s)]:
        raise InputError(
            f"jobs {', '.join(s.job for s in old)} in the queue are of suite {queue.suite.name} with fingerprint "
            f"{old[0].plan.suite.fingerprint}, the suite now has {queue.suite.fingerprint}; lprime cancel them first, or keep "
            "the two apart with another --out"
        )
    taken = queue.taken(out)
    todo = group_by_training([run for run in runs if run.key not in taken])  # most runs of one training are in one job
    if not todo:
        return todo, None
    most = commands.max_array_size()
    if cluster.max_jobs:
        most = min(most, max(1, cluster.max_jobs - len(queue.live)))
    shares = split_into_shares(todo, cluster, estimate(todo, out, cluster.device), most)
    encodings = dict.fromkeys(run.encoding for run in todo)
    shared = shared_trainings(encodings)
    return todo, Plan(
        token=datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f"),
        out=str(out.resolve()),
        suite=queue.suite,
        cluster=cluster,
        sources={name: sources.get(name) or encoding_source(name) for name in encodings},
        shares=[[run.key for run in share] for share in shares],
        keep_weights=[name for name in encodings if keep_weights or name in shared],
    )


def split_into_shares(runs: Sequence[Run], cluster: Cluster, seconds: Mapping[Run, float], most: int) -> list[list[Run]]:
    """One share of the runs per job, in order.

    Arguments:
        seconds: estimated time of each run.
        most: maximum number of shares, which take longer than planned if necessary.
    """
    if cluster.runs_per_job:
        size = max(cluster.runs_per_job, math.ceil(len(runs) / most))
        return [list(runs[start : start + size]) for start in range(0, len(runs), size)]
    planned = 60 * min(cluster.job_minutes, TIME_LIMIT_FRACTION * cluster.time_minutes)
    while len(shares := fill_shares(runs, planned, cluster.at_once, seconds)) > most:
        planned *= max(1.05, len(shares) / most)
    return shares


def fill_shares(runs: Sequence[Run], planned: float, at_once: int, seconds: Mapping[Run, float]) -> list[list[Run]]:
    """Shares of about ``planned`` seconds each, if ``at_once`` runs are processed at a time."""
    shares: list[list[Run]] = []
    total = float("inf")
    for run in runs:
        takes = seconds[run] / at_once
        if total + takes > planned and not (shares and len(shares[-1]) < at_once):
            shares.append([])
            total = 0.0
        shares[-1].append(run)
        total += takes
    return shares


def encoding_source(name: str) -> Source:
    """References of an encoding with absolute paths, and the current hash of its source."""
    encoding = get_encoding(name)
    return Source(plugins=list(registry.references(encoding)), sha256=source_hash(encoding))
