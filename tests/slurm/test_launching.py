"""Launchers that are killed anywhere lose no run and make none run twice; errors are explained in terms of the cluster file."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from grids import PATIENCE_S, Grid, paced, short, slurm, wait_until
from support import results

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


@contextlib.contextmanager
def launcher_at(point: str, tmp_path: Path) -> Iterator[tuple[Grid, subprocess.Popen]]:
    """Start a launcher of 4 runs in 2 jobs, which stands at this point until the end of the block."""
    grid = Grid(tmp_path / "grid", short("killed"), {"runs_per_job": 2} | HELD)
    stub = tmp_path / "bin" / "sbatch"
    stub.parent.mkdir()
    stub.write_text(HELD_SBATCH.replace("SBATCH", shutil.which("sbatch")).replace("PLACE", str(grid.folder)))
    stub.chmod(0o755)
    hold = grid.folder / f"hold-{point}"
    hold.touch()
    launcher = grid.start("run", "--on", grid.cluster_file, "--detach", PATH=f"{stub.parent}:{os.environ['PATH']}")
    wait_until(point, lambda: (grid.folder / point).exists() or launcher.poll() is not None)
    assert launcher.poll() is None
    try:
        yield grid, launcher
    finally:
        hold.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("point", "how"),
    [("asking", "alone"), ("asking", "with sbatch"), ("answered", "alone"), ("asking", "Ctrl-C")],
)
def test_the_launcher_ends_while_it_submits(cluster, tmp_path, point, how):
    """The next one submits what SLURM does not have. An sbatch that outlives its launcher may add jobs, which do nothing."""
    with launcher_at(point, tmp_path) as (grid, launcher):
        if how == "Ctrl-C":
            os.killpg(launcher.pid, signal.SIGINT)
        else:
            for pid in descendants(launcher.pid) if how == "with sbatch" else [launcher.pid]:
                os.kill(pid, signal.SIGKILL)
        launcher.communicate(timeout=PATIENCE_S)
        said = grid.submit()
    assert ("4 runs in the queue already" in said) == (point == "answered"), said
    (submission,) = load_submissions(grid.out, grid.name)
    assert len(submission.plan.runs) == 4 and submission.job
    assert "4 runs in the queue already" in grid.submit()
    wait_until("the outliving sbatch", lambda: len(grid.queue()) == 2 + 2 * (point == "asking" and how == "alone"))
    slurm("scontrol", "release", *{id.split("_")[0] for id in grid.queue()})
    grid.finish()
    assert grid.states() == ["done"] * 4
    begun = Counter(line.partition(": at step")[0] for line in grid.log().splitlines() if ": at step" in line)
    assert len(begun) == 4 and set(begun.values()) == {1}, "no run was made twice"


def test_two_jobs_of_the_same_runs(cluster, tmp_path):
    """As after records are lost: a launcher submits the runs again. Their locks keep the jobs apart."""
    grid = Grid(tmp_path / "grid", paced(tmp_path, "twice"), {"runs_per_job": 2, "cpus_per_job": 1})
    grid.submit()
    wait_until("a run", lambda: grid.trained(1))
    hidden = grid.records()[0].rename(tmp_path / "hidden")
    assert "2 runs submitted in 1 job" in grid.submit()
    wait_until("the second job", lambda: grid.starts() == {0: 1})
    grid.finish()
    assert grid.states() == ["done"] * 2
    assert results(grid.out) == grid.local()
    assert hidden.exists()
    logs = "".join(path.read_text() for path in hidden.glob("*.log")) + grid.log()
    begun = Counter(line.partition(": at step")[0] for line in logs.splitlines() if ": at step" in line)
    assert set(begun.values()) == {1}, "no run was made twice"


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


def test_runs_beyond_the_limit_are_submitted_later(cluster, tmp_path):
    """The watching command submits them as soon as there is room. Other jobs may have any name."""
    slurm("sbatch", "-p", "main", "--hold", "--output=/dev/null", "-J", "train|lr=0.1|x", "--wrap", "true")
    first = Grid(tmp_path / "first", short("first"), {"runs_per_job": 2} | HELD)
    first.submit()
    assert first.states() == ["queued"] * 4
    second = Grid(tmp_path / "second", short("second"), {"max_jobs": 3, "runs_per_job": 4})
    watcher = second.start("run", "--on", second.cluster_file)
    assert watcher.stdout
    assert any("4 runs not yet submitted" in line for line in watcher.stdout)
    assert not second.queue()
    assert "2 jobs cancelled" in first.lprime("cancel").stdout
    said, _ = watcher.communicate(timeout=PATIENCE_S)
    assert watcher.returncode == 0, said
    assert second.states() == ["done"] * 4
    assert "train|lr=0.1|x" in slurm("squeue", "-h", "-o", "%j")


def test_the_launchers_environment_has_no_effect(cluster, tmp_path, monkeypatch):
    """Variables as inside of another job, sbatch's own variables, and modules named like ours in the working directory. The
    names of folders have a meaning for the shell or sbatch."""
    (tmp_path / "tasks.py").write_text("raise ImportError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    grid = Grid(tmp_path / 'a "grid" of 100 %j\'s $(touch x)', short("leaky"), {"runs_per_job": 4, "time_minutes": 11})
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
    (job,) = load_submissions(grid.out, grid.name)
    shown = slurm("scontrol", "show", "job", "-o", job.job)
    assert "Partition=main " in shown and "TimeLimit=00:11:00" in shown and "Requeue=1" in shown
    grid.finish()
    assert grid.states() == ["done"] * 4
    assert "4 of 4 runs of this job to do" in job.log(0).read_text()
    assert not (tmp_path / "x").exists()


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
