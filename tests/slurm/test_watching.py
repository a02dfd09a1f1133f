"""The command that watches jobs, and ``lprime cancel``: which runs are submitted again. Without a cluster."""

import itertools
import json
import math
from collections import Counter
from pathlib import Path

import pytest
from commands import printed, refused, run_command
from stand_ins import SUITE, Site, cluster, queue, submitted

from bench.runs.run import plan_runs
from bench.runs.run_lock import lock_run
from bench.suites.suite import load_suite
from slurm import commands, executor
from slurm.commands import JobInfo
from slurm.executor import MOST_SENDS, SlurmExecutor, Watch
from slurm.job import UNSAVED
from slurm.status import Queue
from slurm.submit import Launched
from tasks import InputError


@pytest.fixture
def site(monkeypatch):
    made = Site()
    monkeypatch.setattr(commands, "run_command", made)
    monkeypatch.setattr(commands.shutil, "which", lambda name: name)
    return made


@pytest.mark.parametrize(
    ("ended", "sends", "resent"),
    [
        (JobInfo("7", "NODE_FAIL"), 1, True),
        (JobInfo("7", "NODE_FAIL"), MOST_SENDS, False),
        (JobInfo("7", "CANCELLED"), 1, False),
        (JobInfo("7", "OUT_OF_MEMORY"), 1, False),
        (JobInfo("7", "FAILED", exit_code=UNSAVED), 1, False),
        (JobInfo("7", "FAILED", exit_code=1), 1, True),
    ],
)
def test_a_run_is_sent_again_unless_the_job_ended_for_a_reason_of_its_own(tmp_path, monkeypatch, ended, sends, resent):
    (run,) = plan_runs(SUITE, ["nope"], ["parity"], [0])
    lost, events = queue(submitted(tmp_path, [run]), ended), []
    watch = Watch(SlurmExecutor(cluster()), [run], tmp_path, events.append)
    watch.sends[run], watch.asked = sends, math.inf  # after the loss
    watch.report(run, lost.status(run, tmp_path), lost)
    assert (run in watch.held, run in watch.open) == (resent, resent)
    assert [event.kind for event in events] == ([] if resent else ["lost"])


def test_a_run_without_a_job_that_another_process_works_on_is_left_to_it(tmp_path, monkeypatch):
    (run,) = plan_runs(SUITE, ["nope"], ["parity"], [0])
    monkeypatch.setattr("slurm.executor.LOST_AFTER_S", 0)
    left, events = queue(submitted(tmp_path, [run]), JobInfo("7", "COMPLETED")), []
    with lock_run(run.folder(tmp_path)):
        watch = Watch(SlurmExecutor(cluster()), [run], tmp_path, events.append)
        watch.report(run, left.status(run, tmp_path), left)
    assert [event.kind for event in events] == ["locked"] and not watch.open


@pytest.mark.parametrize("others", ["PENDING", "CANCELLED by 1000"])
def test_members_of_an_array_that_were_cancelled_before_they_started(tmp_path, site, others):
    """sacct has one line for all of them, as for members that wait."""
    runs = plan_runs(SUITE)
    submitted(tmp_path, runs, cluster(runs_per_job=2))
    site.accounts = f"7_0|CANCELLED by 1000|0:15|60|n1|cpu=1\n7_[1-3%100]|{others}|0:0|0|None assigned|\n"
    found = Queue.read(tmp_path, SUITE)
    for status in found.statuses(runs, tmp_path).values():
        waits = status.job != "7_0" and others == "PENDING"
        assert found.worth_resending(status.job) == waits
        assert status.reason == ("" if waits else f"job {status.job} was cancelled")


@pytest.mark.parametrize("accounts", [None, "7|RUNNING|0:0|60|n1|cpu=1\n"])
def test_cancelled_jobs_are_not_submitted_again(tiny, tmp_path, site, accounts):
    """Without accounting, or while it lags behind."""
    suite, site.accounts = tiny(), accounts
    loaded = load_suite(str(suite))
    site.queue(submitted(tmp_path, plan_runs(loaded), cluster(runs_per_job=1)))
    assert "4 jobs cancelled" in printed("cancel", suite, "--out", tmp_path)
    found = Queue.read(tmp_path, loaded)
    for status in found.all_statuses(tmp_path).values():
        assert status.reason == f"job {status.job} was cancelled" and not found.worth_resending(status.job)


def test_a_suite_is_edited_while_its_jobs_wait(tiny, tmp_path, site):
    """They would train the version before, and the results folder takes only one."""
    before = load_suite(str(tiny()))
    site.queue(submitted(tmp_path, plan_runs(before), cluster(runs_per_job=1)))
    suite = tiny(recipe={"steps": 80}, tasks=[{"task": "copying", "variant": "repeat", "train_length": 4}])
    (cluster_file := tmp_path / "cluster.yaml").write_text("{partition: p, time_minutes: 60}")
    command = "run", suite, "--on", cluster_file, "--out", tmp_path
    for how in ("--detach", "--dry-run"):
        code, _, said = run_command(*command, how)
        assert code == 2
        assert (
            f"jobs 7 in the queue are of suite tiny with fingerprint {before.fingerprint}" in said and "lprime cancel" in said
        )
    shown = printed("status", suite, "--out", tmp_path)
    assert "2 runs: 2 missing" in shown and "parity" not in shown
    assert "4 jobs cancelled" in printed("cancel", suite, "--out", tmp_path)
    assert "2 runs in 1 job" in printed(*command, "--dry-run")
    assert "2 runs: 2 missing" in printed("status", suite, "--out", tmp_path)


@pytest.fixture
def naps(monkeypatch):
    """No time between two looks, and their number is limited. Returns the seconds that would have been slept."""
    slept: list[float] = []

    def sleep(seconds):
        slept.append(seconds)
        assert len(slept) < 50, "it would never end"

    for name in ("LOST_AFTER_S", "ASK_SLURM_EVERY_S"):
        monkeypatch.setattr(executor, name, 0)
    monkeypatch.setattr(executor.time, "sleep", sleep)
    return slept


def test_a_damaged_result_ends_its_run_and_no_other(tiny, tmp_path, site, naps, monkeypatch):
    suite, out = tiny(), tmp_path / "runs"
    (cluster_file := tmp_path / "cluster.yaml").write_text("{partition: p, time_minutes: 60}")
    damaged, *others = plan_runs(load_suite(str(suite)))

    def launch(runs, *_):
        for run in others:
            run.fail(out, "an error")
        damaged.folder(out).mkdir(parents=True)
        (damaged.folder(out) / "result.json").touch()
        return Launched([], len(runs), [])

    monkeypatch.setattr(executor, "launch", launch)
    code, said, _ = run_command("run", suite, "--on", cluster_file, "--out", out)
    assert code == 1
    assert (
        "1 of 4 runs lost their jobs" in said and f"{damaged}: {damaged.folder(out)}/result.json is not a whole result" in said
    )
    assert "3 of 4 runs failed" in said
    for file in out.rglob("*.json"):
        file.unlink()
    damaged.folder(out).rmdir()
    code, said, _ = run_command("run", suite, "--on", cluster_file, "--out", out, "--json")
    assert code == 1 and [row["task"] for row in json.loads(said)["lost"]] == [damaged.task]


REFUSED, DOWN = InputError("the account has expired"), commands.NoAnswer("sbatch: no answer")


@pytest.mark.parametrize("errors", [[REFUSED], [DOWN] * 19, [DOWN] * 15 + [REFUSED]])
def test_held_runs_that_slurm_refuses(tmp_path, site, naps, monkeypatch, capsys, errors):
    """They are given up when no other run is left to wait for; but not because the controller is down."""
    runs, events, answers = plan_runs(SUITE, ["nope"]), [], itertools.count()

    def launch(runs, *_):
        number = next(answers)
        if number == 0:
            return Launched([], 0, list(runs))
        if number <= len(errors):
            raise errors[number - 1]
        for run in runs:
            run.fail(tmp_path, "it was submitted")
        return Launched([], 0, [])

    monkeypatch.setattr(executor, "launch", launch)
    watch = Watch(SlurmExecutor(cluster()), runs, tmp_path, events.append)
    watch.submit(runs)
    watch.until_all_ended()
    end = ("lost", str(REFUSED)) if REFUSED in errors else ("failed", "it was submitted")
    assert [(event.kind, event.text) for event in events] == [end] * 4
    assert capsys.readouterr().out.count(str(DOWN)) == (DOWN in errors), "said once"


def test_logs_of_a_job_and_a_controller_that_does_not_answer(tiny, tmp_path, site, monkeypatch):
    """Nothing is concluded and nothing submitted."""
    suite = tiny()
    job = submitted(tmp_path, plan_runs(load_suite(str(suite))))
    job.log(0).write_text("the log of the job")
    assert "the log of the job" in printed("logs", suite, "--out", tmp_path, "--encoding", "t5")

    def run_command(*command):
        raise commands.NoAnswer(f"{command[0]}: Unable to contact slurm controller")

    monkeypatch.setattr(commands, "run_command", run_command)
    (cluster_file := tmp_path / "cluster.yaml").write_text("{partition: p, time_minutes: 60}")
    assert "Unable to contact" in refused("run", suite, "--on", cluster_file, "--out", tmp_path, "--detach")
    assert "SLURM was not asked about the jobs: squeue: Unable to contact" in printed("status", suite, "--out", tmp_path)


def test_slurm_is_asked_about_submitted_suites_only(tiny, tmp_path, site, monkeypatch):
    """Nor does a user without a name, as in some containers, end the status of local runs."""
    submitted(tmp_path, plan_runs(load_suite(str(suite := tiny()))))
    monkeypatch.setattr(commands.os, "getuid", lambda: 10**9)
    site.asked.clear()
    assert "4 runs: 4 missing" in printed("status", suite, "--out", tmp_path / "local")
    assert not site.asked
    shown = printed("status", suite, "--out", tmp_path)
    assert "SLURM was not asked about the jobs: user id 1000000000 has no name on this machine" in shown
    assert "user id 1000000000 has no name" in refused("cancel", suite, "--out", tmp_path)


def test_records_of_a_job_are_read_once_for_all_of_its_runs(tmp_path, site, monkeypatch):
    """Not 10,000 times for 10,000 runs."""
    runs, reads, read_bytes = plan_runs(SUITE), Counter(), Path.read_bytes
    site.queue(submitted(tmp_path, runs))
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.update([path.name]) or read_bytes(path))
    found = Queue.read(tmp_path, SUITE)
    assert {status.state for status in found.statuses(runs, tmp_path).values()} == {"queued"}
    assert reads["plan.json"] == 1
