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
from bench.suites.suite import load_suite, load_suites
from slurm import commands, executor
from slurm.commands import JobInfo
from slurm.executor import MOST_SENDS, SlurmExecutor, Watch, until_all_ended
from slurm.job import UNSAVED
from slurm.launch import Launched
from slurm.status import Queue
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


@pytest.mark.parametrize("detach", [True, False])
def test_a_condition_that_is_refused_after_another_was_submitted(tiny, tmp_path, site, naps, monkeypatch, detach):
    """The jobs of the others are followed, and its runs are submitted later."""
    conditions = {"encodings": ["nope", "t5"], "seeds": [0], "conditions": {"learning_rate": ["x0.5", "x2"]}}
    suite, out, asked = tiny(vary=conditions), tmp_path / "runs", []
    (cluster_file := tmp_path / "cluster.yaml").write_text("{partition: p, time_minutes: 60}")

    def launch(runs, *_):
        asked.append(runs[0].suite.condition)
        if len(asked) == 2:
            raise InputError("a limit of the site is reached")
        for run in () if detach else runs:
            run.fail(out, "it was submitted")
        return Launched([], len(runs), [])

    monkeypatch.setattr(executor, "launch", launch)
    command = [
        "run",
        suite,
        "--vary",
        "--encoding",
        "nope",
        "--on",
        cluster_file,
        "--out",
        out,
        *(["--detach"] if detach else []),
    ]
    code, said, _ = run_command(*command)
    assert code == 1 and "2 runs of suite tiny-learning_rate-x2 not yet submitted: a limit of the site is reached" in said
    assert ("2 of 4 runs are queued, 2 not" if detach else "4 of 4 runs failed") in said
    assert asked == ["learning_rate-x0.5", "learning_rate-x2"] + ([] if detach else ["learning_rate-x2"])


REFUSED, DOWN = InputError("the account has expired"), commands.NoAnswer("sbatch: no answer")


@pytest.mark.parametrize("errors", [[REFUSED] * 19, [DOWN] * 19, [DOWN] * 15 + [REFUSED] * (MOST_SENDS - 1)])
def test_runs_that_slurm_refuses_again_and_again(tmp_path, site, naps, monkeypatch, capsys, errors):
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
    until_all_ended([watch], 0)
    end = ("failed", "it was submitted") if DOWN in errors else ("lost", str(REFUSED))
    assert [(event.kind, event.text) for event in events] == [end] * 4
    printed = capsys.readouterr().out
    assert all(printed.count(str(error)) == 1 for error in set(errors)), "said once"


def test_cancel_and_logs_of_the_conditions_of_a_suite(tiny, tmp_path, site):
    vary = {"encodings": ["nope", "t5"], "seeds": [0], "conditions": {"learning_rate": ["x0.5", "x2"]}}
    suite = tiny(vary=vary)
    jobs = [submitted(tmp_path, plan_runs(one), id=id) for one, id in zip(load_suites(str(suite), True), "78", strict=True)]
    site.queue(*jobs)
    for job in jobs:
        job.logs(0)[0].write_text(f"the log of {job.job}")
    place = "--out", tmp_path
    shown = printed("logs", suite, "--vary", *place, "--encoding", "t5")
    assert "the log of 7" in shown and "the log of 8" in shown
    assert printed("cancel", suite, *place).endswith("in the queue; --vary cancels those of its conditions\n")
    shown = printed("cancel", suite, "--vary", *place)
    assert f"2 jobs cancelled; to resume their runs: lprime run {suite} --vary --out {tmp_path} --on …" in shown
    assert not site.queued


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
    """Not 10,000 times for 10,000 runs; but again when the watching command looks again."""
    runs, reads, read_bytes = plan_runs(SUITE), Counter(), Path.read_bytes
    site.queue(submitted(tmp_path, runs))
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.update([path.name]) or read_bytes(path))
    found = Queue.read(tmp_path, SUITE)
    assert {status.state for status in found.statuses(runs, tmp_path).values()} == {"queued"}
    assert (reads["job.json"], reads["0.json"], reads["1.json"]) == (1, 1, 1)
    watch = Watch(SlurmExecutor(cluster()), runs, tmp_path, lambda event: None)
    watch.poll()
    watch.poll()
    assert (reads["job.json"], reads["0.json"], reads["1.json"]) == (2, 3, 3), "a job writes its progress while it is watched"
