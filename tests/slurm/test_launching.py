"""Every run is submitted exactly once, whatever happens to the launcher; errors are explained in terms of the cluster file."""

import contextlib
import getpass
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from grids import PATIENCE_S, Grid, short, slurm, wait_until

from slurm.records import load_submissions

pytestmark = pytest.mark.slurm
HELD = {"sbatch": {"hold": True}}
"""Jobs that stay in the queue, so that they can be counted."""


def descendants(pid: int) -> list[int]:
    """Process ids of a process and its descendants, the process first."""
    pids = [pid]
    for each in pids:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                pids += [int(child) for child in task.read_text().split()]
    return pids


def kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def submitted(grid: Grid) -> list[tuple[str, str, int]]:
    """Runs of all submissions. Asserts that SLURM has exactly the jobs that the records contain."""
    submissions = load_submissions(grid.out, grid.name)
    names = slurm("sacct", "-n", "-X", "-P", "-S", "now-1hours", "-o", "JobName").split()
    queue = slurm("squeue", "-h", "-r", "-u", getpass.getuser(), "-o", "%j|%i").splitlines()
    runs = []
    for submission in submissions:
        jobs = [line for line in queue if line.startswith(f"{submission.plan.name}|")]
        assert len(jobs) == len(submission.plan.shares), (jobs, submission.plan.shares)
        assert names.count(submission.plan.name) <= len(jobs)
        runs += submission.plan.runs
    recorded = {submission.plan.name for submission in submissions}
    prefixes = tuple(name[: -len("12345678")] for name in recorded)  # without the random part
    unrecorded = [line for line in queue if line.startswith(prefixes) and line.split("|")[0] not in recorded]
    assert not unrecorded, "jobs in the queue without a record"
    return runs


HELD_SBATCH = """\
#!/bin/sh
hold() { touch "PLACE/$1"; while [ -e "PLACE/hold-$1" ]; do sleep 0.02; done; }
hold asking
SBATCH "$@"; code=$?
hold answered
exit $code
"""
"""Wraps the real sbatch. It waits just before the request and just after the answer while a file holds it there, so that the
launcher can be killed at that moment."""

POINTS = {
    "the plan is written": "runs/killed/.slurm/*/plan.json",
    "pickles are written": "runs/killed/.slurm/*/*.pkl",
    "sbatch asks": "asking",
    "sbatch was answered": "answered",
    "pickles get their names": "runs/killed/.slurm/*/*_submitted.pkl",
}
"""Stages of a submission in order, and the file that marks each. The launcher is killed a random moment after it appears."""


@contextlib.contextmanager
def launcher_at(point: str, tmp_path: Path) -> Iterator[tuple[Grid, subprocess.Popen]]:
    """Start a launcher of 12 runs, which has reached this point when the block begins. It cannot end before the block, except
    at the last point."""
    grid = Grid(tmp_path / "grid", short("killed", seeds=[0, 1, 2]), HELD)
    stub = tmp_path / "bin" / "sbatch"
    stub.parent.mkdir()
    stub.write_text(HELD_SBATCH.replace("SBATCH", shutil.which("sbatch")).replace("PLACE", str(grid.folder)))
    stub.chmod(0o755)
    hold = grid.folder / ("hold-answered" if point == "sbatch was answered" else "hold-asking")
    if point != "pickles get their names":
        hold.touch()
    launcher = grid.start("run", "--on", grid.cluster_file, "--detach", PATH=f"{stub.parent}:{os.environ['PATH']}")
    wait_until(point, lambda: list(grid.folder.glob(POINTS[point])) or launcher.poll() is not None)
    try:
        yield grid, launcher
    finally:
        hold.unlink(missing_ok=True)


@pytest.mark.parametrize("with_descendants", [True, False])
@pytest.mark.parametrize("point", POINTS)
def test_the_launcher_is_killed_while_it_submits(cluster, tmp_path, point, with_descendants):
    with launcher_at(point, tmp_path) as (grid, launcher):
        time.sleep(random.Random(point).uniform(0, 0.05))
        if point != "pickles get their names":  # after which a launcher may end at any moment
            assert launcher.poll() is None, "it must be killed before it has finished"
        kill(descendants(launcher.pid) if with_descendants else [launcher.pid])
        launcher.wait()
    said = grid.submit()
    runs = submitted(grid)
    assert sorted(runs) == sorted(
        {(task, encoding, seed) for task in ("copying", "parity") for encoding in ("nope", "t5") for seed in range(3)}
    ), said
    assert all((folder / "job.json").exists() for folder in grid.records())
    again = grid.submit()
    assert "12 runs in the queue already" in again
    assert submitted(grid) == runs
    # The pickles that the jobs wait for exist, even if another launcher had to write them.
    for id in grid.queue():
        assert list(grid.out.glob(f"{grid.name}/.slurm/*/{id}_submitted.pkl"))


def test_ctrl_c_while_it_submits(cluster, tmp_path):
    """The submission is completed without another launcher."""
    with launcher_at("sbatch asks", tmp_path) as (grid, launcher):
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait() == 130
    wait_until("the record", lambda: list(grid.out.glob(f"{grid.name}/.slurm/*/job.json")))
    assert len(submitted(grid)) == 12
    assert all(list(grid.out.glob(f"{grid.name}/.slurm/*/{id}_submitted.pkl")) for id in grid.queue())


def test_killed_between_sbatch_and_the_record(cluster, tmp_path):
    """The worst moment: SLURM has the jobs but their id is not recorded. They are found by their name, and finish."""
    grid = Grid(tmp_path / "grid", short("orphaned"), {"runs_per_job": 2} | HELD)
    grid.submit()
    (folder,) = grid.records()
    (folder / "job.json").unlink()
    for pickle in folder.glob("*_submitted.pkl"):
        pickle.unlink()
    assert "4 runs in the queue already" in grid.submit()
    for id in sorted({id.split("_")[0] for id in grid.queue()}):
        slurm("scontrol", "release", id)
    grid.finish()
    assert grid.states() == ["done"] * 4


def test_a_record_that_was_never_submitted_is_deleted(cluster, tmp_path):
    grid = Grid(tmp_path / "grid", short("neverwas"), HELD)
    grid.submit()
    (folder,) = grid.records()
    slurm("scancel", *grid.queue())
    shutil.copytree(folder, folder.with_name("copy"))
    plan = folder.with_name("copy") / "plan.json"
    plan.write_text(plan.read_text().replace(folder.name, "copy"))
    (folder.with_name("copy") / "job.json").unlink()
    wait_until("an empty queue", lambda: not grid.queue())
    grid.submit()
    assert not folder.with_name("copy").exists()


def test_lost_records_stop_a_second_submission(cluster, tmp_path):
    grid = Grid(tmp_path / "grid", short("lostrecords"), HELD)
    grid.submit()
    for folder in grid.records():
        shutil.rmtree(folder)
    done = grid.lprime("run", "--on", grid.cluster_file, "--detach")
    assert done.returncode == 2
    assert "their records" in done.stderr
    assert "scancel" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not grid.records()


def test_as_many_jobs_as_the_site_allows(cluster, tmp_path):
    """Shares grow with the limit on jobs, but not because other jobs are in the queue."""
    grid = Grid(tmp_path / "grid", short("crowded", seeds=[0, 1, 2]), HELD | {"max_jobs": 5})
    assert "12 runs submitted in 4 jobs" in grid.submit()
    grid.suite_file.write_text(yaml.safe_dump(short("crowded", seeds=list(range(6)))))
    done = grid.lprime("run", "--on", grid.cluster_file, "--detach")
    assert done.returncode == 1
    assert "12 runs in the queue already" in done.stdout
    assert "3 runs submitted in 1 job:" in done.stdout
    assert "9 runs not yet submitted" in done.stdout
    assert "15 of 24 runs are queued, 9 not: run the command again" in done.stdout
    assert len(grid.queue()) == 5


def test_the_launchers_environment_has_no_effect(cluster, tmp_path, monkeypatch):
    """Variables as inside of another job, sbatch's own variables, and modules named like ours in the working directory."""
    (tmp_path / "tasks.py").write_text("raise ImportError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    grid = Grid(tmp_path / "grid", short("leaky"), {"runs_per_job": 4} | HELD)
    misleading = {
        "SLURM_JOB_ID": "1",
        "SLURM_ARRAY_TASK_ID": "3",
        "SLURM_MEM_PER_CPU": "1",
        "SBATCH_NO_REQUEUE": "1",
        "SBATCH_PARTITION": "short",
        "SBATCH_TIMELIMIT": "1",
        "PYTHONSAFEPATH": "1",
    }
    launcher = grid.start("run", "--on", grid.cluster_file, "--detach", **misleading)
    said, _ = launcher.communicate()
    assert launcher.returncode == 0, said
    (shown,) = slurm("squeue", "-h", "-o", "%P|%l|%j").splitlines()
    assert shown.startswith("main|10:00|lprime-leaky-")
    slurm("scontrol", "release", *grid.queue())
    grid.finish()
    assert grid.states() == ["done"] * 4


def test_other_jobs_may_have_any_name(cluster, tmp_path):
    slurm("sbatch", "-p", "main", "--hold", "--output=/dev/null", "-J", "train|lr=0.1|x", "--wrap", "true")
    grid = Grid(tmp_path / "grid", short("named"), HELD)
    grid.submit()
    assert grid.states() == ["queued"] * 4
    assert "4 jobs cancelled" in grid.lprime("cancel").stdout
    assert "train|lr=0.1|x" in slurm("squeue", "-h", "-o", "%j")


def test_runs_beyond_the_limit_are_submitted_later(cluster, tmp_path):
    """The watching command submits them as soon as there is room."""
    first = Grid(tmp_path / "first", short("first"), HELD)
    first.submit()
    second = Grid(tmp_path / "second", short("second"), {"max_jobs": 4, "runs_per_job": 4})
    watcher = second.start("run", "--on", second.cluster_file)
    assert watcher.stdout
    assert any("4 runs not yet submitted" in line for line in watcher.stdout)
    assert not second.queue()
    assert first.lprime("cancel").returncode == 0
    said, _ = watcher.communicate(timeout=PATIENCE_S)
    assert watcher.returncode == 0, said
    assert second.states() == ["done"] * 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"partition": "mian"}, ["partition", "mian", "main"]),
        ({"account": "laab"}, ["account", "laab", "lab"]),
        ({"qos": "norml"}, ["QOS", "norml", "normal"]),
        ({"partition": "short", "time_minutes": 30}, ["short", "2 minutes", "time_minutes asks for 30"]),
        ({"cpus_per_job": 500}, ["2 CPUs", "cpus_per_job asks for 500"]),
        ({"memory_gb": 5000}, ["no node of partition main", "5000"]),
        ({"gpus_per_job": 7}, ["no node of partition main", "7 GPUs"]),
        ({"sbatch": {"reservation": "nobody"}}, ["sbatch refused", "reservation"]),
        ({"sbatch": {"no-such-option": True}}, ["sbatch refused", "no-such-option"]),
    ],
)
def test_errors_are_explained_in_terms_of_the_cluster_file(cluster, tmp_path, change, words):
    grid = Grid(tmp_path / "grid", short("mistaken"), change)
    done = grid.lprime("run", "--on", grid.cluster_file, "--detach")
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr
    assert not grid.records()
    assert not grid.queue()


def test_slurm_does_not_answer(cluster, tmp_path, monkeypatch):
    """Nothing is concluded and nothing submitted."""
    grid = Grid(tmp_path / "grid", short("silent"), HELD)
    grid.submit()
    config = tmp_path / "slurm.conf"
    config.write_text(Path(os.environ["SLURM_CONF"]).read_text().replace("SlurmctldPort=", "SlurmctldPort=1"))
    monkeypatch.setenv("SLURM_CONF", str(config))
    done = grid.lprime("run", "--on", grid.cluster_file, "--detach")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert len(grid.records()) == 1
    shown = grid.lprime("status")
    assert shown.returncode == 0
    assert "SLURM was not asked" in shown.stdout
