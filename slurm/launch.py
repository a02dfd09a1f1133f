"""Put runs into SLURM's queue, every run exactly once even if launchers are killed at any moment.

Under a lock that sbatch inherits: write a submission's plan; call sbatch with a job name unique to the plan; record the id
next to the plan. A launcher that finds a plan without an id asks SLURM for jobs of that name. If there are some, it records
their id; otherwise it deletes the plan.
"""

import os
import platform
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from bench.files import folder_atomic
from bench.plugins import registry
from bench.plugins.references import is_file, parts
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.runs.estimate import estimate
from bench.runs.run import Run, now
from bench.runs.shared_training import group_by_training, shared_trainings
from tasks import InputError

from . import commands
from .cluster import Cluster
from .records import PLAN, Plan, Source, Submission, folder_hash, load_submissions, records_folder, submitting
from .split_jobs import split_into_arrays, split_into_shares
from .status import Queue
from .submit import adopt_jobs

NO_SOURCES: Mapping[str, Source] = MappingProxyType({})


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

    @property
    def jobs(self) -> int:
        return sum(len(s.plan.shares) for s in self.submissions)


def launch(
    runs: Sequence[Run], out: Path, cluster: Cluster, keep_weights: bool = False, sources: Mapping[str, Source] = NO_SOURCES
) -> Launched:
    """Submit the runs that are in no job yet, as many as the site's limits allow.

    Arguments:
        keep_weights: whether all runs keep their weights, and not only those whose training others share.
        sources: sources of encodings that are not to be loaded here.

    Raises:
        InputError: SLURM does not answer, refuses all jobs, or has jobs of this suite without records or of another version.
    """
    suite = runs[0].suite
    with submitting(records_folder(out, suite.name)) as lock:
        for submission in load_submissions(out, suite.name):
            if submission.job is None:
                recover(submission)
        queue = Queue.read(out, suite)
        refuse_unrecorded_jobs(out, queue)
        refuse_other_versions(queue)
        taken = queue.taken()
        # A held run may have been finished by another launcher's job.
        todo = [run for run in runs if run.key not in taken and not run.result(out)]
        plans, held = plan_submissions(todo, out, cluster, queue.jobs_of_user, keep_weights, sources) if todo else ([], [])
        why = "the site's limit on your jobs in the queue is reached" if held else ""
        launched = Launched([], sum(run.key in taken for run in runs), held, why)
        for number, plan in enumerate(plans):
            try:
                launched.submissions.append(submit_plan(plan, out, lock))
            except InputError as refused:
                if not launched.submissions:
                    raise
                launched.held = [run for other in plans[number:] for run in other.all_runs] + held
                launched.why = str(refused)
                break
        return launched


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
    kept = [name for name in names if keep_weights or name in shared]
    sources = {name: sources.get(name) or encoding_source(name) for name in names}
    plans: list[Plan] = []
    for shares in split_into_arrays(all_shares[:room], largest):
        chosen = [runs[place] for share in shares for place in share]
        places = iter(range(len(chosen)))
        plans.append(
            Plan(
                token=folder_hash(out) + uuid.uuid4().hex[:8],
                created=f"{now()} on {platform.node()}, array {len(plans):04}",
                user=commands.current_user(),
                out=str(out),
                suite=suite,
                cluster=cluster,
                sources={run.encoding: sources[run.encoding] for run in chosen},
                runs=[run.key for run in chosen],
                failed_before=[failure.finished if (failure := run.failure(out)) else "" for run in chosen],
                shares=[[next(places) for _ in share] for share in shares],
                keep_weights=kept,
            )
        )
    return plans, held


def check_encoding_files(runs: Sequence[Run], cluster: Cluster) -> None:
    """Check that compute nodes can read the runs' encodings, before calling SLURM or writing files.

    Raises:
        InputError: an encoding's file is outside of the shared folder.
    """
    for name in dict.fromkeys(run.encoding for run in runs):
        for reference in filter(is_file, encoding_source(name).plugins):
            cluster.in_shared_folder(Path(parts(reference)[0]), "encoding file")


def encoding_source(name: str) -> Source:
    """References of an encoding with absolute paths, and the current hash of its source."""
    encoding = get_encoding(name)
    references = registry.references(encoding)
    plugins = [os.path.abspath(ref) if ".py" in ref and not os.path.isabs(ref) else ref for ref in references]
    return Source(plugins=plugins, sha256=source_hash(encoding))


def submit_plan(plan: Plan, out: Path, lock: IO[bytes]) -> Submission:
    """Write a plan and submit its jobs by ``python -m slurm.submit``.

    Raises:
        InputError: sbatch refused; the plan is deleted again.
    """
    folder = records_folder(out, plan.suite.name) / plan.token
    with folder_atomic(folder) as new:
        (new / PLAN).write_text(plan.model_dump_json() + "\n")
    submission = Submission(folder)
    # In its own session, so that Ctrl-C here does not interrupt it. -P: modules in the working directory are not imported.
    command = [sys.executable, "-P", "-m", "slurm.submit", str(folder)]
    environment = {key: value for key, value in os.environ.items() if not overrides_cluster_file(key, plan.cluster)}
    pipe = subprocess.PIPE  # not subprocess.run, which kills it at Ctrl-C
    submitter = subprocess.Popen(
        command, stdin=lock, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=environment
    )
    refusal, errors = (text.strip().splitlines() for text in submitter.communicate())
    if submission.job is None and not recover(submission):
        raise InputError(refusal[-1] if refusal else f"jobs were not submitted: {errors[-1] if errors else 'no message'}")
    return submission


def overrides_cluster_file(variable: str, cluster: Cluster) -> bool:
    """Whether an environment variable would override a key of the cluster file.

    SLURM sets variables inside a job, and sbatch's variables take precedence over a script's options. Of these only account,
    QOS and constraint are kept, if the file does not set them.
    """
    if variable.startswith("SLURM_"):
        return variable != "SLURM_CONF"
    given = {f"SBATCH_{key.upper()}": getattr(cluster, key) for key in ("account", "qos", "constraint")}
    return variable.startswith("SBATCH_") and given.get(variable, variable) is not None


def recover(submission: Submission) -> bool:
    """Adopt the jobs of a submission without a recorded id, or delete its plan if SLURM has none. Returns whether it has jobs.

    Raises:
        InputError: SLURM does not answer; the submission is left for the next launcher.
    """
    if ids := commands.array_ids(submission.plan.name, submission.plan.user):
        adopt_jobs(submission, ids[-1])
        return True
    shutil.rmtree(submission.folder)
    return False


def refuse_unrecorded_jobs(out: Path, queue: Queue) -> None:
    """Check that every job of this suite in the queue has a record; one without could be executing any run.

    Raises:
        InputError: there are jobs without records.
    """
    recorded = {s.plan.name for s in queue.submissions}
    ids = sorted({id.split("_")[0] for id, (name, _) in queue.live.items() if name not in recorded})
    if ids:
        raise InputError(
            f"jobs {', '.join(ids)} of suite {queue.suite.name} are in the queue, but their records under "
            f"{records_folder(out, queue.suite.name)} are gone; cancel them first: scancel {' '.join(ids)}"
        )


def refuse_other_versions(queue: Queue) -> None:
    """Check that no job in the queue trains the suite as it was before its file was edited.

    Raises:
        InputError: there are such jobs.
    """
    names = {name for name, _ in queue.live.values()}
    if old := [s for s in queue.submissions if s.plan.name in names and not queue.is_current(s)]:
        raise InputError(
            f"jobs {', '.join(str(s.job) for s in old)} in the queue are of suite {queue.suite.name} with fingerprint "
            f"{old[0].plan.suite.fingerprint}, the suite now has {queue.suite.fingerprint}; lprime cancel them first, or keep "
            "the two apart with another --out"
        )
