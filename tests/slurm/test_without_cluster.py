"""The state of runs, and jobs on their nodes, with stand-ins for SLURM's answers. Without a cluster."""

import json
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import printed, run_command
from grids import write_encoding
from stand_ins import SUITE, Site, cluster, queue, submitted
from support import new_registry

from bench.result import EncodingRecord
from bench.runs.progress import Event
from bench.runs.run import CHECKPOINT, RESULT, Run, plan_runs
from bench.runs.run_lock import lock_run
from bench.sealed.request import SealedCode
from bench.suites.suite import load_suite
from lprime.cli.selection import try_encodings
from slurm import commands, job
from slurm.commands import JobInfo
from slurm.executor import SlurmExecutor
from slurm.job import NO_GPU, NOWHERE, UNSAVED, JobWorker
from slurm.records import JOB, PLAN, load_submissions
from slurm.status import Status
from slurm.submit import Launched, launch
from tasks import InputError


def test_states_of_runs_whose_job_is_lost(tmp_path):
    runs = plan_runs(SUITE, ["nope"], ["parity"])
    lost = queue(submitted(tmp_path, runs), JobInfo("7", "NODE_FAIL", "NODE_FAIL", "n1"))
    runs[1].folder(tmp_path).mkdir(parents=True)
    (runs[1].folder(tmp_path) / CHECKPOINT).touch()
    found = lost.statuses(runs, tmp_path)
    assert [status.state for status in found.values()] == ["missing", "paused"]
    assert "lost its node" in found[runs[0]].reason and lost.worth_resending("7")
    runs[1].fail(tmp_path, "an error")
    assert lost.status(runs[1], tmp_path) == Status("failed", "7", reason="an error")
    other = Run(SUITE, "copying", "nope", 0)
    other.fail(tmp_path, "in no submission")
    assert lost.status(other, tmp_path).state == "failed"


def test_a_launch_adopts_or_deletes_what_a_killed_launcher_left_and_forgets_earlier_failures(tiny, tmp_path, monkeypatch):
    """A plan without an id is adopted if SLURM has jobs of its name, and deleted if not."""
    site, runs = Site(), plan_runs(load_suite(str(tiny())))
    monkeypatch.setattr(commands, "run_command", site)
    scripts = []
    monkeypatch.setattr(commands, "run_sbatch", lambda options, script, cluster: scripts.append(script) or "9")
    accepted, refused = submitted(tmp_path, runs[:1]), submitted(tmp_path, runs[1:2])
    site.queue(accepted)
    for submission in (accepted, refused):
        (submission.folder / JOB).unlink()
    (row, *_) = json.loads(printed("status", tmp_path / "tiny.yaml", "--out", tmp_path, "--json"))
    assert row["state"] == "missing" and not row.keys() & {"job", "reason"}
    runs[2].fail(tmp_path, "an error")
    launched = launch(runs, tmp_path, cluster())
    assert launched.already == 1 and [s.plan.runs for s in launched.submissions] == [[run.key for run in runs[1:]]]
    assert {s.job for s in load_submissions(tmp_path, "tiny")} == {"7", "9"}
    assert not refused.folder.exists() and not runs[2].failure(tmp_path)
    assert len(scripts) == 1


@pytest.mark.parametrize("held", [True, False])
def test_a_refused_submission_leaves_no_plan(tmp_path, monkeypatch, held):
    monkeypatch.setattr(commands, "run_command", Site())
    answers = iter(["9"] if held else [])

    def run_sbatch(*_):
        for answer in answers:
            return answer
        raise InputError("a limit of the site is reached")

    monkeypatch.setattr(commands, "run_sbatch", run_sbatch)
    monkeypatch.setattr(commands, "job_limits", lambda cluster: (1, None))  # two arrays
    runs = plan_runs(SUITE, ["nope"])
    if held:
        launched = launch(runs, tmp_path, cluster(runs_per_job=2))
        assert launched.held == runs[2:] and launched.why == "a limit of the site is reached"
    else:
        with pytest.raises(InputError, match="a limit"):
            launch(runs, tmp_path, cluster(runs_per_job=2))
    assert len(load_submissions(tmp_path, SUITE.name)) == held


def test_runs_that_were_finished_meanwhile_are_not_submitted(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "run_command", Site())
    monkeypatch.setattr(Run, "result", lambda run, out: "a result")
    assert launch(plan_runs(SUITE, ["nope"]), tmp_path, cluster()) == Launched([], already=0, held=[])


def test_submissions_that_a_launcher_deletes_meanwhile_are_not_listed(tmp_path, monkeypatch):
    refused, kept = (submitted(tmp_path, plan_runs(SUITE, [name])) for name in ("t5", "nope"))
    read = Path.read_bytes

    def refused_meanwhile(path):
        if path.parent == refused.folder:
            shutil.rmtree(refused.folder)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused_meanwhile)
    assert [found.folder for found in load_submissions(tmp_path, SUITE.name)] == [kept.folder]
    (kept.folder / PLAN).write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        load_submissions(tmp_path, SUITE.name)


def test_status_of_a_failed_run_shows_nothing_of_other_runs(tiny, tmp_path, monkeypatch):
    """All runs of a job print to one log."""
    monkeypatch.setattr(commands, "run_command", Site())
    failed, *_ = runs = plan_runs(load_suite(str(tiny())))
    log = submitted(tmp_path, runs).log(0)
    log.write_text("a line of another run")
    failed.fail(tmp_path, "an error")
    shown = printed("status", tmp_path / "tiny.yaml", "--out", tmp_path)
    assert f"{failed}: an error" in shown and "another run" not in shown


def test_hours_used_are_those_of_all_jobs(tmp_path):
    jobs = [
        JobInfo("7_0", "COMPLETED", seconds=1800, gpus=2, cpus=8),
        JobInfo("7_1", "RUNNING", seconds=3600, gpus=1, cpus=4),
        JobInfo("7_2", "PENDING"),
    ]
    assert queue(submitted(tmp_path, plan_runs(SUITE)), *jobs).hours_used() == (2, 8)


class Pool:
    """Stands for the pool of a job: notes the runs, and ends each by ``ends``."""

    def __init__(self, ends):
        self.ends, self.executed, self.gpus = ends, [], ()

    def execute(self, runs, out, on_event):
        self.executed.append(list(runs))
        for run in runs:
            on_event(self.ends(run))

    def stop(self):
        """Nothing is running."""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """A function that makes the worker of a job of runs, with a pool that ends each of them by ``ends``."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(job.signal, "signal", lambda *_: None)
    monkeypatch.setattr(job.time, "sleep", lambda seconds: None)

    def make(runs, ends=None, **changes) -> JobWorker:
        made = JobWorker(submitted(tmp_path, runs, cluster(**changes)), 0)
        made.pool = Pool(ends)
        return made

    return make


@pytest.mark.parametrize("sealed", [False, True])
def test_a_job_that_never_gets_to_a_step_gives_up(tmp_path, worker, sealed):
    """Sealed runs have no checkpoints: interrupted, they start again, so a step is no progress."""
    runs = plan_runs(SUITE, ["nope"], ["parity"])
    texts = dict.fromkeys(("family", "title", "link", "source_sha256"), "")
    record = EncodingRecord(name="nope", ranking="longer", year=0, stage_share=0, settings={}, **texts)
    code = SealedCode(reference="", encoding=record)
    sources = SlurmExecutor.of_sealed(cluster(), "nope", code).sources if sealed else {}
    job_of = submitted(tmp_path, runs, sources=sources)
    for start in range(1, job.MOST_IDLE_STARTS + 1):
        again = JobWorker(job_of, 0)
        assert (again.starts, again.idle_starts) == (start, start)
        again.write_starts()
    assert JobWorker(job_of, 0).run() == NOWHERE
    listener = again.listener(job.PlainProgress(runs))
    listener(Event("step", runs[0], 1))
    assert again.idle_starts == job.MOST_IDLE_STARTS, "the first report may be that of a checkpoint"
    listener(Event("step", runs[0], 2))
    assert job_of.starts(0).idle == (job.MOST_IDLE_STARTS if sealed else 0)
    listener(Event("finished", runs[0], 2))
    assert job_of.starts(0).idle == 0


def test_a_job_waits_for_runs_of_other_processes_but_not_forever(tmp_path, worker, capsys):
    runs = plan_runs(SUITE, ["nope"], ["parity"])
    mine = worker(runs, lambda run: run.fail(tmp_path, "an error") or Event("failed", run))
    with lock_run(runs[0].folder(tmp_path)):
        assert mine.run() == 0
    assert mine.pool.executed == [[runs[1]]]
    assert f"another process is still working on {runs[0]}: left to it" in capsys.readouterr().out


def test_a_damaged_result_fails_its_run_only(tmp_path, worker):
    runs = plan_runs(SUITE, ["nope"], ["parity"])
    path = runs[0].folder(tmp_path) / RESULT
    path.parent.mkdir(parents=True)
    path.write_text("{")
    mine = worker(runs, lambda run: run.fail(tmp_path, "an error") or Event("failed", run))
    assert mine.run() == 0
    assert mine.pool.executed == [list(runs)], "once, and all of them"


def test_a_job_whose_runs_cannot_be_saved_says_so(worker):
    assert worker(plan_runs(SUITE, ["nope"], ["parity"]), lambda run: Event("failed", run)).run() == UNSAVED


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING"])
def test_a_job_near_its_time_limit_asks_until_the_controller_answers(worker, monkeypatch, state):
    """SLURM requeues no job that reaches its limit. A cancelled one exits, and is not requeued."""
    asked, working, mine = [], 3, worker(plan_runs(SUITE, ["nope"], ["parity"]))

    def run_command(*command):
        asked.append(command[1])
        if asked.count(command[1]) < working:
            raise commands.NoAnswer("scontrol: Socket timed out")
        return f"JobState={state}"

    monkeypatch.setattr(commands, "run_command", run_command)
    naps = iter(range(9))
    monkeypatch.setattr(job.time, "sleep", lambda seconds: next(naps))
    monkeypatch.setattr(job.shutil, "which", lambda name: name)
    with pytest.raises(SystemExit) as ended:
        mine.on_end_signal(signal.SIGUSR2, None)
    assert ended.value.code == 128 + signal.SIGUSR2
    assert asked.count("requeue") == (working if state == "RUNNING" else 0)


@pytest.mark.parametrize(("there", "code"), [(["0", "1"], UNSAVED), (["0"], NO_GPU)])
def test_the_workers_of_a_job_are_spread_over_its_gpus(worker, monkeypatch, there, code):
    monkeypatch.setattr(job, "visible_gpus", lambda mps: there)
    mine = worker(plan_runs(SUITE, ["nope"], ["parity"]), lambda run: Event("failed", run), gpus_per_job=2)
    assert mine.run() == code
    assert mine.pool.gpus == (there if code == UNSAVED else ())


@pytest.mark.parametrize("keep", [True, False])
def test_a_job_keeps_the_weights_that_are_asked_for(tmp_path, monkeypatch, keep):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    mine = JobWorker(submitted(tmp_path, plan_runs(SUITE, ["t5"], ["parity"]), keep_weights=keep), 0)
    assert ("t5" in mine.pool.keep_weights) is keep


def test_a_job_keeps_the_weights_that_others_share_with_a_plugin(tmp_path, monkeypatch, fresh_registry):
    """It has not loaded the plugin, so the launcher tells it."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    mine = write_encoding(tmp_path / "shared_one.py")
    submission = submitted(tmp_path, plan_runs(SUITE, try_encodings([str(mine), f"finetuned({mine})"]), ["parity"], [0]))
    with new_registry():
        assert JobWorker(submission, 0).pool.keep_weights == ["shared_one"]


def test_variables_with_options_do_not_change_what_slurm_is_asked(monkeypatch):
    for name in ("SQUEUE_STATES", "SINFO_FORMAT", "SACCT_FEDERATION", "SCANCEL_STATE", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    seen = {line.partition("=")[0] for line in commands.run_command("env").splitlines()}
    assert "SLURM_CONF" in seen and "PATH" in seen
    assert not {name for name in seen if name.startswith(("SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_"))}
    assert "SLURM_CLUSTERS" not in seen


@pytest.mark.parametrize(
    ("variable", "given", "overrides"),
    [
        ("SBATCH_ACCOUNT", {}, False),
        ("SBATCH_ACCOUNT", {"account": "lab"}, True),
        ("SBATCH_QOS", {"account": "lab"}, False),
        ("SBATCH_PARTITION", {}, True),
        ("SBATCH_RESERVATION", {}, True),
        ("SLURM_CPUS_PER_TASK", {}, True),
        ("SLURM_CONF", {}, False),
        ("HOME", {}, False),
    ],
)
def test_variables_that_override_the_cluster_file(variable, given, overrides):
    assert commands.overrides_cluster_file(variable, cluster(**given)) is overrides


@pytest.mark.parametrize(
    ("given", "largest", "most"),
    [
        ({}, 501, 30),
        ({"account": "big"}, 501, 900),
        ({"account": "big", "qos": "short"}, 501, 20),
        ({"max_jobs": 5}, 501, 5),
        ({"account": "none"}, 501, None),
    ],
)
def test_the_sites_limits_on_jobs(monkeypatch, given, largest, most):
    answers = {
        "config": "MaxJobCount = 10000\nMaxArraySize = 501\n",
        "user": "lab|lab|30\nlab|big|900\nlab|none|\n",
        "qos": "20\n",
    }
    monkeypatch.setattr(commands, "try_command", lambda *words: next(answers[word] for word in words if word in answers))
    assert commands.job_limits(cluster(**given)) == (largest, most)
    monkeypatch.setattr(commands, "try_command", lambda *words: "")
    assert commands.job_limits(SimpleNamespace(account=None, qos=None, max_jobs=None)) == (1001, None)


def test_a_detached_launch_tells_of_earlier_failures(tmp_path, tiny, monkeypatch):
    suite, site, out = tiny(seeds=[0], encodings=["nope"]), tmp_path / "site.yaml", tmp_path / "runs"
    site.write_text("{partition: main, time_minutes: 60}\n")
    failed, held = plan_runs(load_suite(str(suite)))
    failed.fail(out, "the old error")

    def execute(self, runs, out, on_event):
        assert runs == [held]
        self.held = runs if full else []

    monkeypatch.setattr(SlurmExecutor, "check", lambda *_: None)
    monkeypatch.setattr(SlurmExecutor, "execute", execute)
    for full, words in ((False, "all jobs are queued"), (True, "0 of 1 runs are queued, 1 not: run the command again")):
        code, said, _ = run_command("run", suite, "--on", site, "--out", out, "--detach")
        assert code == 1 and words in said and "1 failed before" in said and f"{failed}: the old error" in said
        code, said, _ = run_command("run", suite, "--on", site, "--out", out, "--detach", "--json")
        assert code == 1 and json.loads(said)["not_queued"] == full
