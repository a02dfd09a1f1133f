"""``lprime run --dry-run --on``: what would be submitted, and its estimated cost, as lines of text. Nothing is written."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.runs.estimate import duration, estimate, time_of_a_run
from bench.runs.progress import format_duration
from bench.runs.run import Run
from tasks import plural

from .cluster import Cluster
from .records import Source
from .script import job_script, log_options
from .status import Queue
from .submit import NO_SOURCES, plan_submission


def dry_run(runs: Sequence[Run], out: Path, cluster: Cluster, sources: Mapping[str, Source] = NO_SOURCES) -> list[str]:
    """What would be submitted: script, jobs and estimated cost.

    Arguments:
        runs: of one suite.
        sources: as for ``launch``.
    """
    todo, plan = plan_submission(runs, out, cluster, Queue.read(out, runs[0].suite, need=False), sources=sources)
    if plan is None:
        return [f"nothing to submit: {plural(len(runs), 'run')} in the queue already"]
    found = estimate(todo, out, cluster.device)
    at_once = cluster.at_once if cluster.gpus else min(cluster.at_once, cluster.cpus_per_job)  # more would take turns
    jobs = [duration([found[run] for run in plan.runs(share)], at_once) for share in range(len(plan.shares))]
    hours = max(sum(jobs) / 3600, 0.01)  # no estimate is finer
    digits = 1 if hours >= 1 else 2
    price = f"{hours * cluster.gpus:.{digits}f} GPU-hours, " if cluster.gpus else ""
    price += f"{hours * cluster.cpus_per_job:.{digits}f} CPU-hours"
    return [
        job_script(plan),
        f"submitted by: sbatch {shlex.join(log_options(plan))}",
        f"{plural(len(todo), 'run')} in {plural(len(jobs), 'job')}",
        f"{plural(cluster.at_once, 'run')} at a time in a job; {time_of_a_run(found)}",
        f"about {price}; the longest job about {format_duration(max(jobs))}",
        *cautions(cluster),
    ]


def cautions(cluster: Cluster) -> list[str]:
    """What is likely to be a mistake in the cluster file."""
    if cluster.at_once <= cluster.cpus_per_job:
        return []
    cpus = plural(cluster.cpus_per_job, "CPU")
    return [f"caution: {cluster.at_once} runs at a time take turns on {cpus} of a job: raise cpus_per_job"]
