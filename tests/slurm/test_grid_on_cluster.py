"""A grid through SLURM gives what the local pool gives, whatever SLURM does to its jobs."""

import json
import time

import pytest
from grids import Grid, paced, results, slurm, wait_until
from support import suite_dict

pytestmark = pytest.mark.slurm
ENCODINGS = ["nope", "sinusoidal", "learned", "t5", "alibi", "rope"]
TASKS = {"copying": "repeat", "addition": "reversed", "parity": "answer", "key_retrieval": "needle", "sorting": "unique"}


def test_a_whole_grid_equals_the_local_pools(cluster, tmp_path):
    """The grid of ``quick``, 6 × 5 runs of its model, with a twentieth of its steps."""
    suite = suite_dict(
        name="whole",
        encodings=ENCODINGS,
        recipe={"steps": 40, "batch": 64, "warmup_steps": 5},
        model={"layers": 2, "width": 64, "heads": 4, "mlp_width": 256},
        tasks=[{"task": task, "variant": variant, "train_length": 4} for task, variant in TASKS.items()],
    )
    grid = Grid(tmp_path / "grid", suite, {"runs_per_job": 8, "cpus_per_job": 2})
    done = grid.lprime("run", "--on", grid.cluster_file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "30 runs submitted in 4 jobs" in done.stdout
    assert "[30/30 runs" in done.stdout
    assert results(grid.out) == grid.local()
    again = grid.lprime("run", "--on", grid.cluster_file)
    assert "nothing to run: 30 of 30" in again.stdout
    assert set(grid.states()) == {"done"}
    shown = grid.lprime("status")
    assert "CPU-hours" in shown.stdout
    assert "0 jobs in the queue" in shown.stdout


def test_preempted_several_times(cluster, tmp_path):
    grid = Grid(
        tmp_path / "grid",
        paced("preempted", 5000, encodings=["nope"]),
        {"partition": "low", "cpus_per_job": 2, "runs_per_job": 2},
    )
    grid.submit()
    last = 0
    for _ in range(3):
        step = last + 300
        wait_until(f"step {step}", lambda step=step: grid.trained(step))
        last = max(beat["step"] for progress in grid.progress() for beat in progress["beats"])
        slurm("sbatch", "-W", "-p", "high", "-N", "2", "-c", "2", "--output=/dev/null", "--wrap", "sleep 1")
    grid.finish()
    assert results(grid.out) == grid.local()
    assert max(progress["starts"] for progress in grid.progress()) >= 4
    no_run_began_again(grid)


def no_run_began_again(grid: Grid) -> None:
    """Dates of start come out of the checkpoint: each run that was cut off began once, before its last job did."""
    for path in grid.out.rglob("result.json"):
        result = json.loads(path.read_text())
        losses = [step for step, _ in result["loss"]]
        assert losses == sorted(set(losses))
    first_starts = min(json.loads(path.read_text())["started"] for path in grid.out.rglob("result.json"))
    submitted = min(json.loads((folder / "plan.json").read_text())["created"] for folder in grid.records())
    assert first_starts < time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    assert submitted <= first_starts


def test_a_node_dies(cluster, tmp_path):
    grid = Grid(tmp_path / "grid", paced("deadnode", 5000, encodings=["nope"]), {"cpus_per_job": 2})
    grid.submit()
    wait_until("both nodes at work", lambda: len({p["node"] for p in grid.progress() if p["beats"]}) == 2)
    wait_until("some steps", lambda: grid.trained(400))
    cluster.kill_node("n1")
    try:
        wait_until("the dead node's job on the other one", lambda: any(p["starts"] > 1 for p in grid.progress()))
        grid.finish()
        assert {p["node"] for p in grid.progress()} == {"n2"}
    finally:
        cluster.start_node("n1")
    assert results(grid.out) == grid.local()


def test_a_time_limit_shorter_than_a_run(cluster, tmp_path):
    suite = paced("limited", 12000, encodings=["nope"], tasks=[{"task": "parity", "variant": "answer", "train_length": 4}])
    grid = Grid(tmp_path / "grid", suite, {"time_minutes": 1, "save_before_s": 15})
    grid.submit()
    wait_until("a second start", lambda: any(p["starts"] > 1 for p in grid.progress()))
    grid.finish()
    assert results(grid.out) == grid.local()
    assert "timed-out" in grid.log()
