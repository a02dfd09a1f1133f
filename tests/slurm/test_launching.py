"""Launchers that are killed anywhere lose no run and make none run twice."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from grids import PATIENCE_S, Grid, paced, short, slurm, wait_until

from slurm.records import read_plans

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
    grid = Grid(tmp_path / "grid", paced(tmp_path, "killed", 60, 0.1, seeds=[0, 1]), {"runs_per_job": 2} | HELD)
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
    """The next one submits what SLURM does not have. An sbatch that outlives its launcher adds jobs, which find the results."""
    with launcher_at(point, tmp_path) as (grid, launcher):
        if how == "Ctrl-C":
            os.killpg(launcher.pid, signal.SIGINT)
        else:
            for pid in descendants(launcher.pid) if how == "with sbatch" else [launcher.pid]:
                os.kill(pid, signal.SIGKILL)
        launcher.communicate(timeout=PATIENCE_S)
        said = grid.submit()
    assert ("4 runs in the queue already" in said) == (point == "answered"), said
    assert "4 runs in the queue already" in grid.submit()
    wait_until("the outliving sbatch", lambda: len(grid.queue()) == 2 + 2 * (point == "asking" and how == "alone"))
    slurm("scontrol", "release", *{id.split("_")[0] for id in grid.queue()})
    wait_until("the jobs to end", lambda: not grid.queue())  # slow enough that the log tells of every run
    assert grid.states() == ["done"] * 4
    begun = Counter(line.partition(": at step")[0] for line in grid.log().splitlines() if ": at step" in line)
    assert len(begun) == 4 and set(begun.values()) == {1}, "no run was made twice"


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
    (plan,) = read_plans(grid.out, grid.name)
    shown = slurm("scontrol", "show", "job", "-o", grid.queue()[0])
    assert "Partition=main " in shown and "TimeLimit=00:11:00" in shown and "Requeue=1" in shown
    grid.finish()
    assert grid.states() == ["done"] * 4
    assert "4 of 4 runs of this job to do" in (plan.folder / "0.log").read_text()
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"partition": "mian"}, "invalid partition specified: mian"),
        ({"account": "laab"}, "Invalid account"),
        ({"partition": "short", "time_minutes": 30}, "Requested time limit is invalid"),
        ({"gpus_per_job": 7}, "Requested node configuration is not available"),
        ({"sbatch": {"no-such-option": True}}, "no-such-option"),
    ],
)
def test_what_slurm_refuses_is_one_line(cluster, tmp_path, change, words):
    grid = Grid(tmp_path / "grid", short("mistaken"), change)
    done = grid.lprime("run", "--on", grid.cluster_file, "--detach")
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1 and words in done.stderr
    assert not grid.records() and not grid.queue()
