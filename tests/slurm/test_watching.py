"""The command that watches jobs, and what is said of jobs that have ended. Without a cluster."""

import math

import pytest
from commands import printed, run_command
from stand_ins import SUITE, Site, cluster, queue, submitted

from bench.runs.run import plan_runs
from bench.runs.run_lock import lock_run
from bench.suites.suite import load_suite
from slurm import commands
from slurm.commands import JobInfo
from slurm.executor import event_of
from slurm.job import EXIT_REASONS, UNSAVED
from slurm.status import Queue


@pytest.fixture
def site(monkeypatch):
    made = Site()
    monkeypatch.setattr(commands, "run_command", made)
    return made


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (JobInfo("7_0", "NODE_FAIL"), "job 7_0 lost its node, and the site did not requeue it"),
        (JobInfo("7_0", "FAILED", node="n1", exit_code=UNSAVED), f"job 7_0 on n1: {EXIT_REASONS[UNSAVED]}"),
        (JobInfo("7_0", "FAILED", exit_code=1), "job 7_0 ended as FAILED, exit code 1"),
    ],
)
def test_a_run_whose_job_ended_is_given_up_with_the_reason(tmp_path, ended, reason):
    (run,) = plan_runs(SUITE, ["nope"], ["parity"], [0])
    lost = queue(submitted(tmp_path, [run]), ended)
    lost.asked = math.inf  # after the loss
    event = event_of(run, lost, tmp_path, {})
    assert (event.kind, event.text, event.ends) == ("lost", reason, True)


def test_a_run_without_a_job_that_another_process_works_on_is_left_to_it(tmp_path, monkeypatch):
    (run,) = plan_runs(SUITE, ["nope"], ["parity"], [0])
    monkeypatch.setattr("slurm.executor.LOST_AFTER_S", -1)
    left = queue(submitted(tmp_path, [run]), JobInfo("7_0", "COMPLETED"))
    with lock_run(run.folder(tmp_path)):
        event = event_of(run, left, tmp_path, {})
    assert event.kind == "locked" and event.ends


@pytest.mark.parametrize("others", ["PENDING", "CANCELLED by 1000"])
def test_members_of_an_array_that_were_cancelled_before_they_started(tmp_path, site, others):
    """sacct has one line for all of them, as for members that wait."""
    runs = plan_runs(SUITE)
    name, rest = submitted(tmp_path, runs, cluster(runs_per_job=2)).name, "7_[1-3%100]"
    site.accounts = f"7_0|CANCELLED by 1000|0:15|n1|{name}\n{rest}|{others}|0:0|None assigned|{name}\n"
    found = Queue.read(tmp_path, SUITE)
    reasons = [found.status(run, tmp_path).reason for run in runs]
    of_others = "" if others == "PENDING" else f"job {rest} was cancelled"
    assert reasons == ["job 7_0 was cancelled"] * 2 + [of_others] * 6


def test_a_suite_is_edited_while_its_jobs_wait(tiny, tmp_path, site):
    """They would train the version before, and the results folder takes only one."""
    before = load_suite(str(tiny()))
    site.queue(plan := submitted(tmp_path, plan_runs(before), cluster(runs_per_job=1)))
    suite = tiny(recipe={"steps": 80}, tasks=[{"task": "copying", "variant": "repeat", "train_length": 4}])
    (cluster_file := tmp_path / "cluster.yaml").write_text("{partition: p, time_minutes: 60}")
    command = "run", suite, "--on", cluster_file, "--out", tmp_path
    for how in ("--detach", "--dry-run"):
        code, _, said = run_command(*command, how)
        assert code == 2
        assert f"jobs {plan.name} in the queue are of suite tiny with fingerprint {before.fingerprint}" in said
        assert "scancel --name" in said
    shown = printed("status", suite, "--out", tmp_path)
    assert "2 runs: 2 missing" in shown and "parity" not in shown
    site.queued = {}  # cancelled
    assert "2 runs in 1 job" in printed(*command, "--dry-run")
    assert "2 runs: 2 missing" in printed("status", suite, "--out", tmp_path)


def test_a_damaged_result_ends_its_run(tmp_path, monkeypatch):
    (run,) = plan_runs(SUITE, ["nope"], ["parity"], [0])
    monkeypatch.setattr("slurm.executor.LOST_AFTER_S", -1)
    damaged = queue(submitted(tmp_path, [run]), JobInfo("7_0", "COMPLETED"))
    run.folder(tmp_path).mkdir(parents=True)
    (run.folder(tmp_path) / "result.json").touch()
    event = event_of(run, damaged, tmp_path, {})
    assert event.kind == "lost" and "result.json is not a whole result" in event.text


def test_a_controller_that_does_not_answer(tiny, tmp_path, site, monkeypatch):
    """Nothing is concluded and nothing submitted."""
    suite = tiny()
    submitted(tmp_path, plan_runs(load_suite(str(suite))))

    def no_answer(*command):
        raise commands.NoAnswer(f"{command[0]}: Unable to contact slurm controller")

    monkeypatch.setattr(commands, "run_command", no_answer)
    (cluster_file := tmp_path / "cluster.yaml").write_text("{partition: p, time_minutes: 60}")
    code, _, said = run_command("run", suite, "--on", cluster_file, "--out", tmp_path, "--detach")
    assert code == 2 and "Unable to contact" in said
    assert "SLURM was not asked about the jobs: squeue: Unable to contact" in printed("status", suite, "--out", tmp_path)
