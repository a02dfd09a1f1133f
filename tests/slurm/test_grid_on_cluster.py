"""A grid on SLURM gives the results of the same runs in one process, whatever SLURM does to its jobs."""

import re

import pytest
import yaml
from grids import Grid, paced, short, slurm, wait_until, write_encoding
from support import ROOT, lprime, results

pytestmark = pytest.mark.slurm
TASK = {"task": "parity", "variant": "answer", "train_length": 4}


def test_the_quick_grid_equals_that_of_one_process(cluster, tmp_path):
    """All of ``quick``, 6 × 5 runs, with fewer steps."""
    suite = yaml.safe_load((ROOT / "bench/suites/quick.yaml").read_text())
    suite["recipe"] |= {"steps": 20, "warmup_steps": 5}
    grid = Grid(tmp_path / "grid", suite, {"runs_per_job": 8, "time_minutes": 30})
    done = grid.lprime("run", "--on", grid.cluster_file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "30 runs submitted in 4 jobs" in done.stdout
    assert "30/30 runs" in done.stdout
    assert results(grid.out) == grid.local()
    again = grid.lprime("run", "--on", grid.cluster_file)
    assert "nothing to run: 30 of 30" in again.stdout
    assert set(grid.states()) == {"done"}
    grid.finish()  # the last job leaves the queue a moment after its results
    assert "0 jobs in the queue" in grid.lprime("status").stdout


def test_preempted_several_times(cluster, tmp_path):
    """At each start the run continues at or after the step at which its job was stopped."""
    grid = Grid(tmp_path / "grid", paced(tmp_path, "preempted", tasks=[TASK]), {"partition": "low"})
    grid.submit()
    reached: list[int] = []
    for number in range(1, 4):
        wait_until("more steps", lambda n=number, at=max([0, *reached]): grid.starts() == {0: n} and grid.trained(at + 5))
        reached += grid.steps()
        slurm("sbatch", "-W", "-p", "high", "-N", "2", "-c", "2", "--output=/dev/null", "--wrap", "sleep 1")
    grid.finish()
    assert results(grid.out) == grid.local()
    begun = [int(step) for step in re.findall(r"^parity sleepy seed 0: at step (\d+)$", grid.log(), re.MULTILINE)]
    assert grid.starts()[0] == 4 and len(begun) in (3, 4), "the last start may end before its first report"
    assert all(at >= before for at, before in zip(begun, [0, *reached], strict=False)), (begun, reached)


def test_one_member_of_an_array_is_preempted_and_then_cancelled(cluster, tmp_path):
    """The last one, whose SLURM_JOB_ID is also the id of the array: the other is not affected. It stays cancelled."""
    grid = Grid(tmp_path / "grid", paced(tmp_path, "member"), {"partition": "low", "cpus_per_job": 2})
    grid.submit()
    wait_until("both at work", lambda: grid.trained(5, runs=2))
    last = max(grid.queue())
    slurm("sbatch", "-W", "-p", "high", "-w", grid.nodes()[last], "-c", "2", "--output=/dev/null", "--wrap", "sleep 1")
    wait_until("its second start", lambda: grid.starts() == {0: 1, 1: 2} and grid.trained(5, runs=2))
    slurm("scancel", last)
    wait_until("its end", lambda: last not in grid.queue())
    grid.finish()
    assert grid.starts() == {0: 1, 1: 2}
    assert sorted(row["state"] for row in grid.lost()) == ["done", "paused"]
    assert "1 run submitted in 1 job:" in grid.submit()
    grid.finish()
    assert results(grid.out) == grid.local()


def test_a_node_dies(cluster, tmp_path):
    grid = Grid(tmp_path / "grid", paced(tmp_path, "deadnode"), {"cpus_per_job": 2})
    grid.submit()
    wait_until("both nodes at work", lambda: grid.trained(10, runs=2))
    assert sorted(grid.nodes().values()) == ["n1", "n2"]
    cluster.kill_node("n1")
    try:
        grid.release()
        grid.finish()
    finally:
        cluster.start_node("n1")
    assert sorted(grid.starts().values()) == [1, 2]
    assert results(grid.out) == grid.local()


def test_a_time_limit_shorter_than_a_run(cluster, tmp_path):
    grid = Grid(tmp_path / "grid", paced(tmp_path, "limited", tasks=[TASK]), {"time_minutes": 2, "save_before_s": 75})
    grid.submit()
    wait_until("a second start", lambda: grid.starts().get(0, 0) > 1)
    grid.finish()
    assert results(grid.out) == grid.local()
    assert "the time limit is near: saved, and back into the queue" in grid.log()


@pytest.mark.sandbox
def test_sealed_runs_of_a_submission(cluster, tmp_path):
    grid = Grid(tmp_path / "grid", short("judged", 20, tasks=[TASK], seeds=[0]))
    mine = write_encoding(tmp_path / "mine.py")
    mine.write_text(mine.read_text().replace("https://example.org", "https://example.org/mine"))
    done = lprime("submit", mine, "--suite", grid.suite_file, "--to", tmp_path / "submissions")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "submissions").rglob("submission.json")
    sealed = ("--sealed", "--encoding", folder.parent, "--on", grid.cluster_file)
    assert "1 run in 1 job" in grid.lprime("run", *sealed, "--dry-run").stdout
    done = grid.lprime("run", *sealed)
    assert done.returncode == 0, done.stdout + done.stderr + grid.log()
    (result,) = results(grid.out).values()
    assert result["sealed"] is True and result["encoding"]["name"] == "mine"
