"""Submit runs: split them into jobs, write the plan of each array of jobs, and give SLURM its script.

A run is submitted at least once. Its lock and its result make a second job harmless: it waits, or finds nothing to do. A
launcher that was killed leaves a plan without an id. The next one finds the array in the queue by its name, or deletes the
plan; a job whose plan is gone ends at once.
"""

import platform
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.files import folder_atomic
from bench.plugins import registry
from bench.plugins.references import parts
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.runs.estimate import estimate
from bench.runs.run import FAILURE, Run, now
from bench.runs.shared_training import group_by_training, shared_trainings
from tasks import InputError

from . import commands
from .cluster import Cluster
from .records import PLAN, Plan, Source, Submission, records_folder, submitting
from .script import job_script, log_options
from .status import Queue

NO_SOURCES: Mapping[str, Source] = MappingProxyType({})
TIME_LIMIT_FRACTION = 0.8
"""Jobs are planned to end within this fraction of the time limit: estimates err, and imports take time."""


@dataclass
class Launched:
    """Outcome of a launch."""

    submissions: list[Submission]
    already: int
    """Number of runs that were already queued or running."""
    held: list[Run]
    """Runs that could not be submitted now."""
    why: str = ""
    """Why runs are held."""


def launch(
    runs: Sequence[Run], out: Path, cluster: Cluster, keep_weights: bool = False, sources: Mapping[str, Source] = NO_SOURCES
) -> Launched:
    """Submit the runs that are in no job yet, as many as the site's limits allow.

    Arguments:
        runs: of one suite. Reports of their earlier failures are deleted.
        keep_weights: whether all runs keep their weights, and not only those whose training others share.
        sources: sources of encodings that are not to be loaded here.

    Raises:
        InputError: SLURM does not answer, refuses all jobs, or has jobs of another version of this suite.
    """
    suite = runs[0].suite
    with submitting(records_folder(out, suite.name)):
        queue = Queue.read(out, suite)
        adopt_or_delete(queue)
        refuse_other_versions(queue)
        taken = queue.taken(out)
        # A held run may have been finished by another launcher's job.
        todo = [run for run in runs if run.key not in taken and not run.result(out)]
        plans, held = plan_submissions(todo, out, cluster, queue.jobs_of_user, keep_weights, sources) if todo else ([], [])
        why = "the site's limit on your jobs in the queue is reached" if held else ""
        launched = Launched([], sum(run.key in taken for run in runs), held, why)
        for number, plan in enumerate(plans):
            try:
                launched.submissions.append(submit_plan(plan, out))
            except InputError as refused:
                if not launched.submissions:
                    raise
                launched.held = [run for other in plans[number:] for run in other.all_runs] + held
                launched.why = str(refused)
                break
        return launched


def adopt_or_delete(queue: Queue) -> None:
    """Complete the submissions of launchers that were killed: record the id if SLURM has the jobs, else delete the plan."""
    for submission in [s for s in queue.submissions if not s.job]:
        if ids := [id for id, (name, _) in queue.live.items() if name == submission.plan.name]:
            submission.write_job(ids[0].split("_")[0])
        else:
            shutil.rmtree(submission.folder)
            queue.submissions.remove(submission)


def refuse_other_versions(queue: Queue) -> None:
    """Check that no job in the queue trains the suite as it was before its file was edited.

    Raises:
        InputError: there are such jobs.
    """
    names = {name for name, _ in queue.live.values()}
    if old := [s for s in queue.submissions if s.plan.name in names and not queue.is_current(s)]:
        raise InputError(
            f"jobs {', '.join(s.job for s in old)} in the queue are of suite {queue.suite.name} with fingerprint "
            f"{old[0].plan.suite.fingerprint}, the suite now has {queue.suite.fingerprint}; lprime cancel them first, or keep "
            "the two apart with another --out"
        )


def plan_submissions(
    runs: Sequence[Run],
    out: Path,
    cluster: Cluster,
    in_queue: int,
    keep_weights: bool = False,
    sources: Mapping[str, Source] = NO_SOURCES,
) -> tuple[list[Plan], list[Run]]:
    """One plan per array of jobs, and the runs whose jobs exceed the site's limit. Writes nothing.

    Arguments:
        in_queue: number of jobs of this user in the queue.
    """
    suite = runs[0].suite
    largest, most = commands.job_limits(cluster)
    runs = group_by_training(runs)  # so that most runs of one training are in one job
    all_shares = split_into_shares(runs, cluster, estimate(runs, out, cluster.device).seconds, most)
    room = len(all_shares) if most is None else max(0, most - in_queue)
    held = [runs[place] for share in all_shares[room:] for place in share]
    names = dict.fromkeys(run.encoding for run in runs)
    shared = shared_trainings(names)
    sources = {name: sources.get(name) or encoding_source(name) for name in names}
    plans: list[Plan] = []
    for start in range(0, min(room, len(all_shares)), largest):
        shares = all_shares[start : min(start + largest, room)]
        chosen = [runs[place] for share in shares for place in share]
        places = iter(range(len(chosen)))
        plans.append(
            Plan(
                token=uuid.uuid4().hex[:12],
                created=f"{now()} on {platform.node()}, array {len(plans):04}",
                user=commands.current_user(),
                out=str(out),
                suite=suite,
                cluster=cluster,
                sources={run.encoding: sources[run.encoding] for run in chosen},
                runs=[run.key for run in chosen],
                shares=[[next(places) for _ in share] for share in shares],
                keep_weights=[name for name in names if keep_weights or name in shared],
            )
        )
    return plans, held


def split_into_shares(
    runs: Sequence[Run], cluster: Cluster, seconds: Mapping[Run, float], most_jobs: int | None = None
) -> list[list[int]]:
    """One share of the runs per job: indices into ``runs``, in order.

    Arguments:
        seconds: estimated time of each run.
        most_jobs: maximum number of shares, which take longer than planned if necessary.
    """
    if cluster.runs_per_job:
        size = max(cluster.runs_per_job, -(-len(runs) // most_jobs) if most_jobs else 0)
        return [list(range(start, min(start + size, len(runs)))) for start in range(0, len(runs), size)]
    planned = 60 * min(cluster.job_minutes, TIME_LIMIT_FRACTION * cluster.time_minutes)
    shares = fill_shares(runs, planned, cluster.at_once, seconds)
    while most_jobs and len(shares) > most_jobs:
        planned *= max(1.05, len(shares) / most_jobs)
        shares = fill_shares(runs, planned, cluster.at_once, seconds)
    return shares


def fill_shares(runs: Sequence[Run], planned: float, at_once: int, seconds: Mapping[Run, float]) -> list[list[int]]:
    """Shares of about ``planned`` seconds each, if ``at_once`` runs are processed at a time."""
    shares: list[list[int]] = []
    total = float("inf")
    for place, run in enumerate(runs):
        takes = seconds[run] / at_once
        if total + takes > planned and not (shares and len(shares[-1]) < at_once):
            shares.append([])
            total = 0.0
        shares[-1].append(place)
        total += takes
    return shares


def check_encoding_files(runs: Sequence[Run], cluster: Cluster) -> None:
    """Check that compute nodes can read the runs' encodings, before calling SLURM or writing files.

    Raises:
        InputError: an encoding's file is outside of the shared folder.
    """
    for name in dict.fromkeys(run.encoding for run in runs):
        for reference in encoding_source(name).plugins:
            cluster.in_shared_folder(Path(parts(reference)[0]), "encoding file")


def encoding_source(name: str) -> Source:
    """References of an encoding with absolute paths, and the current hash of its source."""
    encoding = get_encoding(name)
    return Source(plugins=list(registry.references(encoding)), sha256=source_hash(encoding))


def submit_plan(plan: Plan, out: Path) -> Submission:
    """Write a plan, submit its jobs and record their id.

    Raises:
        InputError: sbatch refused; the plan is deleted again.
    """
    submission = Submission(records_folder(out, plan.suite.name) / plan.token)
    with folder_atomic(submission.folder) as new:
        (new / PLAN).write_text(plan.model_dump_json() + "\n")
    for run in plan.all_runs:
        (run.folder(out) / FAILURE).unlink(missing_ok=True)
    try:
        answer = commands.run_sbatch(log_options(plan, submission.folder), job_script(plan, submission.folder), plan.cluster)
    except InputError:
        shutil.rmtree(submission.folder)
        raise
    submission.write_job(answer)
    return submission
