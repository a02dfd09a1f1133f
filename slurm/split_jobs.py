"""Split runs into jobs that are long enough to be worth queueing and few enough for the site's limits."""

from collections.abc import Mapping, Sequence

from bench.runs.run import Run

from .cluster import Cluster

TIME_LIMIT_FRACTION = 0.8
"""Jobs are planned to end within this fraction of the time limit: estimates err, and imports take time."""


def split_into_shares(
    runs: Sequence[Run], cluster: Cluster, seconds: Mapping[Run, float], most_jobs: int | None = None
) -> list[list[int]]:
    """One share of the runs per job: indices into ``runs``, in order.

    Arguments:
        seconds: estimated time of each run.
        most_jobs: maximum number of shares, which take longer than planned if necessary.
    """
    if cluster.runs_per_job:
        size = cluster.runs_per_job
        if most_jobs:
            size = max(size, -(-len(runs) // most_jobs))
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


def split_into_arrays(shares: Sequence[list[int]], largest: int) -> list[list[list[int]]]:
    """Job arrays of at most ``largest`` shares."""
    return [list(shares[start : start + largest]) for start in range(0, len(shares), largest)]
