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
def test_jobs_take_the_planned_time_on_average_and_have_no_idle_process(seconds, at_once, job_minutes, most):
    runs = runs_of(len(seconds))
    site = cluster(cpus_per_job=at_once, job_minutes=job_minutes, runs_per_job=None)
    shares = split_into_shares(runs, site, dict(zip(runs, seconds, strict=True)), most)
    assert list(chain(*shares)) == runs and len(shares) <= most
    size, planned = len(shares[0]), 60 * min(job_minutes, 0.8 * 60)  # at most four fifths of the time limit
    assert {len(share) for share in shares[:-1]} <= {size}
    if size > max(at_once, -(-len(runs) // most)):
        assert size * sum(seconds) / len(seconds) / at_once <= planned + 1e-6


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
