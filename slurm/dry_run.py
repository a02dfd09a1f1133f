"""``lprime run --dry-run --on``: what would be submitted, and its estimated cost, as lines of text. Nothing is written."""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.runs.estimate import duration, estimate, span, time_of_a_run
from bench.runs.run import Run
from tasks import plural

from . import commands
from .cluster import Cluster
from .records import Source, records_folder
from .script import job_script, log_options
from .status import Queue
from .submit import NO_SOURCES, check_encoding_files, plan_submissions, refuse_other_versions

RUN_GB = 0.7
"""Memory that a process takes that trains ``small`` on a CPU, at most (``make speed``)."""


def dry_run(runs: Sequence[Run], out: Path, cluster: Cluster, sources: Mapping[str, Source] = NO_SOURCES) -> list[str]:
    """What would be submitted: script, jobs and estimated cost.

    Arguments:
        runs: of one suite.
        sources: as for ``launch``.
    """
    check_encoding_files([run for run in runs if run.encoding not in sources], cluster)
    queue = Queue.read(out, runs[0].suite, need=False)
    refuse_other_versions(queue)
    taken = queue.taken(out)
    todo = [run for run in runs if run.key not in taken]
    if not todo:
        return [f"nothing to submit: {plural(len(runs), 'run')} in the queue already"]
    unchecked, in_queue = [], 0
    try:
        commands.check_cluster(cluster)
        in_queue = len(commands.queued_jobs([commands.current_user()]))
    except commands.NoAnswer as error:
        unchecked = [f"no SLURM here ({str(error).partition(';')[0]}): the cluster's names and limits were not checked"]
    plans, held = plan_submissions(todo, out, cluster, in_queue, sources=sources)
    if not plans:
        return ["nothing to submit now: the site's limit on your jobs in the queue is reached"]
    found = estimate(todo, out, cluster.device)
    at_once = cluster.at_once if cluster.gpus else min(cluster.at_once, cluster.cpus_per_job)  # more would take turns
    jobs = [duration([found.seconds[plan.run(place)] for place in share], at_once) for plan in plans for share in plan.shares]
    hours = max(sum(jobs) / 3600, 0.01)  # no estimate is finer
    digits = 1 if hours >= 1 else 2
    price = f"{hours * cluster.gpus:.{digits}f} GPU-hours, " if cluster.gpus else ""
    price += f"{hours * cluster.cpus_per_job:.{digits}f} CPU-hours"
    later = f"; {plural(len(held), 'run')} later" if held else ""
    folder = records_folder(out, runs[0].suite.name) / plans[0].token
    return [
        job_script(plans[0], folder),
        f"submitted by: sbatch {shlex.join(log_options(plans[0], folder))}",
        f"{plural(len(todo) - len(held), 'run')} in {plural(len(jobs), 'job')}, {plural(len(plans), 'array')} "
        f"of at most {max(len(plan.shares) for plan in plans)}{later}",
        f"{plural(cluster.at_once, 'run')} at a time in a job; {time_of_a_run(found)}",
        f"about {price}; the longest job about {span(max(jobs))}",
        *cautions(todo, out, cluster),
        *unchecked,
    ]


def cautions(runs: Sequence[Run], out: Path, cluster: Cluster) -> Iterator[str]:
    """What in the cluster file does not suit these runs, one line each."""
    if unset := cluster.unset_variables:
        yield f"caution: {' and '.join(unset)} is not set here, so shared_folder stays {cluster.shared_folder}"
    elif cluster.shared and not cluster.shared.is_dir():
        yield f"caution: shared_folder {cluster.shared} does not exist here yet"
    if cluster.at_once > cluster.cpus_per_job:
        cpus = plural(cluster.cpus_per_job, "CPU")
        yield f"caution: {cluster.at_once} runs at a time take turns on {cpus} of a job: raise cpus_per_job"
    if not cluster.gpus and cluster.memory_gb < RUN_GB * cluster.at_once:
        needed = math.ceil(RUN_GB * cluster.at_once)
        yield (
            f"caution: memory_gb is {cluster.memory_gb:g} for {plural(cluster.at_once, 'run')} at a time, which may take "
            f"{RUN_GB:g} GB each: raise it to {needed}"
        )
    longest = max(estimate(runs, out, cluster.device).seconds.values())
    limit = 60 * cluster.time_minutes - cluster.save_before_s
    if (requeues := math.ceil(longest / limit) - 1) > 0:
        yield (
            f"caution: the longest run takes {span(longest)}, a job at most {span(60 * cluster.time_minutes)}: it is "
            f"requeued {plural(requeues, 'time')}; raise time_minutes if the site allows it"
        )
