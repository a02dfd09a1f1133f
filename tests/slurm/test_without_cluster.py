"""The state of runs, and jobs on their nodes, with stand-ins for SLURM's answers. Without a cluster."""

import signal

import pytest
from commands import run_command
from grids import write_encoding
from stand_ins import SUITE, Site, cluster, launched, planned, queue, submitted
from support import new_registry

from bench.result import Damaged, EncodingRecord
from bench.runs.progress import Event
from bench.runs.run import CHECKPOINT, RESULT, Run, plan_runs
from bench.runs.run_lock import lock_run
from bench.sealed.sandbox import SealedCode
from bench.suites.suite import load_suite
from lprime.cli.options import try_encodings
from slurm import commands, job
from slurm.commands import JobInfo
from slurm.executor import SlurmExecutor
from slurm.job import NO_GPU, NOWHERE, UNSAVED, JobWorker
from slurm.records import PLAN, read_plans
from slurm.status import Status
from tasks import InputError


@pytest.fixture
def site(monkeypatch) -> Site:
    made = Site()
    monkeypatch.setattr(commands, "run_command", made)
    return made


def test_states_of_runs_whose_job_is_lost(tmp_path):
    runs = plan_runs(SUITE, ["nope"], ["parity"])
    lost = queue(submitted(tmp_path, runs), JobInfo("7_0", "NODE_FAIL"))
    runs[1].folder(tmp_path).mkdir(parents=True)
    (runs[1].folder(tmp_path) / CHECKPOINT).touch()
    found = {run: lost.status(run, tmp_path) for run in runs}
    assert [status.state for status in found.values()] == ["missing", "paused"]
    assert "lost its node" in found[runs[0]].reason
    runs[1].fail(tmp_path, "an error")
    assert lost.status(runs[1], tmp_path) == Status("failed", reason="an error")
    other = Run(SUITE, "copying", "nope", 0)
    other.fail(tmp_path, "in no submission")
    assert lost.status(other, tmp_path).state == "failed"


def test_a_launch_finds_the_jobs_of_a_killed_launcher_and_forgets_earlier_failures(tmp_path, site):
    """SLURM has them under the plan's name, or has none."""
    runs = plan_runs(SUITE)
    accepted, _ = submitted(tmp_path, runs[:1]), submitted(tmp_path, runs[1:2])
    site.queue(accepted)
    runs[2].fail(tmp_path, "an error")
    plan, array = launched(tmp_path, runs)
    assert [key for keys in plan.shares for key in keys] == [run.key for run in runs[1:]]
    assert len(site.scripts) == 1 and array == "9" and not runs[2].failure(tmp_path)


def test_a_refused_submission_leaves_no_plan_and_all_reports(tmp_path, site):
    site.refusal, runs = "a limit of the site is reached", plan_runs(SUITE)
    runs[0].fail(tmp_path, "an error")
    with pytest.raises(InputError, match="a limit"):
        launched(tmp_path, runs)
    assert not read_plans(tmp_path, SUITE.name) and runs[0].failure(tmp_path)


def test_a_damaged_plan_is_named_and_skipped(tmp_path, site):
    runs = plan_runs(SUITE)
    lost, _ = submitted(tmp_path, runs[:2]), submitted(tmp_path, runs[2:])
    (lost.folder / PLAN).write_text("{")
    with pytest.warns(Damaged, match="is damaged.*delete"):
        plan, _ = launched(tmp_path, runs)
    assert len(site.scripts) == 1 and sum(map(len, plan.shares)) == len(runs)


def test_as_many_jobs_as_are_allowed(tmp_path, site, monkeypatch):
    """By the key ``max_jobs``, less the jobs of this suite in the queue, and by the largest array."""
    first, _ = launched(tmp_path, plan_runs(SUITE, ["nope"]), cluster(runs_per_job=1, max_jobs=6))
    assert len(first.shares) == 4
    site.queue(first)
    second, _ = launched(tmp_path, plan_runs(SUITE), cluster(runs_per_job=1, max_jobs=6))
    assert [len(share) for share in second.shares] == [2, 2]
    with pytest.raises(InputError, match=r"the queue has 4 jobs of max_jobs: 4; run again later$"):
        launched(tmp_path, plan_runs(SUITE), cluster(runs_per_job=1, max_jobs=4))
    monkeypatch.setattr(commands, "try_command", lambda *command: "MaxJobCount = 9\nMaxArraySize = 3\n")
    third, _ = launched(tmp_path, plan_runs(SUITE, seeds=[5, 6]), cluster(runs_per_job=1))
    assert len(third.shares) == 3


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
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    monkeypatch.setattr(job.signal, "signal", lambda *_: None)
    monkeypatch.setattr(job.time, "sleep", lambda seconds: None)

    def make(runs, ends=None, code=None, **changes) -> JobWorker:
        made = JobWorker(planned(tmp_path, runs, cluster(**changes), sealed=code), 0)
        made.pool = Pool(ends)
        return made

    return make


@pytest.mark.parametrize("sealed", [False, True])
def test_a_job_that_never_gets_to_a_step_gives_up(tmp_path, worker, site, sealed):
    """Sealed runs have no checkpoints: interrupted, they start again, so a step is no progress."""
    runs = plan_runs(SUITE, ["nope"], ["parity"])
    texts = dict.fromkeys(("family", "title", "link", "source_sha256"), "")
    record = EncodingRecord(name="nope", ranking="longer", year=0, stage_share=0, settings={}, **texts)
    code = SealedCode(reference="", encoding=record)
    mine = worker(runs, code=code if sealed else None)
    site.controller, mine.start = "JobState=RUNNING", job.GIVE_UP_AT_START
    mine.on_event(Event("step", runs[0], 1))
    with pytest.raises(SystemExit) as ended:
        mine.on_end_signal(signal.SIGUSR2, None)
    assert ended.value.code == NOWHERE, "the first report may come from a checkpoint"
    mine.on_event(Event("step", runs[0], 2))
    assert mine.progressed is not sealed
    mine.on_event(Event("finished", runs[0], 2))
    assert mine.progressed


def test_a_job_waits_for_runs_of_other_processes_but_not_forever(tmp_path, worker, capsys):
    runs = plan_runs(SUITE, ["nope"], ["parity"])
    mine = worker(runs, lambda run: Event("failed", run, text=run.fail(tmp_path, "an error")))
    with lock_run(runs[0].folder(tmp_path)):
        assert mine.run() == 0
    assert mine.pool.executed == [[runs[1]]]
    assert f"another process is still working on {runs[0]}: left to it" in capsys.readouterr().out


def test_a_damaged_result_fails_its_run_only(tmp_path, worker):
    runs = plan_runs(SUITE, ["nope"], ["parity"])
    path = runs[0].folder(tmp_path) / RESULT
    path.parent.mkdir(parents=True)
    path.write_text("{")
    mine = worker(runs, lambda run: Event("failed", run, text=run.fail(tmp_path, "an error")))
    assert mine.run() == 0
    assert mine.pool.executed == [list(runs)], "once, and all of them"


def test_a_job_whose_runs_cannot_be_saved_says_so(worker):
    assert worker(plan_runs(SUITE, ["nope"], ["parity"]), lambda run: Event("failed", run)).run() == UNSAVED


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING"])
def test_a_job_near_its_time_limit_asks_until_the_controller_answers(worker, monkeypatch, state):
    """SLURM requeues no job that reaches its limit. A cancelled one exits, and is not requeued."""
    asked, working, mine = [], 3, worker(plan_runs(SUITE, ["nope"], ["parity"]))
    mine.progressed = True

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


def test_a_job_keeps_the_weights_that_are_asked_for_or_shared(tmp_path, fresh_registry):
    """It has not loaded a plugin whose training another shares, so the launcher tells it."""
    mine = write_encoding(tmp_path / "shared_one.py")
    runs = plan_runs(SUITE, try_encodings([str(mine), f"finetuned({mine})"]), ["parity"], [0])
    shared, all_of_them = planned(tmp_path, runs), planned(tmp_path, runs, keep_weights=True)
    with new_registry():
        assert JobWorker(shared, 0).pool.keep_weights == ["shared_one"]
        assert len(JobWorker(all_of_them, 0).pool.keep_weights) == 2


def test_variables_with_options_do_not_change_what_slurm_is_asked(monkeypatch):
    for name in ("SQUEUE_STATES", "SACCT_FEDERATION", "SBATCH_PARTITION", "SLURM_CLUSTERS", "SLURM_CPUS_PER_TASK"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    seen = {line.partition("=")[0] for line in commands.run_command("env").splitlines()}
    assert "PATH" in seen and {name for name in seen if name.startswith(commands.OPTION_VARIABLES)} == {"SLURM_CONF"}


def test_the_message_of_a_refusal_is_one_line():
    said = "sbatch: error: invalid partition specified: x\\nsbatch: error: Batch job submission failed"
    with pytest.raises(InputError, match="invalid partition specified: x; Batch job submission failed"):
        commands.run_command("sh", "-c", f"printf '{said}' >&2; exit 1")


def test_a_detached_launch_tells_of_earlier_failures(tmp_path, tiny, monkeypatch):
    suite, file, out = tiny(seeds=[0], encodings=["nope"]), tmp_path / "site.yaml", tmp_path / "runs"
    file.write_text("{partition: main, time_minutes: 60}\n")
    failed, other = plan_runs(load_suite(str(suite)))
    failed.fail(out, "the old error")
    sent = []
    monkeypatch.setattr(SlurmExecutor, "execute", lambda self, runs, out, on_event: sent.extend(runs))
    code, said, _ = run_command("run", suite, "--on", file, "--out", out, "--detach")
    assert code == 1 and sent == [other]
    assert "all jobs are queued" in said and "1 failed before" in said and f"{failed}: the old error" in said
