"""Runs split into jobs. Without a cluster."""

import json
from dataclasses import replace
from itertools import chain

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from stand_ins import SUITE, cluster
from support import lprime, suite_dict

from bench.runs.estimate import Estimate, estimate
from bench.runs.run import Run, plan_runs
from bench.suites.suite import Suite
from bench.suites.yaml_config import validated
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


def test_estimates_come_from_results_of_the_same_kind(tmp_path):
    """The median over results of the task whose runs did not diverge; a guess if there are none."""
    suite = tmp_path / "tiny.yaml"
    suite.write_text(yaml.safe_dump(suite_dict(seeds=[0, 1, 2, 3, 4], encodings=["nope"])))
    assert lprime("run", suite, "--task", "copying", cwd=tmp_path).returncode == 0
    for path in tmp_path.rglob("weights.safetensors"):
        path.unlink()  # else a run only evaluates
    made = ((10.0, "done"), (70.0, "done"), (20.0, "done"), (0.1, "diverged"), (0.1, "diverged"))
    for seed, (took, status) in enumerate(made):
        path = tmp_path / f"runs/tiny/copying/nope/seed-{seed}/result.json"
        content = json.loads(path.read_text()) | {"status": status}
        content["timings"]["total_s"] = took
        path.write_text(json.dumps(content))
    loaded = validated(Suite, yaml.safe_load(suite.read_text()), "suite")
    copying, parity = (next(run for run in plan_runs(loaded) if run.task == task) for task in ("copying", "parity"))
    assert estimate([copying], tmp_path / "runs", "cpu") == Estimate({copying: 20.0}, guessed=False)
    both = estimate([copying, parity], tmp_path / "runs", "cpu")
    assert both.seconds[copying] == 20.0 and both.seconds[parity] > 0
    assert both.guessed
    more = [replace(copying, encoding=name, seed=seed) for seed in (0, 1) for name in ("rope", "ntk")]
    first, shared, *others = estimate(more, tmp_path / "runs", "cpu").seconds.values()
    assert first == 20.0 and 0 < shared < 5.0, "a shared training is made once; the others only evaluate"
    assert others == [first, shared]
    assert estimate([copying], tmp_path / "runs", "cuda").seconds[copying] != pytest.approx(20.0), "another kind of device"
