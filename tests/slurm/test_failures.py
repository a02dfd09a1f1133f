"""Failures of runs and jobs are reported, and no finished result is lost."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from grids import PATIENCE_S, Grid, paced, short, slurm, wait_until, write_encoding
from support import results

pytestmark = pytest.mark.slurm
FRAGILE = """
calls = 0

def embed(self, x, at):
    self.calls += 1
    if self.calls == 50 and BROKEN:
        raise RuntimeError("it breaks at step 50")
    return x
"""
BROKEN, WORKING = (FRAGILE.replace("BROKEN", value) for value in ("True", "False"))


@pytest.fixture
def fragile(tmp_path):
    """An encoding that fails at its fiftieth training step."""
    return write_encoding(tmp_path / "fragile.py", BROKEN)


def test_a_run_fails(cluster, tmp_path, fragile):
    grid = Grid(tmp_path / "grid", short("broken", 200, encodings=["nope", str(fragile)]), {"runs_per_job": 4})
    done = grid.lprime("run", "--on", grid.cluster_file)
    assert done.returncode == 1 and "2 of 4 runs failed" in done.stdout and "it breaks at step 50" in done.stdout
    assert grid.states() == ["done", "done", "failed", "failed"]
    assert "RuntimeError: it breaks at step 50" in grid.lprime("status").stdout
    again = grid.lprime("run", "--on", grid.cluster_file)
    assert again.returncode == 1 and "2 failed before; --retry-failed runs them again" in again.stdout
    write_encoding(fragile, WORKING)
    fixed = grid.lprime("run", "--on", grid.cluster_file, "--retry-failed")
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
    assert "2 runs submitted" in fixed.stdout
    assert grid.states() == ["done"] * 4


def test_plugins_that_change_or_vanish_while_their_jobs_are_queued(cluster, tmp_path, fragile):
    """Their runs fail with the reason, the others go on."""
    write_encoding(fragile, WORKING)
    gone = write_encoding(tmp_path / "gone.py")
    names = ["nope", str(fragile), str(gone)]
    suite = short("changed", 50, encodings=names, tasks=[{"task": "parity", "variant": "answer", "train_length": 4}])
    grid = Grid(tmp_path / "grid", suite, {"runs_per_job": 4, "sbatch": {"hold": True}})
    grid.submit()
    write_encoding(fragile, WORKING + "# changed")
    gone.unlink()
    slurm("scontrol", "release", *grid.queue())
    grid.finish()
    # The suite names the deleted file too, so the status needs another suite file.
    grid.suite_file.write_text(yaml.safe_dump(suite | {"encodings": ["nope", str(fragile)]}))
    rows = {row["encoding"]: row for row in grid.status()}
    assert {name: row["state"] for name, row in rows.items()} == {"nope": "done", "fragile": "failed", "gone": "failed"}
    assert "changed after this run was asked for" in rows["fragile"]["reason"] and "gone.py" in rows["gone"]["reason"]


def test_cancelled_by_the_user(cluster, tmp_path):
    """A job that runs, and one that waits: sacct reports the two differently."""
    grid = Grid(tmp_path / "grid", paced(tmp_path, "cancelled"), {"cpus_per_job": 2, "jobs_at_once": 1})
    grid.submit()
    wait_until("some steps", lambda: grid.trained(10))
    slurm("scancel", *{id.split("_")[0] for id in grid.queue()})
    rows = grid.lost()
    assert sorted(row["state"] for row in rows) == ["missing", "paused"]
    assert all("was cancelled" in row["reason"] for row in rows)
    assert not list(grid.out.rglob("failure.json"))
    wait_until("the end of the jobs", lambda: not grid.queue())
    assert "2 runs submitted" in grid.submit()
    grid.finish()
    assert results(grid.out) == grid.local()


def test_a_lost_job(cluster, tmp_path):
    """Its node fails and SLURM does not requeue it: the watching command says so, and the next one submits its runs again."""
    grid = Grid(tmp_path / "grid", paced(tmp_path, "lostjob"), {"runs_per_job": 2})
    watcher = grid.start("run", "--on", grid.cluster_file)
    wait_until("steps", lambda: grid.trained(10))
    ((id, node),) = grid.nodes().items()
    # As on a site that does not requeue jobs.
    slurm("scontrol", "update", f"jobid={id}", "requeue=0")
    cluster.kill_node(node)
    try:
        said, _ = watcher.communicate(timeout=PATIENCE_S)
    finally:
        cluster.start_node(node)
    assert watcher.returncode == 1 and "2 of 2 runs lost their jobs" in said and "lost its node" in said, said
    assert "2 runs submitted" in grid.submit()
    grid.finish()
    assert results(grid.out) == grid.local()


def test_ctrl_c_does_not_affect_the_jobs(cluster, tmp_path):
    grid = Grid(tmp_path / "grid", paced(tmp_path, "watched"), {"runs_per_job": 2, "cpus_per_job": 2})
    watcher = grid.start("run", "--on", grid.cluster_file)
    wait_until("steps", lambda: grid.trained(5, runs=2))
    watcher.send_signal(signal.SIGINT)
    said, _ = watcher.communicate(timeout=PATIENCE_S)
    assert watcher.returncode == 130 and "the jobs continue" in said
    assert grid.states() == ["running", "running"]
    grid.release()
    wait_until("the end", lambda: grid.states() == ["done", "done"])


def fill(filler: Path) -> None:
    """Let a file take all of its small disk, except for two pages."""
    disk = os.statvfs(filler.parent)
    if (more := disk.f_bavail * disk.f_frsize - 8192) > 0:
        with contextlib.suppress(OSError), open(filler, "ab") as file:  # the job writes too: there may be less by now
            os.posix_fallocate(file.fileno(), file.tell(), more)


def test_the_shared_disk_is_full(cluster, tmp_path):
    """Earlier results remain; the job's exit code reports the error. There is room for a report of a failure, but not for a
    checkpoint: that is no failure of the run."""
    grid = Grid(tmp_path / "grid", paced(tmp_path, "fulldisk", pace_s=0.04), {"runs_per_job": 2, "cpus_per_job": 1})
    grid.out.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", grid.out], check=True)
    try:
        grid.submit()
        wait_until("the first result", lambda: list(grid.out.rglob("result.json")))
        before = results(grid.out)
        wait_until("the second run", lambda: grid.trained(10))
        filler = grid.out / "filler"
        # Again and again, since a checkpoint that was just being written frees the one that it replaces.
        wait_until("the job to end", lambda: fill(filler) or not grid.queue())
        rows = grid.lost()
        assert sorted(row["state"] for row in rows)[0] == "done"
        (lost,) = [row for row in rows if row["state"] != "done"]
        assert lost["state"] in ("paused", "missing")
        assert "disk full" in lost["reason"]
        assert results(grid.out) == before
        filler.unlink()
        assert "1 run submitted in 1 job:" in grid.submit()
        grid.finish()
        assert grid.states() == ["done", "done"]
        assert results(grid.out) == grid.local()
    finally:
        subprocess.run(["umount", grid.out], check=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"python": "/no/such/python"}, "cannot import lprime"),
        ({"mps": True, "gpus_per_job": 1}, "Multi-Process Service"),
        ({"gpus_per_job": 1}, "torch sees fewer GPUs"),
    ],
)
def test_a_node_is_not_set_up(cluster, tmp_path, change, words):
    """No run is tried, and none has failed."""
    grid = Grid(tmp_path / "grid", short("unset", encodings=["nope"]), {"runs_per_job": 2} | change)
    grid.submit()
    grid.finish()
    assert all(words in row["reason"] for row in grid.lost())
    assert grid.states() == ["missing", "missing"]
    assert not list(grid.out.rglob("failure.json"))
