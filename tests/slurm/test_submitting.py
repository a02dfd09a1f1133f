"""Launchers that meet what others have left. Without a cluster."""

import pytest
from synthetic_results import full, store, suite

from bench.runs.run import plan_runs
from slurm import launch, submit
from slurm.cluster import load_cluster
from slurm.records import PLAN, Submission
from slurm.status import Queue
from tasks import InputError


def test_held_runs_that_another_launcher_finished_are_not_submitted(tmp_path, monkeypatch):
    of = suite()
    store(tmp_path, full(of, {"nope": [1] * 4}))
    monkeypatch.setattr(launch.Queue, "read", lambda out, suite: Queue(suite, [], {}))
    launched = launch.launch(plan_runs(of, ["nope"]), tmp_path, load_cluster("one-partition"))
    assert launched == launch.Launched([], already=0, held=[])


def test_jobs_are_recorded_after_the_pickles_that_they_read(tmp_path, monkeypatch):
    """So that a full disk leaves the submission to the next launcher."""
    ((plan,), _) = launch.plan_submissions(plan_runs(suite(), ["nope"]), tmp_path, load_cluster("one-partition"), 0)
    (tmp_path / PLAN).write_text(plan.model_dump_json())

    def full_disk(path, *_, **__):
        assert path.name.endswith("_submitted.pkl")
        raise InputError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr(submit, "write_atomic", full_disk)
    with pytest.raises(InputError, match="No space left"):
        submit.adopt_jobs(Submission(tmp_path), "7")
    assert Submission(tmp_path).job is None
