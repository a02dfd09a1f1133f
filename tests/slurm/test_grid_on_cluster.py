"""A grid on SLURM gives the results of the same runs in one process, whatever SLURM does to its jobs."""

import re

import pytest
import yaml
from grids import Grid, paced, slurm, wait_until
from support import ROOT, results

pytestmark = pytest.mark.slurm
TASK = {"task": "parity", "variant": "answer", "train_length": 4}


def test_the_quick_grid_equals_that_of_one_process(cluster, tmp_path):
    """All of ``quick``, 6 × 5 runs, with fewer steps."""
    suite = yaml.safe_load((ROOT / "bench/suites/quick.yaml").read_text())
    suite["recipe"] |= {"steps": 80, "warmup_steps": 10}
    grid = Grid(tmp_path / "grid", suite, {"runs_per_job": 8, "time_minutes": 30})
    done = grid.lprime("run", "--on", grid.cluster_file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "30 runs submitted in 4 jobs" in done.stdout
    assert "[30/30 runs" in done.stdout
    assert results(grid.out) == grid.local()
    again = grid.lprime("run", "--on", grid.cluster_file)
    assert "nothing to run: 30 of 30" in again.stdout
    assert set(grid.states()) == {"done"}
    grid.finish()  # the last job leaves the queue a moment after its results
    shown = grid.lprime("status")
    assert "CPU-hours" in shown.stdout
    assert "0 jobs in the queue" in shown.stdout


def test_preempted_several_times(cluster, tmp_path):
    grid = Grid(tmp_path / "grid", paced(tmp_path, "preempted", tasks=[TASK]), {"partition": "low"})
    grid.submit()
    run, reached = "parity sleepy seed 0", [0]
    for _ in range(3):
        wait_until("more steps", lambda: grid.trained(reached[-1] + 5) and len(starts_of(grid, run)) == len(reached))
        reached.append(max(beat["step"] for progress in grid.progress() for beat in progress["beats"]))
        slurm("sbatch", "-W", "-p", "high", "-N", "2", "-c", "2", "--output=/dev/null", "--wrap", "sleep 1")
    grid.finish()
    assert results(grid.out) == grid.local()
    assert max(progress["starts"] for progress in grid.progress()) >= 4
    assert_resumed(grid, run, reached)


def starts_of(grid: Grid, run: str) -> list[int]:
    """The step that the log gives for a run after each start of its job, a moment later."""
    return [int(step) for step in re.findall(rf"^{run}: at step (\d+)$", grid.log(), re.MULTILINE)]


def assert_resumed(grid: Grid, run: str, reached: list[int]) -> None:
    """At each start the run continues at or after the step at which its job was last stopped."""
    begun = starts_of(grid, run)
    assert len(begun) == len(reached)
    assert all(at >= before for at, before in zip(begun, reached, strict=True)), (begun, reached)


def test_one_member_of_an_array_is_preempted(cluster, tmp_path):
    """The last one, whose SLURM_JOB_ID is also the id of the array: the others are not affected."""
    suite = paced(tmp_path, "member")
    grid = Grid(tmp_path / "grid", suite, {"partition": "low", "cpus_per_job": 2})
    grid.submit()
    wait_until("both at work", lambda: len([p for p in grid.progress() if p["beats"] and p["beats"][0]["step"] > 5]) == 2)
    (node,) = [p["node"] for p in grid.progress() if p["share"] == 1]
    slurm("sbatch", "-W", "-p", "high", "-w", node, "-c", "2", "--output=/dev/null", "--wrap", "sleep 1")
    grid.finish()
    assert {p["share"]: p["starts"] for p in grid.progress()} == {0: 1, 1: 2}
    assert results(grid.out) == grid.local()


def test_one_member_of_an_array_is_cancelled(cluster, tmp_path):
    """It stays cancelled; the other is not affected."""
    grid = Grid(tmp_path / "grid", paced(tmp_path, "onegone"))
    grid.submit()
    wait_until("a checkpoint of both", lambda: len(list(grid.out.rglob("checkpoint.safetensors"))) == 2)
    (last,) = [id for id in grid.queue() if id.endswith("_1")]
    slurm("scancel", last)
    grid.finish()
    assert sorted(row["state"] for row in grid.status()) == ["done", "paused"]


def test_a_node_dies(cluster, tmp_path):
    grid = Grid(tmp_path / "grid", paced(tmp_path, "deadnode"), {"cpus_per_job": 2})
    grid.submit()
    wait_until("both nodes at work", lambda: len({p["node"] for p in grid.progress() if p["beats"]}) == 2)
    wait_until("some steps", lambda: grid.trained(10))
    cluster.kill_node("n1")
    try:
        wait_until("the dead node's job on the other one", lambda: any(p["starts"] > 1 for p in grid.progress()))
        grid.finish()
        assert {p["node"] for p in grid.progress()} == {"n2"}
    finally:
        cluster.start_node("n1")
    assert results(grid.out) == grid.local()


def test_a_time_limit_shorter_than_a_run(cluster, tmp_path):
    grid = Grid(tmp_path / "grid", paced(tmp_path, "limited", tasks=[TASK]), {"time_minutes": 1, "save_before_s": 15})
    grid.submit()
    wait_until("a second start", lambda: any(p["starts"] > 1 for p in grid.progress()))
    grid.finish()
    assert results(grid.out) == grid.local()
    assert "the time limit is near: saved, and back into the queue" in grid.log()
