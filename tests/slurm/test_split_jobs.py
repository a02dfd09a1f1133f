"""Runs split into jobs. Without a cluster."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st
from stand_ins import SUITE, cluster

from bench.runs.estimate import estimate
from bench.runs.run import Run
from slurm.submit import split_into_shares


def runs_of(count: int) -> list[Run]:
    return [Run(SUITE, "copying", "nope", seed) for seed in range(count)]


times = st.lists(st.floats(0.1, 5000), min_size=1, max_size=60)


@given(times, st.integers(1, 8), st.integers(1, 300), st.integers(1, 80))
def test_every_run_is_in_one_share_in_its_order(seconds, at_once, job_minutes, most):
    runs = runs_of(len(seconds))
    site = cluster(cpus_per_job=at_once, job_minutes=job_minutes, runs_per_job=None)
    took = dict(zip(runs, seconds, strict=True))
    shares = split_into_shares(runs, site, took, most)
    assert list(chain(*shares)) == runs
    assert all(shares) and len(shares) <= most
    if len(runs) > most:
        return
    planned = 60 * min(job_minutes, 0.8 * 60)  # at most four fifths of the time limit
    for share in shares:
        # A share has no run that makes it too long, unless its processes would be idle otherwise.
        if len(share) > at_once:
            assert sum(took[run] for run in share) / at_once <= planned + 1e-6


@given(st.integers(1, 500), st.integers(1, 50), st.integers(1, 80))
def test_runs_per_job_is_the_size_of_shares(count, size, most):
    runs = runs_of(count)
    shares = split_into_shares(runs, cluster(runs_per_job=size), dict.fromkeys(runs, 1e9), most)
    assert list(chain(*shares)) == runs and len(shares) <= most
    assert {len(share) for share in shares[:-1]} <= {max(size, -(-count // most))}


def test_a_shared_training_is_planned_once(tmp_path):
    """The others that share it only evaluate."""
    runs = [Run(SUITE, "copying", name, seed) for seed in (0, 1) for name in ("rope", "ntk")]
    first, shared, *others = estimate(runs, tmp_path, "cpu").values()
    assert 0 < shared < first / 4
    assert others == [first, shared]
