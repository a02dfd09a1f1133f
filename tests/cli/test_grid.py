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

from bench.plugins.registry import get_encoding
from bench.runs.pool import LocalPool
from bench.runs.run import plan_runs
from bench.suites.suite import load_suite


def children(process: subprocess.Popen) -> list[int]:
    """Process ids of the command's own children."""
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_running_again_skips_finished_runs(tiny, tmp_path):
    """The settings in a suite have one normalised name."""
    suite, out = tiny(encodings=["nope", "rope( base = 500 )"]), tmp_path / "runs"
    first = lprime("run", suite, "--out", out, "--task", "copying", "--workers", 1)
    assert first.returncode == 0, first.stderr
    before = {p: p.stat().st_mtime_ns for p in out.rglob("result.json")}
    assert {p.parent.parent.name for p in before} == {"nope", "rope(base=500.0)"}
    second = lprime("run", suite, "--out", out, "--workers", 1)
    assert "2 of 4 runs to do" in second.stdout
    assert all(p.stat().st_mtime_ns == t for p, t in before.items()), "finished runs are skipped"
    assert "nothing to run: 4 of 4" in lprime("run", suite, "--out", out).stdout
    states = json.loads(lprime("status", suite, "--out", out, "--json").stdout)
    assert [s["state"] for s in states] == ["done"] * 4
    assert states[0].keys() == {"task", "encoding", "seed", "state"}
    assert not list(out.rglob("checkpoint*")) and not list(out.rglob("lock")), "a finished run keeps neither"
    board = lprime("board", "--out", out)  # every folder with results
    assert board.stdout.startswith("Suite tiny, version 2: 2 encodings") and "rope(base=500.0)" in board.stdout
    for path in out.rglob("nope/*/result.json"):
        content = json.loads(path.read_text()) | {"status": "diverged"}
        content["encoding"]["source_sha256"] = "0" * 64
        path.write_text(json.dumps(content))
    (out / "tiny/parity/nope/seed-1").mkdir()
    third = lprime("run", suite, "--out", out)
    assert "parity/nope/seed-0" in third.stdout and "copying/nope/seed-0" not in third.stdout, "no other run is to be deleted"
    assert "caution: the source of nope has changed since 2 of its runs" in third.stdout
    assert "2 of 4 runs diverged" in third.stdout and third.returncode == 0, "a diverged run is a result"
    assert len(json.loads(lprime("run", suite, "--out", out, "--json").stdout)["diverged"]) == 2


def test_a_grid_killed_at_random_moments_gives_the_same_results(tiny, tmp_path):
    """Encodings with the same training train once, in any order and with several workers."""
    names, rng, cut = ["rope", "yarn", "ntk", "finetuned(rope)"], random.Random(0), tmp_path / "cut"
    suite = tiny(recipe={"steps": 300}, encodings=names)
    whole = lprime("run", suite, "--out", tmp_path / "whole", "--workers", 1)
    assert whole.returncode == 0 and whole.stdout.count("trained as rope") == 6, whole.stderr
    backwards = [part for name in reversed(names) for part in ("--encoding", name)]
    for _ in range(2):
        process = start_lprime("run", suite, "--out", cut, "--checkpoint-every", 0, "--workers", 2, *backwards)
        wait_for(process, cut, "checkpoint*")  # the clock starts with the first run: no state is lost during imports
        time.sleep(rng.uniform(0, 1.0))
        assert process.poll() is None, "the grid ended before it could be killed: make it longer"
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert lprime("run", suite, "--out", cut, "--workers", 1).returncode == 0
    assert results(cut) == results(tmp_path / "whole") and len(results(cut)) == 8
    remaining = {str(p.relative_to(cut / "tiny")) for p in cut.rglob("*") if p.is_file() and p.name != "result.json"}
    kept = ("README.md", "weights.safetensors")
    assert remaining == {f"{task}/rope/seed-0/{file}" for task in ("copying", "parity") for file in kept}


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_stops_soon_and_loses_nothing(tiny, tmp_path, stop, code):
    suite, out = tiny(recipe={"steps": 100000}), tmp_path / "runs"
    process = start_lprime("run", suite, "--out", out, "--checkpoint-every", 1000, "--workers", 1)
    wait_for(process, out, "heartbeat.json")  # training has started
    row = next(s for s in json.loads(lprime("status", suite, "--out", out, "--json").stdout) if s["state"] == "running")
    assert 0 < row["step"] < row["steps"] == 100000
    assert not list(out.rglob("checkpoint*"))
    os.killpg(process.pid, stop) if stop == signal.SIGINT else process.send_signal(stop)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "re-run to resume" in output
    assert "Traceback" not in errors
    assert list(out.rglob("checkpoint.safetensors")), "saved on stopping"
    after = json.loads(lprime("status", suite, "--out", out, "--json").stdout)
    assert "paused" in {s["state"] for s in after} <= {"paused", "missing"}
    assert not any("step" in s for s in after), "a heartbeat left behind is ignored"


def test_a_grid_that_another_process_shares_ends_with_1(tiny, tmp_path):
    command = ("run", tiny(recipe={"steps": 100000}), "--out", tmp_path / "runs", "--encoding", "nope", "--workers", 1)
    wait_for(start_lprime(*command, "--task", "copying"), tmp_path / "runs", "lock")
    shared = lprime(*command, "--task", "copying")
    assert shared.returncode == 1 and "1 of 1 runs are in progress in another process" in shared.stdout


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
    first = lprime("run", suite, "--out", out, "--workers", 1)
    assert (first.returncode, "the board:" in first.stdout) == (1, True)
    assert "1 of 4 runs failed" in first.stdout and len(results(out)) == 3
    failure = json.loads((out / "tiny/copying/t5/seed-0/failure.json").read_text())
    assert "checkpoint.safetensors" in failure["error"]
    again = lprime("run", suite, "--out", out)
    assert again.returncode == 1
    assert "1 failed before; --retry-failed runs them again" in again.stdout and failure["error"] in again.stdout
    (out / "tiny/copying/t5/seed-0/checkpoint.safetensors").rmdir()
    last = lprime("run", suite, "--out", out, "--retry-failed", "--keep-weights", "--workers", 1)
    assert last.returncode == 0 and len(results(out)) == 4, last.stdout
    assert {p.name for p in (out / "tiny/copying/t5/seed-0").iterdir()} == {
        "README.md",
        "result.json",
        "weights.safetensors",
    }


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
FAILED_RECORDING = "__import__('bench.training.cuda_graphs').training.cuda_graphs.GraphedStep.failed = True"


@pytest.mark.parametrize(("broken", "failures"), [(CUDA_ERROR, 2), (FAILED_RECORDING, 0)])
def test_a_process_with_broken_cuda_makes_no_further_run(tiny, tmp_path, fresh_registry, broken, failures):
    (tmp_path / "seen").mkdir()
    (tmp_path / "looks.py").write_text(f"{LOOKS.replace('SEEN', str(tmp_path / 'seen'))}        {broken}\n")
    get_encoding(str(tmp_path / "looks.py"))
    runs = plan_runs(load_suite(str(tiny(encodings=[str(tmp_path / "looks.py")], seeds=[0]))))
    failed: list[str] = []
    pool = LocalPool(workers=1, device="cpu")
    pool.execute(runs, tmp_path / "runs", lambda e: failed.append(e.text) if e.kind == "failed" else None)
    assert len(runs) == 2 and ["CUDA error" in text for text in failed] == [True] * failures
    assert len(list((tmp_path / "seen").iterdir())) == 2, "two processes"
