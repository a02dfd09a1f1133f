"""Runs cut into jobs: long enough to be worth their queueing, few enough for the site."""

from collections.abc import Callable, Sequence

from bench.runs import Run

from .cluster import Cluster

LIMIT_SHARE = 0.8
"""Jobs are planned to end within this part of the time limit: estimates err, and imports take their time."""


def cut(
    runs: Sequence[Run], cluster: Cluster, seconds: Callable[[Run], float], most_jobs: int | None = None
) -> list[list[int]]:
    """Shares of the runs, by place, in their order; one share is one job.

    Arguments:
        seconds: what a run takes.
        most_jobs: shares grow beyond their planned time rather than become more than this.
    """
    if cluster.runs_per_job:
        size = cluster.runs_per_job
        if most_jobs:
            size = max(size, -(-len(runs) // most_jobs))
        return [list(range(start, min(start + size, len(runs)))) for start in range(0, len(runs), size)]
    planned = 60 * min(cluster.job_minutes, LIMIT_SHARE * cluster.time_minutes)
    shares = fill(runs, planned, cluster.at_once, seconds)
    while most_jobs and len(shares) > most_jobs:
        planned *= max(1.05, len(shares) / most_jobs)
        shares = fill(runs, planned, cluster.at_once, seconds)
    return shares


def fill(runs: Sequence[Run], planned: float, at_once: int, seconds: Callable[[Run], float]) -> list[list[int]]:
    """Shares of about ``planned`` seconds each, where ``at_once`` runs go side by side."""
    shares: list[list[int]] = []
    worth = float("inf")
    for place, run in enumerate(runs):
        takes = seconds(run) / at_once
        if worth + takes > planned and not (shares and len(shares[-1]) < at_once):
            shares.append([])
            worth = 0.0
        shares[-1].append(place)
        worth += takes
    return shares


def arrays(shares: Sequence[list[int]], largest: int) -> list[list[list[int]]]:
    """Shares cut into arrays that the site takes."""
    return [list(shares[start : start + largest]) for start in range(0, len(shares), largest)]
