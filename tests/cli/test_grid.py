"""Running a grid with the real command, in real processes, with real kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import lprime, results, start_lprime, wait_for


def children(process: subprocess.Popen) -> list[int]:
    """Process ids of the command's own children."""
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_running_again_skips_finished_runs(tiny, tmp_path):
    suite, out = tiny(), tmp_path / "runs"
    first = lprime("run", suite, "--out", out, "--task", "copying", "--workers", 1)
    assert first.returncode == 0, first.stderr
    before = {p: p.stat().st_mtime_ns for p in out.rglob("result.json")}
    assert len(before) == 2
    second = lprime("run", suite, "--out", out, "--workers", 1)
    assert "2 of 4 runs to do" in second.stdout
    assert all(p.stat().st_mtime_ns == t for p, t in before.items()), "finished runs are skipped"
    assert "nothing to run: 4 of 4" in lprime("run", suite, "--out", out).stdout
    states = json.loads(lprime("status", suite, "--out", out, "--json").stdout)
    assert len(states) == 4
    assert {s["state"] for s in states} == {"done"}
    assert states[0].keys() == {"task", "encoding", "seed", "state"}
    part = json.loads(lprime("status", suite, "--out", out, "--json", "--task", "copying", "--encoding", "nope").stdout)
    assert part == [s for s in states if (s["task"], s["encoding"]) == ("copying", "nope")] != []
    group = lprime("status", suite, "--out", out, "--encoding", "all", "--encoding", "nope").stdout
    assert "4 runs: 4 done" in group, "members of a group without runs are no mistake"
    mistake = lprime("status", suite, "--out", out, "--seed", 7)
    refusal = f"lprime: unknown seed among the runs of suite {suite} '7'; expected one of: 0\n"
    assert (mistake.returncode, mistake.stderr) == (2, refusal)
    assert not list(out.rglob("checkpoint*")), "a finished run keeps no checkpoint"
    assert not list(out.rglob("lock"))


def test_a_grid_killed_at_random_moments_gives_the_same_results(tiny, tmp_path):
    suite = tiny(recipe={"steps": 300})
    whole = lprime("run", suite, "--out", tmp_path / "whole", "--workers", 1)
    assert whole.returncode == 0, whole.stderr
    rng, kills = random.Random(0), 0
    for _ in range(3):
        process = start_lprime("run", suite, "--out", tmp_path / "cut", "--checkpoint-every", 0)
        # The clock starts with the first run: no state is lost during imports.
        deadline = time.monotonic() + 60
        while not list((tmp_path / "cut").rglob("checkpoint*")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 2.0))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    assert kills, "the grid ended before it could be killed: make it longer"
    assert lprime("run", suite, "--out", tmp_path / "cut", "--workers", 1).returncode == 0
    assert results(tmp_path / "cut") == results(tmp_path / "whole")
    remaining = {p.name for p in (tmp_path / "cut").rglob("*") if p.is_file()}
    assert remaining == {"result.json", "weights.safetensors"}, "checkpoints, locks and partial files are deleted"
    assert len(results(tmp_path / "whole")) == 4


def test_status_shows_the_step_of_a_running_run(tiny, tmp_path):
    suite, out = tiny(recipe={"steps": 100000}, encodings=["nope"]), tmp_path / "runs"
    process = start_lprime("run", suite, "--out", out, "--workers", 1)
    wait_for(process, out, "heartbeat.json")
    (row,) = [s for s in json.loads(lprime("status", suite, "--out", out, "--json").stdout) if s["state"] == "running"]
    shown = lprime("status", suite, "--out", out).stdout
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert 0 < row["step"] < row["steps"] == 100000
    assert row["share"] == round(row["step"] / 100000, 4)
    assert f"copying nope seed {row['seed']}" in shown and "/100000" in shown
    after = json.loads(lprime("status", suite, "--out", out, "--json").stdout)
    assert not any(s["state"] == "running" or "step" in s for s in after), "a heartbeat left behind is ignored"


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_soon_and_loses_nothing(tiny, tmp_path, stop):
    suite, out = tiny(recipe={"steps": 100000}), tmp_path / "runs"
    process = start_lprime("run", suite, "--out", out, "--checkpoint-every", 2)
    wait_for(process, out, "checkpoint.safetensors")  # training has started
    stopped = time.time()
    os.killpg(process.pid, stop) if stop == signal.SIGINT else process.send_signal(stop)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "re-run to resume" in output
    assert "Traceback" not in errors
    assert any(p.stat().st_mtime > stopped for p in out.rglob("checkpoint.safetensors")), "saved on stopping"
    states = {s["state"] for s in json.loads(lprime("status", suite, "--out", out, "--json").stdout)}
    assert states <= {"paused", "missing"}
    assert "paused" in states


def test_workers_end_when_the_command_is_killed(tiny, tmp_path):
    process = start_lprime("run", tiny(recipe={"steps": 100000}), "--out", tmp_path / "runs", "--workers", 1)
    wait_for(process, tmp_path / "runs", "lock")
    offspring = children(process)
    assert offspring
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in offspring) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in offspring), "no worker outlives the command"


def test_one_failed_run_never_stops_the_others(tiny, tmp_path):
    suite, out = tiny(), tmp_path / "runs"
    # A folder in place of the checkpoint: this run can neither resume nor save.
    (out / "tiny/copying/t5/seed-0/checkpoint.safetensors").mkdir(parents=True)
    alone = lprime("run", suite, "--out", out, "--workers", 1, "--task", "copying", "--encoding", "t5")
    assert (alone.returncode, "the board:" in alone.stdout) == (1, False), "nothing to render"
    first = lprime("run", suite, "--out", out, "--workers", 1, "--retry-failed")
    assert (first.returncode, "the board:" in first.stdout) == (1, True)
    assert "1 of 4 runs failed" in first.stdout
    assert len(results(out)) == 3
    failure = json.loads((out / "tiny/copying/t5/seed-0/failure.json").read_text())
    assert "checkpoint.safetensors" in failure["error"]
    again = lprime("run", suite, "--out", out)
    assert again.returncode == 1
    assert "1 failed before; --retry-failed runs them again" in again.stdout
    assert failure["error"] in again.stdout
    (out / "tiny/copying/t5/seed-0/checkpoint.safetensors").rmdir()
    last = lprime("run", suite, "--out", out, "--retry-failed", "--workers", 1)
    assert last.returncode == 0, last.stdout
    assert len(results(out)) == 4
    assert not (out / "tiny/copying/t5/seed-0/failure.json").exists()


def test_a_stopped_retry_is_not_a_failure(tiny, tmp_path):
    suite, out = tiny(recipe={"steps": 100000}), tmp_path / "runs"
    folder = out / "tiny/copying/nope/seed-0"
    (folder / "checkpoint.safetensors").mkdir(parents=True)
    only = ("--out", out, "--task", "copying", "--encoding", "nope")
    assert lprime("run", suite, *only).returncode == 1
    (folder / "checkpoint.safetensors").rmdir()
    process = start_lprime("run", suite, *only, "--retry-failed", "--checkpoint-every", 0)
    wait_for(process, out, "checkpoint.safetensors")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (folder / "failure.json").exists()
    (state,) = [
        s["state"]
        for s in json.loads(lprime("status", suite, "--out", out, "--json").stdout)
        if s["encoding"] == "nope" and s["task"] == "copying"
    ]
    assert state == "paused", "running again resumes"


def test_settings_in_a_suite_have_one_normalised_name(tiny, tmp_path):
    suite, out = tiny(encodings=["rope( base = 500 )"], seeds=[0]), tmp_path / "runs"
    assert lprime("run", suite, "--out", out, "--workers", 1).returncode == 0
    assert {p.parent.parent.name for p in out.rglob("result.json")} == {"rope(base=500.0)"}
    assert {s["state"] for s in json.loads(lprime("status", suite, "--out", out, "--json").stdout)} == {"done"}
    board = lprime("board", suite, "--out", out)
    assert board.returncode == 0, board.stderr
    assert "rope(base=500.0)" in board.stdout and "missing" not in board.stdout
    assert lprime("board", "--out", out).stdout.startswith("Suite tiny, version 1: 1 encoding"), (
        "without a name, every folder with results"
    )


def test_a_changed_source_is_reported(tiny, tmp_path):
    suite, out = tiny(encodings=["nope"]), tmp_path / "runs"
    assert lprime("run", suite, "--out", out, "--workers", 1).returncode == 0
    for path in out.rglob("result.json"):
        content = json.loads(path.read_text())
        content["encoding"]["source_sha256"] = "0" * 64
        path.write_text(json.dumps(content))
    assert "caution: the source of nope has changed since 2 of its runs" in lprime("run", suite, "--out", out).stdout


def test_a_closed_output_pipe_stops_no_run(tiny, tmp_path):
    command = f"{sys.executable} -m lprime run {tiny()} --out {tmp_path / 'runs'} --workers 1 | true"
    subprocess.run(["bash", "-c", command], capture_output=True, timeout=120)
    assert len(results(tmp_path / "runs")) == 4


def test_a_worker_killed_from_outside_fails_its_run_alone(tiny, tmp_path):
    suite, out = tiny(recipe={"steps": 400}), tmp_path / "runs"
    process = start_lprime("run", suite, "--out", out, "--workers", 1)
    wait_for(process, out, "lock")
    (worker,) = [pid for pid in children(process) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(worker, signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "its worker process died (signal SIGKILL" in output
    assert len(results(out)) == 3, "a new worker took the other runs"


def test_a_worker_stopped_by_a_signal_saves_its_run_and_another_resumes_it(tiny, tmp_path):
    """A cluster that ends a job sends the signal to all its processes."""
    suite, out = tiny(recipe={"steps": 300}, encodings=["nope"]), tmp_path / "runs"
    process = start_lprime("run", suite, "--out", out, "--workers", 1, "--checkpoint-every", 0)
    wait_for(process, out, "checkpoint.safetensors")
    (worker,) = [pid for pid in children(process) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(worker, signal.SIGUSR2)  # ignored: a cluster sends it to every process, but only the main one acts on it
    os.kill(worker, signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "FAILED" not in output
    assert lprime("run", suite, "--out", tmp_path / "whole", "--workers", 1).returncode == 0
    assert results(out) == results(tmp_path / "whole")


LOOKS = '''
import os
from pathlib import Path
from bench.encodings import Encoding, Info

class Looks(Encoding):
    """Records which GPUs its process sees."""

    info = Info(
        name="looks", family="test", title="A test", authors="Nobody", year=2026, link="https://example.org", formula="q·k",
        past="the same", provenance="a test", shift_invariant=True
    )

    def __init__(self, setup):
        super().__init__(setup)
        Path("SEEN", os.environ.get("CUDA_VISIBLE_DEVICES", "all") + f" {os.getpid()}").touch()
'''


WAIT_FOR_ALL = """
        import time
        deadline = time.monotonic() + 300
        while len(os.listdir("SEEN")) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
"""
"""Continues ``Looks`` where four workers run: none takes a second run because another is slow to start."""


def test_workers_are_spread_over_gpus(tiny, tmp_path, monkeypatch):
    from bench.plugins.registry import get_encoding
    from bench.runs.pool import LocalPool
    from bench.runs.run import plan_runs
    from bench.suites.suite import load_suite

    (tmp_path / "seen").mkdir()
    (tmp_path / "looks.py").write_text((LOOKS + WAIT_FOR_ALL).replace("SEEN", str(tmp_path / "seen")))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    get_encoding(str(tmp_path / "looks.py"))
    suite = load_suite(str(tiny(encodings=[str(tmp_path / "looks.py")], seeds=[0, 1])))
    failed: list[str] = []
    pool = LocalPool(workers=4, device="cpu", gpus=("GPU-a", "GPU-b"))
    runs = plan_runs(suite)
    pool.execute(runs, tmp_path / "runs", lambda event: failed.append(event.text) if event.kind == "failed" else None)
    assert not failed
    seen = [path.name.split()[0] for path in (tmp_path / "seen").iterdir()]
    assert sorted(seen) == ["GPU-a", "GPU-a", "GPU-b", "GPU-b"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "", "a later pool sees all devices again"


CUDA_ERROR = 'raise RuntimeError("CUDA error: an illegal memory access was encountered")'
FAILED_RECORDING = "__import__('bench.training.cuda_graphs').training.cuda_graphs.Allocator.broken = True"


@pytest.mark.parametrize(("broken", "failures"), [(CUDA_ERROR, 2), (FAILED_RECORDING, 0)])
def test_a_process_with_broken_cuda_makes_no_further_run(tiny, tmp_path, fresh_registry, broken, failures):
    from bench.plugins.registry import get_encoding
    from bench.runs.pool import LocalPool
    from bench.runs.run import plan_runs
    from bench.suites.suite import load_suite

    (tmp_path / "seen").mkdir()
    (tmp_path / "looks.py").write_text(f"{LOOKS.replace('SEEN', str(tmp_path / 'seen'))}        {broken}\n")
    get_encoding(str(tmp_path / "looks.py"))
    runs = plan_runs(load_suite(str(tiny(encodings=[str(tmp_path / "looks.py")], seeds=[0]))))
    failed: list[str] = []
    pool = LocalPool(workers=1, device="cpu")
    pool.execute(runs, tmp_path / "runs", lambda e: failed.append(e.text) if e.kind == "failed" else None)
    assert len(runs) == 2 and ["CUDA error" in text for text in failed] == [True] * failures
    assert len(list((tmp_path / "seen").iterdir())) == 2, "two processes"
